//! Whether what a watch tells is news: our own writes come back through it.

use std::collections::BTreeMap;

use k8s_openapi::api::resource::v1::ResourceSlice;
use kube::ResourceExt;
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::Event;

/// The slices as last published, and as the watch lists them.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Name and resourceVersion.
    published: BTreeMap<String, u64>,
    listed: BTreeMap<String, u64>,
}

impl Seen {
    /// These are the slices now.
    pub(super) fn published(&mut self, slices: BTreeMap<String, u64>) {
        self.published = slices;
    }

    /// True when the cluster may not be as published.
    pub(super) fn is_news(&mut self, event: &Event<PartialObjectMeta<ResourceSlice>>) -> bool {
        match event {
            Event::Apply(slice) => {
                let (name, version) = identity(slice);
                // Versions grow, so what is older was written before what is published now.
                self.published.get(&name).is_none_or(|published| version > *published)
            }
            Event::Delete(slice) => {
                let (name, version) = identity(slice);
                self.published.get(&name).is_some_and(|published| version > *published)
            }
            Event::Init => {
                self.listed.clear();
                false
            }
            Event::InitApply(slice) => {
                let (name, version) = identity(slice);
                self.listed.insert(name, version);
                false
            }
            Event::InitDone => std::mem::take(&mut self.listed) != self.published,
        }
    }
}

/// A version that is no number is the newest: then every event is news.
pub(super) fn version(text: Option<&str>) -> u64 {
    text.and_then(|text| text.parse().ok()).unwrap_or(u64::MAX - 1)
}

fn identity(slice: &PartialObjectMeta<ResourceSlice>) -> (String, u64) {
    let version = slice.metadata.resource_version.as_deref();
    (slice.name_any(), version.and_then(|text| text.parse().ok()).unwrap_or(u64::MAX))
}
