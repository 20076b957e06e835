//! Directories that cannot be written: full, or read-only.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::DeleteParams;
use lanemate_test_cluster::{CDI_DIR, Cluster, TestNamespace, pod, until};

use super::installed::{OTHER, PAIR, PAIRS, PLUGIN_DIR, Plugin, in_cdi, recorded};
use super::pods::{
    WAITS, assert_waits, create_pod, run_pod, uid, until_no_files, until_none_is_held,
};

/// A mount that ends when it is dropped.
struct Mount(PathBuf);

impl Mount {
    /// A file system of this size.
    fn small(directory: &Path, size: &str) -> anyhow::Result<Self> {
        fs::create_dir_all(directory)?;
        mount(&["-t", "tmpfs", "-o", &format!("size={size}"), "lanemate-e2e"], directory)?;
        Ok(Self(directory.to_owned()))
    }

    /// The directory as it is, without the right to write.
    fn read_only(directory: &Path) -> anyhow::Result<Self> {
        let path = directory.display().to_string();
        mount(&["--bind", &path], directory)?;
        let mounted = Self(directory.to_owned());
        mount(&["-o", "remount,bind,ro"], directory)?;
        Ok(mounted)
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // Lazily: the plugin may have files open there.
        let ended = Command::new("umount").arg("--lazy").arg(&self.0).status();
        if !ended.as_ref().is_ok_and(|status| status.success()) {
            eprintln!("umount {}: {ended:?}", self.0.display());
        }
    }
}

fn mount(words: &[&str], directory: &Path) -> anyhow::Result<()> {
    let status = Command::new("mount").args(words).arg(directory).status().context("run mount")?;
    anyhow::ensure!(status.success(), "mount {words:?} {}: {status}", directory.display());
    Ok(())
}

/// Writes until nothing more fits, and returns the file.
fn fill(directory: &Path) -> anyhow::Result<PathBuf> {
    let path = directory.join("filler");
    let mut file = File::create(&path)?;
    for _ in 0..64 {
        match file.write_all(&[0; 4096]) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::StorageFull => return Ok(path),
            Err(error) => return Err(error.into()),
        }
    }
    anyhow::bail!("{} does not become full", directory.display())
}

/// Fails unless these claims have files on the node, and nothing is half done for another.
async fn assert_only(namespace: &TestNamespace, claims: &[&str]) -> anyhow::Result<()> {
    let mut uids = BTreeSet::new();
    for claim in claims {
        uids.insert(uid(namespace, claim).await?);
    }
    let found = |uids: Vec<String>| uids.into_iter().collect::<BTreeSet<_>>();
    assert_eq!((found(recorded()), found(in_cdi())), (uids.clone(), uids));
    // Nor is a file left that has no name yet.
    for directory in [format!("{PLUGIN_DIR}/state/claims"), CDI_DIR.to_owned()] {
        let entries = fs::read_dir(&directory)?.collect::<Result<Vec<_>, _>>()?;
        assert_eq!(entries.len(), claims.len(), "{directory}: {entries:?}");
    }
    Ok(())
}

#[tokio::test]
async fn with_a_full_state_directory_the_next_pod_waits_and_others_run_on() -> anyhow::Result<()> {
    let cluster = Cluster::current().await?;
    let namespace = cluster.namespace_alone("state-full").await?;
    let mut plugin = Plugin::install(&cluster, &[])?;
    let state = Path::new(PLUGIN_DIR).join("state");
    let _small = Mount::small(&state, "64k")?;
    plugin.run().await?;
    run_pod(&namespace, "first", PAIR).await?;

    let filler = fill(&state)?;
    create_pod(&namespace, "second", OTHER).await?;
    let words = ["No space left on device", "undone"];
    namespace.until_told(("ResourceClaim", "second"), "PrepareFailed", &words).await?;
    let pod = ("Pod", "second");
    namespace.until_told(pod, "FailedPrepareDynamicResources", &words[..1]).await?;
    assert_waits(&namespace, "second").await?;
    assert_only(&namespace, &["first"]).await?;
    namespace.restart_container("first").await?;
    let opened = namespace.open("first", "/dev/infiniband/uverbs0").await?;
    assert!(opened.contains("exit status: 0"), "{opened}");
    // A plugin that starts with it serves, too.
    plugin.kill()?;
    plugin.run().await?;
    assert_waits(&namespace, "second").await?;
    assert_only(&namespace, &["first"]).await?;

    fs::remove_file(filler)?;
    namespace.pod_running("second").await?;
    assert_eq!((recorded().len(), in_cdi().len()), (2, 2));

    // Giving back needs no room.
    fill(&state)?;
    namespace.delete_pod("first").await?;
    namespace.delete_pod("second").await?;
    until_no_files().await?;
    until_none_is_held(&cluster).await
}

#[tokio::test]
async fn with_a_read_only_cdi_directory_the_next_pod_waits_and_others_run_on() -> anyhow::Result<()>
{
    let cluster = Cluster::current().await?;
    let namespace = cluster.namespace_alone("cdi-read-only").await?;
    let _plugin = Plugin::start(&cluster).await?;
    run_pod(&namespace, "ending", PAIRS[2]).await?;
    run_pod(&namespace, "first", PAIR).await?;
    let ending = uid(&namespace, "ending").await?;

    let read_only = Mount::read_only(&fs::canonicalize(CDI_DIR)?)?;
    create_pod(&namespace, "second", OTHER).await?;
    let words = ["Read-only file system", CDI_DIR];
    namespace.until_told(("ResourceClaim", "second"), "PrepareFailed", &words).await?;
    let waiting = ("Pod", "second");
    namespace.until_told(waiting, "FailedPrepareDynamicResources", &words).await?;
    assert_waits(&namespace, "second").await?;
    assert_only(&namespace, &["ending", "first"]).await?;
    namespace.restart_container("first").await?;
    // What cannot be given back stays held.
    let pods: Api<Pod> = namespace.api();
    pods.delete("ending", &DeleteParams::default()).await?;
    let claim = ("ResourceClaim", "ending");
    namespace.until_told(claim, "UnprepareFailed", &words).await?;
    assert_only(&namespace, &["ending", "first"]).await?;
    namespace.create_object(&pod("without-claim", WAITS, &[])?).await?;
    namespace.pod_running("without-claim").await?;

    drop(read_only);
    namespace.pod_running("second").await?;
    until("the pod that ended to give back", async || {
        let left = (recorded(), in_cdi());
        let is_free = !left.0.contains(&ending) && !left.1.contains(&ending);
        Ok(if is_free { Ok(()) } else { Err(format!("{left:?}")) })
    })
    .await?;
    run_pod(&namespace, "third", PAIRS[2]).await?;
    for name in ["first", "second", "third"] {
        namespace.delete_pod(name).await?;
    }
    until_none_is_held(&cluster).await
}
