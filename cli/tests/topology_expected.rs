//! `topology -o json` agrees with the known answer of every captured machine.
// Helpers of tests are not seen as tests.
#![allow(clippy::unwrap_used)]

mod program;

use std::collections::{BTreeMap, BTreeSet};

use program::{capture, hosts, printed};
use serde_json::Value;

const PATHS: [&str; 5] = ["PIX", "PXB", "PHB", "NODE", "SYS"];

/// A known answer.
struct Answer {
    host: String,
    json: Value,
}

fn answers() -> Vec<Answer> {
    let read = |entry: std::io::Result<std::fs::DirEntry>| {
        let path = entry.unwrap().path();
        let json = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        Answer { host: path.file_stem().unwrap().to_str().unwrap().to_owned(), json }
    };
    let mut answers: Vec<_> = std::fs::read_dir(hosts("expected")).unwrap().map(read).collect();
    answers.sort_by(|a, b| a.host.cmp(&b.host));
    assert!(answers.len() >= 13);
    answers
}

impl Answer {
    fn topology(&self, further: &[&str]) -> Value {
        let host = capture(&self.host);
        let args = [&["topology", "-o", "json", "--host", &host], further].concat();
        serde_json::from_str(&printed(&args)).unwrap()
    }

    fn with_override(&self) -> Option<String> {
        let file = self.json["withOverride"]["file"].as_str()?;
        Some(hosts(&format!("overrides/{file}")))
    }

    fn gpu(&self, name: &str) -> &str {
        self.json["gpus"][name].as_str().unwrap()
    }

    fn nic(&self, name: &str) -> &str {
        self.json["nics"][name]["bdf"].as_str().unwrap()
    }

    /// GPU address -> addresses of its nearest NICs.
    fn nearest(&self, nearest: &Value) -> BTreeMap<String, BTreeSet<String>> {
        let row = |(gpu, nics): (&String, &Value)| {
            let nics = nics.as_array().unwrap().iter();
            let nics = nics.map(|nic| self.nic(nic.as_str().unwrap()).to_owned()).collect();
            (self.gpu(gpu).to_owned(), nics)
        };
        nearest.as_object().unwrap().iter().map(row).collect()
    }

    /// What is left out, as (name or address, code); `policy` rows only where they are configured.
    fn left_out(&self, with_policy: bool) -> BTreeSet<(String, String)> {
        let rows = self.json["exclude"].as_array().unwrap().iter();
        let rows = rows.filter(|row| with_policy || row["detect"] == "auto");
        let rows = rows.filter(|row| row["reason"] != "port-down");
        rows.map(|row| (name(row).to_owned(), code(row).to_owned())).collect()
    }

    /// A configuration with the rows that only the site can know.
    fn config(&self) -> String {
        let rows = self.json["exclude"].as_array().unwrap().iter();
        let rules = rows.filter(|row| row["detect"] == "policy").map(|row| {
            let (field, value) = match (&row["ibdev"], &row["netdev"]) {
                (Value::String(ibdev), _) => ("rdmaDevice", ibdev),
                (_, Value::String(netdev)) => ("netdev", netdev),
                _ => panic!("{row}"),
            };
            format!("\n- {field}: {value}")
        });
        let rules: String = rules.collect();
        if rules.is_empty() { "exclude: []\n".to_owned() } else { format!("exclude:{rules}\n") }
    }
}

/// The most telling name of a row of `exclude`.
fn name(row: &Value) -> &str {
    ["ibdev", "netdev", "bdf"].iter().find_map(|key| row[key].as_str()).unwrap()
}

/// The code of a reason in words; the first that applies counts.
fn code(row: &Value) -> &'static str {
    let reason = row["reason"].as_str().unwrap();
    let codes = [
        ("default-route", "default-route"),
        ("no RDMA", "no-rdma"),
        ("function without ibdev", "no-rdma"),
        ("cx-dma-function", "dma-function"),
        ("zero-node-guid", "zero-guid"),
        ("vfio-pci", "vfio"),
        ("storage", "policy"),
    ];
    let first = codes.iter().filter_map(|(words, code)| Some((reason.find(words)?, code))).min();
    first.unwrap_or_else(|| panic!("{reason}")).1
}

/// NICs that are left out, named as the answer names them.
fn found_left_out(topology: &Value) -> BTreeSet<(String, String)> {
    let nics = topology["nics"].as_array().unwrap().iter();
    nics.filter(|nic| nic["offered"] == false)
        .map(|nic| {
            let names = [&nic["rdmaDevices"][0], &nic["netdevs"][0], &nic["pciBusID"]];
            let name = names.iter().find_map(|name| name.as_str()).unwrap();
            let code = nic["reason"].as_str().unwrap().split(':').next().unwrap();
            (name.to_owned(), code.to_owned())
        })
        .collect()
}

/// GPU address -> the offered, untainted NICs of its best class.
fn found_nearest(topology: &Value) -> BTreeMap<String, BTreeSet<String>> {
    let usable =
        |device: &&Value| device["offered"] == true && device["taints"] == Value::Array(vec![]);
    let address = |device: &Value| device["pciBusID"].as_str().unwrap().to_owned();
    let nics: BTreeSet<String> =
        topology["nics"].as_array().unwrap().iter().filter(usable).map(address).collect();
    let gpus = topology["gpus"].as_array().unwrap().iter().filter(usable).map(address);
    let paths = topology["paths"].as_array().unwrap();
    let rank = |path: &Value| PATHS.iter().position(|class| path["class"] == *class).unwrap();
    gpus.map(|gpu| {
        let paths = || paths.iter().filter(|path| path["gpu"] == gpu.as_str());
        let paths = || paths().filter(|path| nics.contains(path["nic"].as_str().unwrap()));
        let best = paths().map(rank).min();
        let nearest = paths().filter(|path| Some(rank(path)) == best);
        let nearest = nearest.map(|path| path["nic"].as_str().unwrap().to_owned()).collect();
        (gpu.clone(), nearest)
    })
    .collect()
}

