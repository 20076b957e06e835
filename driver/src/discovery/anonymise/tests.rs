//! Nothing that identifies a machine is left, and the facts are the same.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::discovery::facts::Facts;
use crate::discovery::{discover, record};
use crate::testing::{HOSTS, facts, host};

/// Values that identify the machine, found by where they stand and not by their form.
fn secrets(capture: &HostCapture) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (path, content) in &capture.files {
        let file = path.rsplit('/').next().unwrap();
        let text = String::from_utf8_lossy(content).trim().to_owned();
        let is_gid = path.contains("/gids/");
        let is_address = file == "address" && path.contains("/net/");
        if matches!(file, "node_guid" | "sys_image_guid" | "unique_id" | "boot_id")
            || is_gid
            || is_address
        {
            found.insert(text);
        } else if file == "vpd" {
            let (values, _) = vpd::parse(content);
            let of = |keyword: &str| values.get(keyword).cloned();
            found.extend(["SN", "V3", "VU"].into_iter().filter_map(of));
            found.extend(of("VU").map(|text| text[..32].to_owned()));
        }
    }
    for device in capture.nvml.iter().flat_map(|nvml| &nvml.devices) {
        found.extend(device.uuid.iter().chain(&device.serial).cloned());
    }
    let own_part = |uuid: &String| uuid.strip_prefix("GPU-").map(str::to_owned);
    found.extend(found.iter().filter_map(own_part).collect::<Vec<_>>());
    found.retain(|value| value.bytes().any(|b| !matches!(b, b'0' | b':')));
    found
}

/// The IP addresses of the routing tables, as they are written there.
fn routed(capture: &HostCapture) -> BTreeSet<String> {
    let tables = capture.files.iter().filter(|(path, _)| path.ends_with("route"));
    let texts = tables.map(|(_, content)| String::from_utf8_lossy(content).into_owned());
    let columns = |line: &str| -> Vec<String> {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let of = if fields.len() == 11 { [1, 2].as_slice() } else { &[0, 2, 4] };
        of.iter().filter_map(|&column| fields.get(column)).map(|&f| f.to_owned()).collect()
    };
    let all = texts.flat_map(|text| text.lines().flat_map(columns).collect::<Vec<_>>());
    let is_address = |field: &String| {
        let zeros = field.bytes().all(|b| b == b'0');
        !zeros && field.len() >= 8 && field.bytes().all(|b| b.is_ascii_hexdigit())
    };
    all.filter(is_address).collect()
}

fn without_separators(text: &str) -> String {
    text.to_lowercase().replace([':', '-'], "")
}

#[test]
fn no_address_of_a_routing_table_is_kept() {
    let mut seen = 0;
    for name in HOSTS {
        let (before, after) = (host(name), anonymise(&host(name)).unwrap());
        let (before, after) = (routed(&before), routed(&after));
        seen += before.len();
        assert_eq!(before.len(), after.len(), "{name}");
        assert_eq!(before.intersection(&after).collect::<Vec<_>>(), [""; 0], "{name}");
    }
    assert!(seen > 0);
}

/// The facts with each replaced value as "kind and order of first appearance"; zeros stay.
fn numbered(mut facts: Facts) -> Facts {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut number = |value: &mut String| {
        if value.bytes().any(|b| !matches!(b, b'0' | b':')) {
            let next = seen.len();
            *value = format!("#{}", seen.entry(value.clone()).or_insert(next));
        }
    };
    for function in facts.functions.values_mut() {
        for device in &mut function.rdma {
            device.node_guid.iter_mut().chain(&mut device.sys_image_guid).for_each(&mut number);
        }
        function.unique_id.iter_mut().for_each(&mut number);
        for keyword in ["SN", "V3", "VU"] {
            function.vpd.get_mut(keyword).into_iter().for_each(&mut number);
        }
    }
    let addresses = facts.network.interfaces.values_mut().flat_map(|i| &mut i.address);
    addresses.for_each(&mut number);
    let gpus = facts.nvml.iter_mut().flat_map(|nvml| nvml.gpus.values_mut());
    gpus.flat_map(|gpu| &mut gpu.uuid).for_each(&mut number);
    facts
}

