//! Each rule on small clusters that are built from real objects.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::resource::v1::ResourceClaim;
use lanemate_api::NodeState;
use lanemate_driver::testing::cluster::{from_json, slice, switches};
use serde_json::{Value, json};

use super::*;
use crate::change::{Change, Generations};
use crate::id::Key;
use crate::index::{Kind, Object, Update};

struct World {
    index: Index,
    memo: Repairs,
    now: Timestamp,
    version: u32,
}

impl World {
    /// Two Ready nodes with four switches of a GPU and a NIC each.
    fn new() -> Self {
        let index = Index::new(Generations::default());
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let mut world = Self { index, memo: Repairs::default(), now, version: 100 };
        for name in ["n1", "n2"] {
            world.node(name, "True", false);
            let mut slice = slice(name, &switches(4, 1, 1));
            slice.metadata.uid = Some(format!("uid-slice-{name}"));
            slice.metadata.resource_version = Some("1".to_owned());
            world.apply(Object::Slice(Box::new(slice)));
        }
        world
    }

    fn apply(&mut self, object: Object) {
        self.index.apply(Update::Apply(object), self.now);
    }

    fn delete(&mut self, kind: Kind, namespace: &str, name: &str) {
        let key = Key { namespace: namespace.to_owned(), name: name.to_owned() };
        self.index.apply(Update::Delete(kind, key), self.now);
    }

    fn node(&mut self, name: &str, ready: &str, cordoned: bool) {
        let node: Node = from_json(json!({
            "metadata": {"name": name, "uid": format!("uid-{name}"), "resourceVersion": "1",
                "labels": {"kubernetes.io/hostname": name}},
            "spec": {"unschedulable": cordoned},
            "status": {"allocatable": {"cpu": "8", "pods": "110"},
                "conditions": [{"type": "Ready", "status": ready}]},
        }));
        self.apply(Object::Node(Box::new(node)));
    }

    fn pod(&mut self, mut pod: Value) {
        self.version += 1;
        pod["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.apply(Object::Pod(Box::new(from_json::<Pod>(pod))));
    }

    fn claim(&mut self, mut claim: Value) {
        self.version += 1;
        claim["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.apply(Object::Claim(Box::new(from_json::<ResourceClaim>(claim))));
    }

    fn holds(&mut self, node: &str, claims: &[&str]) {
        let held = |name: &&str| json!({"claim": {"uid": format!("uid-{name}")}, "devices": [], "state": "Prepared"});
        let held: Vec<Value> = claims.iter().map(held).collect();
        let state: NodeState = from_json(json!({
            "apiVersion": "lanemate.dev/v1alpha1", "kind": "NodeState",
            "metadata": {"name": node, "uid": format!("uid-state-{node}"), "resourceVersion": "1"},
            "status": {"held": held},
        }));
        self.apply(Object::NodeState(Box::new(state)));
    }

    /// What is done after some seconds, and the reasons of what is told.
    fn after(&mut self, seconds: i64) -> (Vec<String>, Vec<&'static str>) {
        self.now = timing::after(self.now, SignedDuration::from_secs(seconds));
        let planned = plan(&mut self.memo, &mut self.index, self.now, 100);
        let deed = |change: &Change| match change {
            Change::Clear(clear) => format!("clear {}", clear.claim.key.name),
            Change::DeletePod(delete) => format!("delete {}", delete.pod.key.name),
            Change::Protect(protect) => format!("protect {}", protect.claim.key.name),
            Change::Place(place) => {
                assert!(place.release.is_none());
                let claims = place.claims.iter().map(|claim| claim.claim.key.name.clone());
                format!(
                    "reserve {} for {}",
                    claims.collect::<Vec<_>>().join(" "),
                    place.pod.key.name
                )
            }
            other => panic!("{other:?}"),
        };
        let told = planned.notices.iter().map(|notice| notice.reason).collect();
        (planned.changes.iter().map(deed).collect(), told)
    }

    fn deeds(&mut self, seconds: i64) -> Vec<String> {
        self.after(seconds).0
    }
}

/// A pod that is pinned to n1 and waits there.
fn pinned(name: &str, claim: &str, is_owned: bool) -> Value {
    let mut pod = json!({
        "metadata": {"namespace": "ns", "name": name, "uid": format!("uid-{name}")},
        "spec": {
            "containers": [],
            "resourceClaims": [{"name": "c", "resourceClaimName": claim}],
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchFields": [
                    {"key": "metadata.name", "operator": "In", "values": ["n1"]},
                ]}],
            }}},
        },
    });
    if is_owned {
        pod["metadata"]["ownerReferences"] = json!([{
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "uid-r",
            "controller": true,
        }]);
    }
    pod
}

