//! What is written for classes in every state, one step after the other.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use lanemate_api::names::{CLASS_PROTECTION, MANAGED_BY, MANAGED_BY_LABEL};
use lanemate_api::{builtin_device_classes, resource_class::READY};
use lanemate_driver::claim::Classes;
use serde_json::{Value, json};

use super::*;
use crate::change::{Change, Outcome, Report};

/// Steps after which a class that is still written has no end: the longest way has four.
const MOST_STEPS: usize = 8;

fn time(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn user() -> Key {
    Key { namespace: "ml".to_owned(), name: "trainer".to_owned() }
}

/// A cluster with one ResourceClass.
struct World {
    class: ResourceClass,
    device_class: Option<DeviceClass>,
    members: Vec<DeviceClass>,
    other: Option<ResourceClass>,
    user: Option<Key>,
    now: Timestamp,
    version: u64,
}

impl World {
    fn new() -> Self {
        let class = json!({
            "apiVersion": "lanemate.dev/v1alpha1", "kind": "ResourceClass",
            "metadata": { "name": "pair", "uid": "u1", "generation": 1, "resourceVersion": "1" },
            "spec": { "members": [
                { "name": "gpu", "deviceClassName": "gpu.lanemate.dev" },
                { "name": "nic", "deviceClassName": "nic.lanemate.dev" },
            ] },
        });
        Self {
            class: serde_json::from_value(class).unwrap(),
            device_class: None,
            members: builtin_device_classes(),
            other: None,
            user: None,
            now: time(1000),
            version: 1,
        }
    }

    fn classes(&self) -> Classes {
        let mut classes = Classes::default();
        for class in self.members.iter().chain(&self.device_class) {
            classes.apply_device_class(class.clone());
        }
        for class in std::iter::once(&self.class).chain(&self.other) {
            classes.apply_resource_class(class.clone());
        }
        classes
    }

    fn step(&self) -> Option<Step> {
        let seen = Seen {
            class: &self.class,
            device_class: self.device_class.as_ref(),
            compiled: compile::compile(&self.class, &mut self.classes()),
            user: self.user.clone(),
        };
        step(&seen, self.now)
    }

    /// Writes until nothing is left to write, as the API server would; tells what was written, with the words of events.
    fn settle(&mut self) -> Vec<String> {
        let mut steps = Vec::new();
        while let Some(step) = self.step() {
            assert!(steps.len() < MOST_STEPS, "no end of writing: {steps:?}");
            assert_eq!(subject(&step.change), Some(Uid("u1".to_owned())));
            self.version += 1;
            let mut word = self.write(step.change);
            if let Some(notice) = step.notice {
                word += &format!(" {}", notice.reason);
                assert_eq!(notice.is_warning, notice.reason != "Compiled", "{notice:?}");
            }
            steps.push(word);
        }
        steps
    }

    fn write(&mut self, change: ClassChange) -> String {
        let version = Some(self.version.to_string());
        let word = match change {
            ClassChange::Create(class) => {
                assert!(self.device_class.is_none(), "created twice");
                self.device_class = Some(class);
                "create"
            }
            ClassChange::Replace(class) => {
                assert_eq!(class.metadata.uid, self.device().metadata.uid);
                self.device_class = Some(class);
                "replace"
            }
            ClassChange::Delete(class) => {
                assert_eq!(Some(class), self.device_class);
                self.device_class = None;
                "delete"
            }
            ClassChange::Status(class) => {
                assert_eq!(class.metadata, self.class.metadata);
                self.class.status = class.status;
                "status"
            }
            ClassChange::Finalizers(class) => {
                self.class.metadata.finalizers = class.metadata.finalizers;
                "finalizers"
            }
        };
        if let Some(class) = &mut self.device_class {
            class.metadata.uid.get_or_insert_with(|| "d1".to_owned());
            class.metadata.resource_version.clone_from(&version);
        }
        self.class.metadata.resource_version = version;
        word.to_owned()
    }

    fn device(&self) -> &DeviceClass {
        self.device_class.as_ref().unwrap()
    }

    fn owner(&mut self) -> Option<&mut String> {
        let owners = self.device_class.as_mut()?.metadata.owner_references.as_mut()?;
        owners.first_mut().map(|owner| &mut owner.uid)
    }

    /// Status, reason and second of the last transition.
    fn ready(&self) -> (&str, &str, i64) {
        let ready = self.class.ready().unwrap();
        (&ready.status, &ready.reason, ready.last_transition_time.0.as_second())
    }

    fn message(&self) -> &str {
        &self.class.ready().unwrap().message
    }

    /// A change of the class by its author.
    fn edit(&mut self, change: impl FnOnce(&mut lanemate_api::ResourceClassSpec)) {
        change(&mut self.class.spec);
        *self.class.metadata.generation.as_mut().unwrap() += 1;
    }

    fn delete(&mut self) {
        self.class.metadata.deletion_timestamp = Some(Time(self.now));
    }
}

fn environment() -> k8s_openapi::api::resource::v1::DeviceClassConfiguration {
    serde_json::from_value(json!({ "opaque": { "driver": "lanemate.dev", "parameters": {
        "apiVersion": "lanemate.dev/v1alpha1", "kind": "Environment", "nccl": true,
    } } }))
    .unwrap()
}

#[test]
fn a_class_becomes_a_device_class_that_it_owns_and_no_device_passes() {
    let mut world = World::new();
    world.edit(|spec| spec.config.push(environment()));
    assert_eq!(world.settle(), ["create", "status"]);
    let mut found = serde_json::to_value(world.device()).unwrap();
    found["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    let expect: Value = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass",
        "metadata": {
            "name": "pair", "uid": "d1", "labels": { MANAGED_BY_LABEL: MANAGED_BY },
            "ownerReferences": [{ "apiVersion": "lanemate.dev/v1alpha1", "kind": "ResourceClass",
                "name": "pair", "uid": "u1", "controller": true }],
        },
        "spec": {
            "selectors": [{ "cel": { "expression": "false" } }],
            "config": [serde_json::to_value(environment()).unwrap()],
        },
    });
    assert_eq!(found, expect);
    assert_eq!(world.ready(), ("True", "Compiled", 1000));
    assert_eq!(world.class.status.as_ref().unwrap().observed_generation, Some(2));
}

