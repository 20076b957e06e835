//! The pods of a cluster as rules between pods see them: counted per domain, once for each pod that is to be placed.
//!
//! A pod without such rules, in a cluster without required anti-affinity, looks at no other pod.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::rules::{Labels, Spread, Term};
use super::{
    NodeView, PodNeeds, Unfit, describe_label, node_affinity_met, node_selector_met, unfit,
};

/// Namespace and name of a pod.
pub type PodId = (String, String);

/// Nodes, and the pods on them that are not over, those included that are pinned and not yet bound.
#[derive(Debug, Default)]
pub struct Surroundings {
    nodes: BTreeMap<String, Arc<NodeView>>,
    pods: BTreeMap<PodId, Placed>,
    /// Pods with required anti-affinity: it counts against others too.
    repelling: BTreeSet<PodId>,
    /// Labels by namespace.
    namespaces: BTreeMap<String, Labels>,
}

#[derive(Debug)]
struct Placed {
    node: String,
    labels: Labels,
    terminating: bool,
    anti_affinity: Vec<Term>,
}

/// A domain: label of nodes and its value.
type Domain = (String, String);

/// What is around one pod, in every domain.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Around {
    /// Domains with a pod that does not suffer this one.
    repelled: BTreeSet<Domain>,
    /// Domains with a pod that matches all terms of the required affinity.
    near: BTreeSet<Domain>,
    /// Domains with a pod that the anti-affinity of this one selects.
    far: BTreeSet<Domain>,
    /// The pod would be the first that its own affinity asks for.
    is_first: bool,
    /// Matching pods by value of the label, for each constraint.
    spread: Vec<BTreeMap<String, i64>>,
}

impl Surroundings {
    /// Adds or replaces a node.
    pub fn apply_node(&mut self, node: Arc<NodeView>) {
        self.nodes.insert(node.name.clone(), node);
    }

    /// Forgets a node.
    pub fn remove_node(&mut self, name: &str) {
        self.nodes.remove(name);
    }

    /// Adds or replaces a namespace.
    pub fn apply_namespace(&mut self, name: &str, labels: Labels) {
        self.namespaces.insert(name.to_owned(), labels);
    }

    /// Forgets a namespace.
    pub fn remove_namespace(&mut self, name: &str) {
        self.namespaces.remove(name);
    }

    /// Adds or replaces a pod of a node, which need not be known yet.
    pub fn apply_pod(&mut self, id: PodId, node: &str, pod: &PodNeeds) {
        self.remove_pod(&id);
        if !pod.anti_affinity.is_empty() {
            self.repelling.insert(id.clone());
        }
        let placed = Placed {
            node: node.to_owned(),
            labels: pod.labels.clone(),
            terminating: pod.terminating,
            anti_affinity: pod.anti_affinity.clone(),
        };
        self.pods.insert(id, placed);
    }

    /// Forgets a pod.
    pub fn remove_pod(&mut self, id: &PodId) {
        self.pods.remove(id);
        self.repelling.remove(id);
    }

    /// What is around a pod that is not placed yet.
    pub fn around(&self, pod: &PodNeeds) -> Around {
        let mut around = Around::default();
        let own = (pod.namespace.as_str(), self.labels_of(&pod.namespace));
        for placed in self.repelling.iter().filter_map(|id| self.pods.get(id)) {
            let terms = placed.anti_affinity.iter().filter(|it| it.selects(own, &pod.labels));
            around.repelled.extend(terms.filter_map(|term| self.domain(term, placed)));
        }
        if !pod.affinity.is_empty() || !pod.anti_affinity.is_empty() {
            for ((namespace, _), placed) in &self.pods {
                let of_other = (namespace.as_str(), self.labels_of(namespace));
                let selects = |term: &&Term| term.selects(of_other, &placed.labels);
                if pod.affinity.iter().all(|term| selects(&term)) {
                    let near = pod.affinity.iter();
                    around.near.extend(near.filter_map(|term| self.domain(term, placed)));
                }
                let far = pod.anti_affinity.iter().filter(selects);
                around.far.extend(far.filter_map(|term| self.domain(term, placed)));
            }
            around.is_first = around.near.is_empty()
                && pod.affinity.iter().all(|term| term.selects(own, &pod.labels));
        }
        if !pod.spread.is_empty() {
            around.spread = self.spread(pod);
        }
        around
    }

    fn labels_of(&self, namespace: &str) -> &Labels {
        // A namespace that is not known has no labels: a selector that asks for any does not match.
        static NONE: Labels = Labels::new();
        self.namespaces.get(namespace).unwrap_or(&NONE)
    }

