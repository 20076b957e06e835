//! Whether a pod may run on a node, as kube-scheduler judges it.
//!
//! [`fits`] goes by what the Pod and the Node say of themselves: node name, node selector, required node affinity,
//! taints and cordons. [`fits_fully`] adds what depends on other pods and objects: resources, host ports, required
//! affinity between pods, spreading, and the places of bound volumes.
//!
//! ```text
//! Pod -> PodNeeds --------------------> fits_fully <- NodeView, NodeLoad, Volumes
//!            `--> Surroundings::around --> Around ----^
//! ```

pub mod foreign_claims;
pub mod full;
pub mod load;
pub mod needs;
pub mod requests;
pub mod rules;
pub mod surroundings;
pub mod volumes;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{
    Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod, Taint, Toleration,
};
use lanemate_api::Quantity;

pub use foreign_claims::{ForeignClaims, ForeignFit, NotJudged};
pub use full::fits_fully;
pub use load::NodeLoad;
pub use needs::PodNeeds;
pub use surroundings::{Around, PodId, Surroundings};
pub use volumes::{BoundVolume, Volumes};

/// Label that every kubelet sets to the name of its node.
pub const HOSTNAME_LABEL: &str = "kubernetes.io/hostname";

/// Key of the taint that stands for a cordon; tolerating it with effect NoSchedule tolerates
/// `spec.unschedulable`.
const UNSCHEDULABLE_TAINT_KEY: &str = "node.kubernetes.io/unschedulable";

/// What the fit of a pod needs to know of a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeView {
    /// `metadata.name`.
    pub name: String,
    /// `metadata.labels`.
    pub labels: BTreeMap<String, String>,
    /// `spec.taints`, of every effect.
    pub taints: Vec<Taint>,
    /// `spec.unschedulable`: the node is cordoned.
    pub unschedulable: bool,
    /// `status.allocatable`, rounded as kube-scheduler rounds; absent when unknown: then there is no limit.
    pub allocatable: Option<BTreeMap<Arc<str>, Quantity>>,
    /// Condition `Ready`; absent when it is not reported.
    pub ready: Option<bool>,
}

/// Why a pod may not run on a node, as one clause for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfit {
    /// For instance `node selector zone=z2 not met (zone=z1)`.
    pub reason: String,
}

impl NodeView {
    /// A node of which only the name is known: it has the hostname label, no taints, and room.
    pub fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            labels: BTreeMap::from([(HOSTNAME_LABEL.to_owned(), name.to_owned())]),
            ..Self::default()
        }
    }

    /// The view of a Node object. Its labels are taken as they are.
    pub fn of(node: &Node) -> Self {
        let (spec, status) = (node.spec.as_ref(), node.status.as_ref());
        let mut conditions = status.iter().flat_map(|status| status.conditions.iter().flatten());
        let ready = conditions.find(|condition| condition.type_ == "Ready");
        Self {
            name: node.metadata.name.clone().unwrap_or_default(),
            labels: node.metadata.labels.clone().unwrap_or_default(),
            taints: spec.and_then(|spec| spec.taints.clone()).unwrap_or_default(),
            unschedulable: spec.and_then(|spec| spec.unschedulable).unwrap_or(false),
            allocatable: status.and_then(|status| status.allocatable.as_ref()).map(requests::list),
            ready: ready.map(|condition| condition.status == "True"),
        }
    }
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

/// Says whether the pod may run on the node, or the first reason why not.
///
/// A pod that is bound to the node already is not put off it by a cordon or a NoSchedule taint,
/// because those only keep new pods away.
pub fn fits(pod: &Pod, node: &NodeView) -> Result<(), Unfit> {
    let Some(spec) = &pod.spec else { return Ok(()) };
    let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let wishes = NodeWishes {
        bound_to: spec.node_name.as_deref().filter(|name| !name.is_empty()),
        selector: spec.node_selector.as_ref(),
        affinity: affinity
            .and_then(|it| it.required_during_scheduling_ignored_during_execution.as_ref()),
        tolerations: spec.tolerations.as_deref().unwrap_or_default(),
    };
    wishes.met_by(node)
}

