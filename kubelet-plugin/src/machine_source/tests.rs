//! Readings of captured machines, and of small trees.

use std::fs;

use lanemate_driver::discovery::discover;
use lanemate_driver::inventory::Policy;
use lanemate_driver::testing::{HOSTS, facts, host, read as fixture};

use super::*;

fn settings(root: &Path) -> MachineSettings {
    MachineSettings {
        root: root.to_owned(),
        driver_root: String::new(),
        config: Default::default(),
        topology_override: None,
    }
}

fn open(settings: MachineSettings) -> MachineSource {
    MachineSource::open("n1".to_owned(), settings, Path::new("/var/lib/m")).unwrap()
}

fn capture_path(name: &str) -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../test/hosts/captures");
    tests.join(format!("{name}.yaml"))
}

fn devices(reading: &Reading) -> Vec<String> {
    reading.machine.inventory.devices.iter().map(|device| device.name.clone()).collect()
}

#[test]
fn each_captured_machine_is_read_as_the_core_reads_it() {
    for name in HOSTS {
        let reading = open(settings(&capture_path(name))).read();
        let own = host(name).topology_override;
        let parsed = own.as_deref().map(|xml| Override::parse(xml).unwrap());
        let expect = Machine::from_facts("n1", facts(name), parsed.as_ref(), &Policy::default());
        assert_eq!(reading.machine.facts, expect.facts, "{name}");
        let of_expect: Vec<_> = expect.inventory.devices.iter().map(|d| d.name.clone()).collect();
        assert_eq!(devices(&reading), of_expect, "{name}");
        assert_eq!(reading.options.metadata_dir, "/var/lib/m");
        assert_eq!(reading.options.topology_override, own, "{name}");
        assert!(reading.boot_id.is_some(), "{name}");
        assert_eq!(reading.boot_id, boot_id(&host(name).host()), "{name}");
    }
}

#[test]
fn the_configuration_leaves_out_and_its_override_goes_first() {
    let mut settings = settings(&capture_path("azure-ndv5-h100"));
    settings.config =
        lanemate_driver::config::Config::parse("exclude: [{rdmaDevice: '*'}]").unwrap();
    let text = fixture("overrides/azure-ndv5-h100.xml");
    let parsed = Override::parse(&text).unwrap();
    settings.topology_override = Some(TopologyOverride { text: text.clone(), parsed });
    let reading = open(settings).read();
    assert_eq!(reading.machine.inventory.devices.len(), 8);
    assert_eq!(reading.options.topology_override, Some(text));
}

#[test]
fn a_capture_that_changes_is_read_again_and_a_broken_one_leaves_the_last() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("machine.yaml");
    fs::copy(capture_path("dgx-h100"), &file).unwrap();
    let mut source = open(settings(&file));
    assert_eq!(source.read().machine.inventory.devices.len(), 18);
    fs::write(&file, "apiVersion: lanemate.dev/capture-v1\nkind: HostC").unwrap();
    assert_eq!(source.read().machine.inventory.devices.len(), 18);
    let told = std::mem::take(&mut source.told);
    let told: Vec<&String> = told.iter().filter(|line| line.contains("machine.yaml")).collect();
    assert!(told.len() == 1 && told[0].ends_with("is taken to be as last read"), "{told:?}");
    fs::remove_file(&file).unwrap();
    assert_eq!(source.read().machine.inventory.devices.len(), 18);
    let mut capture = host("workstation-no-nic");
    capture.files.insert("proc/sys/kernel/random/boot_id".to_owned(), b"b1\n".to_vec());
    fs::write(&file, capture.to_yaml()).unwrap();
    let reading = source.read();
    assert_eq!(reading.machine.facts, discover(&capture.host(), &capture));
    assert_eq!(reading.boot_id.as_deref(), Some("b1"));
}

#[test]
fn a_file_that_is_no_capture_is_refused_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("m.yaml");
    for (text, expect) in [
        ("kind: Pod\napiVersion: v1\n", "apiVersion: expected lanemate.dev/capture-v1"),
        ("[", "expected a file of lanemate capture: "),
    ] {
        fs::write(&file, text).unwrap();
        let error = MachineSource::open("n1".to_owned(), settings(&file), Path::new("/m"));
        let error = error.err().unwrap().to_string();
        assert!(error.starts_with("read --root /") && error.contains(expect), "{error}");
    }
}

#[test]
fn a_directory_without_devices_is_a_machine_that_offers_nothing_until_they_appear() {
    let root = tempfile::tempdir().unwrap();
    let mut source = open(settings(root.path()));
    let reading = source.read();
    assert_eq!((devices(&reading), reading.boot_id), (vec![], None));
    let boot_id = root.path().join("proc/sys/kernel/random/boot_id");
    fs::create_dir_all(boot_id.parent().unwrap()).unwrap();
    fs::write(&boot_id, "b2\n").unwrap();
    assert_eq!(source.read().boot_id.as_deref(), Some("b2"));
}

#[test]
fn a_problem_is_told_once() {
    let mut source = open(settings(&capture_path("workstation-no-nic")));
    source.tell(BTreeSet::from(["a".to_owned(), "b".to_owned()]));
    source.tell(BTreeSet::from(["b".to_owned()]));
    assert_eq!(std::mem::take(&mut source.told), BTreeSet::from(["b".to_owned()]));
}