fn bound(name: &str, claim: &str, is_owned: bool) -> Value {
    let mut pod = pinned(name, claim, is_owned);
    pod["spec"]["nodeName"] = json!("n1");
    pod
}

/// A claim that our controller allocated on n1 for some pods, some seconds after the beginning.
fn granted(name: &str, devices: &[&str], pods: &[&str], second: u32) -> Value {
    let result = |device: &&str| json!({"request": "r", "driver": "lanemate.dev", "pool": "n1", "device": device});
    let user = |pod: &&str| json!({"resource": "pods", "name": pod, "uid": format!("uid-{pod}")});
    json!({
        "metadata": {
            "namespace": "ns", "name": name, "uid": format!("uid-{name}"),
            "finalizers": ["resource.kubernetes.io/delete-protection"],
            "managedFields": [managed("lanemate-controller")],
        },
        "spec": {},
        "status": {
            "allocation": {
                "allocationTimestamp": format!("2026-01-01T00:00:{second:02}Z"),
                "devices": {"results": devices.iter().map(result).collect::<Vec<_>>()},
                "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [
                    {"key": "metadata.name", "operator": "In", "values": ["n1"]},
                ]}]},
            },
            "reservedFor": pods.iter().map(user).collect::<Vec<_>>(),
        },
    })
}

fn managed(manager: &str) -> Value {
    json!({
        "manager": manager, "operation": "Update", "subresource": "status",
        "apiVersion": "resource.k8s.io/v1", "fieldsType": "FieldsV1",
        "fieldsV1": {"f:status": {"f:allocation": {}}},
    })
}

fn foreign(name: &str, devices: &[&str], pods: &[&str], second: u32) -> Value {
    let mut claim = granted(name, devices, pods, second);
    claim["metadata"]["managedFields"] = json!([managed("kube-scheduler")]);
    claim
}

const NOTHING: [&str; 0] = [];

#[test]
fn a_pod_pinned_to_a_bad_node_for_half_a_minute_is_deleted_where_it_is_made_anew() {
    type Spoil = fn(&mut World);
    let spoils: [(&str, Spoil); 3] = [
        ("gone", |world| world.delete(Kind::Node, "", "n1")),
        ("cordoned", |world| world.node("n1", "True", true)),
        ("not ready", |world| world.node("n1", "Unknown", false)),
    ];
    for (what, spoil) in spoils {
        for (is_owned, deed) in [(true, "delete p"), (false, "clear c")] {
            let mut world = World::new();
            world.claim(granted("c", &["gpu-0-0"], &["p"], 0));
            world.pod(pinned("p", "c", is_owned));
            assert_eq!(world.deeds(60), NOTHING, "a pod may wait for room");
            spoil(&mut world);
            assert_eq!(world.deeds(1), NOTHING, "{what}");
            assert_eq!(world.deeds(29), NOTHING, "{what}");
            assert_eq!(world.after(1), (vec![deed.to_owned()], vec!["PinnedInVain"]), "{what}");
            assert_eq!(world.after(1), (vec![], vec![]), "it is with the writer, and told");
        }
    }
}

#[test]
fn a_fault_that_passes_starts_its_wait_anew() {
    let mut world = World::new();
    world.claim(granted("c", &["gpu-0-0"], &["p"], 0));
    world.pod(pinned("p", "c", true));
    world.node("n1", "False", false);
    assert_eq!(world.deeds(1), NOTHING);
    world.node("n1", "True", false);
    assert_eq!(world.deeds(20), NOTHING);
    world.node("n1", "False", false);
    assert_eq!(world.deeds(20), NOTHING);
    assert_eq!(world.deeds(29), NOTHING);
    assert_eq!(world.deeds(1), ["delete p"]);
}

