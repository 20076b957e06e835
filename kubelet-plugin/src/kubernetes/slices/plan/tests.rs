//! Plans for what may stand in a cluster.

use serde_json::json;

use super::*;

fn owner(uid: &str) -> OwnerReference {
    OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Node".to_owned(),
        name: "n1".to_owned(),
        uid: uid.to_owned(),
        ..OwnerReference::default()
    }
}

/// A pool, one slice for each list of devices.
fn pool(slices: &[&[&str]]) -> Vec<ResourceSlice> {
    let slice = |(index, devices): (usize, &&[&str])| {
        let taint = json!({ "key": "lanemate.dev/allocator", "effect": "NoSchedule" });
        let device = |name: &&str| json!({ "name": name, "taints": [taint] });
        let devices: Vec<_> = devices.iter().map(device).collect();
        serde_json::from_value(json!({
            "metadata": { "name": format!("{index:05x}-lanemate.dev-n1") },
            "spec": {
                "driver": "lanemate.dev", "nodeName": "n1", "devices": devices,
                "pool": { "name": "n1", "generation": 0, "resourceSliceCount": slices.len() },
            },
        }))
        .unwrap()
    };
    slices.iter().enumerate().map(slice).collect()
}

/// A cluster that does what it is told.
struct Cluster {
    stored: Vec<ResourceSlice>,
    memory: Memory,
    version: u64,
}

impl Cluster {
    fn new() -> Self {
        Self { stored: Vec::new(), memory: Memory::default(), version: 0 }
    }

    fn plan(&self, wanted: &[ResourceSlice]) -> Plan {
        plan(&self.stored, Wanted { slices: wanted, owner: &owner("u") }, &self.memory)
    }

    fn store(&mut self, slice: &ResourceSlice) -> ResourceSlice {
        self.version += 1;
        let mut slice = slice.clone();
        slice.metadata.resource_version = Some(self.version.to_string());
        slice.metadata.uid.get_or_insert(format!("uid-{}", self.version));
        self.stored.retain(|stored| stored.metadata.name != slice.metadata.name);
        self.stored.push(slice.clone());
        slice
    }

    /// Publishes, and returns the writes as `-name`, `~name` and `+name`, with the generation.
    fn publish(&mut self, wanted: &[ResourceSlice]) -> (Vec<String>, i64) {
        let plan = self.plan(wanted);
        let mut words = Vec::new();
        for write in &plan.writes {
            let (sign, slice) = match write {
                Write::Delete { name, .. } => {
                    self.stored.retain(|stored| stored.metadata.name.as_ref() != Some(name));
                    words.push(format!("-{}", &name[..5]));
                    continue;
                }
                Write::Update(slice) => ('~', slice),
                Write::Create(slice) => ('+', slice),
            };
            words.push(format!("{sign}{}", &name(slice)[..5]));
            let stored = self.store(slice);
            assert_eq!(self.memory.answered(slice, &stored), Vec::<String>::new());
        }
        self.memory.published(wanted, plan.generation);
        let generations = self.stored.iter().map(|slice| slice.spec.pool.generation);
        assert!(generations.into_iter().all(|generation| generation == plan.generation));
        (words, plan.generation)
    }

    fn check(&mut self, wanted: &[ResourceSlice], writes: &[&str], generation: i64) {
        let expect = (writes.iter().map(|&word| word.to_owned()).collect(), generation);
        assert_eq!(self.publish(wanted), expect);
        assert_eq!(self.plan(wanted).writes, [], "a second plan has nothing to do");
    }
}

#[test]
fn an_empty_cluster_gets_generation_1_and_what_is_equal_is_left_alone() {
    let mut cluster = Cluster::new();
    let two = pool(&[&["a", "b"], &["c"]]);
    cluster.check(&two, &["+00000", "+00001"], 1);
    cluster.check(&two, &[], 1);
    assert_eq!(cluster.stored[0].metadata.owner_references, Some(vec![owner("u")]));
    // A plugin that has just started remembers nothing.
    cluster.memory = Memory::default();
    cluster.check(&two, &[], 1);
}

#[test]
fn a_change_of_one_slice_raises_the_generation_of_all() {
    let mut cluster = Cluster::new();
    cluster.check(&pool(&[&["a", "b"], &["c"]]), &["+00000", "+00001"], 1);
    cluster.check(&pool(&[&["a", "b"], &["d"]]), &["~00000", "~00001"], 2);
    cluster.check(&pool(&[&["a", "b"]]), &["-00001", "~00000"], 3);
    cluster.check(&pool(&[&[]]), &["~00000"], 4);
    cluster.check(&pool(&[&["a"], &["b"], &["c"]]), &["~00000", "+00001", "+00002"], 5);
}

#[test]
fn slices_that_vanish_come_back_with_their_generation_while_it_is_remembered() {
    let mut cluster = Cluster::new();
    let two = pool(&[&["a", "b"], &["c"]]);
    cluster.check(&pool(&[&["a"]]), &["+00000"], 1);
    cluster.check(&two, &["~00000", "+00001"], 2);
    cluster.stored.clear();
    cluster.check(&two, &["+00000", "+00001"], 2);
    cluster.stored.pop();
    cluster.check(&two, &["+00001"], 2);
    // Others than remembered.
    cluster.stored.clear();
    cluster.check(&pool(&[&["a"]]), &["+00000"], 3);
    // Nothing remembered, and a part is left.
    cluster.check(&two, &["~00000", "+00001"], 4);
    cluster.stored.remove(1);
    cluster.memory = Memory::default();
    cluster.check(&two, &["~00000", "+00001"], 5);
}

