//! Mistakes as a stranger sees them.

use clap::{CommandFactory, Parser};

use super::*;

/// The command line, without what the environment of the test adds.
fn cli(flags: &[&str]) -> Cli {
    let mut cli = Cli::parse_from(["lanemate-kubelet-plugin"].iter().chain(flags));
    if !flags.contains(&"--node-name") {
        cli.node.node_name = None;
    }
    if !flags.contains(&"--kubeconfig") {
        cli.cluster.kubeconfig = None;
    }
    cli
}

fn check(flags: &[&str]) -> Result<Settings, String> {
    Settings::check(cli(flags)).map_err(|error| error.to_string())
}

fn refused(flags: &[&str], expect: &str) {
    let named: Vec<&str> = [&["--node-name", "n1"], flags].concat();
    assert_eq!(check(&named).unwrap_err(), expect);
}

#[test]
fn the_defaults_are_those_of_a_node() {
    let settings = check(&["--node-name", "n1"]).unwrap();
    let plugin = PathBuf::from("/var/lib/kubelet/plugins/lanemate.dev");
    assert_eq!(
        settings.directories,
        Directories {
            registry: "/var/lib/kubelet/plugins_registry".into(),
            kubelet_claims: "/var/lib/kubelet/dra_manager_state".into(),
            state: plugin.join("state"),
            cdi: "/var/run/cdi".into(),
            metadata: plugin.join("metadata"),
            plugins: "/var/lib/kubelet/plugins".into(),
            plugin: plugin.clone(),
        }
    );
    assert_eq!(settings.health_socket, plugin.join("health.sock"));
    assert_eq!(settings.metrics_address, Some("0.0.0.0:9099".parse().unwrap()));
    assert_eq!(settings.mode, Mode::Controller);
    assert_eq!(settings.machine.root, Path::new("/"));
    assert_eq!(settings.machine.driver_root, "");
    let seconds =
        [settings.rescan_interval, settings.reconcile_interval, settings.claim_gone_grace];
    assert_eq!(seconds.map(|time| time.as_secs()), [60, 300, 60]);
}

#[test]
fn directories_follow_from_kubelets_and_each_can_be_elsewhere() {
    let flags = ["--node-name", "n1", "--kubelet-root", "/k", "--pod-uid", "u-1"];
    let settings = check(&flags).unwrap();
    assert_eq!(settings.directories.state, Path::new("/k/plugins/lanemate.dev/state"));
    assert_eq!(settings.directories.registry, Path::new("/k/plugins_registry"));
    assert_eq!(settings.health_socket, Path::new("/k/plugins/lanemate.dev/health-u-1.sock"));
    let more = ["--plugins-dir", "/p", "--registry-dir", "/r", "--state-dir", "/s"];
    let settings = check(&[&flags[..], &more].concat()).unwrap();
    assert_eq!(settings.directories.state, Path::new("/s"));
    assert_eq!(settings.directories.registry, Path::new("/r"));
    assert_eq!(settings.directories.metadata, Path::new("/p/lanemate.dev/metadata"));
    assert_eq!(settings.directories.kubelet_claims, Path::new("/k/dra_manager_state"));
    let settings =
        check(&[&flags[..], &["--driver-root", "/run/nvidia/driver/"]].concat()).unwrap();
    assert_eq!(settings.machine.driver_root, "run/nvidia/driver");
}

#[test]
fn a_probe_finds_the_socket_of_the_plugin() {
    let flags = ["--plugins-dir", "/p", "--pod-uid", "u-1"];
    let run = health_socket(&cli(&flags));
    let probe = health_socket(&cli(&[&["probe", "live"][..], &flags].concat()));
    assert_eq!((run.as_path(), probe), (Path::new("/p/lanemate.dev/health-u-1.sock"), run.clone()));
}

