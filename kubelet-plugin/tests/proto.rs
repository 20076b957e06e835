//! The code under `generated` is what the files in `proto` say. `UPDATE_GOLDEN=1 cargo test -p
//! lanemate-kubelet-plugin --test proto` writes it anew; the diff is the review.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::path::{Path, PathBuf};

/// A file in `proto`, and the package in it, after which prost names its output.
const PROTOS: [(&str, &str); 3] = [
    ("registration", "pluginregistration"),
    ("dra_v1", "k8s.io.kubelet.pkg.apis.dra.v1"),
    ("dra_v1beta1", "k8s.io.kubelet.pkg.apis.dra.v1beta1"),
];

#[test]
fn the_plugin_has_the_servers_of_its_protos() {
    check("src/grpc/generated", false);
}

#[test]
fn the_simulated_kubelet_has_the_clients_and_servers_of_the_same_protos() {
    check("../test/kubelet-sim/src/generated", true);
}

fn check(directory: &str, with_clients: bool) {
    let crate_root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (file, package) in PROTOS {
        let path = crate_root.join(directory).join(format!("{file}.rs"));
        let generated = generate(&crate_root.join("proto"), file, package, with_clients);
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            fs::write(&path, &generated).unwrap();
        }
        let found = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            found == generated,
            "{} differs from proto/{file}.proto: run with UPDATE_GOLDEN=1 and review the difference",
            path.display()
        );
    }
}

fn generate(protos: &Path, file: &str, package: &str, with_clients: bool) -> String {
    let descriptors = protox::compile([format!("{file}.proto")], [protos]).unwrap();
    let out = tempfile::tempdir().unwrap();
    tonic_prost_build::configure()
        .build_server(true)
        .build_client(with_clients)
        .build_transport(false)
        .btree_map(".")
        .out_dir(out.path())
        .compile_fds(descriptors)
        .unwrap();
    let made: PathBuf = out.path().join(format!("{package}.rs"));
    let code = fs::read_to_string(made).unwrap();
    format!("//! Generated from `{file}.proto` of the plugin; its test `proto` compares.\n\n{code}")
}
