//! Records as bytes: those of this version, of others, and what has become of them on the way.
//!
//! `kubelet-plugin/tests/records/v1` holds records of schema 1. They are what plugins in the field have
//! written, so every later reader has to read them, and they do not change once a version that writes
//! them is released; until then `UPDATE_GOLDEN=1 cargo test` writes them anew.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::place::*;
use crate::state::record::{CRC_32C, Readable, Record, RecordError, RecordState, SCHEMA};
use crate::state::{Fate, HeldState};

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/records/v1").join(name)
}

fn read(name: &str) -> Vec<u8> {
    fs::read(golden(name)).unwrap()
}

/// The record of a claim that was prepared.
fn record_of(claim: &k8s_openapi::api::resource::v1::ResourceClaim) -> Record {
    let place = Place::new();
    place.prepare(&mut place.plugin(), claim).unwrap();
    let uid = claim.metadata.uid.as_deref().unwrap();
    Record::decode(&fs::read(place.path(&format!("state/claims/{uid}.json"))).unwrap()).unwrap()
}

fn with_admin(uid: &str) -> k8s_openapi::api::resource::v1::ResourceClaim {
    let mut claim = claim("monitor", uid, &[("look/all", GPU), ("own", NIC)]);
    let allocation = claim.status.as_mut().unwrap().allocation.as_mut().unwrap();
    allocation.devices.as_mut().unwrap().results.as_mut().unwrap()[0].admin_access = Some(true);
    claim
}

/// The checksum of bytes that were edited by hand.
fn sealed(edit: impl FnOnce(&mut Value)) -> Vec<u8> {
    let file: Value = serde_json::from_slice(&read("prepared.json")).unwrap();
    let mut record = file["record"].clone();
    edit(&mut record);
    let body = serde_json::to_string_pretty(&record).unwrap();
    let checksum = CRC_32C.checksum(body.as_bytes());
    format!("{{\n\"checksum\": \"crc32c:{checksum:08x}\",\n\"record\": {body}\n}}\n").into_bytes()
}

#[test]
fn records_of_this_version_are_those_that_are_kept() {
    let prepared = record_of(&pair("5f3c0a4e-7a1f-4c55-9a51-0d4a3d2b1c01"));
    let in_state = |state| Record { state, ..prepared.clone() };
    let mut unknown = prepared.clone();
    unknown.schema = SCHEMA + 1;
    unknown.rest.insert("later".to_owned(), json!({"b": [1, null], "a": "x"}));
    unknown.devices[0].rest.insert("partition".to_owned(), json!(3));
    unknown.devices[1].identity.rest.insert("asset".to_owned(), json!("7"));
    unknown.effects[0].rest.insert("owner".to_owned(), json!("1000:1000"));
    unknown.allocation.rest.insert("shares".to_owned(), json!([0.5]));
    for (name, mut record) in [
        ("prepared.json", prepared.clone()),
        ("reserved.json", in_state(RecordState::Reserved)),
        ("releasing.json", in_state(RecordState::Releasing)),
        ("unknown-fields.json", unknown),
        ("admin-access.json", record_of(&with_admin("5f3c0a4e-7a1f-4c55-9a51-0d4a3d2b1c02"))),
    ] {
        record.writer = "lanemate-kubelet-plugin 0.1.0".to_owned();
        let bytes = record.encode().unwrap();
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            fs::create_dir_all(golden("")).unwrap();
            fs::write(golden(name), &bytes).unwrap();
        }
        let (written, kept) = (String::from_utf8(bytes).unwrap(), read(name));
        assert_eq!(written, String::from_utf8(kept).unwrap(), "{name}: UPDATE_GOLDEN=1 writes it");
    }
}

#[test]
fn records_of_schema_1_are_read_and_written_again_with_all_that_is_in_them() {
    for (name, state, unknown) in [
        ("prepared.json", RecordState::Prepared, false),
        ("reserved.json", RecordState::Reserved, false),
        ("releasing.json", RecordState::Releasing, false),
        ("unknown-fields.json", RecordState::Prepared, true),
        ("admin-access.json", RecordState::Prepared, false),
    ] {
        let bytes = read(name);
        let record = Record::decode(&bytes).unwrap();
        assert_eq!(record.state, state, "{name}");
        assert_eq!(!record.rest.is_empty(), unknown, "{name}");
        assert_eq!(
            (record.devices.len(), record.effects.len()),
            (2, 2 + usize::from(name.starts_with('a')))
        );
        assert!(record.devices.iter().all(|device| !device.identity.is_unknown()), "{name}");
        let claim = record.allocation.claim(&record.claim()).unwrap();
        let parsed = lanemate_driver::claim::allocated::AllocatedClaim::parse(&claim).unwrap();
        assert_eq!(parsed.results.len(), 2, "{name}");
        let fields =
            |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).unwrap()["record"].clone();
        assert_eq!(fields(&record.encode().unwrap()), fields(&bytes), "{name}");
    }
    let held: Vec<String> = Record::decode(&read("admin-access.json"))
        .unwrap()
        .held()
        .map(|d| d.device.clone())
        .collect();
    assert_eq!(held, [NIC]);
}

