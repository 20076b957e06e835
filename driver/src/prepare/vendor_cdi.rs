//! CDI devices that other programs have put on the host, such as NVIDIA's container toolkit.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value;

use crate::discovery::facts::Problem;
use crate::discovery::host::{Host, HostError, realpath};

use super::cdi::FILE_PREFIX;

/// Where container runtimes look by default, relative to the root. A device of a later one goes before
/// its namesake in an earlier one.
pub const DIRECTORIES: [&str; 2] = ["etc/cdi", "var/run/cdi"];

/// Most spec files of one directory that are read: a vendor writes one or two, and one per claim at most.
const MAX_FILES: usize = 1024;

/// The CDI devices on the host that a runtime can resolve, our own left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VendorCdi {
    devices: Devices,
}

/// Host paths of the device nodes that a container gets, by fully qualified name.
type Devices = BTreeMap<String, BTreeSet<String>>;

/// What matters of a spec. The rest is the runtime's business.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct VendorSpec {
    kind: String,
    #[serde(default)]
    devices: Vec<VendorDevice>,
    #[serde(default)]
    container_edits: VendorEdits,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct VendorDevice {
    name: String,
    #[serde(default)]
    container_edits: VendorEdits,
}

#[derive(Default, Deserialize)]
#[serde(transparent)]
struct VendorEdits(BTreeMap<String, Value>);

impl VendorCdi {
    /// Reads the spec files of the directories, given relative to the root. A directory that is
    /// missing holds none; a file that cannot be read is a problem, and the rest stands. A name that
    /// two files of one directory have is left out, as runtimes do.
    pub fn read(host: &dyn Host, directories: &[&str]) -> (Self, Vec<Problem>) {
        let mut devices = Devices::new();
        let mut problems = Vec::new();
        let mut twice = BTreeSet::new();
        for directory in directories {
            let mut here = Devices::new();
            for path in spec_files(host, directory, &mut problems) {
                match read_spec(host, &path) {
                    Ok(found) => {
                        for (name, nodes) in found {
                            if here.insert(name.clone(), nodes).is_some() {
                                let message = format!("{name} is in two files: it is not used");
                                problems.push(Problem { path: path.clone(), message });
                                twice.insert(name);
                            }
                        }
                    }
                    Err(message) => problems.push(Problem { path, message }),
                }
            }
            devices.extend(here);
        }
        devices.retain(|name, _| !twice.contains(name));
        (Self { devices }, problems)
    }

    /// From fully qualified names, e.g. `nvidia.com/gpu=GPU-…`, and host paths of device nodes.
    pub fn from_devices<'a>(devices: impl IntoIterator<Item = (&'a str, &'a [&'a str])>) -> Self {
        let paths = |nodes: &[&str]| nodes.iter().map(|&path| path.to_owned()).collect();
        let devices = devices.into_iter().map(|(name, nodes)| (name.to_owned(), paths(nodes)));
        Self { devices: devices.collect() }
    }

    /// Those of the devices whose fully qualified names are given.
    pub fn only<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Self {
        let found = names.into_iter().filter_map(|name| self.devices.get_key_value(name));
        Self { devices: found.map(|(name, nodes)| (name.clone(), nodes.clone())).collect() }
    }

    /// Host paths of the device nodes that a container gets with a device, if the device exists.
    pub fn device_nodes(&self, name: &str) -> Option<&BTreeSet<String>> {
        self.devices.get(name)
    }
}

impl VendorEdits {
    fn is_empty(&self) -> bool {
        self.0.values().all(|value| match value {
            Value::Null => true,
            Value::Array(values) => values.is_empty(),
            Value::Object(fields) => fields.is_empty(),
            _ => false,
        })
    }

    fn device_nodes(&self) -> impl Iterator<Item = String> {
        let nodes = self.0.get("deviceNodes").and_then(Value::as_array).into_iter().flatten();
        let path = |node: &Value| {
            node.get("hostPath").or_else(|| node.get("path"))?.as_str().map(str::to_owned)
        };
        nodes.filter_map(path)
    }
}

