//! The program as a user starts it.
#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::process::{Command, Output};

fn controller(words: &[&str]) -> Output {
    let binary = env!("CARGO_BIN_EXE_lanemate-controller");
    Command::new(binary).args(words).env_clear().output().unwrap()
}

#[test]
fn in_mode_scheduler_it_refuses_to_run() {
    let ended = controller(&["--mode", "scheduler"]);
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(2), "{said}");
    assert!(said.starts_with("lanemate-controller: --mode scheduler: kube-scheduler"), "{said}");
}

#[test]
fn outside_of_a_cluster_it_asks_for_a_kubeconfig() {
    let ended = controller(&["--http-address", "off"]);
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(said.contains("or a kubeconfig"), "{said}");
}

#[test]
fn the_help_names_what_it_is_for() {
    let ended = controller(&["--help"]);
    assert!(ended.status.success());
    let said = String::from_utf8_lossy(&ended.stdout);
    for words in ["lanemate.dev/placement", "--lease-duration", "Exit status"] {
        assert!(said.contains(words), "{words}: {said}");
    }
}
