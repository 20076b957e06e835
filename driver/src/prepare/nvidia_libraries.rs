//! The user-space part of NVIDIA's driver: libraries that must have the version of the kernel part,
//! so they come from the host and not from the image.
//!
//! Each file appears under its own name and under those by which programs open it. That takes the
//! place of the links and the linker cache that NVIDIA's toolkit makes by a hook. It appears in two
//! directories: that of the host, which the linker of an image of the same family searches, and
//! `/usr/local/nvidia`, which CUDA images have in `LD_LIBRARY_PATH` and `PATH`.

use crate::discovery::host::{Host, realpath};

use super::cdi::Mount;

/// Library directories below the driver's root, in the order in which they are tried.
const LIBRARY_DIRECTORIES: [&str; 5] =
    ["usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib64", "usr/lib", "lib64"];
const PROGRAM_DIRECTORIES: [&str; 2] = ["usr/bin", "bin"];

/// Libraries that compute needs, without `.so.<version>`, and the endings of their other names.
const LIBRARIES: [(&str, &[&str]); 8] = [
    ("libcuda", &[".so.1", ".so"]),
    ("libnvidia-ml", &[".so.1"]),
    ("libnvidia-ptxjitcompiler", &[".so.1"]),
    ("libnvidia-nvvm", &[".so.4"]),
    ("libnvidia-gpucomp", &[]),
    ("libnvidia-opencl", &[".so.1"]),
    ("libnvidia-cfg", &[".so.1"]),
    ("libcudadebugger", &[".so.1"]),
];
const PROGRAMS: [&str; 1] = ["nvidia-smi"];

const CONTAINER_LIBRARIES: &str = "usr/local/nvidia/lib64";
const CONTAINER_PROGRAMS: &str = "usr/local/nvidia/bin";

/// Files found on the host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NvidiaLibraries {
    mounts: Vec<Mount>,
}

impl NvidiaLibraries {
    /// Looks for the libraries of a driver version, e.g. `580.82.07`, below the driver's root: a path
    /// relative to the host's root, empty where the driver is installed on the host itself. What is
    /// missing is left out.
    pub fn read(host: &dyn Host, driver_root: &str, version: &str) -> Self {
        let mut mounts = Vec::new();
        let is_version = version.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        for (stem, endings) in LIBRARIES.iter().filter(|_| is_version && !version.is_empty()) {
            let file = format!("{stem}.so.{version}");
            let others = endings.iter().map(|ending| format!("{stem}{ending}"));
            let names: Vec<String> = [file].into_iter().chain(others).collect();
            mounts.extend(
                Found::search(host, driver_root, &LIBRARY_DIRECTORIES, names)
                    .map(|found| found.mounts(CONTAINER_LIBRARIES)),
            );
        }
        for program in PROGRAMS {
            let names = vec![program.to_owned()];
            mounts.extend(
                Found::search(host, driver_root, &PROGRAM_DIRECTORIES, names)
                    .map(|found| found.mounts(CONTAINER_PROGRAMS)),
            );
        }
        Self { mounts: mounts.concat() }
    }

    /// One mount per file, name and directory. The runtime finds the files below `root`.
    pub(super) fn mounts(&self, root: &str) -> Vec<Mount> {
        let below = |mount: &Mount| Mount {
            host_path: format!("{root}{}", mount.host_path),
            ..mount.clone()
        };
        self.mounts.iter().map(below).collect()
    }
}

/// A file on the host.
struct Found {
    host_path: String,
    directory: &'static str,
    /// The file's own, and the others.
    names: Vec<String>,
}

impl Found {
    /// The first of the directories that has a file of the first name.
    fn search(
        host: &dyn Host,
        driver_root: &str,
        directories: &[&'static str],
        names: Vec<String>,
    ) -> Option<Self> {
        let name = names.first()?;
        let (host_path, directory) = directories.iter().find_map(|directory| {
            let path = realpath(host, &format!("{driver_root}/{directory}/{name}")).ok()?;
            host.exists(path.as_str()).then(|| (format!("/{}", path.as_str()), *directory))
        })?;
        Some(Self { host_path, directory, names })
    }

    fn mounts(&self, well_known: &str) -> Vec<Mount> {
        let places = [self.directory, well_known];
        let paths = places
            .iter()
            .flat_map(|place| self.names.iter().map(move |name| format!("/{place}/{name}")));
        paths.map(|path| Mount::read_only(self.host_path.clone(), path)).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use crate::discovery::host::LiveHost;
    use crate::files::{Durability, write_atomically};

    use super::*;

    fn read(files: &[&str], driver_root: &str, version: &str) -> Vec<String> {
        let root = tempfile::tempdir().unwrap();
        for path in files {
            write_atomically(&root.path().join(path), 0o755, b"ELF", Durability::Volatile).unwrap();
        }
        let host = LiveHost::new(PathBuf::from(root.path()));
        let mounts = NvidiaLibraries::read(&host, driver_root, version).mounts("");
        mounts.iter().map(|m| format!("{} -> {}", m.host_path, m.container_path)).collect()
    }

    #[test]
    fn each_library_appears_under_all_its_names_in_both_directories() {
        let found = read(
            &["usr/lib64/libcuda.so.580.82.07", "usr/lib64/libcuda.so.575.1", "usr/bin/nvidia-smi"],
            "",
            "580.82.07",
        );
        let library = "/usr/lib64/libcuda.so.580.82.07";
        let expect = [
            format!("{library} -> /usr/lib64/libcuda.so.580.82.07"),
            format!("{library} -> /usr/lib64/libcuda.so.1"),
            format!("{library} -> /usr/lib64/libcuda.so"),
            format!("{library} -> /usr/local/nvidia/lib64/libcuda.so.580.82.07"),
            format!("{library} -> /usr/local/nvidia/lib64/libcuda.so.1"),
            format!("{library} -> /usr/local/nvidia/lib64/libcuda.so"),
            "/usr/bin/nvidia-smi -> /usr/bin/nvidia-smi".to_owned(),
            "/usr/bin/nvidia-smi -> /usr/local/nvidia/bin/nvidia-smi".to_owned(),
        ];
        assert_eq!(found, expect);
    }

    #[test]
    fn a_driver_in_a_directory_of_its_own_appears_where_it_would_be_without() {
        let file = "run/nvidia/driver/usr/lib/x86_64-linux-gnu/libnvidia-gpucomp.so.580.1";
        assert_eq!(
            read(&[file], "run/nvidia/driver", "580.1"),
            [
                format!("/{file} -> /usr/lib/x86_64-linux-gnu/libnvidia-gpucomp.so.580.1"),
                format!("/{file} -> /usr/local/nvidia/lib64/libnvidia-gpucomp.so.580.1"),
            ]
        );
    }

    #[test]
    fn what_is_no_version_finds_nothing() {
        for version in ["", "../../../../etc/passwd", "1 "] {
            assert_eq!(read(&["etc/passwd"], "", version), [""; 0], "{version}");
        }
    }
}