#[test]
fn no_machine_keeps_an_identifying_value_and_all_keep_their_facts() {
    for name in HOSTS {
        let machine = host(name);
        let (recorded, _) = record(&machine.host(), &machine, name);
        for capture in [machine, recorded] {
            let secrets = secrets(&capture);
            assert!(!secrets.is_empty(), "{name}");
            let replaced = anonymise(&capture).unwrap();
            let text = replaced.to_yaml();
            let plain = without_separators(&text);
            for secret in secrets {
                assert!(!text.contains(&secret), "{name}: {secret}");
                // Nor in another form, such as a GUID in the name of an interface.
                let secret = without_separators(&secret);
                assert!(secret.len() < 8 || !plain.contains(&secret), "{name}: {secret}");
            }
            assert_eq!(HostCapture::parse(&text).as_ref(), Ok(&replaced), "{name}");
            let again = discover(&replaced.host(), &replaced);
            assert_eq!(numbered(again), numbered(facts(name)), "{name}");
            assert_eq!(replaced.name, NAME);
        }
    }
}

#[test]
fn zero_guids_stay_and_sums_of_vital_product_data_stay_right() {
    let zero = "0000:0000:0000:0000";
    let facts = |name| {
        let replaced = anonymise(&host(name)).unwrap();
        discover(&replaced.host(), &replaced)
    };
    let functions = facts("no-gpu-2nic").functions;
    let guids = functions.values().flat_map(|f| &f.rdma).filter_map(|d| d.node_guid.as_deref());
    assert!(guids.into_iter().any(|guid| guid == zero));
    for content in
        anonymise(&host("gb300-cx8")).unwrap().files.iter().filter(|(p, _)| p.ends_with("/vpd"))
    {
        let (fields, _) = vpd::fields(content.1);
        let at = fields.iter().find(|field| field.keyword == "RV").unwrap().value.start;
        let sum = content.1[..=at].iter().fold(0_u8, |a, b| a.wrapping_add(*b));
        assert_eq!(sum, 0, "{}", content.0);
    }
}

#[test]
fn both_forms_of_a_uuid_are_replaced_by_both_forms_of_another() {
    for (_, function) in facts("gb300-cx8").functions {
        let Some(uuid) = function.vpd.get("V3") else { continue };
        assert!(function.vpd["VU"].starts_with(&uuid.replace('-', "")));
    }
    let replaced = anonymise(&host("gb300-cx8")).unwrap();
    let mut seen = 0;
    for function in discover(&replaced.host(), &replaced).functions.values() {
        let Some(uuid) = function.vpd.get("V3") else { continue };
        assert!(function.vpd["VU"].starts_with(&uuid.replace('-', "")), "{:?}", function.vpd);
        seen += 1;
    }
    assert!(seen > 0);
}

fn check(path: &str, content: &str, expect: &str) {
    let mut capture = HostCapture::new("secret-host");
    capture.files.insert(path.to_owned(), content.as_bytes().to_vec());
    let found = anonymise(&capture).unwrap();
    let content = found.files.values().next().unwrap();
    assert_eq!(String::from_utf8_lossy(content), expect, "{path}");
}

#[test]
fn each_form_of_an_identifier_keeps_its_form() {
    check("sys/x/net/a/address", "b8:ce:f6:01:02:03\n", "02:00:00:00:00:01\n");
    check("sys/x/net/a/address", "00:00:00:00:00:00\n", "00:00:00:00:00:00\n");
    check("sys/x/net/a/address", "ff:ff:ff:ff:ff:ff\n", "ff:ff:ff:ff:ff:ff\n");
    check(
        "sys/x/net/ib0/address",
        "00:00:10:29:fe:80:00:00:00:00:00:00:b8:ce:f6:03:00:01:02:03\n",
        "00:00:10:29:fe:80:00:00:00:00:00:00:02:00:00:00:00:00:00:01\n",
    );
    check("x/node_guid", "B8CE:F603:0001:0203\n", "0200:0000:0000:0001\n");
    check(
        "x/gids/0",
        "fec0:0000:0000:0001:b8ce:f603:0001:0203",
        "fd00:0000:0000:0001:0200:0000:0000:0001",
    );
    check(
        "x/gids/3",
        "0000:0000:0000:0000:0000:ffff:0ac1:480a",
        "0000:0000:0000:0000:0000:ffff:0a00:0001",
    );
    check("x/unique_id", "d8a1b2c3d4e5f607\n", "0000000000000001\n");
    check("proc/sys/kernel/hostname", "secret-host\n", "captured-host\n");
    check("x/node_desc", "secret-host mlx5_0\n", "captured-host\n");
    check("proc/driver/nvidia/version", "NVRM (me@secret-host) \n", "NVRM (root@builder) \n");
    check("proc/net/route", "e\t00000000\tFE01A8C0\t0003\n", "e\t00000000\t0A000001\t0003\n");
    check(
        "proc/1/net/ipv6_route",
        "00000000000000000000000000000000 00 fe80000000000000923691b3c92f0e65 00000400 eth0\n",
        "00000000000000000000000000000000 00 fe800000000000000200000000000001 00000400 eth0\n",
    );
    check(
        "sys/x/numa_node",
        "0000:1b:00.0 0-31,64-95 231:192\n",
        "0000:1b:00.0 0-31,64-95 231:192\n",
    );
}

