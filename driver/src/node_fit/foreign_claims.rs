//! Claims of other drivers as a filter of nodes: kube-scheduler allocates them, and a pod must not be pinned where it
//! cannot.
//!
//! They are judged on a [`Cluster`] of their own that holds the devices of the other drivers.

use k8s_openapi::api::resource::v1::ResourceClaim;

use super::{Unfit, unfit};
use crate::allocation::{Answer, Cluster, Evaluations, Problem, Shortage, judge};
use crate::claim::{Claim, Classes};
use crate::pool::{DeviceError, PoolError};

/// The claims of one pod that wait for devices of other drivers.
#[derive(Clone, Debug)]
pub struct ForeignClaims {
    problem: Problem,
}

/// Whether a node can satisfy such claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ForeignFit {
    /// It can, beside what allocated claims hold.
    Fits,
    /// It cannot.
    Unfit(Unfit),
    /// It cannot be told: the pod is not to be pinned there.
    NotJudged(NotJudged),
}

/// Why claims or nodes cannot be judged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotJudged {
    /// A claim asks for what the allocation core does not implement, or for a class that is broken.
    #[error("claim {claim} of another driver is not judged: {reason}")]
    Claim {
        /// `namespace/name`.
        claim: String,
        /// The field and why not.
        reason: String,
    },
    /// The claims are too large together.
    #[error("claims of other drivers are not judged: {0}")]
    Together(String),
    /// The devices of a node are not known, or use what the core does not implement.
    #[error("claims of other drivers are not judged on node {node}: {reason}")]
    Node {
        /// Name of the node.
        node: String,
        /// Why not.
        reason: String,
    },
}

impl ForeignClaims {
    /// Reads the claims against the classes they name.
    ///
    /// # Errors
    /// When one of them cannot be judged.
    pub fn parse(claims: &[&ResourceClaim], classes: &mut Classes) -> Result<Self, NotJudged> {
        let parsed: Vec<Claim> = claims
            .iter()
            .map(|claim| {
                Claim::parse(claim, classes).map_err(|error| {
                    let meta = &claim.metadata;
                    let namespace = meta.namespace.as_deref().unwrap_or_default();
                    let name = meta.name.as_deref().unwrap_or_default();
                    let claim = format!("{namespace}/{name}");
                    NotJudged::Claim { claim, reason: error.to_string() }
                })
            })
            .collect::<Result<_, _>>()?;
        let problem = Problem::new(&parsed.iter().collect::<Vec<_>>())
            .map_err(|error| NotJudged::Together(error.to_string()))?;
        Ok(Self { problem })
    }

    /// Whether a node can satisfy them. The cluster has every node, those too that offer no device, and has reserved
    /// what allocated claims hold; a node that it could not take in is not judged.
    pub fn fit_on(
        &self,
        cluster: &Cluster,
        evaluations: &mut Evaluations,
        node: &str,
        steps: u32,
    ) -> ForeignFit {
        let not_judged = |reason: String| {
            ForeignFit::NotJudged(NotJudged::Node { node: node.to_owned(), reason })
        };
        let Some(known) = cluster.node(node) else {
            return not_judged("its devices are not known".to_owned());
        };
        let (answer, reason) = judge(cluster, evaluations, &self.problem, node, steps);
        let reason = reason.unwrap_or_default();
        let unimplemented = known.unusable.iter().find(|pool| is_unimplemented(&pool.reason));
        match answer {
            Answer::Fits(_) => ForeignFit::Fits,
            Answer::Short(shortage) if *shortage == Shortage::Budget => not_judged(reason),
            _ => match unimplemented {
                Some(pool) => not_judged(format!("pool {}: {}", pool.pool, pool.reason)),
                None => ForeignFit::Unfit(unfit(format!("claims of other drivers: {reason}"))),
            },
        }
    }
}

