//! What a slice says, in a form that can be compared: without what the API server fills in, and
//! without what is the same in other words.

use std::collections::BTreeMap;

use k8s_openapi::api::resource::v1::{Device, DeviceTaint, ResourceSliceSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use lanemate_api::Quantity;
use serde_json::Value;

/// Differences that are named; more say nothing new.
const NAMED: usize = 8;

/// The specification of a slice without generation and without the times of taints, with one
/// spelling for each quantity and for what is empty.
#[derive(Clone, Debug, PartialEq)]
pub struct Content(ResourceSliceSpec);

impl Content {
    /// What a specification says.
    pub fn of(spec: &ResourceSliceSpec) -> Self {
        let mut spec = spec.clone();
        spec.pool.generation = 0;
        spec.devices = spec.devices.filter(|devices| !devices.is_empty());
        spec.devices.iter_mut().flatten().for_each(normalise);
        Self(spec)
    }

    /// Devices in it.
    pub fn devices(&self) -> usize {
        self.0.devices.as_ref().map_or(0, Vec::len)
    }

    /// Where what came back differs from this, which was sent: paths such as
    /// `devices[3].taints: dropped`, at most eight.
    pub fn differences(&self, came_back: &Self) -> Vec<String> {
        let value = |content: &Self| serde_json::to_value(&content.0).unwrap_or_default();
        let mut found = Vec::new();
        compare(&mut found, "", &value(self), &value(came_back));
        found
    }
}

/// Gives the taints of a specification the times that stored ones have: the API server notes when a
/// taint was added, and tolerations count from then.
pub fn keep_times(spec: &mut ResourceSliceSpec, stored: &ResourceSliceSpec) {
    let stored = stored.devices.iter().flatten();
    let times: BTreeMap<(&str, &str, Option<&str>, &str), &Time> = stored
        .flat_map(|device| device.taints.iter().flatten().map(move |taint| (device, taint)))
        .filter_map(|(device, taint)| Some((key(device, taint), taint.time_added.as_ref()?)))
        .collect();
    for device in spec.devices.iter_mut().flatten() {
        let name = device.name.clone();
        for taint in device.taints.iter_mut().flatten() {
            let value = taint.value.as_deref();
            let key = (name.as_str(), taint.key.as_str(), value, taint.effect.as_str());
            taint.time_added = times.get(&key).map(|&time| time.clone());
        }
    }
}

fn key<'a>(
    device: &'a Device,
    taint: &'a DeviceTaint,
) -> (&'a str, &'a str, Option<&'a str>, &'a str) {
    (&device.name, &taint.key, taint.value.as_deref(), &taint.effect)
}

fn normalise(device: &mut Device) {
    device.attributes = device.attributes.take().filter(|attributes| !attributes.is_empty());
    device.capacity = device.capacity.take().filter(|capacity| !capacity.is_empty());
    device.taints = device.taints.take().filter(|taints| !taints.is_empty());
    for capacity in device.capacity.iter_mut().flat_map(BTreeMap::values_mut) {
        // What cannot be read is compared as text.
        if let Ok(value) = capacity.value.0.parse::<Quantity>() {
            capacity.value.0 = value.to_string();
        }
    }
    for taint in device.taints.iter_mut().flatten() {
        taint.time_added = None;
        taint.value = taint.value.take().filter(|value| !value.is_empty());
    }
}

/// Depth is bounded by the type that both values come from.
fn compare(found: &mut Vec<String>, path: &str, sent: &Value, came_back: &Value) {
    if found.len() >= NAMED || sent == came_back {
        return;
    }
    match (sent, came_back) {
        (Value::Object(sent), Value::Object(came_back)) => {
            for (name, value) in sent {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                match came_back.get(name) {
                    Some(other) => compare(found, &path, value, other),
                    None => found.push(format!("{path}: dropped")),
                }
            }
            for name in came_back.keys().filter(|name| !sent.contains_key(*name)) {
                found.push(format!("{path}.{name}: added"));
            }
        }
        (Value::Array(sent), Value::Array(came_back)) if sent.len() == came_back.len() => {
            for (index, (value, other)) in sent.iter().zip(came_back).enumerate() {
                compare(found, &format!("{path}[{index}]"), value, other);
            }
        }
        _ => found.push(format!("{path}: changed")),
    }
    found.truncate(NAMED);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn spec(devices: Value) -> ResourceSliceSpec {
        serde_json::from_value(json!({
            "driver": "lanemate.dev", "nodeName": "n1", "devices": devices,
            "pool": { "name": "n1", "generation": 1, "resourceSliceCount": 1 },
        }))
        .unwrap()
    }

    fn check(sent: Value, came_back: Value, expect: &[&str]) {
        let (sent, came_back) = (spec(sent), spec(came_back));
        let found = Content::of(&sent).differences(&Content::of(&came_back));
        assert_eq!(found, expect);
        assert_eq!(found.is_empty(), Content::of(&sent) == Content::of(&came_back));
    }

    #[test]
    fn other_words_for_the_same_are_no_difference() {
        check(json!([]), Value::Null, &[]);
        let taint = json!({ "key": "k", "effect": "NoSchedule" });
        let mut timed = taint.clone();
        timed["timeAdded"] = json!("2026-01-01T00:00:00Z");
        check(
            json!([{ "name": "a", "taints": [taint], "attributes": {} }]),
            json!([{ "name": "a", "taints": [timed] }]),
            &[],
        );
        check(
            json!([{ "name": "a", "capacity": { "memory": { "value": "1024Mi" } } }]),
            json!([{ "name": "a", "capacity": { "memory": { "value": "1Gi" } } }]),
            &[],
        );
    }

    #[test]
    fn differences_are_named_by_their_path() {
        let taint = json!({ "key": "k", "effect": "NoSchedule" });
        check(
            json!([{ "name": "a", "taints": [taint] }, { "name": "b", "attributes": { "x": { "int": 1 } } }]),
            json!([{ "name": "a" }, { "name": "b", "attributes": { "x": { "int": 2 } } }]),
            &["devices[0].taints: dropped", "devices[1].attributes.x.int: changed"],
        );
        let many: Vec<Value> =
            (0..20).map(|index| json!({ "name": format!("d{index}") })).collect();
        let others: Vec<Value> =
            (0..20).map(|index| json!({ "name": format!("e{index}") })).collect();
        let (many, others) = (Content::of(&spec(json!(many))), Content::of(&spec(json!(others))));
        assert_eq!(many.differences(&others).len(), NAMED);
        assert_eq!((many.devices(), Content::of(&spec(json!([]))).devices()), (20, 0));
    }

    #[test]
    fn times_of_equal_taints_are_kept() {
        let device = |key: &str, time: Option<&str>| {
            let mut taint = json!({ "key": key, "effect": "NoSchedule" });
            if let Some(time) = time {
                taint["timeAdded"] = json!(time);
            }
            json!({ "name": "a", "taints": [taint] })
        };
        let stored = spec(json!([device("k", Some("2026-01-01T00:00:00Z"))]));
        for (key, is_kept) in [("k", true), ("other", false)] {
            let mut sent = spec(json!([device(key, None)]));
            keep_times(&mut sent, &stored);
            let taints = sent.devices.unwrap()[0].taints.clone().unwrap();
            assert_eq!(taints[0].time_added.is_some(), is_kept, "{key}");
        }
    }
}