fn check_pairs(answer: &Answer, topology: &Value, pairs: &Value, overridden: bool) {
    let pairs = pairs.as_array().unwrap();
    let found: BTreeMap<(&str, &str), &Value> = topology["paths"]
        .as_array()
        .unwrap()
        .iter()
        .map(|path| ((path["gpu"].as_str().unwrap(), path["nic"].as_str().unwrap()), path))
        .collect();
    assert_eq!(found.len(), pairs.len(), "{}", answer.host);
    for pair in pairs {
        let (gpu, nic) = (pair["gpu"].as_str().unwrap(), pair["nic"].as_str().unwrap());
        let what = format!("{} {gpu} {nic}", answer.host);
        let path = found[&(answer.gpu(gpu), answer.nic(nic))];
        assert_eq!(path["class"], pair["pathClass"], "{what}");
        let complex = pair["via"] == "complex";
        let source = path["source"].as_str().unwrap();
        if overridden {
            // Functions that the XML does not name keep their place by sysfs.
            let near = ["PIX", "PXB"].contains(&path["class"].as_str().unwrap());
            assert!(source == "override" || !near, "{what}: {source}");
            assert_eq!(path.get("switchHops"), None, "{what}");
            continue;
        }
        assert_eq!(source, if complex { "complex" } else { "sysfs" }, "{what}");
        if !complex {
            let known = |key| pair.get(key).filter(|value: &&Value| !value.is_null());
            assert_eq!(path.get("switchHops"), known("switchHops"), "{what}");
            assert_eq!(path.get("via"), known("commonSwitch"), "{what}");
        }
    }
}

/// Nothing unknown is written as null, "" or -1.
fn check_no_sentinels(value: &Value, at: &str) {
    match value {
        Value::Null => panic!("null at {at}"),
        Value::String(text) => assert!(!text.is_empty(), "empty text at {at}"),
        Value::Number(number) => assert_ne!(number.as_i64(), Some(-1), "-1 at {at}"),
        Value::Array(items) => items.iter().for_each(|item| check_no_sentinels(item, at)),
        Value::Object(fields) => {
            fields.iter().for_each(|(key, item)| check_no_sentinels(item, &format!("{at}.{key}")));
        }
        Value::Bool(_) => {}
    }
}

#[test]
fn every_pair_has_its_class_hops_switch_and_source() {
    for answer in answers() {
        let topology = answer.topology(&[]);
        assert_eq!(topology["host"], answer.host.as_str());
        check_no_sentinels(&topology, &answer.host);
        check_pairs(&answer, &topology, &answer.json["pairs"], false);
    }
}

#[test]
fn an_override_gives_every_pair_its_class() {
    let mut overridden = 0;
    for answer in answers() {
        let Some(file) = answer.with_override() else { continue };
        overridden += 1;
        let topology = answer.topology(&["--override", &file]);
        check_pairs(&answer, &topology, &answer.json["pairsWithOverride"], true);
        assert_eq!(
            found_nearest(&topology),
            answer.nearest(&answer.json["withOverride"]["nearest"]),
            "{}",
            answer.host
        );
        // Named, and from a configuration, it says the same.
        let named = format!("{}={file}", answer.host);
        assert_eq!(answer.topology(&["--override", &named]), topology);
        let dir = tempfile::tempdir().unwrap();
        let config = dir.path().join("config.yaml");
        std::fs::write(&config, format!("topologyOverride: {file}\n")).unwrap();
        assert_eq!(answer.topology(&["--config", config.to_str().unwrap()]), topology);
    }
    assert!(overridden >= 2);
}

#[test]
fn what_is_left_out_is_found_without_configuration() {
    for answer in answers() {
        let topology = answer.topology(&[]);
        assert_eq!(found_left_out(&topology), answer.left_out(false), "{}", answer.host);
    }
}

#[test]
fn with_the_sites_configuration_the_nearest_nics_are_the_known_ones() {
    for answer in answers() {
        let dir = tempfile::tempdir().unwrap();
        let config = dir.path().join("config.yaml");
        std::fs::write(&config, answer.config()).unwrap();
        let topology = answer.topology(&["--config", config.to_str().unwrap()]);
        assert_eq!(found_left_out(&topology), answer.left_out(true), "{}", answer.host);
        assert_eq!(
            found_nearest(&topology),
            answer.nearest(&answer.json["nearest"]),
            "{}",
            answer.host
        );
    }
}

#[test]
fn several_hosts_are_an_array_in_their_order() {
    let (one, other) = (capture("workstation-no-nic"), format!("n2={}", capture("no-gpu-2nic")));
    let json = printed(&["topology", "-o", "json", "--host", &other, "--host", &one]);
    let json: Value = serde_json::from_str(&json).unwrap();
    let hosts: Vec<&Value> = json.as_array().unwrap().iter().map(|host| &host["host"]).collect();
    assert_eq!(hosts, ["n2", "workstation-no-nic"]);
}
