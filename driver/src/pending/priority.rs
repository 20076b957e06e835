//! Priorities: of pods that no API server has admitted yet, and the place that a priority gives.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::scheduling::v1::PriorityClass;

use super::PodRef;

/// Classes that every cluster has.
const BUILT_IN: [(&str, i32); 2] =
    [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];

/// A pod that names a PriorityClass which is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownPriority {
    /// The pod.
    pub pod: PodRef,
    /// `spec.priorityClassName`.
    pub class: String,
    /// What its priority is taken for.
    pub priority: i32,
}

impl fmt::Display for UnknownPriority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pod, class, priority } = self;
        write!(
            f,
            "pod {pod}: spec.priorityClassName: PriorityClass {class:?} is not among the objects: \
             its priority is taken for {priority}"
        )
    }
}

/// Gives each pod without `spec.priority` the one that admission would give it: that of its
/// PriorityClass, or of the class that is the global default, or 0.
pub fn admit_priorities(pods: &mut [Pod], classes: &[PriorityClass]) -> Vec<UnknownPriority> {
    let named =
        classes.iter().filter_map(|class| Some((class.metadata.name.as_deref()?, value(class))));
    let by_name: BTreeMap<&str, i32> = BUILT_IN.into_iter().chain(named).collect();
    // Of several defaults the API server takes the lowest.
    let defaults = classes.iter().filter(|class| class.global_default == Some(true));
    let default = defaults.map(value).min().unwrap_or(0);
    let mut unknown = Vec::new();
    for pod in pods {
        let Some(spec) = pod.spec.as_mut().filter(|spec| spec.priority.is_none()) else { continue };
        let class = spec.priority_class_name.as_deref().filter(|name| !name.is_empty());
        let priority = class.map_or(Some(default), |name| by_name.get(name).copied());
        if let (None, Some(class)) = (priority, class) {
            let (pod, class) = (PodRef::of(&pod.metadata), class.to_owned());
            unknown.push(UnknownPriority { pod, class, priority: default });
        }
        spec.priority = Some(priority.unwrap_or(default));
    }
    unknown
}

fn value(class: &PriorityClass) -> i32 {
    class.value.unwrap_or(0)
}

/// A pod's place among those that wait, the smallest first; equals go by namespace and name. Queues and fairness will take
/// the place of this one function.
pub fn precedence<T>(priority: i32, created: Option<T>) -> (Reverse<i32>, bool, Option<T>) {
    (Reverse(priority), created.is_none(), created)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn check(classes: Value, spec: Value, expect: i32, warnings: &[&str]) {
        let classes: Vec<PriorityClass> = serde_json::from_value(classes).unwrap();
        let pod = json!({"metadata": {"name": "p"}, "spec": spec});
        let mut pods: Vec<Pod> = vec![serde_json::from_value(pod).unwrap()];
        let unknown = admit_priorities(&mut pods, &classes);
        assert_eq!(pods[0].spec.as_ref().unwrap().priority, Some(expect), "{spec}");
        assert_eq!(unknown.iter().map(ToString::to_string).collect::<Vec<_>>(), warnings);
    }

    #[test]
    fn a_pod_gets_the_priority_of_its_class_or_of_the_default() {
        let class = |name: &str, value: i32, default: bool| json!({"metadata": {"name": name}, "value": value, "globalDefault": default});
        let classes = json!([class("high", 100, false), class("a", 7, true), class("b", 5, true)]);
        let containers = json!([]);
        let pod = |class: &str| json!({"priorityClassName": class, "containers": containers});
        check(classes.clone(), pod("high"), 100, &[]);
        check(classes.clone(), pod(""), 5, &[]);
        check(classes.clone(), json!({"containers": []}), 5, &[]);
        check(classes.clone(), pod("system-node-critical"), 2_000_001_000, &[]);
        check(json!([]), json!({"containers": []}), 0, &[]);
        let own = json!({"priorityClassName": "high", "priority": 3, "containers": []});
        check(classes.clone(), own, 3, &[]);
        let warning = "pod default/p: spec.priorityClassName: PriorityClass \"low\" is not among \
                       the objects: its priority is taken for 5";
        check(classes, pod("low"), 5, &[warning]);
    }
}
