//! `slices` prints what the API server takes: as one object or a List, the same to every YAML reader.
// Helpers of tests are not seen as tests.
#![allow(clippy::unwrap_used)]

mod program;

use k8s_openapi::api::resource::v1::ResourceSlice;
use program::{capture, hosts, printed};
use serde_json::Value;

fn json(args: &[&str]) -> Value {
    serde_json::from_str(&printed(&[&["slices", "-o", "json"], args].concat())).unwrap()
}

#[test]
fn yaml_and_json_of_every_host_are_the_same_slices() {
    for entry in std::fs::read_dir(hosts("captures")).unwrap() {
        let host = entry.unwrap().path().display().to_string();
        let yaml = printed(&["slices", "--host", &host]);
        let from_yaml: Value = serde_saphyr::from_str(&yaml).unwrap();
        let from_json = json(&["--host", &host]);
        assert_eq!(from_yaml, from_json, "{host}");
        let slice: ResourceSlice = serde_json::from_value(from_json.clone()).unwrap();
        assert_eq!(serde_json::to_value(&slice).unwrap(), from_json, "{host}");
        assert_eq!(slice.spec.pool.name, slice.spec.node_name.unwrap());
    }
}

/// kubectl reads YAML 1.1, in which more plain words are no texts.
#[test]
fn texts_that_yaml_1_1_takes_for_numbers_or_bools_are_quoted() {
    let yaml = printed(&["slices", "--host", &capture("dgx-h100")]);
    let mut seen = 0;
    for line in yaml.lines() {
        let Some((key, value)) = line.trim().split_once(": ") else { continue };
        if !["string", "version", "value"].contains(&key) || value.starts_with('"') {
            continue;
        }
        seen += 1;
        let number =
            value.chars().all(|c| c.is_ascii_digit() || "+-._eExXoOaAbBcCdDfF".contains(c));
        let word = ["y", "n", "yes", "no", "on", "off", "true", "false", "null", "~"];
        // 1:30 is 90, and 0000:16:00.0 is 960.
        let sixtieths = value.split(':').skip(1).map(|part| part.parse::<f64>());
        let sexagesimal = value.contains(':') && {
            let mut parts = sixtieths.chain(value.split(':').take(1).map(str::parse));
            parts.all(|part| part.is_ok_and(|part| part < 60.0))
        };
        let plain = !number && !sexagesimal && !word.contains(&value.to_lowercase().as_str());
        assert!(plain, "{line}");
    }
    assert!(seen > 100);
}

#[test]
fn several_hosts_are_a_list_in_their_order() {
    let (one, other) = (capture("dgx-a100"), format!("n2={}", capture("dgx-h100")));
    let list = json(&["--host", &other, "--host", &one]);
    assert_eq!((&list["apiVersion"], &list["kind"]), (&"v1".into(), &"List".into()));
    let items = list["items"].as_array().unwrap();
    let nodes: Vec<_> = items.iter().map(|item| item["spec"]["nodeName"].as_str()).collect();
    assert_eq!(nodes, [Some("n2"), Some("dgx-a100")]);
    assert_eq!(items[0]["metadata"]["name"], "00000-lanemate.dev-n2");
    assert!(items.iter().all(|item| item["kind"] == "ResourceSlice"));
}

#[test]
fn the_allocators_taint_depends_on_the_mode() {
    let host = capture("dgx-h100");
    let taints = |mode| {
        let slice = json(&["--host", &host, "--mode", mode]);
        let devices = slice["spec"]["devices"].as_array().unwrap().clone();
        devices.into_iter().filter(|device| device.get("taints").is_some()).count()
    };
    assert_eq!((taints("controller"), taints("scheduler")), (18, 0));
}

#[test]
fn the_sites_configuration_takes_devices_out_by_address_name_and_cel() {
    let host = capture("dgx-h100");
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("config.yaml");
    let names = |rules: &str| -> Vec<String> {
        std::fs::write(&config, format!("exclude:\n{rules}")).unwrap();
        let slice = json(&["--host", &host, "--config", config.to_str().unwrap()]);
        let devices = slice["spec"]["devices"].as_array().unwrap();
        devices.iter().map(|device| device["name"].as_str().unwrap().to_owned()).collect()
    };
    let all = names("- netdev: none*\n");
    assert_eq!(all.len(), 18);
    for (rules, gone) in [
        ("- pciBusID: 0000:29:00.0\n", &["nic-0000-29-00-0"][..]),
        ("- netdev: ibp170*\n", &["nic-0000-aa-00-0"]),
        (
            "- rdmaDevice: mlx5_?\n- cel: 'false'\n",
            &[
                "nic-0000-18-00-0",
                "nic-0000-29-00-0",
                "nic-0000-40-00-0",
                "nic-0000-4f-00-0",
                "nic-0000-5e-00-0",
                "nic-0000-9a-00-0",
                "nic-0000-aa-00-0",
                "nic-0000-c0-00-0",
            ],
        ),
        (
            "- cel: device.attributes['resource.kubernetes.io'].pciBusID == '0000:1b:00.0'\n",
            &["gpu-0000-1b-00-0"],
        ),
    ] {
        let left = names(rules);
        let mut missing: Vec<_> = all.iter().filter(|name| !left.contains(name)).collect();
        missing.sort();
        assert_eq!(missing, gone, "{rules}");
    }
}