#[test]
fn each_mistake_names_flag_value_and_expectation() {
    let path = "expected an absolute path of a directory, without ..";
    refused(&["--state-dir", "state"], &format!("--state-dir \"state\": {path}"));
    refused(&["--cdi-root", "/a/../b"], &format!("--cdi-root \"/a/../b\": {path}"));
    refused(&["--driver-root", "x"], &format!("--driver-root \"x\": {path}"));
    refused(&["--driver-root", ""], &format!("--driver-root \"\": {path}"));
    let not_a_directory = "expected a directory, found something else";
    refused(
        &["--registry-dir", "/dev/null"],
        &format!("--registry-dir \"/dev/null\": {not_a_directory}"),
    );
    refused(
        &["--state-dir", "/var/run/cdi"],
        "--state-dir \"/var/run/cdi\": expected another directory than --cdi-root",
    );
    refused(
        &["--state-dir", "/x", "--metadata-dir", "/x"],
        "--state-dir \"/x\": expected another directory than --metadata-dir",
    );
    refused(
        &["--pod-uid", "../x"],
        "--pod-uid \"../x\": expected at most 64 letters, digits and dashes (a pod's metadata.uid)",
    );
    let deep = format!("/{}", "x".repeat(107));
    refused(
        &["--health-socket", &deep],
        &format!("--health-socket {deep:?}: expected an absolute path of at most 107 bytes"),
    );
    refused(
        &["--root", "/nowhere"],
        "--root \"/nowhere\": expected a directory with a machine's files, or a file of lanemate capture",
    );
    refused(&["--kubeconfig", "/nowhere"], "--kubeconfig \"/nowhere\": expected a file");
    refused(
        &["--metrics-address", "9099"],
        "--metrics-address \"9099\": expected IP:PORT such as 0.0.0.0:9099 or [::]:9099, or off",
    );
    refused(
        &["--log-level", "a=b=c"],
        "--log-level \"a=b=c\": expected error, warn, info, debug or trace, or a list such as \
         info,lanemate_kubelet_plugin=debug",
    );
}

#[test]
fn several_mistakes_are_told_together() {
    let error = check(&["--cdi-root", "cdi", "--metrics-address", "x"]).unwrap_err();
    let flags: Vec<&str> = error.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(flags, ["--node-name", "--cdi-root", "--metrics-address"]);
    assert!(error.starts_with("--node-name missing: expected the node's name"), "{error}");
    let error = check(&["--node-name", "Node_1"]).unwrap_err();
    assert!(error.starts_with("--node-name \"Node_1\": expected lower-case letters"), "{error}");
}

#[test]
fn the_configuration_is_read_with_the_override_beside_it() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("config.yaml");
    let check = |text: &str| {
        std::fs::write(&file, text).unwrap();
        check(&["--node-name", "n1", "--config", file.to_str().unwrap()])
    };
    let shown = file.display();
    let settings = check("exclude: [{netdev: eth0}]").unwrap();
    assert_eq!(settings.machine.config.policy.exclude.len(), 1);
    assert_eq!(
        check("exclude: [{}]").unwrap_err(),
        format!(
            "--config \"{shown}\": exclude[0]: expected exactly one of pciBusID, netdev, rdmaDevice, cel"
        )
    );
    let missing = check("topologyOverride: topo.xml").unwrap_err();
    let expect = format!("--config \"{shown}\": topologyOverride: ");
    assert!(
        missing.starts_with(&expect) && missing.contains("topo.xml: cannot be read"),
        "{missing}"
    );
    std::fs::write(dir.path().join("topo.xml"), "<system version=\"1\"></system>").unwrap();
    let settings = check("topologyOverride: topo.xml").unwrap();
    assert_eq!(settings.machine.topology_override.unwrap().text, "<system version=\"1\"></system>");
}

#[test]
fn durations_are_humane() {
    let of = |text: &str| {
        let flag = format!("--rescan-interval={text}");
        Cli::try_parse_from(["x", &flag]).map(|cli| cli.cluster.rescan_interval.as_secs())
    };
    for (text, expect) in [("90s", 90), ("5m", 300), ("1h30m", 5400), ("2 minutes", 120)] {
        assert_eq!(of(text).unwrap(), expect, "{text}");
    }
    for text in ["0s", "-5s", "5", "soon", ""] {
        let error = of(text).unwrap_err().to_string();
        assert!(error.contains("expected a time above zero, such as 90s"), "{error}");
    }
}

#[test]
fn the_help_names_defaults_and_every_group() {
    Cli::command().debug_assert();
    let help = Cli::command().render_long_help().to_string();
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [
        "Node:",
        "Directories (the same path in the container as on the node):",
        "What is offered:",
        "Cluster:",
        "Telemetry:",
        "[env: NODE_NAME",
        "[default: /var/lib/kubelet]",
        "[default: <plugins-dir>/lanemate.dev/state]",
        "- scheduler:",
        "Examples:",
        "probe ready",
    ] {
        assert!(help.contains(part), "{part:?} is not in:\n{help}");
    }
}
