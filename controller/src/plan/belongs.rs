//! Which driver a claim is for: ours, or others, which kube-scheduler serves.
//!
//! ```text
//! class is a ResourceClass ------------------------------> ours
//! adminAccess -------------------------------------------> others
//! selectors of class and request say device.driver == x -> by x
//! they match known devices of ours, and no others -------> ours
//! anything else -----------------------------------------> others
//! ```
//!
//! What was found is remembered with the claim, until the claim, a class or the kinds of devices in the cluster change.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::resource::v1::{DeviceClass, DeviceSelector, ResourceClaim};
use lanemate_api::names;
use lanemate_driver::allocation::Cluster;
use lanemate_driver::claim::{Classes, Step};

use super::conjunct::named_driver;
use crate::id::{Key, Uid, Version};
use crate::index::Index;

/// Whose devices a claim asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Side {
    /// Ours alone.
    Ours,
    /// None of ours.
    Others,
    /// Both: names of a request of ours and of one of others.
    Mixed(String, String),
    /// It cannot be said, for this reason.
    Unclear(String),
}

/// What is known of an unallocated claim.
#[derive(Clone, Debug)]
pub struct Known {
    version: Version,
    /// Whose devices it asks for.
    pub side: Side,
    /// Claims with the same number ask for the same.
    pub shape: u64,
    /// Classes and counts.
    pub wants: Vec<(String, u64)>,
}

impl Known {
    /// It asks for devices of ours.
    pub fn is_ours(&self) -> bool {
        matches!(self.side, Side::Ours | Side::Mixed(..))
    }
}

/// What is known of unallocated claims.
#[derive(Debug, Default)]
pub struct Belongs {
    claims: BTreeMap<Uid, Known>,
    shapes: BTreeMap<String, u64>,
    next_shape: u64,
    /// Selectors in a row, and whether they match devices of ours alone.
    matches: BTreeMap<Vec<usize>, bool>,
    stamp: Stamp,
    version: u64,
}

/// What the answers depend on beside the claims.
#[derive(Debug, Default, PartialEq)]
struct Stamp {
    classes: Vec<(bool, String, Option<String>)>,
    ours: BTreeSet<usize>,
    others: BTreeSet<usize>,
}

/// Shapes kept: more would be claims that are all different. Numbers are never used again.
const MAX_SHAPES: usize = 65_536;

/// One request, or one alternative of it.
struct Asked<'a> {
    request: &'a str,
    class: &'a str,
    selectors: &'a [DeviceSelector],
    is_admin: bool,
    count: u64,
}

impl Belongs {
    /// Begins a round: forgets everything where classes or kinds of devices changed.
    pub fn begin(&mut self, index: &Index) {
        let stamp = Stamp::of(index);
        if stamp != self.stamp {
            self.stamp = stamp;
            self.claims.clear();
            self.matches.clear();
            self.version += 1;
        }
    }

    /// Rises when an answer may be another one, or a claim be served in another way.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// What is known of a claim.
    pub fn get(&self, claim: &Uid) -> Option<&Known> {
        self.claims.get(claim)
    }

