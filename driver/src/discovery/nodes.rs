//! Device nodes of GPUs and RDMA devices below `dev/`.

use std::collections::BTreeMap;

use super::facts::DeviceNode;
use super::read::Reader;

/// Folders whose nodes all belong to GPUs or RDMA devices.
const FOLDERS: [&str; 4] =
    ["dev/infiniband", "dev/dri", "dev/nvidia-caps", "dev/nvidia-caps-imex-channels"];
/// Beginnings of the names of such nodes right below `dev/`.
const PREFIXES: [&str; 3] = ["nvidia", "kfd", "gdrdrv"];

/// Nodes by path relative to the root.
pub(super) fn read(reader: &mut Reader<'_>) -> BTreeMap<String, DeviceNode> {
    let mut found = BTreeMap::new();
    for folder in FOLDERS {
        read_folder(reader, folder, |_| true, &mut found);
    }
    let ours = |name: &str| PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    read_folder(reader, "dev", ours, &mut found);
    found
}

fn read_folder(
    reader: &mut Reader<'_>,
    folder: &str,
    wanted: impl Fn(&str) -> bool,
    found: &mut BTreeMap<String, DeviceNode>,
) {
    let Some(directory) = reader.real(folder) else { return };
    for name in reader.names(&directory) {
        if !wanted(&name) {
            continue;
        }
        // Folders and links (`dev/dri/by-path`) stand among the nodes.
        if let Ok(node) = reader.host().device(&directory.child(&name)) {
            found.insert(format!("{folder}/{name}"), node);
        }
    }
}
