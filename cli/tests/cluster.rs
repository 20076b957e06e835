//! The commands that ask a cluster, where there is none, or one that serves nothing of ours.
// Helpers of tests are not seen as tests.
#![allow(clippy::unwrap_used)]

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
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
        assert_eq!(words.contains("nothing else was looked at"), command == "check", "{words}");
        assert!(output.stdout.is_empty());
    }
}

/// An API server that answers one request, with its version; the kubeconfig for it.
fn api_server(minor: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let body = format!(
        r#"{{"major":"1","minor":"{minor}","gitVersion":"v1.{minor}.4","gitCommit":"","gitTreeState":"",
        "buildDate":"","goVersion":"","compiler":"","platform":""}}"#
    );
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0; 4096];
        let read = stream.read(&mut request).unwrap();
        assert!(request[..read].starts_with(b"GET /version "));
        let length = body.len();
        write!(
            stream,
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        )
        .unwrap();
    });
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: a\n\
         clusters: [{{name: a, cluster: {{server: 'http://{address}'}}}}]\n\
         users: [{{name: a, user: {{}}}}]\n\
         contexts: [{{name: a, context: {{cluster: a, user: a}}}}]\n"
    )
}

#[test]
fn below_the_first_version_nothing_else_is_asked() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("kubeconfig");
    std::fs::write(&file, api_server("33")).unwrap();
    let output = lanemate(&["check", "--kubeconfig", file.to_str().unwrap()]);
    let words = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{}", complaint(&output).0);
    assert!(words.starts_with("FAIL  Kubernetes       v1.33.4\n"), "{words}");
    assert!(words.contains("note  Others           not looked at"), "{words}");
    assert!(words.ends_with("1 of 2 checks failed\n"), "{words}");
}