#[test]
fn a_pod_is_left_alone_that_is_bound_gated_going_or_has_a_claim_of_somebody_else() {
    let gated = |pod: &mut Value| pod["spec"]["schedulingGates"] = json!([{"name": "quota"}]);
    let going = |pod: &mut Value| {
        pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    };
    let bound = |pod: &mut Value| pod["spec"]["nodeName"] = json!("n1");
    let changes: [&dyn Fn(&mut Value); 3] = [&gated, &going, &bound];
    for change in changes {
        let mut world = World::new();
        world.claim(granted("c", &["gpu-0-0"], &["p"], 0));
        let mut pod = pinned("p", "c", true);
        change(&mut pod);
        world.pod(pod);
        world.node("n1", "False", true);
        assert_eq!(world.deeds(1), NOTHING);
        assert_eq!(world.deeds(600), NOTHING);
    }
    let mut world = World::new();
    world.claim(foreign("c", &["gpu-0-0"], &["p"], 0));
    world.pod(pinned("p", "c", true));
    world.node("n1", "False", false);
    assert_eq!(world.deeds(1), NOTHING);
    assert_eq!(world.deeds(600), NOTHING);
}

#[test]
fn pods_that_come_back_to_the_same_words_are_ended_more_and_more_seldom() {
    let mut world = World::new();
    let said = "0/2 nodes are available: 1 node(s) had untolerated taint {a: b}, 1 node(s) didn't \
                match Pod's node affinity/selector.";
    let mut ends = Vec::new();
    for second in 0..400 {
        let name = format!("web-{}", ends.len());
        world.claim(granted("c", &["gpu-0-0"], &[&name], 0));
        let mut pod = pinned(&name, "c", true);
        pod["status"] = json!({"conditions": [{
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": said,
        }]});
        world.pod(pod);
        if !world.deeds(1).is_empty() {
            ends.push(second);
            world.delete(Kind::Pod, "ns", &name);
        }
    }
    assert_eq!(ends, [30, 61, 121, 241]);
}

#[test]
fn of_two_claims_that_hold_a_device_the_younger_unused_one_is_taken_back() {
    let mut world = World::new();
    world.claim(granted("old", &["gpu-0-0"], &["a"], 1));
    world.claim(granted("young", &["gpu-0-0", "nic-0-0"], &["b"], 2));
    world.pod(pinned("a", "old", true));
    world.pod(pinned("b", "young", true));
    let told = vec!["DeviceContested"; 2];
    assert_eq!(world.after(1), (vec!["clear young".to_owned()], told));
    assert_eq!(world.memo.counts.contested, 1);

    let mut world = World::new();
    world.claim(granted("old", &["gpu-0-0"], &["a"], 1));
    world.claim(granted("young", &["gpu-0-0"], &["b"], 2));
    world.pod(pinned("a", "old", true));
    world.pod(bound("b", "young", true));
    assert_eq!(world.deeds(1), ["clear old"], "the younger one is in use");
}