    fn domain(&self, term: &Term, placed: &Placed) -> Option<Domain> {
        let value = self.nodes.get(&placed.node)?.labels.get(&term.topology_key)?;
        Some((term.topology_key.clone(), value.clone()))
    }

    /// Counts for each constraint. A domain counts, if only as empty, when a node in it has every key of the pod's
    /// constraints and passes the policies of this one.
    fn spread(&self, pod: &PodNeeds) -> Vec<BTreeMap<String, i64>> {
        let mut counts = vec![BTreeMap::new(); pod.spread.len()];
        let included = |node: &NodeView, rule: &Spread| {
            let has_keys = pod.spread.iter().all(|it| node.labels.contains_key(&it.topology_key));
            has_keys && is_included(pod, node, rule)
        };
        for (rule, counts) in pod.spread.iter().zip(&mut counts) {
            for node in self.nodes.values().filter(|node| included(node, rule)) {
                if let Some(value) = node.labels.get(&rule.topology_key) {
                    counts.entry(value.clone()).or_insert(0);
                }
            }
        }
        for placed in self.of_namespace(&pod.namespace).filter(|placed| !placed.terminating) {
            let Some(node) = self.nodes.get(&placed.node) else { continue };
            for (rule, counts) in pod.spread.iter().zip(&mut counts) {
                if rule.counts(&placed.labels)
                    && included(node, rule)
                    && let Some(count) =
                        node.labels.get(&rule.topology_key).and_then(|value| counts.get_mut(value))
                {
                    *count += 1;
                }
            }
        }
        counts
    }

    fn of_namespace(&self, namespace: &str) -> impl Iterator<Item = &Placed> {
        let from = (namespace.to_owned(), String::new());
        let pods = self.pods.range(from..).take_while(move |((other, _), _)| other == namespace);
        pods.map(|(_, placed)| placed)
    }
}

fn is_included(pod: &PodNeeds, node: &NodeView, rule: &Spread) -> bool {
    let selected = || {
        node_selector_met(Some(&pod.node_selector), node).is_ok()
            && node_affinity_met(pod.node_affinity.as_ref(), node).is_ok()
    };
    let suffered = || pod.node_wishes().repelled_by(node).is_none();
    (!rule.honors_affinity || selected()) && (!rule.honors_taints || suffered())
}

impl Around {
    /// Says whether the rules between pods allow the pod on the node.
    pub(super) fn allows(&self, pod: &PodNeeds, node: &NodeView) -> Result<(), Unfit> {
        self.spread_allows(pod, node)?;
        self.affinity_allows(pod, node)?;
        let domain = |term: &Term| {
            Some((term.topology_key.clone(), node.labels.get(&term.topology_key)?.clone()))
        };
        let here = pod.anti_affinity.iter().filter_map(domain);
        if let Some((key, value)) = here.into_iter().find(|domain| self.far.contains(domain)) {
            let what = "a pod that its required anti-affinity avoids";
            return Err(unfit(format!("{what} runs in {key}={value}")));
        }
        let is_here = |(key, value): &&Domain| node.labels.get(key) == Some(value);
        match self.repelled.iter().find(is_here) {
            Some((key, value)) => {
                let what = "the required anti-affinity of another pod";
                Err(unfit(format!("{what} keeps it out of {key}={value}")))
            }
            None => Ok(()),
        }
    }

    fn affinity_allows(&self, pod: &PodNeeds, node: &NodeView) -> Result<(), Unfit> {
        for term in &pod.affinity {
            let key = &term.topology_key;
            let has = describe_label(node, key);
            let Some(value) = node.labels.get(key) else {
                return Err(unfit(format!("required pod affinity not met ({has})")));
            };
            if !self.is_first && !self.near.contains(&(key.clone(), value.clone())) {
                let lacks = "required pod affinity not met: no such pod runs in";
                return Err(unfit(format!("{lacks} {key}={value}")));
            }
        }
        Ok(())
    }

    fn spread_allows(&self, pod: &PodNeeds, node: &NodeView) -> Result<(), Unfit> {
        for (rule, counts) in pod.spread.iter().zip(&self.spread) {
            let key = &rule.topology_key;
            let Some(value) = node.labels.get(key) else {
                return Err(unfit(format!("topology spread not met ({key} is not set)")));
            };
            let enough = counts.len() >= rule.min_domains;
            let least = counts.values().min().copied().filter(|_| enough).unwrap_or(0);
            let here = counts.get(value).copied().unwrap_or(0);
            let own = i64::from(rule.pods.matches(&pod.labels));
            if here + own - least > rule.max_skew {
                let max = rule.max_skew;
                return Err(unfit(format!(
                    "topology spread not met: {here} such pods run in {key}={value}, {least} \
                     where there are fewest, and maxSkew is {max}"
                )));
            }
        }
        Ok(())
    }
}