/// The pool may be sound, and kube-scheduler may allocate from it.
fn is_unimplemented(reason: &PoolError) -> bool {
    matches!(
        reason,
        PoolError::Unsupported { .. }
            | PoolError::Device { source: DeviceError::Unsupported { .. }, .. }
    )
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::allocation::SEARCH_BUDGET;
    use crate::pool::Slices;
    use crate::testing::cluster::{claim_value, classes, from_json};

    /// Node `n` with two devices of `x.dev` of one color, and one of another; `more` is added to the last.
    fn cluster(more: Value) -> Cluster {
        let device = |name: &str, color: &str| json!({"name": name, "attributes": {"color": {"string": color}}});
        let mut last = device("c", "blue");
        for (key, value) in more.as_object().unwrap() {
            last[key] = value.clone();
        }
        let slice = |pool: &str, devices: Value| {
            from_json(json!({
                "metadata": {"name": format!("slice-{pool}")},
                "spec": {"driver": "x.dev", "nodeName": "n", "devices": devices,
                    "pool": {"name": pool, "generation": 1, "resourceSliceCount": 1}},
            }))
        };
        let slices = [
            slice("p", json!([device("a", "red"), device("b", "red")])),
            slice("q", json!([last])),
        ];
        let index = Slices::new(&slices, |_| true);
        let mut cluster = Cluster::default();
        for node in ["n", "empty"] {
            cluster.apply_node(node, index.of_node(node, |_| false)).unwrap();
        }
        cluster
    }

    fn told(cluster: &Cluster, claim: Value, node: &str) -> String {
        let claim: ResourceClaim = from_json(claim);
        match ForeignClaims::parse(&[&claim], &mut classes(&[])) {
            Err(error) => error.to_string(),
            Ok(claims) => {
                match claims.fit_on(cluster, &mut Evaluations::default(), node, SEARCH_BUDGET) {
                    ForeignFit::Fits => "fits".to_owned(),
                    ForeignFit::Unfit(unfit) => unfit.reason,
                    ForeignFit::NotJudged(why) => why.to_string(),
                }
            }
        }
    }

    fn any(count: u32) -> Value {
        claim_value("c", &[("r", "any", count)])
    }

    fn alike(count: u32) -> Value {
        let mut claim = any(count);
        claim["spec"]["devices"]["constraints"] = json!([{"matchAttribute": "x.dev/color"}]);
        claim
    }

    #[test]
    fn a_node_is_filtered_by_what_is_left_of_other_drivers() {
        let mut cluster = cluster(json!({}));
        assert_eq!(told(&cluster, any(3), "n"), "fits");
        assert_eq!(told(&cluster, alike(2), "n"), "fits");
        assert!(told(&cluster, alike(3), "n").starts_with("claims of other drivers: "));
        let none = "claims of other drivers: request r: needs 1 device; none of the 0 here matches";
        assert_eq!(told(&cluster, any(1), "empty"), none);
        let unknown = "claims of other drivers are not judged on node m: its devices are not known";
        assert_eq!(told(&cluster, any(1), "m"), unknown);
        let device = ("x.dev".to_owned(), "p".to_owned(), "a".to_owned());
        cluster.reserve("ns/held", &[device]);
        assert_eq!(told(&cluster, any(2), "n"), "fits");
        let short = "claims of other drivers: request r: needs 3 devices; 3 of 3 devices match, 2 are \
                     free; a is held by ns/held";
        assert_eq!(told(&cluster, any(3), "n"), short);
        assert!(told(&cluster, alike(2), "n").starts_with("claims of other drivers: "));
    }

    #[test]
    fn what_is_not_implemented_is_not_judged() {
        let cluster = cluster(json!({"allowMultipleAllocations": true}));
        assert_eq!(told(&cluster, any(2), "n"), "fits", "without that pool");
        let pool = "claims of other drivers are not judged on node n: pool q: slice slice-q: device c: \
                    allowMultipleAllocations is not supported yet";
        assert_eq!(told(&cluster, any(3), "n"), pool);
        let mut all = any(1);
        all["spec"]["devices"]["requests"][0]["exactly"] =
            json!({"deviceClassName": "any", "allocationMode": "All"});
        let claim = "claim ns/c of another driver is not judged: \
                     spec.devices.requests[0].exactly.allocationMode: All: not supported yet";
        assert_eq!(told(&cluster, all, "n"), claim);
        let missing = claim_value("c", &[("r", "absent", 1)]);
        assert!(told(&cluster, missing, "n").starts_with("claim ns/c of another driver"));
    }
}
