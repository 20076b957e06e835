//! A cluster without an API that the controller needs: it says so, does nothing, and begins when the API is there.

use lanemate_driver::resource_slice::Mode;
use lanemate_test_cluster::controller::{CONTROLLER, Controller, logged};
use lanemate_test_proxy::{ApiProxy, Matcher};

use crate::scene::Scene;

#[tokio::test]
async fn without_an_api_it_needs_a_controller_waits_and_takes_no_lease() -> anyhow::Result<()> {
    let scene = Scene::without_controller("served", &[], Mode::Controller).await?;
    let access = scene.cluster.access()?;
    let proxy = ApiProxy::start(&access.server, Some(&access.authority)).await?;
    let directory = tempfile::tempdir()?;
    let mut start = scene.start.clone();
    start.kubeconfig = directory.path().join("kubeconfig");
    let token = scene.cluster.token(CONTROLLER, None).await?;
    std::fs::write(&start.kubeconfig, proxy.kubeconfig(&token))?;
    for (api, words) in [
        ("/apis/resource.k8s.io/v1", "does not serve deviceclasses of resource.k8s.io/v1"),
        ("/apis/lanemate.dev/v1alpha1", "apply the manifests in deploy/crds"),
    ] {
        let absent = proxy.respond(Matcher::new("GET", api), 404, None);
        let since = logged(&scene.cluster, "served");
        let mut controller = Controller::spawn(&scene.cluster, "served", &start)?;
        controller.until_logged(since, words).await?;
        absent.until_caught(2).await?;
        assert_eq!(proxy.count(&Matcher::path("/leases")), 0, "{api}");
        if api.contains("lanemate") {
            drop(absent);
            controller.until_working(since).await?;
        }
    }
    Ok(())
}
