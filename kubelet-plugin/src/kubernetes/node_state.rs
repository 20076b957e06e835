//! Publishes what this node holds as its `NodeState` object, on change only.
//!
//! ```text
//! held claims change --50 ms--> as stored? --yes--> wait for a change, or look again in some minutes
//!                                   | no
//!                                   v
//!                          create or replace --failed--> back-off, read again
//! ```

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Api, Client};
use lanemate_api::node_state::{ClaimRef, HeldClaim, MAX_HELD, NodeState, NodeStateStatus};
use lanemate_runtime::backoff::{Backoff, spread};
use lanemate_runtime::call::{CallError, call};
use lanemate_runtime::shutdown::{InputEnded, told_to_end};
use tokio::sync::watch;
use tokio::time::Instant;

use super::change::change;
use super::{as_plugin, node};
use crate::fault::Point;
use crate::state::Held;

/// Changes of one Prepare that are written as one.
const GATHER: Duration = Duration::from_millis(50);
/// Between this and twice this, the object is looked at when nothing changes: nobody tells when it is
/// removed or its owner made again. 5,000 nodes make about 17 such reads a second.
const LOOK_AGAIN: Duration = Duration::from_secs(200);
/// Between this and twice this, the next try where the CustomResourceDefinition is not installed.
const NOT_INSTALLED: Duration = Duration::from_secs(60);
const POINTS: [Point; 2] = [Point::NodeStateBeforeWrite, Point::NodeStateAfterWrite];

/// What is known between writes.
struct Publisher {
    client: Client,
    states: Api<NodeState>,
    node: String,
    /// As the API server has it; absent when it has to be read.
    stored: Option<NodeState>,
    owner: Option<OwnerReference>,
    is_missing_told: bool,
}

/// Why it is not published.
#[derive(Debug, thiserror::Error)]
enum PublishError {
    #[error(transparent)]
    Call(#[from] CallError),
    #[error(
        "{0}: apply deploy/crds/nodestates.lanemate.dev.yaml; claims are prepared all the same"
    )]
    NotInstalled(CallError),
}

/// Publishes until it is told to end. Trouble with the API server is logged and tried again; nothing
/// else waits for it.
///
/// # Errors
/// When nobody is left who could tell what is held.
pub async fn run(
    client: Client,
    node: String,
    mut held: watch::Receiver<Arc<Vec<Held>>>,
    mut shutdown: watch::Receiver<bool>,
) -> Result<(), InputEnded> {
    let states = Api::all(client.clone());
    let mut publisher =
        Publisher { client, states, node, stored: None, owner: None, is_missing_told: false };
    let mut backoff = Backoff::default();
    // After a failure, changes wait as well.
    let mut not_before = Instant::now();
    let mut due = not_before;
    let mut is_changed = false;
    loop {
        tokio::select! {
            () = told_to_end(&mut shutdown) => return Ok(()),
            () = tokio::time::sleep_until(due) => {}
            changed = held.changed() => {
                changed.map_err(|_| InputEnded { task: "nodestates", input: "held claims" })?;
                due = due.min(Instant::now() + GATHER).max(not_before);
                is_changed = true;
                continue;
            }
        }
        if !std::mem::take(&mut is_changed) {
            publisher.stored = None;
        }
        let wanted = status(&held.borrow_and_update());
        let published = tokio::select! {
            () = told_to_end(&mut shutdown) => return Ok(()),
            published = publisher.publish(wanted) => published,
        };
        due = match published {
            Ok(()) => {
                backoff.reset();
                Instant::now() + spread(LOOK_AGAIN)
            }
            Err(error) => {
                not_before = Instant::now() + publisher.after(&error, &mut backoff);
                not_before
            }
        };
    }
}

impl Publisher {
    /// Makes the stored object say what is held.
    async fn publish(&mut self, status: NodeStateStatus) -> Result<(), PublishError> {
        let is_fresh = self.stored.is_none();
        let owner = match self.owner.take() {
            Some(owner) if !is_fresh => owner,
            _ => node::owner(&self.client, &self.node).await?,
        };
        let stored = match self.stored.take() {
            Some(stored) => Some(stored),
            None => self.read().await?,
        };
        let owners = vec![owner.clone()];
        let written = match stored {
            Some(stored)
                if stored.status == status
                    && stored.metadata.owner_references.as_ref() == Some(&owners) =>
            {
                stored
            }
            Some(mut stored) => {
                stored.status = status;
                stored.metadata.owner_references = Some(owners);
                stored.metadata.managed_fields = None;
                self.replace(&stored).await?
            }
            None => {
                let mut state = NodeState::new(&self.node, status);
                state.metadata.owner_references = Some(owners);
                self.create(&state).await?
            }
        };
        self.stored = Some(written);
        self.owner = Some(owner);
        self.is_missing_told = false;
        Ok(())
    }

    /// How long to wait after a failure. What is stored is no longer known then.
    fn after(&mut self, error: &PublishError, backoff: &mut Backoff) -> Duration {
        self.stored = None;
        match error {
            PublishError::Call(call) => {
                let wait = backoff.next_wait().max(call.retry_after());
                tracing::warn!(%error, retry_in = ?wait, "NodeState not published");
                wait
            }
            PublishError::NotInstalled(_) => {
                if !std::mem::replace(&mut self.is_missing_told, true) {
                    tracing::warn!(%error, "NodeState not published");
                }
                spread(NOT_INSTALLED)
            }
        }
    }

    async fn read(&self) -> Result<Option<NodeState>, CallError> {
        let deed = || format!("get nodestates {}", self.node);
        match call(deed, self.states.get(&self.node)).await {
            // Or there is no such kind; the attempt to create it tells.
            Err(error) if error.is_not_found() => Ok(None),
            found => found.map(Some),
        }
    }

    /// Only the kind can be what is not found here.
    async fn create(&self, state: &NodeState) -> Result<NodeState, PublishError> {
        let deed = || format!("create nodestates {}", self.node);
        let created = change(POINTS, deed, self.states.create(&as_plugin(), state)).await;
        created.map_err(|error| match error {
            CallError::NotFound { .. } => PublishError::NotInstalled(error),
            error => PublishError::Call(error),
        })
    }

    async fn replace(&self, state: &NodeState) -> Result<NodeState, CallError> {
        let deed = || format!("update nodestates {}", self.node);
        change(POINTS, deed, self.states.replace(&self.node, &as_plugin(), state)).await
    }
}

/// What is held, as published.
fn status(held: &[Held]) -> NodeStateStatus {
    let published = |held: &Held| {
        let claim = ClaimRef {
            namespace: Some(held.claim.namespace.clone()),
            name: Some(held.claim.name.clone()),
            uid: held.claim.uid.to_string(),
        };
        HeldClaim { claim, devices: held.devices.clone(), state: held.state }.within_bounds()
    };
    let mut held: Vec<HeldClaim> = held.iter().map(published).collect();
    held.sort_by(|one, other| one.claim.uid.cmp(&other.claim.uid));
    if held.len() > MAX_HELD {
        let more = held.len() - MAX_HELD;
        tracing::error!(
            more,
            "NodeState lists {MAX_HELD} claims, the most that it can: more are held"
        );
        held.truncate(MAX_HELD);
    }
    NodeStateStatus { held }
}