#[test]
fn of_two_bound_pods_the_one_that_its_node_does_not_hold_is_deleted_if_made_anew() {
    /// What the node holds, whether the pods are made anew, and what is done.
    type Case<'a> = (Option<&'a [&'a str]>, bool, &'a [&'a str]);
    let cases: [Case<'_>; 5] = [
        (None, true, &[]),
        (Some(&[]), true, &[]),
        (Some(&["young"]), true, &["delete a"]),
        (Some(&["young"]), false, &[]),
        (Some(&["old", "young"]), true, &[]),
    ];
    for (held, is_owned, expect) in cases {
        let mut world = World::new();
        world.claim(granted("old", &["gpu-0-0"], &["a"], 1));
        world.claim(granted("young", &["gpu-0-0"], &["b"], 2));
        world.pod(bound("a", "old", is_owned));
        world.pod(bound("b", "young", is_owned));
        if let Some(held) = held {
            world.holds("n1", held);
        }
        let (deeds, told) = world.after(1);
        assert_eq!(deeds, expect, "{held:?} {is_owned}");
        assert!(told.len() >= 2);
    }
}

#[test]
fn a_foreign_allocation_is_told_of_at_once_and_taken_back_when_unused_for_half_a_minute() {
    let mut world = World::new();
    world.claim(foreign("c", &["gpu-0-0"], &["p"], 0));
    world.pod(bound("p", "c", true));
    assert_eq!(world.after(1), (vec![], vec!["ForeignAllocation"]));
    assert_eq!(world.memo.counts.foreign, 1);
    assert_eq!(world.after(200), (vec![], vec![]));
    world.delete(Kind::Pod, "ns", "p");
    assert_eq!(world.deeds(1), NOTHING, "it is still reserved");
    world.claim(foreign("c", &["gpu-0-0"], &[], 0));
    assert_eq!(world.deeds(1), NOTHING);
    assert_eq!(world.deeds(29), NOTHING);
    assert_eq!(world.deeds(1), ["clear c"]);
}

#[test]
fn allocations_of_vanished_devices_are_taken_back_after_a_minute_unless_a_pod_is_bound() {
    for (pod, deeds, told) in [
        (Some(bound("p", "c", true)), vec![], vec!["DevicesGone"]),
        (None, vec!["clear c".to_owned()], vec!["DevicesGone"]),
    ] {
        let mut world = World::new();
        world.claim(granted("c", &["gpu-0-0"], &["p"], 0));
        pod.into_iter().for_each(|pod| world.pod(pod));
        assert_eq!(world.deeds(1), NOTHING);
        world.delete(Kind::Slice, "", "00000-n1");
        assert_eq!(world.after(1), (vec![], vec![]));
        assert_eq!(world.after(58), (vec![], vec![]));
        assert_eq!(world.after(1), (deeds, told));
    }
}

#[test]
fn an_allocation_that_nobody_uses_is_taken_back_after_half_a_minute() {
    let mut world = World::new();
    world.claim(granted("c", &["gpu-0-0"], &[], 0));
    assert_eq!(world.deeds(1), NOTHING);
    assert_eq!(world.deeds(29), NOTHING);
    assert_eq!(world.deeds(1), ["clear c"]);
    let mut world = World::new();
    world.claim(granted("c", &["gpu-0-0"], &["p"], 0));
    assert_eq!(world.deeds(1), NOTHING);
    assert_eq!(world.after(299), (vec![], vec![]));
    assert_eq!(world.after(1), (vec![], vec!["AllocationAbandoned"]));
}

#[test]
fn a_finalizer_that_somebody_took_off_is_put_back_once() {
    let mut world = World::new();
    let mut claim = granted("c", &["gpu-0-0"], &["p"], 0);
    claim["metadata"]["finalizers"] = json!([]);
    world.claim(claim);
    world.pod(bound("p", "c", true));
    assert_eq!(world.after(1), (vec!["protect c".to_owned()], vec!["ProtectionRemoved"]));
    assert_eq!(world.after(1), (vec![], vec![]));
}

#[test]
fn a_bound_pod_is_put_back_among_the_users_of_its_claim() {
    let mut world = World::new();
    world.claim(granted("c", &["gpu-0-0"], &["other"], 0));
    world.pod(bound("p", "c", true));
    assert_eq!(world.after(1), (vec!["reserve c for p".to_owned()], vec!["ReservationMissing"]));
    assert_eq!(world.deeds(1), NOTHING);
    let mut world = World::new();
    world.claim(granted("c", &["gpu-0-0"], &["other"], 0));
    world.pod(pinned("p", "c", true));
    assert_eq!(world.deeds(1), NOTHING, "a pod without a node is not ours to reserve for here");
}

#[test]
fn what_the_writer_has_no_room_for_is_done_at_a_later_look() {
    let mut world = World::new();
    world.claim(granted("a", &["gpu-0-0"], &[], 0));
    world.claim(granted("b", &["gpu-1-0"], &[], 0));
    assert_eq!(world.deeds(1), NOTHING);
    world.now = timing::after(world.now, SignedDuration::from_secs(30));
    let planned = plan(&mut world.memo, &mut world.index, world.now, 1);
    assert_eq!(planned.changes.len(), 1);
    assert_eq!(planned.next, Some(timing::after(world.now, LOOK_EVERY)));
    assert_eq!(world.deeds(1), ["clear b"]);
}