/// What a pod says of nodes.
#[derive(Clone, Copy, Debug)]
struct NodeWishes<'a> {
    bound_to: Option<&'a str>,
    selector: Option<&'a BTreeMap<String, String>>,
    affinity: Option<&'a NodeSelector>,
    tolerations: &'a [Toleration],
}

impl NodeWishes<'_> {
    fn met_by(&self, node: &NodeView) -> Result<(), Unfit> {
        if let Some(name) = self.bound_to
            && name != node.name
        {
            return Err(unfit(format!("the pod is bound to node {name}")));
        }
        node_selector_met(self.selector, node)?;
        node_affinity_met(self.affinity, node)?;
        if self.bound_to.is_none() {
            cordon_tolerated(self.tolerations, node)?;
        }
        match self.repelled_by(node) {
            Some(taint) => Err(unfit(format!("taint {} is not tolerated", describe_taint(taint)))),
            None => Ok(()),
        }
    }

    /// A taint that keeps the pod away.
    fn repelled_by<'n>(&self, node: &'n NodeView) -> Option<&'n Taint> {
        let repels = |taint: &&Taint| match taint.effect.as_str() {
            "NoExecute" => true,
            "NoSchedule" => self.bound_to.is_none(),
            _ => false,
        };
        let mut repelling = node.taints.iter().filter(repels);
        repelling.find(|taint| !tolerated(self.tolerations, taint))
    }
}

/// Says whether a node selector, such as `spec.nodeSelector` of a ResourceSlice, selects the node.
///
/// Terms are alternatives. A term without requirements, a selector without terms and a requirement
/// that the API would refuse (an unknown operator, `In` without values) select nothing.
pub fn node_selector_matches(selector: &NodeSelector, node: &NodeView) -> bool {
    selector.node_selector_terms.iter().any(|term| unmet_requirement(term, node).is_none())
}

fn unfit(reason: String) -> Unfit {
    Unfit { reason }
}

fn node_selector_met(
    wanted: Option<&BTreeMap<String, String>>,
    node: &NodeView,
) -> Result<(), Unfit> {
    for (key, value) in wanted.into_iter().flatten() {
        if node.labels.get(key) != Some(value) {
            let has = describe_label(node, key);
            return Err(unfit(format!("node selector {key}={value} not met ({has})")));
        }
    }
    Ok(())
}

fn node_affinity_met(required: Option<&NodeSelector>, node: &NodeView) -> Result<(), Unfit> {
    match required {
        Some(selector) if !node_selector_matches(selector, node) => {
            Err(unfit(format!("required node affinity not met: {}", why_unmet(selector, node))))
        }
        _ => Ok(()),
    }
}

/// Names the requirement that fails in the first term, and how many further terms fail too.
fn why_unmet(selector: &NodeSelector, node: &NodeView) -> String {
    let mut unmet = selector.node_selector_terms.iter().filter_map(|t| unmet_requirement(t, node));
    let Some(first) = unmet.next() else { return "it has no terms".to_owned() };
    match unmet.count() {
        0 => first,
        1 => format!("{first}, nor is its other term met"),
        others => format!("{first}, nor is any of its {others} other terms met"),
    }
}

/// The first requirement of a term that the node does not meet; none if it meets the term.
fn unmet_requirement(term: &NodeSelectorTerm, node: &NodeView) -> Option<String> {
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    if expressions.is_empty() && fields.is_empty() {
        return Some("an empty term selects nothing".to_owned());
    }
    let by_label = expressions.iter().find(|r| !label_requirement_met(r, node)).map(|r| {
        let has = describe_label(node, &r.key);
        format!("{} ({has})", describe_requirement(r))
    });
    by_label.or_else(|| {
        fields.iter().find(|requirement| !field_requirement_met(requirement, node)).map(
            |requirement| format!("{} (node {})", describe_requirement(requirement), node.name),
        )
    })
}

