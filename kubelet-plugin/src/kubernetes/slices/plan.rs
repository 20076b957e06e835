//! Which writes make the slices in the cluster what they should be. Pure.
//!
//! All slices of a pool carry one generation, and it is raised when, and only when, what they say
//! changes: readers take the slices of the highest generation, when they have seen all of them.

use std::collections::BTreeMap;

use k8s_openapi::api::resource::v1::ResourceSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use super::content::{Content, keep_times};

/// What should be in the cluster.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// All slices of the pool; their generation does not matter.
    pub slices: &'a [ResourceSlice],
    /// The Node.
    pub owner: &'a OwnerReference,
}

/// What is remembered from write to write.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// Generation of the last complete publication, and what was wanted then, by slice.
    published: Option<(i64, BTreeMap<String, Content>)>,
    /// What the API server makes of what is sent, where that differs: by slice, sent and stored.
    accepted: BTreeMap<String, (Content, Content)>,
}

/// The writes, in their order.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Deletes, then updates, then creates. Empty: all is as it should be.
    pub writes: Vec<Write>,
    /// Generation of the pool afterwards.
    pub generation: i64,
}

/// One write.
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// Delete a slice that should not be, as long as it is this one.
    Delete {
        /// Name.
        name: String,
        /// UID.
        uid: Option<String>,
        /// resourceVersion.
        version: Option<String>,
    },
    /// Replace a slice; the resourceVersion is the one that was seen.
    Update(Box<ResourceSlice>),
    /// Create a slice.
    Create(Box<ResourceSlice>),
}

impl Memory {
    /// All wanted slices are in the cluster.
    pub fn published(&mut self, wanted: &[ResourceSlice], generation: i64) {
        self.published = Some((generation, contents(wanted)));
        let names = self.published.as_ref().map(|(_, contents)| contents);
        self.accepted.retain(|name, _| names.is_some_and(|names| names.contains_key(name)));
    }

    /// Takes what came back for what was sent as good, and says where they differ. Without this, a
    /// field that the API server drops would be written for ever.
    pub fn answered(&mut self, sent: &ResourceSlice, came_back: &ResourceSlice) -> Vec<String> {
        let (sent_content, stored) = (Content::of(&sent.spec), Content::of(&came_back.spec));
        let differences = sent_content.differences(&stored);
        if differences.is_empty() {
            self.accepted.remove(name(sent));
        } else {
            self.accepted.insert(name(sent).to_owned(), (sent_content, stored));
        }
        differences
    }

    fn generation(&self) -> i64 {
        self.published.as_ref().map_or(0, |(generation, _)| *generation)
    }

    /// True when exactly this was published last, at a generation.
    fn is_last(&self, wanted: &[ResourceSlice], generation: i64) -> bool {
        self.published.as_ref().is_some_and(|(last, contents_then)| {
            *last == generation && *contents_then == contents(wanted)
        })
    }

    fn is_same(&self, wanted: &ResourceSlice, stored: &ResourceSlice) -> bool {
        let (wanted_content, stored) = (Content::of(&wanted.spec), Content::of(&stored.spec));
        if wanted_content == stored {
            return true;
        }
        let accepted = self.accepted.get(name(wanted));
        accepted.is_some_and(|(sent, as_stored)| *sent == wanted_content && *as_stored == stored)
    }
}

/// Plans. `stored` are all slices of our driver and node, as listed.
pub fn plan(stored: &[ResourceSlice], wanted: Wanted<'_>, memory: &Memory) -> Plan {
    let highest = stored.iter().map(|slice| slice.spec.pool.generation).max().unwrap_or(0);
    // Nothing can be above the highest number that there is: what has it goes, and we begin anew.
    let is_spent = highest == i64::MAX;
    let top = if is_spent { 0 } else { highest.max(memory.generation()) };
    let (kept, obsolete): (Vec<&ResourceSlice>, Vec<&ResourceSlice>) = stored
        .iter()
        .partition(|slice| !is_spent && wanted.slices.iter().any(|wanted| is_it(wanted, slice)));
    let kept: BTreeMap<&str, &ResourceSlice> =
        kept.into_iter().map(|slice| (name(slice), slice)).collect();
    let is_current = |wanted: &ResourceSlice| {
        kept.get(name(wanted)).is_none_or(|stored| {
            stored.spec.pool.generation == top && memory.is_same(wanted, stored)
        })
    };
    let is_complete = wanted.slices.iter().all(|wanted| kept.contains_key(name(wanted)));
    let is_unchanged = wanted.slices.iter().all(is_current)
        && (is_complete || (!is_spent && memory.is_last(wanted.slices, top)));
    let generation = if is_unchanged { top } else { top + 1 };

    let mut writes: Vec<Write> = obsolete.into_iter().map(delete).collect();
    let mut creates = Vec::new();
    for slice in wanted.slices {
        match kept.get(name(slice)) {
            None => creates.push(Write::Create(Box::new(create(slice, wanted.owner, generation)))),
            Some(stored) if is_unchanged && is_owned(stored, wanted.owner) => {}
            Some(stored) => {
                let updated = update(slice, stored, wanted.owner, generation);
                writes.push(Write::Update(Box::new(updated)));
            }
        }
    }
    writes.append(&mut creates);
    Plan { writes, generation }
}

fn name(slice: &ResourceSlice) -> &str {
    slice.metadata.name.as_deref().unwrap_or_default()
}

fn contents(slices: &[ResourceSlice]) -> BTreeMap<String, Content> {
    let content = |slice: &ResourceSlice| (name(slice).to_owned(), Content::of(&slice.spec));
    slices.iter().map(content).collect()
}

/// True when one can become the other by an update: these fields cannot be changed.
fn is_it(wanted: &ResourceSlice, stored: &ResourceSlice) -> bool {
    name(wanted) == name(stored)
        && wanted.spec.driver == stored.spec.driver
        && wanted.spec.node_name == stored.spec.node_name
        && wanted.spec.pool.name == stored.spec.pool.name
}

fn is_owned(stored: &ResourceSlice, owner: &OwnerReference) -> bool {
    match stored.metadata.owner_references.as_deref() {
        Some([found]) => found.kind == owner.kind && found.uid == owner.uid,
        _ => false,
    }
}

fn delete(slice: &ResourceSlice) -> Write {
    Write::Delete {
        name: name(slice).to_owned(),
        uid: slice.metadata.uid.clone(),
        version: slice.metadata.resource_version.clone(),
    }
}

fn create(wanted: &ResourceSlice, owner: &OwnerReference, generation: i64) -> ResourceSlice {
    let mut slice = wanted.clone();
    slice.spec.pool.generation = generation;
    slice.metadata = ObjectMeta {
        name: wanted.metadata.name.clone(),
        owner_references: Some(vec![owner.clone()]),
        ..ObjectMeta::default()
    };
    slice
}

/// Labels and annotations of others stay.
fn update(
    wanted: &ResourceSlice,
    stored: &ResourceSlice,
    owner: &OwnerReference,
    generation: i64,
) -> ResourceSlice {
    let mut slice = create(wanted, owner, generation);
    keep_times(&mut slice.spec, &stored.spec);
    slice.metadata = ObjectMeta {
        owner_references: slice.metadata.owner_references,
        managed_fields: None,
        ..stored.metadata.clone()
    };
    slice
}

#[cfg(test)]
mod tests;