    /// Looks at the claims of some names that are not known yet as they are now.
    pub fn learn<'a>(&mut self, index: &mut Index, claims: impl Iterator<Item = &'a Key>) {
        for key in claims {
            let Some(claim) = index.claim(key) else { continue };
            let Some(object) = claim.object.clone().filter(|_| claim.grant.is_none()) else {
                continue;
            };
            let (uid, version) = (claim.id.uid.clone(), claim.version.clone());
            if self.claims.get(&uid).is_none_or(|known| known.version != version) {
                let known = self.look(index, &object, version);
                self.claims.insert(uid, known);
            }
        }
    }

    /// Forgets claims that are gone.
    pub fn retain(&mut self, lives: impl Fn(&Uid) -> bool) {
        self.claims.retain(|claim, _| lives(claim));
    }

    fn look(&mut self, index: &mut Index, claim: &ResourceClaim, version: Version) -> Known {
        let asked = asked(claim);
        let (mut ours, mut others, mut unclear) = (None, None, None);
        for one in &asked {
            match self.side(index, one) {
                Ok(true) => ours = ours.or(Some(one.request)),
                Ok(false) => others = others.or(Some(one.request)),
                Err(reason) => unclear = unclear.or(Some(reason)),
            }
        }
        let side = match (unclear, ours, others) {
            (Some(reason), ..) => Side::Unclear(reason),
            (None, Some(ours), Some(others)) => Side::Mixed(ours.to_owned(), others.to_owned()),
            (None, Some(_), None) => Side::Ours,
            (None, None, _) => Side::Others,
        };
        let wants = asked.iter().map(|one| (one.class.to_owned(), one.count)).collect();
        Known { version, side, shape: self.shape(claim), wants }
    }

    fn shape(&mut self, claim: &ResourceClaim) -> u64 {
        let devices = claim.spec.as_ref().and_then(|spec| spec.devices.as_ref());
        let text = serde_json::to_string(&devices).unwrap_or_default();
        if self.shapes.len() >= MAX_SHAPES {
            self.shapes.clear();
        }
        *self.shapes.entry(text).or_insert_with(|| {
            self.next_shape += 1;
            self.next_shape
        })
    }

    /// Whether a request is for devices of ours.
    fn side(&mut self, index: &mut Index, asked: &Asked<'_>) -> Result<bool, String> {
        if asked.is_admin {
            return Ok(false);
        }
        if index.resource_class(asked.class).is_some() {
            return Ok(true);
        }
        let Some(class) = index.device_class(asked.class) else {
            return Err(format!(
                "class {:?} of request {} does not exist: expected the name of a DeviceClass or a \
                 ResourceClass",
                asked.class, asked.request
            ));
        };
        if is_compiled(class) {
            return Ok(true);
        }
        let of_class = class.spec.as_ref().and_then(|spec| spec.selectors.as_deref());
        let selectors = of_class.unwrap_or_default().iter().chain(asked.selectors);
        let expressions: Vec<String> = selectors
            .filter_map(|selector| Some(selector.cel.as_ref()?.expression.clone()))
            .collect();
        if let Some(driver) = expressions.iter().find_map(|expression| named_driver(expression)) {
            return Ok(driver == names::DRIVER);
        }
        let classes = index.classes();
        // What does not compile here does not in kube-scheduler either, which says so.
        let Some(steps) = compile(classes, &expressions) else { return Ok(false) };
        let key: Vec<usize> = steps.iter().map(|step| step.id).collect();
        if let Some(known) = self.matches.get(&key) {
            return Ok(*known);
        }
        let ours = any_match(index.cluster(), &steps) && !any_match(index.other_cluster(), &steps);
        if self.matches.len() >= MAX_SHAPES {
            self.matches.clear();
        }
        self.matches.insert(key, ours);
        Ok(ours)
    }
}

impl Stamp {
    fn of(index: &Index) -> Self {
        let layouts = |cluster: &Cluster| cluster.nodes().map(|(_, node)| node.layout_id).collect();
        let devices = index.device_classes().map(|class| (true, &class.metadata));
        let units = index.resource_classes().map(|class| (false, &class.metadata));
        let classes = devices.chain(units).map(|(is_device, metadata)| {
            let name = metadata.name.clone().unwrap_or_default();
            (is_device, name, metadata.resource_version.clone())
        });
        Self {
            classes: classes.collect(),
            ours: layouts(index.cluster()),
            others: layouts(index.other_cluster()),
        }
    }
}

/// The requests of a claim; each alternative counts as one.
fn asked(claim: &ResourceClaim) -> Vec<Asked<'_>> {
    let devices = claim.spec.as_ref().and_then(|spec| spec.devices.as_ref());
    let requests = devices.and_then(|devices| devices.requests.as_deref()).unwrap_or_default();
    let count = |count: Option<i64>| count.and_then(|c| u64::try_from(c).ok()).unwrap_or(1);
    let mut all = Vec::new();
    for request in requests {
        if let Some(exactly) = &request.exactly {
            all.push(Asked {
                request: &request.name,
                class: &exactly.device_class_name,
                selectors: exactly.selectors.as_deref().unwrap_or_default(),
                is_admin: exactly.admin_access == Some(true),
                count: count(exactly.count),
            });
        }
        for alternative in request.first_available.iter().flatten() {
            all.push(Asked {
                request: &request.name,
                class: &alternative.device_class_name,
                selectors: alternative.selectors.as_deref().unwrap_or_default(),
                is_admin: false,
                count: count(alternative.count),
            });
        }
    }
    all
}

/// The DeviceClass was compiled from a ResourceClass.
fn is_compiled(class: &DeviceClass) -> bool {
    let owners = class.metadata.owner_references.iter().flatten();
    let mut ours = owners.filter(|owner| {
        owner.kind == "ResourceClass" && owner.api_version.starts_with("lanemate.dev/")
    });
    ours.next().is_some()
}

fn compile(classes: &mut Classes, expressions: &[String]) -> Option<Vec<Arc<Step>>> {
    expressions.iter().map(|expression| classes.step(expression).ok()).collect()
}

/// Some device passes all selectors, whoever holds it. Nodes that are alike are looked at once, unless a selector reads
/// what is unique to a node.
fn any_match(cluster: &Cluster, steps: &[Arc<Step>]) -> bool {
    let reads_identity = steps.iter().any(|step| step.reads_identity);
    let mut seen = BTreeSet::new();
    cluster.nodes().any(|(_, node)| {
        let is_new = seen.insert(node.layout_id) || reads_identity;
        let passes = |p: usize| steps.iter().all(|step| node.matches(step, p).unwrap_or(false));
        is_new && (0..node.layout.len()).any(passes)
    })
}
