//! The simulated kubelet against small plugins that do right and wrong.

use std::collections::BTreeMap;
use std::os::unix::net::UnixListener as StdListener;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tempfile::TempDir;
use tokio::net::UnixListener;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::Server;
use tonic::{Request, Response, Status};

use crate::generated::dra_v1::dra_plugin_server::{DraPlugin, DraPluginServer};
use crate::generated::dra_v1::{
    self, NodePrepareResourceResponse, NodePrepareResourcesRequest, NodePrepareResourcesResponse,
    NodeUnprepareResourceResponse, NodeUnprepareResourcesRequest, NodeUnprepareResourcesResponse,
};
use crate::generated::registration::registration_server::{Registration, RegistrationServer};
use crate::generated::registration::{
    InfoRequest, PluginInfo, RegistrationStatus, RegistrationStatusResponse,
};
use crate::{Claim, Kubelet, KubeletError, Settings, Version};

const DRIVER: &str = "driver.example";
const WITHIN: Duration = Duration::from_secs(20);

/// Answers with its name as the device. Leaves out claims called `skip`, adds one for `more`.
#[derive(Clone)]
struct Plugin {
    name: &'static str,
    info: PluginInfo,
    told: Arc<Mutex<Vec<RegistrationStatus>>>,
    prepared: Arc<Mutex<Vec<String>>>,
}

#[tonic::async_trait]
impl Registration for Plugin {
    async fn get_info(&self, _: Request<InfoRequest>) -> Result<Response<PluginInfo>, Status> {
        Ok(Response::new(self.info.clone()))
    }

    async fn notify_registration_status(
        &self,
        status: Request<RegistrationStatus>,
    ) -> Result<Response<RegistrationStatusResponse>, Status> {
        self.told.lock().unwrap().push(status.into_inner());
        Ok(Response::new(RegistrationStatusResponse {}))
    }
}

#[tonic::async_trait]
impl DraPlugin for Plugin {
    async fn node_prepare_resources(
        &self,
        request: Request<NodePrepareResourcesRequest>,
    ) -> Result<Response<NodePrepareResourcesResponse>, Status> {
        let mut claims = BTreeMap::new();
        for claim in request.into_inner().claims {
            self.prepared.lock().unwrap().push(claim.uid.clone());
            let device = dra_v1::Device { device_name: self.name.to_owned(), ..Default::default() };
            let answer = match claim.name.as_str() {
                "skip" => continue,
                "bad" => {
                    NodePrepareResourceResponse { error: "bad".to_owned(), ..Default::default() }
                }
                _ => NodePrepareResourceResponse { devices: vec![device], ..Default::default() },
            };
            if claim.name == "more" {
                claims.insert("unasked".to_owned(), answer.clone());
            }
            claims.insert(claim.uid, answer);
        }
        Ok(Response::new(NodePrepareResourcesResponse { claims }))
    }

    async fn node_unprepare_resources(
        &self,
        request: Request<NodeUnprepareResourcesRequest>,
    ) -> Result<Response<NodeUnprepareResourcesResponse>, Status> {
        let claims = request.into_inner().claims.into_iter();
        let answers = claims.map(|claim| (claim.uid, NodeUnprepareResourceResponse::default()));
        Ok(Response::new(NodeUnprepareResourcesResponse { claims: answers.collect() }))
    }
}

/// A plugin that serves in a directory until it is dropped; its sockets are removed then.
struct Running {
    plugin: Plugin,
    sockets: [PathBuf; 2],
    tasks: [JoinHandle<()>; 2],
}

impl Running {
    fn start(directory: &Path, name: &'static str, change: impl FnOnce(&mut PluginInfo)) -> Self {
        let sockets = [format!("{name}.sock"), format!("reg/driver@{name}-reg.sock")]
            .map(|socket| directory.join(socket));
        std::fs::create_dir_all(directory.join("reg")).unwrap();
        let mut info = PluginInfo {
            r#type: "DRAPlugin".to_owned(),
            name: DRIVER.to_owned(),
            endpoint: sockets[0].to_str().unwrap().to_owned(),
            supported_versions: vec!["v1.DRAPlugin".to_owned()],
        };
        change(&mut info);
        let plugin = Plugin { name, info, told: Arc::default(), prepared: Arc::default() };
        let listen = |path: &PathBuf| UnixListenerStream::new(UnixListener::bind(path).unwrap());
        let (dra, registration) = (listen(&sockets[0]), listen(&sockets[1]));
        let (for_dra, for_registration) = (plugin.clone(), plugin.clone());
        let tasks = [
            tokio::spawn(async move {
                let server = Server::builder().add_service(DraPluginServer::new(for_dra));
                let never = std::future::pending();
                server.serve_with_incoming_shutdown(dra, never).await.unwrap();
            }),
            tokio::spawn(async move {
                let server =
                    Server::builder().add_service(RegistrationServer::new(for_registration));
                server.serve_with_incoming(registration).await.unwrap();
            }),
        ];
        Self { plugin, sockets, tasks }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
        for socket in &self.sockets {
            let _ = std::fs::remove_file(socket);
        }
    }
}

fn kubelet(directory: &TempDir) -> Kubelet {
    Kubelet::start(Settings::new(directory.path().join("reg")))
}

fn claim(name: &str) -> Claim {
    Claim { namespace: "ns".to_owned(), name: name.to_owned(), uid: format!("uid-{name}") }
}

async fn device(kubelet: &Kubelet, name: &str) -> String {
    let answers = kubelet.prepare(DRIVER, &[claim(name)]).await.unwrap();
    answers[&format!("uid-{name}")].as_ref().unwrap()[0].device.clone()
}