#[test]
fn configuration_of_members_comes_first_and_a_change_of_it_reaches_the_device_class() {
    let mut world = World::new();
    world.settle();
    let mut of_member = environment();
    of_member.opaque.as_mut().unwrap().driver = "other.example".to_owned();
    world.members[0].spec.as_mut().unwrap().config = Some(vec![of_member.clone()]);
    assert_eq!(world.settle(), ["replace"]);
    world.edit(|spec| spec.config.push(environment()));
    world.now = time(2000);
    assert_eq!(world.settle(), ["replace", "status"]);
    let config = world.device().spec.as_ref().unwrap().config.clone();
    assert_eq!(config, Some(vec![of_member, environment()]));
    assert_eq!(world.ready(), ("True", "Compiled", 1000));
    assert_eq!(world.class.ready().unwrap().observed_generation, Some(2));
}

#[test]
fn what_the_server_and_others_add_is_neither_fought_nor_lost() {
    let mut world = World::new();
    world.settle();
    let class = world.device_class.as_mut().unwrap();
    class.metadata.annotations = Some([("theirs".to_owned(), "1".to_owned())].into());
    class.metadata.generation = Some(1);
    class.metadata.creation_timestamp = Some(Time(time(5)));
    class.spec.as_mut().unwrap().config = Some(vec![]);
    assert_eq!(world.settle(), [""; 0]);
    let class = world.device_class.as_mut().unwrap();
    class.spec.as_mut().unwrap().selectors = None;
    class.metadata.labels = None;
    assert_eq!(world.settle(), ["replace"]);
    let class = world.device();
    assert_eq!(class.metadata.annotations.as_ref().unwrap()["theirs"], "1");
    assert_eq!(class.metadata.owner_references.as_ref().unwrap().len(), 1);
    assert_eq!(class.spec.as_ref().unwrap().selectors.as_ref().unwrap().len(), 1);
}

/// Breaks a class that was ready, expects the reason and words in the message, and that the DeviceClass stays; then
/// mends it.
fn check_broken(reason: &str, words: &str, spoil: impl FnOnce(&mut World)) {
    let mut world = World::new();
    world.settle();
    let before = world.device().spec.clone();
    let good = world.class.spec.clone();
    let members = world.members.clone();
    world.now = time(2000);
    spoil(&mut world);
    assert_eq!(world.settle(), [format!("status {reason}")]);
    assert_eq!(world.ready(), ("False", reason, 2000));
    assert!(world.message().contains(words), "{}", world.message());
    assert_eq!(world.device().spec, before, "{reason}");
    world.now = time(3000);
    world.edit(|spec| *spec = good);
    world.members = members;
    world.other = None;
    assert_eq!(world.settle(), ["status Compiled"]);
    assert_eq!(world.ready(), ("True", "Compiled", 3000));
}

