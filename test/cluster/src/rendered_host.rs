//! A captured machine as a directory with real files, links and device nodes: the root that a plugin in
//! a pod is given.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use anyhow::Context;
use lanemate_driver::discovery::HostCapture;
use lanemate_driver::discovery::facts::DeviceNode;
use lanemate_driver::discovery::rendered::RENDERED_FROM;

/// `/dev/fuse`, which exists on every machine and which containers may not open without a grant.
const OPENS: DeviceNode = DeviceNode { kind: 'c', major: 10, minor: 229 };
/// Beginning of the names of verbs devices.
const VERBS: &str = "dev/infiniband/uverbs";

/// Lets a device that exists stand for the verbs device of the first NIC, so that opening it succeeds.
/// No driver answers to the numbers of the others: opening them gives `ENXIO` where a container may,
/// and `EPERM` where it may not.
pub fn let_one_open(capture: &mut HostCapture) {
    let verbs = |path: &&String| path.starts_with(VERBS);
    if let Some(first) = capture.devices.keys().find(verbs).cloned() {
        capture.devices.insert(first, OPENS);
    }
}

/// Writes the machine into a directory that does not exist yet. Device nodes need root.
pub fn render(capture: &HostCapture, directory: &Path) -> anyhow::Result<()> {
    fs::create_dir(directory).with_context(|| format!("create {}", directory.display()))?;
    for (path, content) in &capture.files {
        let file = parent_made(directory, path)?;
        fs::write(&file, content).with_context(|| format!("write {}", file.display()))?;
    }
    for (path, target) in &capture.links {
        let link = parent_made(directory, path)?;
        symlink(target, &link).with_context(|| format!("link {}", link.display()))?;
    }
    for (path, node) in &capture.devices {
        make_node(&parent_made(directory, path)?, *node)?;
    }
    let file = directory.join(RENDERED_FROM);
    fs::write(&file, capture.to_yaml()).with_context(|| format!("write {}", file.display()))
}

/// The path below the directory, with the directories on the way.
fn parent_made(directory: &Path, path: &str) -> anyhow::Result<std::path::PathBuf> {
    let path = directory.join(path);
    let parent = path.parent().unwrap_or(directory);
    fs::create_dir_all(parent).with_context(|| format!("create {}", parent.display()))?;
    Ok(path)
}

/// By the program: the system call has no safe form in the standard library.
fn make_node(path: &Path, node: DeviceNode) -> anyhow::Result<()> {
    let DeviceNode { kind, major, minor } = node;
    let numbers = [kind.to_string(), major.to_string(), minor.to_string()];
    let output = Command::new("mknod").arg(path).args(&numbers).output().context("run mknod")?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "make device node {}: {complaint}", path.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use lanemate_driver::discovery::{LiveHost, RenderedLibrary, discover};
    use lanemate_driver::testing::{HOSTS, host};

    use super::*;

    #[test]
    fn each_captured_machine_is_discovered_in_its_directory() {
        for name in HOSTS {
            let mut capture = host(name);
            // They need root; a test in the cluster has them.
            capture.devices.clear();
            let outside = tempfile::tempdir().unwrap();
            let directory = outside.path().join("host");
            render(&capture, &directory).unwrap();
            let live = LiveHost::new(directory);
            let found = discover(&live, &RenderedLibrary(&live));
            assert_eq!(found, discover(&capture.host(), &capture), "{name}");
        }
    }

    #[test]
    fn the_first_verbs_device_is_one_that_opens() {
        let mut capture = host("dgx-h100");
        let before = capture.devices.clone();
        let_one_open(&mut capture);
        let changed: Vec<_> =
            capture.devices.iter().filter(|&(path, node)| before[path] != *node).collect();
        assert_eq!(changed, [(&"dev/infiniband/uverbs0".to_owned(), &OPENS)]);
    }
}