#[tokio::test]
async fn a_plugin_is_registered_while_its_socket_is_there() {
    let directory = tempfile::tempdir().unwrap();
    let kubelet = kubelet(&directory);
    let absent = kubelet.prepare(DRIVER, &[claim("a")]).await;
    assert_eq!(absent, Err(KubeletError::NotRegistered(DRIVER.to_owned())));
    let running = Running::start(directory.path(), "one", |_| {});
    let plugins = kubelet.until_registered(DRIVER, 1, WITHIN).await.unwrap();
    assert_eq!(plugins[0].endpoint, running.sockets[0]);
    drop(running);
    kubelet.until_registered(DRIVER, 0, WITHIN).await.unwrap();
}

#[tokio::test]
async fn the_newest_instance_is_called_and_the_older_one_when_it_has_gone() {
    let directory = tempfile::tempdir().unwrap();
    let kubelet = kubelet(&directory);
    let _old = Running::start(directory.path(), "old", |_| {});
    kubelet.until_registered(DRIVER, 1, WITHIN).await.unwrap();
    assert_eq!(device(&kubelet, "a").await, "old");
    let new = Running::start(directory.path(), "new", |_| {});
    kubelet.until_registered(DRIVER, 2, WITHIN).await.unwrap();
    assert_eq!(device(&kubelet, "b").await, "new");
    drop(new);
    kubelet.until_registered(DRIVER, 1, WITHIN).await.unwrap();
    assert_eq!(device(&kubelet, "c").await, "old");
}

#[tokio::test]
async fn a_socket_at_which_nobody_listens_is_a_failure_and_no_plugin() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join("reg")).unwrap();
    let stale = directory.path().join("reg/stale-reg.sock");
    drop(StdListener::bind(&stale).unwrap());
    let kubelet = kubelet(&directory);
    let _running = Running::start(directory.path(), "one", |_| {});
    kubelet.until_registered(DRIVER, 1, WITHIN).await.unwrap();
    assert_eq!(kubelet.failures().keys().collect::<Vec<_>>(), [&stale]);
}

#[tokio::test]
async fn what_kubelet_would_not_take_is_told_so() {
    type Change = fn(&mut PluginInfo);
    let changes: [(&str, Change); 5] = [
        ("type", |info| info.r#type = "CSIPlugin".to_owned()),
        ("name", |info| info.name = "Driver_".to_owned()),
        ("endpoint", |info| info.endpoint = "one.sock".to_owned()),
        ("versions", |info| info.supported_versions.clear()),
        ("versions", |info| info.supported_versions = vec!["v9.DRAPlugin".to_owned()]),
    ];
    for (expect, change) in changes {
        let directory = tempfile::tempdir().unwrap();
        let kubelet = kubelet(&directory);
        let running = Running::start(directory.path(), "one", change);
        let told = async {
            while running.plugin.told.lock().unwrap().is_empty() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(WITHIN, told).await.expect("kubelet tells why it refuses");
        let told = running.plugin.told.lock().unwrap().remove(0);
        assert!(!told.plugin_registered && told.error.contains(expect), "{told:?}");
        assert!(kubelet.plugins(DRIVER).is_empty());
    }
}

#[tokio::test]
async fn replies_are_checked_as_kubelet_checks_them() {
    let directory = tempfile::tempdir().unwrap();
    let kubelet = kubelet(&directory);
    let running = Running::start(directory.path(), "one", |_| {});
    kubelet.until_registered(DRIVER, 1, WITHIN).await.unwrap();
    let method = "NodePrepareResources";
    let skipped = kubelet.prepare(DRIVER, &[claim("a"), claim("skip")]).await;
    assert_eq!(skipped, Err(KubeletError::Skipped { method, skipped: 1 }));
    let unknown = kubelet.prepare(DRIVER, &[claim("more")]).await;
    assert_eq!(unknown, Err(KubeletError::UnknownClaim { method, uid: "unasked".to_owned() }));
    let bad = kubelet.prepare(DRIVER, &[claim("a"), claim("bad")]).await.unwrap();
    assert!(bad["uid-a"].is_ok());
    assert_eq!(bad["uid-bad"], Err("bad".to_owned()));
    let unimplemented = Kubelet::start(Settings {
        version: Some(Version::V1beta1),
        ..Settings::new(directory.path().join("reg"))
    });
    unimplemented.until_registered(DRIVER, 1, WITHIN).await.unwrap();
    let refused = unimplemented.prepare(DRIVER, &[claim("a")]).await;
    assert!(matches!(refused, Err(KubeletError::NoVersion { .. })), "{refused:?}");
    drop(running);
}

#[tokio::test]
async fn what_is_prepared_is_sent_again_after_a_restart_or_an_unprepare() {
    let directory = tempfile::tempdir().unwrap();
    let kubelet = kubelet(&directory);
    let running = Running::start(directory.path(), "one", |_| {});
    let sent = || running.plugin.prepared.lock().unwrap().len();
    kubelet.until_registered(DRIVER, 1, WITHIN).await.unwrap();
    for expect in [1, 1] {
        device(&kubelet, "a").await;
        assert_eq!(sent(), expect);
    }
    kubelet.restart();
    kubelet.until_registered(DRIVER, 1, WITHIN).await.unwrap();
    device(&kubelet, "a").await;
    assert_eq!(sent(), 2);
    kubelet.unprepare(DRIVER, &[claim("a")]).await.unwrap();
    device(&kubelet, "a").await;
    assert_eq!(sent(), 3);
    kubelet.forget(DRIVER, &[claim("a")]);
    device(&kubelet, "a").await;
    assert_eq!(sent(), 4);
}
