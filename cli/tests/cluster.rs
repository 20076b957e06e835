//! The commands that ask a cluster, where there is none, or one that serves nothing of ours.
// Helpers of tests are not seen as tests.
#![allow(clippy::unwrap_used)]

use std::process::{Command, Output};

use lanemate_test_api::{Fault, TestApi};

/// Runs the program, without the surroundings' own cluster.
fn lanemate(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lanemate"));
    command.args(args).env_remove("KUBECONFIG").env_remove("HOME").output().unwrap()
}

/// Standard error as one text, and the exit status.
fn complaint(output: &Output) -> (String, Option<i32>) {
    (String::from_utf8_lossy(&output.stderr).into_owned(), output.status.code())
}

#[test]
fn a_kubeconfig_that_cannot_be_read_is_named() {
    for command in ["explain", "status", "check"] {
        let output = lanemate(&[command, "--kubeconfig", "/absent/kubeconfig"]);
        let (words, status) = complaint(&output);
        assert_eq!((words.lines().count(), status), (1, Some(1)), "{words}");
        assert!(words.contains("/absent/kubeconfig"), "{words}");
        assert!(output.stdout.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_refuses_is_one_line_that_names_the_deed() {
    let api = TestApi::start().await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    let file = api.kubeconfig_file(directory.path()).unwrap().display().to_string();
    let run = |args: &[&str]| {
        let args = [args, &["--kubeconfig", &file]].concat();
        tokio::task::block_in_place(|| lanemate(&args))
    };
    let (words, status) = complaint(&run(&["explain", "job/trainer"]));
    assert_eq!(status, Some(2), "{words}");
    assert!(words.contains("expected the name of a claim, or pod/NAME"), "{words}");
    api.faults().next("*", "/", Fault::Status(403, "Forbidden"), 100);
    for (command, deed) in [("explain", "list"), ("status", "list"), ("check", "get the version")] {
        let output = run(&[command]);
        let (words, status) = complaint(&output);
        assert_eq!((words.lines().count(), status), (1, Some(1)), "{words}");
        assert!(words.starts_with(&format!("lanemate: {deed}")), "{words}");
        assert!(output.stdout.is_empty());
    }
}