#[test]
fn edits_of_others_are_repaired_under_a_new_generation_and_their_labels_stay() {
    let mut cluster = Cluster::new();
    let one = pool(&[&["a", "b"]]);
    cluster.check(&one, &["+00000"], 1);
    let mut edited = cluster.stored[0].clone();
    edited.spec.devices.as_mut().unwrap().pop();
    edited.metadata.labels = Some([("a".to_owned(), "b".to_owned())].into());
    cluster.store(&edited);
    cluster.check(&one, &["~00000"], 2);
    assert_eq!(cluster.stored[0].metadata.labels, edited.metadata.labels);
    assert_eq!(cluster.stored[0].metadata.uid, edited.metadata.uid);
    // Only who owns it: nothing that readers of the pool see.
    let mut disowned = cluster.stored[0].clone();
    disowned.metadata.owner_references = Some(vec![owner("of an earlier Node")]);
    cluster.store(&disowned);
    cluster.check(&one, &["~00000"], 2);
    // A generation of somebody else's.
    let mut raised = cluster.stored[0].clone();
    raised.spec.pool.generation = 17;
    cluster.store(&raised);
    cluster.memory = Memory::default();
    cluster.check(&one, &[], 17);
}

#[test]
fn a_higher_generation_elsewhere_is_passed_and_the_highest_begins_anew() {
    let mut cluster = Cluster::new();
    let one = pool(&[&["a"]]);
    cluster.check(&one, &["+00000"], 1);
    let mut foreign = cluster.stored[0].clone();
    foreign.metadata.name = Some("foreign-slice".to_owned());
    foreign.metadata.uid = None;
    foreign.spec.pool.generation = 8;
    cluster.store(&foreign);
    cluster.check(&one, &["-forei", "~00000"], 9);
    let mut highest = cluster.stored[0].clone();
    highest.spec.pool.generation = i64::MAX;
    cluster.store(&highest);
    cluster.check(&one, &["-00000", "+00000"], 1);
}

#[test]
fn a_slice_that_cannot_become_the_wanted_one_is_replaced() {
    let mut cluster = Cluster::new();
    let one = pool(&[&["a"]]);
    cluster.check(&one, &["+00000"], 1);
    let mut other = cluster.stored[0].clone();
    other.spec.pool.name = "another".to_owned();
    cluster.store(&other);
    cluster.memory = Memory::default();
    cluster.check(&one, &["-00000", "+00000"], 2);
}

#[test]
fn deletes_are_bound_to_what_was_seen() {
    let mut cluster = Cluster::new();
    cluster.publish(&pool(&[&["a"], &["b"]]));
    let plan = cluster.plan(&pool(&[&["a"]]));
    let expect = Write::Delete {
        name: "00001-lanemate.dev-n1".to_owned(),
        uid: Some("uid-2".to_owned()),
        version: Some("2".to_owned()),
    };
    assert_eq!(plan.writes[0], expect);
}

#[test]
fn the_time_of_a_taint_is_no_difference_and_survives_an_update() {
    let mut cluster = Cluster::new();
    cluster.publish(&pool(&[&["a"]]));
    let mut timed = cluster.stored[0].clone();
    let time: k8s_openapi::apimachinery::pkg::apis::meta::v1::Time =
        serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    timed.spec.devices.as_mut().unwrap()[0].taints.as_mut().unwrap()[0].time_added =
        Some(time.clone());
    cluster.store(&timed);
    cluster.check(&pool(&[&["a"]]), &[], 1);
    cluster.check(&pool(&[&["a", "b"]]), &["~00000"], 2);
    let devices = cluster.stored[0].spec.devices.clone().unwrap();
    let times = devices.iter().map(|device| device.taints.as_ref().unwrap()[0].time_added.clone());
    assert_eq!(times.collect::<Vec<_>>(), [Some(time), None]);
}

#[test]
fn what_the_api_server_drops_is_written_once() {
    let (wanted, mut memory) = (pool(&[&["a"]]), Memory::default());
    let owner = owner("u");
    let first = plan(&[], Wanted { slices: &wanted, owner: &owner }, &memory);
    let Write::Create(sent) = &first.writes[0] else { panic!("{first:?}") };
    let mut stored = (**sent).clone();
    stored.spec.devices.as_mut().unwrap()[0].taints = None;
    assert_eq!(memory.answered(sent, &stored), ["devices[0].taints: dropped"]);
    memory.published(&wanted, first.generation);
    let planned = |stored: &ResourceSlice, memory: &Memory| {
        let wanted = Wanted { slices: &wanted, owner: &owner };
        plan(std::slice::from_ref(stored), wanted, memory)
    };
    assert_eq!(planned(&stored, &memory).writes, []);
    // It is no licence for other differences.
    let mut edited = stored.clone();
    edited.spec.devices = None;
    assert_eq!(planned(&edited, &memory).writes.len(), 1);
    // Nor for the same one, once the API server has taken all that was sent.
    assert_eq!(memory.answered(sent, sent), Vec::<String>::new());
    assert_eq!(planned(&stored, &memory).writes.len(), 1);
}
