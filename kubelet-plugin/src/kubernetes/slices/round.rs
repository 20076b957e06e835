//! One round: list, plan, write, compare what came back.

use std::collections::BTreeMap;

use k8s_openapi::api::resource::v1::ResourceSlice;
use kube::api::{DeleteParams, ListParams, Preconditions};
use kube::{Api, Client, ResourceExt};
use lanemate_runtime::call::{CallError, call};

use super::content::Content;
use super::plan::{Memory, Wanted, Write, plan};
use super::seen::version;
use crate::fault::Point;
use crate::kubernetes::change::change;
use crate::kubernetes::{as_plugin, node};
use crate::telemetry::metrics::Metrics;

/// Does rounds.
pub(super) struct Rounds {
    client: Client,
    slices: Api<ResourceSlice>,
    node: String,
    selector: String,
    memory: Memory,
    metrics: Metrics,
}

/// What a round has led to: the slices in the cluster are what they should be.
#[derive(Debug, Default)]
pub(super) struct Done {
    /// Names and resourceVersions.
    pub(super) versions: BTreeMap<String, u64>,
    /// Generation of the pool.
    pub(super) generation: i64,
    /// Devices in all slices.
    pub(super) devices: usize,
    /// Writes that it took.
    pub(super) writes: usize,
    /// What the API server made of what was sent, where that differs.
    pub(super) differences: Vec<String>,
}

impl Rounds {
    pub(super) fn new(client: Client, node: String, selector: String, metrics: Metrics) -> Self {
        let slices = Api::all(client.clone());
        Self { client, slices, node, selector, memory: Memory::default(), metrics }
    }

    /// Makes the slices in the cluster what they should be.
    pub(super) async fn go(&mut self, wanted: &[ResourceSlice]) -> Result<Done, CallError> {
        let stored = self.list().await?;
        let owner = node::owner(&self.client, &self.node).await?;
        let plan = plan(&stored, Wanted { slices: wanted, owner: &owner }, &self.memory);
        let mut done = Done {
            versions: stored.iter().map(|slice| (slice.name_any(), version_of(slice))).collect(),
            generation: plan.generation,
            devices: wanted.iter().map(|slice| Content::of(&slice.spec).devices()).sum(),
            writes: plan.writes.len(),
            differences: Vec::new(),
        };
        for write in plan.writes {
            let written = self.write(write, &mut done).await;
            self.metrics.slice_write(match &written {
                Ok(()) => "success",
                Err(error) if error.is_conflict() => "conflict",
                Err(_) => "error",
            });
            written?;
        }
        self.memory.published(wanted, done.generation);
        Ok(done)
    }

    async fn list(&self) -> Result<Vec<ResourceSlice>, CallError> {
        let deed = || format!("list resourceslices of node {}", self.node);
        let of_node = ListParams::default().fields(&self.selector);
        Ok(call(deed, self.slices.list(&of_node)).await?.items)
    }

    async fn write(&mut self, write: Write, done: &mut Done) -> Result<(), CallError> {
        let (sent, came_back) = match write {
            Write::Delete { name, uid, version } => {
                self.delete(&name, uid, version).await?;
                done.versions.remove(&name);
                return Ok(());
            }
            Write::Update(slice) => {
                let came_back = self.update(&slice).await?;
                (slice, came_back)
            }
            Write::Create(slice) => {
                let came_back = self.create(&slice).await?;
                (slice, came_back)
            }
        };
        done.versions.insert(came_back.name_any(), version_of(&came_back));
        let differences = self.memory.answered(&sent, &came_back);
        let name = sent.name_any();
        done.differences.extend(differences.into_iter().map(|what| format!("{name}: {what}")));
        Ok(())
    }

    async fn create(&self, slice: &ResourceSlice) -> Result<ResourceSlice, CallError> {
        let deed = || format!("create resourceslices {}", slice.name_any());
        let points = [Point::PublishBeforeCreate, Point::PublishAfterCreate];
        change(points, deed, self.slices.create(&as_plugin(), slice)).await
    }

    async fn update(&self, slice: &ResourceSlice) -> Result<ResourceSlice, CallError> {
        let name = slice.name_any();
        let deed = || format!("update resourceslices {name}");
        let points = [Point::PublishBeforeUpdate, Point::PublishAfterUpdate];
        change(points, deed, self.slices.replace(&name, &as_plugin(), slice)).await
    }

    async fn delete(
        &self,
        name: &str,
        uid: Option<String>,
        version: Option<String>,
    ) -> Result<(), CallError> {
        let deed = || format!("delete resourceslices {name}");
        let preconditions = Some(Preconditions { resource_version: version, uid });
        let only_this = DeleteParams { preconditions, ..DeleteParams::default() };
        let points = [Point::PublishBeforeDelete, Point::PublishAfterDelete];
        match change(points, deed, self.slices.delete(name, &only_this)).await {
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(()),
        }
    }
}

fn version_of(slice: &ResourceSlice) -> u64 {
    version(slice.metadata.resource_version.as_deref())
}