fn spec_files(host: &dyn Host, directory: &str, problems: &mut Vec<Problem>) -> Vec<String> {
    let is_spec = |name: &String| {
        let known = [".json", ".yaml"].iter().any(|ending| name.ends_with(ending));
        known && !name.starts_with(FILE_PREFIX)
    };
    let listed = realpath(host, directory)
        .and_then(|directory| Ok((host.names(directory.as_str())?, directory)));
    let mut trouble =
        |message: String| problems.push(Problem { path: directory.to_owned(), message });
    match listed {
        Ok((mut names, directory)) => {
            names.retain(is_spec);
            if names.len() > MAX_FILES {
                trouble(format!("{} CDI specs: only {MAX_FILES} are read", names.len()));
            }
            names.iter().take(MAX_FILES).map(|name| directory.child(name)).collect()
        }
        Err(HostError::Missing) => Vec::new(),
        Err(error) => {
            trouble(error.to_string());
            Vec::new()
        }
    }
}

/// The devices of a file that a runtime takes.
fn read_spec(host: &dyn Host, path: &str) -> Result<Devices, String> {
    let real = realpath(host, path).map_err(|error| error.to_string())?;
    let bytes = host.file(real.as_str()).map_err(|error| error.to_string())?;
    let text = String::from_utf8(bytes).map_err(|_| "not UTF-8".to_owned())?;
    let spec = if path.ends_with(".json") {
        serde_json::from_str::<VendorSpec>(&text).map_err(|error| error.to_string())
    } else {
        serde_saphyr::from_str::<VendorSpec>(&text)
            .map_err(|error| error.without_snippet().to_string().replace('\n', " "))
    };
    let spec = spec.map_err(|error| format!("not a CDI spec: {error}"))?;
    let mut devices = Devices::new();
    for VendorDevice { name, container_edits } in spec.devices {
        // Either is reason enough for a runtime to refuse the file.
        if container_edits.is_empty() {
            return Err(format!("device {name:?} has no edits: a runtime refuses the file"));
        }
        let nodes = container_edits.device_nodes().chain(spec.container_edits.device_nodes());
        if devices.insert(format!("{}={name}", spec.kind), nodes.collect()).is_some() {
            return Err(format!("device {name:?} is there twice: a runtime refuses the file"));
        }
    }
    Ok(devices)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use crate::discovery::host::LiveHost;
    use crate::files::{Durability, write_atomically};

    use super::*;

    fn read(files: &[(&str, &str)]) -> (VendorCdi, Vec<Problem>) {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            write_atomically(&root.path().join(path), 0o644, text.as_bytes(), Durability::Volatile)
                .unwrap();
        }
        VendorCdi::read(&LiveHost::new(PathBuf::from(root.path())), &DIRECTORIES)
    }

    #[test]
    fn devices_are_gathered_from_json_and_yaml_in_both_directories() {
        let (found, problems) = read(&[
            (
                "etc/cdi/nvidia.yaml",
                "cdiVersion: 0.5.0\nkind: nvidia.com/gpu\ndevices:\n\
                 - name: GPU-1\n  containerEdits: {deviceNodes: [{path: /dev/nvidia0}]}\n\
                 - name: \"0\"\n  containerEdits: {hooks: [{hookName: prestart}]}\n\
                 containerEdits: {deviceNodes: [{path: /dev/a, hostPath: /run/dev/a}]}\n",
            ),
            (
                "var/run/cdi/amd.json",
                r#"{"kind": "amd.com/gpu", "devices": [{"name": "x", "containerEdits": {"env": ["A=b"]}}],
                    "new": 1}"#,
            ),
            ("var/run/cdi/lanemate.dev-claim_u.json", "not looked at"),
            ("var/run/cdi/README", "not looked at"),
        ]);
        assert_eq!(problems, []);
        let expect = VendorCdi::from_devices([
            ("nvidia.com/gpu=GPU-1", &["/dev/nvidia0", "/run/dev/a"][..]),
            ("nvidia.com/gpu=0", &["/run/dev/a"]),
            ("amd.com/gpu=x", &[]),
        ]);
        assert_eq!(found, expect);
    }

    fn gpu(name: &str, node: &str) -> String {
        format!(
            "kind: nvidia.com/gpu\ndevices: \
             [{{name: {name}, containerEdits: {{deviceNodes: [{{path: {node}}}]}}}}]\n"
        )
    }

    #[test]
    fn a_file_that_no_runtime_takes_is_a_problem_and_the_rest_stands() {
        let nested = "a: &a [x, x, x, x, x, x, x, x, x]\n".to_owned()
            + &(0..40).map(|i| format!("b{i}: [*a, *a, *a, *a, *a, *a]\n")).collect::<String>();
        let huge = gpu("GPU-2", "/dev/nvidia2") + &"# \n".repeat(400_000);
        let empty = "kind: nvidia.com/gpu\ndevices: [{name: GPU-3, containerEdits: {env: []}}]\n";
        let twice = r#"{"kind": "a.b/c", "devices": [{"name": "x", "containerEdits": {"env": ["A=b"]}},
            {"name": "x", "containerEdits": {"env": ["A=b"]}}]}"#;
        let (found, problems) = read(&[
            ("etc/cdi/1.json", "{"),
            ("etc/cdi/2.yaml", "kind: [nvidia.com/gpu]\n"),
            ("etc/cdi/3.yaml", &nested),
            ("etc/cdi/4.yaml", &huge),
            ("etc/cdi/5.yaml", empty),
            ("etc/cdi/6.json", twice),
            ("etc/cdi/7.yaml", &gpu("GPU-1", "/dev/nvidia1")),
        ]);
        let shown: Vec<String> = problems
            .iter()
            .map(|problem| format!("{}: {}", problem.path, problem.message))
            .collect();
        let expect = [
            "etc/cdi/1.json: not a CDI spec: ",
            "etc/cdi/2.yaml: not a CDI spec: ",
            "etc/cdi/3.yaml: not a CDI spec: ",
            "etc/cdi/4.yaml: larger than 1048576 bytes",
            "etc/cdi/5.yaml: device \"GPU-3\" has no edits: ",
            "etc/cdi/6.json: device \"x\" is there twice: ",
        ];
        assert_eq!(shown.len(), expect.len(), "{shown:?}");
        for (shown, expect) in shown.iter().zip(expect) {
            assert!(shown.starts_with(expect) && shown.lines().count() == 1, "{shown}");
        }
        assert_eq!(found.devices.keys().collect::<Vec<_>>(), ["nvidia.com/gpu=GPU-1"]);
    }

    #[test]
    fn of_two_files_of_one_directory_neither_counts_and_the_later_directory_goes_first() {
        let (a, b) = (gpu("GPU-1", "/dev/nvidia1"), gpu("GPU-1", "/dev/nvidia2"));
        let (found, problems) = read(&[("etc/cdi/1.yaml", &a), ("var/run/cdi/1.yaml", &b)]);
        assert_eq!(problems, []);
        let later = [("nvidia.com/gpu=GPU-1", &["/dev/nvidia2"][..])];
        assert_eq!(found, VendorCdi::from_devices(later));
        let (found, problems) = read(&[("etc/cdi/1.yaml", &a), ("etc/cdi/2.yaml", &b)]);
        assert_eq!(found, VendorCdi::default());
        assert_eq!(problems[0].message, "nvidia.com/gpu=GPU-1 is in two files: it is not used");
    }

    #[test]
    fn a_spec_of_many_instances_is_read() {
        let hook = "{hookName: createContainer, path: /usr/bin/nvidia-cdi-hook, args: [nvidia-cdi-hook, \
                    create-symlinks, --link, ../libnvidia-allocator.so.1::/usr/lib64/gbm/x.so]}";
        let device = |i| {
            format!(
                "- name: GPU-{i}\n  containerEdits:\n    deviceNodes:\n    - path: /dev/nvidia{i}\n\
                 \x20   hooks: [{hook}, {hook}, {hook}]\n"
            )
        };
        let devices: String = (0..1500).map(device).collect();
        let text = format!("cdiVersion: 0.5.0\nkind: nvidia.com/gpu\ndevices:\n{devices}");
        assert!(text.len() > 700_000, "{}", text.len());
        let (found, problems) = read(&[("etc/cdi/nvidia.yaml", &text)]);
        assert_eq!(problems, []);
        assert_eq!(found.devices.len(), 1500);
    }

    #[test]
    fn a_host_without_cdi_directories_has_none() {
        assert_eq!(read(&[]), (VendorCdi::default(), vec![]));
    }
}