#[test]
fn names_made_of_addresses_are_replaced_in_paths_and_targets_alike() {
    let mut capture = HostCapture::new("h");
    let uuid = "47505500-0001-0000-3130-444532304235";
    let directory = format!("sys/devices/VMBUS:00/{uuid}/net/enxb8cef6010203");
    capture.files.insert(format!("{directory}/address"), b"b8:ce:f6:01:02:03\n".to_vec());
    capture.links.insert("sys/class/net/enxb8cef6010203".into(), format!("../../../{directory}"));
    let text = anonymise(&capture).unwrap().to_yaml();
    assert!(!text.contains(uuid) && !text.contains("b8cef6010203"), "{text}");
    let directory = "sys/devices/VMBUS:00/00000000-0000-4000-8000-000000000001/net/enx020000000001";
    let link = format!("\"sys/class/net/enx020000000001\": \"../../../{directory}\"");
    assert!(text.contains(&link), "{text}");
    assert!(text.contains("02:00:00:00:00:01"), "{text}");
}

#[test]
fn an_override_keeps_its_tree_and_loses_its_guids() {
    let mut capture = HostCapture::new("h");
    let xml = "<cpu host_hash=\"0x1a2b\"><net name=\"mlx5_0\" guid=\"0x8e0ad10003f2c5b8\"/></cpu>";
    capture.topology_override = Some(xml.into());
    let replaced = anonymise(&capture).unwrap().topology_override.unwrap();
    assert_eq!(
        replaced,
        "<cpu host_hash=\"0x0001\"><net name=\"mlx5_0\" guid=\"0x0000000000000002\"/></cpu>"
    );
}

#[test]
fn what_vital_product_data_says_of_the_board_and_its_owner_is_replaced_and_the_rest_stays() {
    let mut capture = HostCapture::new("h");
    let content =
        b"\x82\x02\x00ab\x90\x2a\x00PN\x04MCX7SN\x04S123NA\x0c0007430A0B0CYA\x05RACK7Y3\x02x1\x78";
    capture.files.insert("sys/x/vpd".into(), content.to_vec());
    let replaced = &anonymise(&capture).unwrap().files["sys/x/vpd"];
    let expect =
        b"\x82\x02\x00ab\x90\x2a\x00PN\x04MCX7SN\x040001NA\x0c000000000002YA\x0500003Y3\x0204\x78";
    assert_eq!(String::from_utf8_lossy(replaced), String::from_utf8_lossy(expect));
}

#[test]
fn broken_vital_product_data_is_blanked_from_where_it_breaks() {
    let mut capture = HostCapture::new("h");
    let content = b"\x82\x02\x00ab\x90\x20\x00SN\x04HIDESECRET";
    capture.files.insert("sys/x/vpd".into(), content.to_vec());
    let replaced = &anonymise(&capture).unwrap().files["sys/x/vpd"];
    assert_eq!(replaced.len(), content.len());
    assert!(replaced.starts_with(b"\x82\x02\x00ab\xff\xff"), "{replaced:?}");
    let ended = b"\x90\x07\x00SN\x04HIDE\x78SECRET";
    capture.files.insert("sys/x/vpd".into(), ended.to_vec());
    let replaced = &anonymise(&capture).unwrap().files["sys/x/vpd"];
    assert_eq!(replaced, b"\x90\x07\x00SN\x040001\x78\xff\xff\xff\xff\xff\xff");
}
