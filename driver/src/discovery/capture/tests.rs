//! Reading and writing captures.

use super::*;
use crate::testing::{HOSTS, host, read};

const HEAD: &str = "apiVersion: lanemate.dev/capture-v1\nkind: HostCapture\nmetadata: {name: n}\n";

fn check(text: &str, expect: &str) {
    let error = HostCapture::parse(text).unwrap_err().to_string();
    assert!(error.contains(expect), "{error:?} should contain {expect:?}");
}

#[test]
fn every_captured_machine_is_read_and_written_back_the_same() {
    for name in HOSTS {
        let capture = host(name);
        assert_eq!(capture.name, name);
        assert!(capture.derived && capture.source.is_some(), "{name}");
        assert_eq!(HostCapture::parse(&capture.to_yaml()).as_ref(), Ok(&capture), "{name}");
    }
}

#[test]
fn every_byte_and_the_override_survive_writing_and_reading() {
    let mut capture = HostCapture::new("a\"b\\c\u{1f600}");
    capture.files.insert("bytes".into(), (0..=255).collect());
    capture.files.insert("empty".into(), Vec::new());
    capture.links.insert("a b#: '".into(), "../ü\u{2028}\t".into());
    capture.devices.insert("dev/x".into(), DeviceNode { kind: 'b', major: 8, minor: 1 });
    capture.nvml = Some(NvmlSection::default());
    capture.topology_override = Some("<system version=\"1\">\n</system>\n".into());
    assert_eq!(HostCapture::parse(&capture.to_yaml()), Ok(capture));
}

#[test]
fn another_format_is_named_even_when_it_holds_other_fields() {
    let other = "apiVersion: lanemate.dev/capture-v2\nkind: HostCapture\nnews: 1\n";
    check(
        other,
        r#"apiVersion: expected lanemate.dev/capture-v1, found "lanemate.dev/capture-v2""#,
    );
    check("apiVersion: v1\nkind: Pod\nmetadata: {name: n}\n", "apiVersion: expected");
    check("kind: HostCapture\n", r#"apiVersion: expected lanemate.dev/capture-v1, found """#);
    check(&HEAD.replace("HostCapture", "Host"), r#"kind: expected HostCapture, found "Host""#);
}

#[test]
fn what_makes_no_sense_is_named_by_its_field() {
    for (rest, expect) in [
        ("files: {\"/sys/x\": a}\n", "files.\"/sys/x\": expected a path relative"),
        ("links: {\"sys/../x\": a}\n", "links.\"sys/../x\": expected a path relative"),
        ("files: {\"\": a}\n", "files.\"\": expected a path relative"),
        ("files: {\"a//b\": a}\n", "files.\"a//b\": expected a path relative"),
        ("files: {x: \"a\\u0100\"}\n", "files.\"x\": expected code points 0 to 255"),
        ("files: {x: a}\nlinks: {x: a}\n", "links.\"x\": already in files"),
        ("files: {x/y: a}\nlinks: {x: a}\n", "files.\"x/y\": lies below \"x\""),
        (
            "devices: {dev/x: {type: p, major: 1, minor: 1}}\n",
            "devices.\"dev/x\".type: expected c or b",
        ),
        ("nvml: {devices: [{pciBusId: x}]}\n", "nvml.devices[0].pciBusId: not a PCI address"),
        (
            "nvml: {devices: [{pciBusId: '0000:01:00.0', nvlinks: [{remoteType: gpu}]}]}\n",
            "nvml.devices[0].nvlinks[0].remotePciBusId: expected for a gpu",
        ),
        ("surprise: 1\n", "surprise"),
        ("metadata: {name: twice}\n", "metadata"),
        ("files: {x: a, x: b}\n", "x"),
    ] {
        check(&format!("{HEAD}{rest}"), expect);
    }
    check(&HEAD.replace("name: n", "name: ''"), "metadata.name: expected a name");
}

#[test]
fn a_text_cut_anywhere_is_an_error_or_a_smaller_capture_but_no_panic() {
    let text = read("captures/workstation-no-nic.yaml");
    let mut broken = 0;
    for cut in (0..text.len()).step_by(97) {
        broken +=
            usize::from(text.is_char_boundary(cut) && HostCapture::parse(&text[..cut]).is_err());
    }
    assert!(broken > 50, "{broken}");
    check(&text[..5000], "line");
}