#[test]
fn unknown_fields_survive_a_rewrite_in_their_order() {
    let place = Place::new();
    let bytes = read("unknown-fields.json");
    let record = Record::decode(&bytes).unwrap();
    fs::create_dir_all(place.path("state/claims")).unwrap();
    let path = place.path(&format!("state/claims/{}.json", record.uid));
    let releasing = Record { boot_id: None, ..record };
    fs::write(&path, releasing.encode().unwrap()).unwrap();
    // The start writes the boot into it.
    assert_eq!(place.plugin().held()[0].2, HeldState::Prepared);
    let text = fs::read_to_string(&path).unwrap();
    assert_ne!(text, String::from_utf8(releasing.encode().unwrap()).unwrap());
    let flat: String = text.split_whitespace().collect();
    for kept in [
        r#""later":{"b":[1,null],"a":"x"}"#,
        r#""partition":3"#,
        r#""asset":"7""#,
        r#""owner":"1000:1000""#,
        r#""shares":[0.5]"#,
        r#""schema":2"#,
    ] {
        assert!(flat.contains(kept), "{kept}: {text}");
    }
}

#[test]
fn a_flipped_bit_is_found_wherever_it_is() {
    let mut bytes = read("prepared.json");
    for index in 0..bytes.len() {
        for bit in 0..8 {
            bytes[index] ^= 1 << bit;
            assert!(Record::decode(&bytes).is_err(), "byte {index}, bit {bit}");
            bytes[index] ^= 1 << bit;
        }
    }
    for length in 0..bytes.len() {
        assert!(Record::decode(&bytes[..length]).is_err(), "cut after {length}");
    }
    Record::decode(&bytes).unwrap();
}

#[test]
fn a_newer_record_is_told_from_a_bad_one() {
    let newer = sealed(|record| {
        record["minReader"] = json!(2);
        record["writer"] = json!("lanemate-kubelet-plugin 2.0.0");
        record["state"] = json!("Parked");
    });
    let error = Record::decode(&newer).unwrap_err();
    assert_eq!(
        error.to_string(),
        "written by lanemate-kubelet-plugin 2.0.0, for readers of schema 2 and later; this version \
         reads up to 1"
    );
    let told =
        Readable { namespace: "ml".into(), name: "pair".into(), devices: strings(&[GPU, NIC]) };
    assert_eq!(Readable::of(&newer), Some(told));
    for (edit, expect) in [
        (json!({"state": "Parked"}), "unknown variant `Parked`"),
        (json!({"uid": "a b"}), "not a UID"),
        (json!({"minReader": -1}), "invalid value"),
    ] {
        let bytes = sealed(|record| {
            record.as_object_mut().unwrap().extend(edit.as_object().unwrap().clone());
        });
        let error = Record::decode(&bytes).unwrap_err();
        assert!(matches!(&error, RecordError::Form(text) if text.contains(expect)), "{error}");
    }
    let schema = sealed(|record| record["schema"] = json!(9));
    assert_eq!(Record::decode(&schema).unwrap().schema, 9);
}

#[test]
fn a_newer_record_stays_where_it_is_until_it_has_to_make_room() {
    const UID: &str = "5f3c0a4e-7a1f-4c55-9a51-0d4a3d2b1c01";
    let newer = sealed(|record| record["minReader"] = json!(2));
    for deed in ["rebuild", "prepare", "unprepare"] {
        let place = Place::new();
        fs::create_dir_all(place.path("state/claims")).unwrap();
        let path = place.path(&format!("state/claims/{UID}.json"));
        fs::write(&path, &newer).unwrap();
        let mut plugin = place.plugin();
        let held = (UID.to_owned(), strings(&[GPU, NIC]), HeldState::Quarantined);
        assert_eq!(plugin.held(), [held]);
        assert_eq!(fs::read(&path).unwrap(), newer);
        assert_eq!(plugin.told().len(), 1);
        plugin.node.refresh();
        assert_eq!(plugin.told(), []);
        assert_eq!(plugin.metric("lanemate_plugin_quarantined_records_total"), "1");
        let refused = place.prepare(&mut plugin, &claim("b", "uid-2", &[("a", NIC)])).unwrap_err();
        assert!(refused.to_string().contains("this version reads up to 1"), "{refused}");
        let claim = pair(UID);
        match deed {
            "rebuild" => {
                let reading = plugin.node.read(place.now);
                let fate = Fate::Exists(Box::new(claim.clone()));
                let done = plugin.node.reconcile(vec![(id(&claim), fate)], &reading, place.now);
                assert_eq!(done.rebuilt, [id(&claim)]);
            }
            "prepare" => drop(place.prepare(&mut plugin, &claim).unwrap()),
            _ => place.unprepare(&mut plugin, &id(&claim)).unwrap(),
        }
        let is_held = deed != "unprepare";
        assert_eq!(plugin.held().len(), usize::from(is_held), "{deed}");
        assert_eq!(path.exists(), is_held, "{deed}");
        let kept = place.path(&format!("state/quarantine/{UID}.0.resolved"));
        assert_eq!(fs::read(kept).unwrap(), newer, "{deed}");
    }
}

#[test]
fn quarantine_keeps_some_files_and_not_all() {
    let place = Place::new();
    let mut plugin = place.plugin();
    for index in 0..80 {
        let uid = format!("uid-{index}");
        fs::create_dir_all(place.path("state/claims")).unwrap();
        fs::write(place.path(&format!("state/claims/{uid}.json")), "bad").unwrap();
        place.unprepare(&mut plugin, &id(&pair(&uid))).unwrap();
    }
    assert_eq!(place.names("state/quarantine").len(), 64);
    assert_eq!(plugin.held(), []);
}
