//! The tables that people read, as golden files. `UPDATE_GOLDEN=1 cargo test` rewrites them; the diff is
//! the review.
// Helpers of tests are not seen as tests.
#![allow(clippy::unwrap_used)]

#[path = "program/golden.rs"]
mod golden;
mod program;

use golden::check_golden;
use program::{capture, hosts, printed};

fn captures() -> Vec<String> {
    let entries = std::fs::read_dir(hosts("captures")).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().path().display().to_string()).collect();
    names.sort();
    names
}

#[test]
fn tables_are_as_reviewed() {
    for name in
        ["dgx-h100", "dgx-a100", "gb300-cx8", "workstation-no-nic", "l40s-4to1", "flat-kvm-h200"]
    {
        let table = printed(&["topology", "--host", &capture(name)]);
        check_golden(&format!("{name}.txt"), &table);
    }
    let (host, xml) = (capture("azure-ndv5-h100"), hosts("overrides/azure-ndv5-h100.xml"));
    let table = printed(&["topology", "--host", &host, "--override", &xml]);
    check_golden("azure-ndv5-h100.txt", &table);
}

#[test]
fn the_drawing_is_as_reviewed() {
    let svg = printed(&["topology", "-o", "svg", "--host", &capture("dgx-h100")]);
    check_golden("dgx-h100.svg", &svg);
}

#[test]
fn every_table_fits_80_columns_and_has_no_colour_in_a_pipe() {
    for host in captures() {
        for args in [&["topology"][..], &["slices", "-o", "table"]] {
            let table = printed(&[args, &["--host", &host]].concat());
            for line in table.lines() {
                assert!(line.chars().count() <= 80, "{host}: {line}");
                assert_eq!(line.trim_end(), line, "{host}");
            }
            assert!(!table.contains('\x1b'), "{host}");
        }
    }
}

#[test]
fn colour_changes_no_character() {
    let host = capture("dgx-a100");
    let plain = printed(&["topology", "--host", &host]);
    let coloured = printed(&["topology", "--host", &host, "--color", "always"]);
    assert_ne!(plain, coloured);
    let mut stripped = String::new();
    for (index, part) in coloured.split("\x1b[").enumerate() {
        stripped.push_str(if index == 0 { part } else { part.split_once('m').unwrap().1 });
    }
    assert_eq!(stripped, plain);
    assert_eq!(printed(&["topology", "--host", &host, "--color", "never"]), plain);
}

#[test]
fn several_machines_stand_below_each_other() {
    let (one, other) = (capture("workstation-no-nic"), capture("no-gpu-2nic"));
    let both = printed(&["topology", "--host", &one, "--host", &other]);
    let alone = |host: &str| printed(&["topology", "--host", host]);
    assert_eq!(both, format!("{}\n{}", alone(&one), alone(&other)));
}
