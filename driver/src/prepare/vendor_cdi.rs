//! CDI devices that other programs have put on the host, such as NVIDIA's container toolkit.

use std::collections::BTreeSet;

use serde::Deserialize;

use crate::discovery::facts::Problem;
use crate::discovery::host::{Host, HostError, realpath};

use super::cdi::FILE_PREFIX;

/// Where container runtimes look by default, relative to the root.
pub const DIRECTORIES: [&str; 2] = ["etc/cdi", "var/run/cdi"];

/// Most spec files of one directory that are read: a vendor writes one or two, and one per claim at most.
const MAX_FILES: usize = 1024;

/// Fully qualified names of the CDI devices on the host, our own left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VendorCdi {
    names: BTreeSet<String>,
}

/// What matters of a spec. The rest is the runtime's business.
#[derive(Deserialize)]
struct VendorSpec {
    kind: String,
    #[serde(default)]
    devices: Vec<VendorDevice>,
}

#[derive(Deserialize)]
struct VendorDevice {
    name: String,
}

impl VendorCdi {
    /// Reads the spec files of the directories, given relative to the root. A directory that is
    /// missing holds none; a file that cannot be read is a problem, and the rest stands.
    pub fn read(host: &dyn Host, directories: &[&str]) -> (Self, Vec<Problem>) {
        let mut found = Self::default();
        let mut problems = Vec::new();
        for directory in directories {
            match spec_files(host, directory) {
                Ok(files) => {
                    for path in files {
                        match read_names(host, &path) {
                            Ok(names) => found.names.extend(names),
                            Err(message) => problems.push(Problem { path, message }),
                        }
                    }
                }
                Err(HostError::Missing) => {}
                Err(error) => problems
                    .push(Problem { path: (*directory).to_owned(), message: error.to_string() }),
            }
        }
        (found, problems)
    }

    /// From fully qualified names, e.g. `nvidia.com/gpu=GPU-…`.
    pub fn from_names(names: impl IntoIterator<Item = String>) -> Self {
        Self { names: names.into_iter().collect() }
    }

    /// Whether a device of that fully qualified name exists.
    pub fn contains(&self, name: &str) -> bool {
        self.names.contains(name)
    }
}

fn spec_files(host: &dyn Host, directory: &str) -> Result<Vec<String>, HostError> {
    let directory = realpath(host, directory)?;
    let is_spec = |name: &String| {
        let known = [".json", ".yaml"].iter().any(|ending| name.ends_with(ending));
        known && !name.starts_with(FILE_PREFIX)
    };
    let names = host.names(directory.as_str())?.into_iter().filter(is_spec);
    Ok(names.take(MAX_FILES).map(|name| directory.child(&name)).collect())
}

fn read_names(host: &dyn Host, path: &str) -> Result<Vec<String>, String> {
    let real = realpath(host, path).map_err(|error| error.to_string())?;
    let bytes = host.file(real.as_str()).map_err(|error| error.to_string())?;
    let text = String::from_utf8(bytes).map_err(|_| "not UTF-8".to_owned())?;
    let spec = if path.ends_with(".json") {
        serde_json::from_str::<VendorSpec>(&text).map_err(|error| error.to_string())
    } else {
        serde_saphyr::from_str::<VendorSpec>(&text).map_err(|error| error.to_string())
    };
    let VendorSpec { kind, devices } = spec.map_err(|error| format!("not a CDI spec: {error}"))?;
    Ok(devices.into_iter().map(|device| format!("{kind}={}", device.name)).collect())
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use crate::discovery::host::LiveHost;
    use crate::files::write_atomically;

    use super::*;

    fn read(files: &[(&str, &str)]) -> (VendorCdi, Vec<Problem>) {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            write_atomically(&root.path().join(path), 0o644, text.as_bytes()).unwrap();
        }
        VendorCdi::read(&LiveHost::new(PathBuf::from(root.path())), &DIRECTORIES)
    }

    #[test]
    fn names_are_gathered_from_json_and_yaml_in_both_directories() {
        let (found, problems) = read(&[
            (
                "etc/cdi/nvidia.yaml",
                "cdiVersion: 0.5.0\nkind: nvidia.com/gpu\ndevices:\n\
                 - name: GPU-1\n  containerEdits: {deviceNodes: [{path: /dev/nvidia0}]}\n\
                 - name: \"0\"\ncontainerEdits: {hooks: []}\n",
            ),
            (
                "var/run/cdi/amd.json",
                r#"{"kind": "amd.com/gpu", "devices": [{"name": "x"}], "new": 1}"#,
            ),
            ("var/run/cdi/lanemate.dev-claim_u.json", "not looked at"),
            ("var/run/cdi/README", "not looked at"),
        ]);
        assert_eq!(problems, []);
        let names = ["nvidia.com/gpu=GPU-1", "nvidia.com/gpu=0", "amd.com/gpu=x"];
        assert_eq!(found, VendorCdi::from_names(names.map(str::to_owned)));
    }

    #[test]
    fn a_file_that_is_no_spec_is_a_problem_and_the_rest_stands() {
        let nested = "a: &a [x, x, x, x, x, x, x, x, x]\n".to_owned()
            + &(0..40).map(|i| format!("b{i}: [*a, *a, *a, *a, *a, *a]\n")).collect::<String>();
        let (found, problems) = read(&[
            ("etc/cdi/1.json", "{"),
            ("etc/cdi/2.yaml", "kind: [nvidia.com/gpu]\n"),
            ("etc/cdi/3.yaml", &nested),
            ("etc/cdi/4.yaml", "kind: nvidia.com/gpu\ndevices: [{name: GPU-1}]\n"),
        ]);
        let paths: Vec<&str> = problems.iter().map(|problem| &*problem.path).collect();
        assert_eq!(paths, ["etc/cdi/1.json", "etc/cdi/2.yaml", "etc/cdi/3.yaml"]);
        assert!(problems[0].message.starts_with("not a CDI spec: "), "{}", problems[0].message);
        assert!(found.contains("nvidia.com/gpu=GPU-1"));
    }

    #[test]
    fn a_host_without_cdi_directories_has_none() {
        assert_eq!(read(&[]), (VendorCdi::default(), vec![]));
    }
}
