//! Rules about other pods: required affinity and anti-affinity, and spreading.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{PodAffinityTerm, TopologySpreadConstraint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

/// Labels of an object.
pub type Labels = BTreeMap<String, String>;

/// One required term of pod affinity or anti-affinity.
#[derive(Clone, Debug, PartialEq)]
pub struct Term {
    /// Label of nodes whose values are the domains.
    pub topology_key: String,
    namespaces: Vec<String>,
    namespace_selector: Option<LabelTest>,
    pods: LabelTest,
}

/// One topologySpreadConstraint with DoNotSchedule.
#[derive(Clone, Debug, PartialEq)]
pub struct Spread {
    /// Label of nodes whose values are the domains.
    pub topology_key: String,
    /// `maxSkew`.
    pub max_skew: i64,
    /// With fewer domains the least count is 0.
    pub min_domains: usize,
    /// Only nodes that the pod's node selector and affinity select are counted.
    pub honors_affinity: bool,
    /// Only nodes whose taints the pod tolerates are counted.
    pub honors_taints: bool,
    /// Which pods are counted.
    pub pods: LabelTest,
}

/// A label selector.
#[derive(Clone, Debug, PartialEq)]
pub struct LabelTest {
    /// All of them hold; absent: nothing is selected.
    requirements: Option<Vec<Requirement>>,
}

#[derive(Clone, Debug, PartialEq)]
enum Requirement {
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    DoesNotExist(String),
}

impl Term {
    /// A term of a pod of some namespace. `matchLabelKeys` stand in the selector already: the API server puts them there.
    pub fn of(term: &PodAffinityTerm, namespace: &str) -> Self {
        let mut namespaces = term.namespaces.clone().unwrap_or_default();
        if namespaces.is_empty() && term.namespace_selector.is_none() {
            namespaces.push(namespace.to_owned());
        }
        Self {
            topology_key: term.topology_key.clone(),
            namespaces,
            namespace_selector: term.namespace_selector.as_ref().map(|it| LabelTest::of(Some(it))),
            pods: LabelTest::of(term.label_selector.as_ref()),
        }
    }

    /// Whether the term speaks of a pod, from its namespace with the labels of that, and its own labels.
    pub fn selects(&self, (namespace, of_namespace): (&str, &Labels), pod: &Labels) -> bool {
        let selected = self.namespace_selector.as_ref();
        let speaks_of_namespace = self.namespaces.iter().any(|name| name == namespace)
            || selected.is_some_and(|selector| selector.matches(of_namespace));
        speaks_of_namespace && self.pods.matches(pod)
    }
}

impl Spread {
    /// A constraint of a pod with some labels; absent for one that is only a wish.
    pub fn of(constraint: &TopologySpreadConstraint, labels: &Labels) -> Option<Self> {
        if constraint.when_unsatisfiable != "DoNotSchedule" {
            return None;
        }
        let mut pods = LabelTest::of(constraint.label_selector.as_ref());
        if let Some(requirements) = &mut pods.requirements {
            let keys = constraint.match_label_keys.iter().flatten();
            requirements.extend(keys.filter_map(|key| {
                Some(Requirement::In(key.clone(), vec![labels.get(key)?.clone()]))
            }));
        }
        Some(Self {
            topology_key: constraint.topology_key.clone(),
            max_skew: i64::from(constraint.max_skew),
            min_domains: usize::try_from(constraint.min_domains.unwrap_or(1)).unwrap_or(1),
            honors_affinity: constraint.node_affinity_policy.as_deref() != Some("Ignore"),
            honors_taints: constraint.node_taints_policy.as_deref() == Some("Honor"),
            pods,
        })
    }

    /// Whether a pod of the same namespace counts. A selector without requirements counts none (so upstream), though
    /// it matches the pod itself.
    pub fn counts(&self, labels: &Labels) -> bool {
        !self.pods.is_everything() && self.pods.matches(labels)
    }
}

impl LabelTest {
    /// A selector of the API: absent selects nothing, empty everything. One that the API would refuse selects nothing.
    pub fn of(selector: Option<&LabelSelector>) -> Self {
        Self { requirements: selector.and_then(requirements) }
    }

    /// Whether it selects an object with some labels.
    pub fn matches(&self, labels: &Labels) -> bool {
        self.requirements.as_ref().is_some_and(|all| all.iter().all(|one| one.is_met(labels)))
    }

    /// It has no requirement.
    fn is_everything(&self) -> bool {
        self.requirements.as_ref().is_some_and(Vec::is_empty)
    }
}

fn requirements(selector: &LabelSelector) -> Option<Vec<Requirement>> {
    let equal = selector.match_labels.iter().flatten();
    let equal = equal.map(|(key, value)| Some(Requirement::In(key.clone(), vec![value.clone()])));
    let expressions = selector.match_expressions.iter().flatten().map(|expression| {
        let (key, values) = (expression.key.clone(), expression.values.clone().unwrap_or_default());
        match (expression.operator.as_str(), values.is_empty()) {
            ("In", false) => Some(Requirement::In(key, values)),
            ("NotIn", false) => Some(Requirement::NotIn(key, values)),
            ("Exists", true) => Some(Requirement::Exists(key)),
            ("DoesNotExist", true) => Some(Requirement::DoesNotExist(key)),
            _ => None,
        }
    });
    equal.chain(expressions).collect()
}

impl Requirement {
    fn is_met(&self, labels: &Labels) -> bool {
        match self {
            Self::In(key, values) => labels.get(key).is_some_and(|value| values.contains(value)),
            // An object without the label is not in the set either.
            Self::NotIn(key, values) => labels.get(key).is_none_or(|value| !values.contains(value)),
            Self::Exists(key) => labels.contains_key(key),
            Self::DoesNotExist(key) => !labels.contains_key(key),
        }
    }
}