#[test]
fn a_class_that_breaks_says_why_and_keeps_its_device_class() {
    let missing = r#"spec.members[1].deviceClassName: class "nic.lanemate.dev" does not exist"#;
    check_broken("UnknownMember", missing, |world| world.members.truncate(1));
    check_broken("InvalidSpec", "spec.members[0].count: expected at least 1", |world| {
        world.edit(|spec| spec.members[0].count = 0);
    });
    check_broken("InvalidSpec", "expected at most 32 entries, found 33", |world| {
        world.members[0].spec.as_mut().unwrap().config = Some(vec![environment()]);
        world.edit(|spec| {
            spec.config = (0..32).map(|_| environment()).collect();
            spec.config[0].opaque.as_mut().unwrap().driver = "other.example".to_owned();
        });
    });
    check_broken("InvalidSelector", "spec.members[0].selectors[0].cel.expression", |world| {
        let selector = serde_json::from_value(json!({ "cel": { "expression": "device." } }));
        world.edit(|spec| spec.members[0].selectors = vec![selector.unwrap()]);
    });
    check_broken("InvalidSelector", r#"class "gpu.lanemate.dev""#, |world| {
        let selectors = world.members[0].spec.as_mut().unwrap().selectors.as_mut().unwrap();
        selectors[0].cel.as_mut().unwrap().expression = "(".to_owned();
    });
    check_broken("NestedClass", r#""quad" is a ResourceClass"#, |world| {
        let mut other = world.class.clone();
        other.metadata.name = Some("quad".to_owned());
        world.other = Some(other);
        world.edit(|spec| spec.members[0].device_class_name = "quad".to_owned());
    });
}

#[test]
fn a_class_that_is_broken_from_the_start_makes_nothing() {
    let mut world = World::new();
    world.members.clear();
    assert_eq!(world.settle(), ["status UnknownMember"]);
    assert!(world.device_class.is_none());
    // Broken in another way: the event tells it, the transition is the first one.
    world.now = time(2000);
    world.edit(|spec| spec.members[0].count = 0);
    assert_eq!(world.settle(), ["status InvalidSpec"]);
    assert_eq!(world.ready(), ("False", "InvalidSpec", 1000));
    world.members = builtin_device_classes();
    world.edit(|spec| spec.members[0].count = 1);
    assert_eq!(world.settle(), ["create", "status Compiled"]);
}

#[test]
fn a_device_class_of_somebody_else_is_never_touched() {
    let foreign: [fn(&mut DeviceClass); 4] = [
        |class| class.metadata.owner_references = None,
        |class| class.metadata.owner_references.as_mut().unwrap()[0].kind = "Other".to_owned(),
        |class| {
            class.metadata.owner_references.as_mut().unwrap()[0].api_version =
                "other.example/v1".to_owned();
        },
        |class| class.metadata.owner_references.as_mut().unwrap()[0].controller = None,
    ];
    for (row, change) in foreign.into_iter().enumerate() {
        let mut world = World::new();
        world.settle();
        change(world.device_class.as_mut().unwrap());
        world.class.status = None;
        let theirs = world.device().clone();
        assert_eq!(world.settle(), ["status NameConflict"], "{row}");
        world.delete();
        world.class.metadata.finalizers = Some(vec![CLASS_PROTECTION.to_owned()]);
        assert_eq!(world.settle(), ["finalizers"], "{row}");
        assert_eq!(world.device().spec, theirs.spec, "{row}");
        assert_eq!(world.device().metadata.owner_references, theirs.metadata.owner_references);
    }
}

#[test]
fn a_conflict_ends_when_the_other_device_class_goes() {
    let mut world = World::new();
    world.settle();
    *world.owner().unwrap() = "u0".to_owned();
    let earlier = world.device().spec.clone();
    assert_eq!(world.settle(), ["status NameConflict"]);
    assert!(world.message().contains("garbage collection"), "{}", world.message());
    assert_eq!(world.device().spec, earlier);
    world.device_class = None;
    assert_eq!(world.settle(), ["create", "status Compiled"]);
    assert_eq!(world.owner().unwrap(), "u1");
}

#[test]
fn a_class_carries_the_finalizer_while_a_claim_uses_it() {
    let mut world = World::new();
    world.class.metadata.finalizers = Some(vec!["theirs".to_owned()]);
    world.user = Some(user());
    assert_eq!(world.settle(), ["finalizers", "create", "status"]);
    let finalizers = world.class.metadata.finalizers.clone().unwrap();
    assert_eq!(finalizers, ["theirs", CLASS_PROTECTION]);
    world.user = None;
    assert_eq!(world.settle(), ["finalizers"]);
    assert_eq!(world.class.metadata.finalizers.clone().unwrap(), ["theirs"]);
}

