//! A rolling update: the new plugin starts before the old one ends, while pods start.

use std::fs;
use std::path::Path;
use std::time::Duration;

use futures::future::{try_join, try_join_all};
use lanemate_test_cluster::{Cluster, KUBELET_DIR};

use super::installed::{PAIRS, PLUGIN_DIR, Plugin};
use super::pods::{run_pod, uid, until_none_is_held};

const OLD: &str = "11111111-1111-4111-8111-111111111111";
const NEW: &str = "22222222-2222-4222-8222-222222222222";
/// Between two pods, so that some start before the new plugin is there, some with both, and some when
/// the old one ends.
const BETWEEN: Duration = Duration::from_millis(200);

/// The sockets that have a UID in their name, in both directories of kubelet.
fn sockets_of(uid: &str) -> anyhow::Result<usize> {
    let registry = Path::new(KUBELET_DIR).join("plugins_registry");
    let mut found = 0;
    for directory in [Path::new(PLUGIN_DIR), &registry] {
        for entry in fs::read_dir(directory)? {
            found += usize::from(entry?.file_name().to_string_lossy().contains(uid));
        }
    }
    Ok(found)
}

#[tokio::test]
async fn pods_start_all_through_an_update_and_none_is_prepared_twice() -> anyhow::Result<()> {
    let cluster = Cluster::current().await?;
    let namespace = cluster.namespace_alone("update").await?;
    drop(Plugin::install(&cluster, &[])?);
    let mut old = Plugin::in_pod(&cluster, OLD)?;
    let mut new = Plugin::in_pod(&cluster, NEW)?;
    old.run().await?;
    assert_eq!(sockets_of(OLD)?, 3);

    let names: Vec<String> = (0..PAIRS.len()).map(|number| format!("pod-{number}")).collect();
    let starting = names.iter().zip(PAIRS).enumerate().map(async |(number, (name, pair))| {
        tokio::time::sleep(BETWEEN * u32::try_from(number)?).await;
        run_pod(&namespace, name, pair).await
    });
    let updating = async {
        new.run().await?;
        old.terminate().await
    };
    let (_, ended) = try_join(try_join_all(starting), updating).await?;

    assert!(ended.success(), "{ended}");
    assert_eq!((sockets_of(OLD)?, sockets_of(NEW)?), (0, 3));
    let log = new.log()?;
    for name in &names {
        let uid = uid(&namespace, name).await?;
        let prepared = |line: &&str| line.contains("claim prepared") && line.contains(&uid);
        assert_eq!(log.lines().filter(prepared).count(), 1, "{name}");
    }
    for name in &names {
        namespace.delete_pod(name).await?;
    }
    until_none_is_held(&cluster).await
}