fn label_requirement_met(requirement: &NodeSelectorRequirement, node: &NodeView) -> bool {
    let values = requirement.values.as_deref().unwrap_or_default();
    let label = node.labels.get(&requirement.key);
    match (requirement.operator.as_str(), values) {
        ("In", [_, ..]) => label.is_some_and(|label| values.contains(label)),
        // A node without the label is not in the set either.
        ("NotIn", [_, ..]) => label.is_none_or(|label| !values.contains(label)),
        ("Exists", []) => label.is_some(),
        ("DoesNotExist", []) => label.is_none(),
        ("Gt", [bound]) => integers(label, bound).is_some_and(|(label, bound)| label > bound),
        ("Lt", [bound]) => integers(label, bound).is_some_and(|(label, bound)| label < bound),
        _ => false,
    }
}

/// The API knows one field, `metadata.name`, and exactly one value for it.
fn field_requirement_met(requirement: &NodeSelectorRequirement, node: &NodeView) -> bool {
    let values = requirement.values.as_deref().unwrap_or_default();
    match (requirement.key.as_str(), requirement.operator.as_str(), values) {
        ("metadata.name", "In", [name]) => *name == node.name,
        ("metadata.name", "NotIn", [name]) => *name != node.name,
        _ => false,
    }
}

fn integers(label: Option<&String>, bound: &str) -> Option<(i64, i64)> {
    Some((label?.parse().ok()?, bound.parse().ok()?))
}

fn cordon_tolerated(tolerations: &[Toleration], node: &NodeView) -> Result<(), Unfit> {
    let cordon = Taint {
        key: UNSCHEDULABLE_TAINT_KEY.to_owned(),
        effect: "NoSchedule".to_owned(),
        ..Taint::default()
    };
    if node.unschedulable && !tolerated(tolerations, &cordon) {
        return Err(unfit("the node is cordoned (spec.unschedulable)".to_owned()));
    }
    Ok(())
}

fn tolerated(tolerations: &[Toleration], taint: &Taint) -> bool {
    tolerations.iter().any(|toleration| tolerates(toleration, taint))
}

/// An absent key or effect stands for every one; an absent operator is `Equal`.
fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let stands_for = |wanted: &Option<String>, actual: &str| {
        wanted.as_deref().is_none_or(|wanted| wanted.is_empty() || wanted == actual)
    };
    if !stands_for(&toleration.effect, &taint.effect) || !stands_for(&toleration.key, &taint.key) {
        return false;
    }
    let value = toleration.value.as_deref().unwrap_or_default();
    let tainted = taint.value.as_deref().unwrap_or_default();
    let numbers = || Some((tainted.parse::<i64>().ok()?, value.parse::<i64>().ok()?));
    match toleration.operator.as_deref().unwrap_or_default() {
        "" | "Equal" => value == tainted,
        "Exists" => true,
        // Alpha since 1.35; the API refuses these words where the gate is off.
        "Gt" => numbers().is_some_and(|(tainted, value)| tainted > value),
        "Lt" => numbers().is_some_and(|(tainted, value)| tainted < value),
        _ => false,
    }
}

fn describe_label(node: &NodeView, key: &str) -> String {
    match node.labels.get(key) {
        Some(value) => format!("{key}={value}"),
        None => format!("{key} is not set"),
    }
}

fn describe_requirement(requirement: &NodeSelectorRequirement) -> String {
    let NodeSelectorRequirement { key, operator, values } = requirement;
    match values.as_deref().unwrap_or_default() {
        [] => format!("{key} {operator}"),
        values => format!("{key} {operator} [{}]", values.join(", ")),
    }
}

fn describe_taint(taint: &Taint) -> String {
    let Taint { key, effect, .. } = taint;
    match taint.value.as_deref().unwrap_or_default() {
        "" => format!("{key}:{effect}"),
        value => format!("{key}={value}:{effect}"),
    }
}

#[cfg(test)]
mod tests;