#[test]
fn a_class_that_is_deleted_stays_until_its_last_claim_ends() {
    let mut world = World::new();
    world.user = Some(user());
    world.settle();
    world.delete();
    assert_eq!(world.settle(), ["status"]);
    assert!(world.message().contains("such as ml/trainer"), "{}", world.message());
    assert_eq!(world.ready(), ("True", "Compiled", 1000));
    assert!(world.device_class.is_some());
    world.user = None;
    assert_eq!(world.settle(), ["delete", "finalizers"]);
    assert_eq!(world.class.metadata.finalizers, Some(vec![]));
}

#[test]
fn a_class_that_is_deleted_gets_no_finalizer_and_no_device_class() {
    let mut world = World::new();
    world.settle();
    world.delete();
    world.user = Some(user());
    assert_eq!(world.settle(), ["status"]);
    world.device_class = None;
    world.user = None;
    assert_eq!(world.settle(), [""; 0]);
}

#[test]
fn conditions_of_others_stay() {
    let mut world = World::new();
    let other = json!({ "conditions": [{ "type": "Theirs", "status": "True", "reason": "A",
        "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z" }] });
    world.class.status = Some(serde_json::from_value(other).unwrap());
    world.settle();
    let status = world.class.status.unwrap();
    let types: Vec<&str> = status.conditions.iter().map(|one| one.type_.as_str()).collect();
    assert_eq!(types, ["Theirs", READY]);
}

/// Plans a first write; returns the class's waits.
fn started(world: &World) -> (Waits, Change) {
    let step = world.step().unwrap();
    let mut waits = Waits::default();
    waits.start(subject(&step.change).unwrap(), &seen(world), world.now);
    (waits, Change::Class(Box::new(step.change)))
}

fn seen(world: &World) -> Seen<'_> {
    let compiled = compile::compile(&world.class, &mut world.classes());
    Seen { class: &world.class, device_class: world.device_class.as_ref(), compiled, user: None }
}

fn until(waits: &Waits, world: &World, second: i64) -> Option<i64> {
    let uid = Uid("u1".to_owned());
    waits.until(&uid, &seen(world), time(second)).map(Timestamp::as_second)
}

#[test]
fn after_a_write_a_class_waits_until_the_watch_shows_it() {
    let mut world = World::new();
    let (mut waits, change) = started(&world);
    assert_eq!(until(&waits, &world, 1000), Some(1060));
    // Others' changes do not end the wait for the answer.
    let before = world.class.clone();
    world.class.metadata.resource_version = Some("7".to_owned());
    assert_eq!(until(&waits, &world, 1001), Some(1060));
    assert_eq!(until(&waits, &world, 1060), None);
    world.class = before;
    waits.note(&Report { change, written: vec![], outcome: Outcome::Done }, time(1002));
    assert_eq!(until(&waits, &world, 1002), Some(1007));
    world.settle();
    assert_eq!(until(&waits, &world, 1003), None);
}

#[test]
fn after_failures_a_class_waits_longer_each_time_and_not_after_a_change() {
    let mut world = World::new();
    let (mut waits, change) = started(&world);
    for (failure, wait) in [1, 2, 4, 8, 16, 32, 64, 128, 256, 256].into_iter().enumerate() {
        waits.start(Uid("u1".to_owned()), &seen(&world), time(1000));
        let outcome = Outcome::Refused("quota".to_owned());
        waits.note(&Report { change: change.clone(), written: vec![], outcome }, time(1000));
        assert_eq!(until(&waits, &world, 1000), Some(1000 + wait), "{failure}");
    }
    assert_eq!(until(&waits, &world, 1256), None);
    world.class.metadata.resource_version = Some("8".to_owned());
    assert_eq!(until(&waits, &world, 1001), None);
    waits.retain(|_| false);
    assert_eq!(until(&waits, &World::new(), 1001), None);
}

#[test]
fn reports_of_other_changes_are_no_answer() {
    let world = World::new();
    let (mut waits, _) = started(&world);
    let pod = Id { key: user(), uid: Uid("u1".to_owned()) };
    let delete = crate::change::DeletePod { pod, why: String::new() };
    let report =
        Report { change: Change::DeletePod(delete), written: vec![], outcome: Outcome::Done };
    waits.note(&report, time(1001));
    assert_eq!(until(&waits, &world, 1001), Some(1060));
}
