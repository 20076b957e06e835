//! ResourceClasses, one write at a time for each: the index as [`crate::classes`] wants to see it.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};

use super::{Planned, timing};
use crate::change::{Change, Report};
use crate::classes::compile::compile;
use crate::classes::{Seen, Waits, step};
use crate::id::{Id, Uid};
use crate::index::Index;

/// How soon it counts that a class is used, or no longer used: classes themselves are looked at when they change.
const LOOK: SignedDuration = SignedDuration::from_secs(1);

/// What is remembered of writes, and of the last look.
#[derive(Debug, Default)]
pub struct Kinds {
    waits: Waits,
    /// Version of the classes, and when they are looked at again.
    looked: Option<(u64, Timestamp)>,
}

impl Kinds {
    /// A change of a class is over.
    pub fn note(&mut self, report: &Report, now: Timestamp) {
        self.waits.note(report, now);
    }

    /// Plans the next write of each class, as many as the writer takes.
    pub fn plan(&mut self, index: &mut Index, now: Timestamp, room: usize, planned: &mut Planned) {
        let version = index.classes_version();
        if self.looked.is_some_and(|(seen, again)| seen == version && now < again) {
            return;
        }
        let again = timing::after(now, LOOK);
        self.looked = Some((version, again));
        let classes: Vec<Id> =
            index.resource_classes().filter_map(|class| Id::of(&class.metadata)).collect();
        let known: BTreeSet<Uid> = classes.iter().map(|id| id.uid.clone()).collect();
        self.waits.retain(|uid| known.contains(uid));
        if !classes.is_empty() {
            planned.look_at(again);
        }
        for id in classes {
            let name = &id.key.name;
            if planned.changes.len() >= room || index.in_flight(&id.uid) {
                continue;
            }
            let Some(class) = index.resource_class(name).cloned() else { continue };
            let compiled = compile(&class, index.classes());
            let device_class = index.device_class(name);
            let user = index.user_of_class(name).map(|claim| claim.id.key.clone());
            let seen = Seen { class: &class, device_class, compiled, user };
            if let Some(until) = self.waits.until(&id.uid, &seen, now) {
                planned.look_at(until);
                continue;
            }
            let Some(step) = step(&seen, now) else { continue };
            self.waits.start(id.uid.clone(), &seen, now);
            let change = Change::Class(Box::new(step.change));
            index.start(&change, now);
            planned.changes.push(change);
            planned.notices.extend(step.notice);
        }
    }
}

#[cfg(test)]
mod tests {
    use lanemate_api::builtin_device_classes;
    use serde_json::{Value, json};

    use super::*;
    use crate::change::{ClassChange, Generations, Outcome};
    use crate::index::{Object, Update};

    fn time(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn read<T: serde::de::DeserializeOwned>(value: Value) -> Box<T> {
        Box::new(serde_json::from_value(value).unwrap())
    }

    /// A class, and a claim of it that no pod names yet.
    fn index() -> Index {
        let class = json!({ "apiVersion": "lanemate.dev/v1alpha1", "kind": "ResourceClass",
            "metadata": { "name": "pair", "uid": "u1", "generation": 1, "resourceVersion": "1" },
            "spec": { "members": [{ "name": "gpu", "deviceClassName": "gpu.lanemate.dev" }] } });
        let claim = json!({ "metadata": { "name": "trainer", "namespace": "ml", "uid": "c1",
                "resourceVersion": "5" },
            "spec": { "devices": { "requests": [
                { "name": "a", "exactly": { "deviceClassName": "pair" } },
            ] } } });
        let mut index = Index::new(Generations::default());
        let devices = builtin_device_classes().into_iter().map(Box::new).map(Object::DeviceClass);
        let others = [Object::ResourceClass(read(class)), Object::Claim(read(claim))];
        for object in devices.chain(others) {
            index.apply(Update::Apply(object), time(1000));
        }
        index
    }

    fn pod(phase: &str) -> Update {
        Update::Apply(Object::Pod(read(json!({
            "metadata": { "name": "p", "namespace": "ml", "uid": "p1", "resourceVersion": "6" },
            "spec": { "containers": [],
                "resourceClaims": [{ "name": "d", "resourceClaimName": "trainer" }] },
            "status": { "phase": phase },
        }))))
    }

    /// What is planned, and the first change of it.
    fn round(kinds: &mut Kinds, index: &mut Index, second: i64) -> Option<(&'static str, Change)> {
        let mut planned = Planned::default();
        kinds.plan(index, time(second), 8, &mut planned);
        assert!(planned.changes.len() <= 1, "{:?}", planned.changes);
        let change = planned.changes.into_iter().next()?;
        let word = match &change {
            Change::Class(class) => match class.as_ref() {
                ClassChange::Create(_) => "create",
                ClassChange::Finalizers(_) => "finalizers",
                _ => "other",
            },
            _ => "not of a class",
        };
        Some((word, change))
    }

    #[test]
    fn a_class_is_protected_once_a_pod_names_a_claim_of_it_and_writes_come_one_by_one() {
        let (mut kinds, mut index) = (Kinds::default(), index());
        let (word, create) = round(&mut kinds, &mut index, 1001).unwrap();
        assert_eq!(word, "create");
        index.apply(pod("Pending"), time(1002));
        assert!(round(&mut kinds, &mut index, 1003).is_none(), "the first write is on its way");
        let outcome = Outcome::Superseded("409".to_owned());
        let report = Report { change: create, written: vec![], outcome };
        index.finish(&report, time(1004));
        kinds.note(&report, time(1004));
        assert!(round(&mut kinds, &mut index, 1004).is_none(), "it waits after a failure");
        assert_eq!(round(&mut kinds, &mut index, 1006).unwrap().0, "finalizers");
    }

    #[test]
    fn a_class_whose_pods_have_ended_is_not_protected() {
        let (mut kinds, mut index) = (Kinds::default(), index());
        index.apply(pod("Succeeded"), time(1001));
        assert_eq!(round(&mut kinds, &mut index, 1002).unwrap().0, "create");
    }
}
