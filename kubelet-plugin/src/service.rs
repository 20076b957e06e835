//! Prepare and Unprepare of one claim, from kubelet's call to the answer: the claim is read from the
//! API server, the state thread does the rest, and the outcome is logged, counted and told.
//!
//! ```text
//! ticket --> GET claim --found--> (tombstone: is there a pod for it?) --> state thread --> outcome
//!   ^          |  `--gone, replaced--> refused                               |
//!   |          `--no answer--> prepared already? its record answers          |
//!   `------------------------ unprepared meanwhile --------------------------'
//! ```

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use k8s_openapi::api::resource::v1::ResourceClaim;
use lanemate_api::attribute;
use lanemate_driver::attribute::AttributeValue;
use lanemate_driver::ids::Kind;
use lanemate_driver::machine::Machine;
use lanemate_driver::prepare::PreparedDevice;
use lanemate_runtime::random;
use lanemate_runtime::shutdown::Stop;
use tokio::time::{Instant, sleep};
use tracing::{Instrument, Span};

use crate::claim_id::ClaimId;
use crate::grpc::ClaimServer;
use crate::kubernetes::claims::{Claims, Lookup, LookupError};
use crate::kubernetes::events::{About, Events};
use crate::state::{Consumer, Fetched, PrepareError, Prepared, State, Ticket, UnprepareError};
use crate::telemetry::metrics::{Metrics, Operation, Outcome};

/// How often a claim is read again that was unprepared while it was read. Kubelet comes back in any
/// case, so it is a convenience.
const ATTEMPTS: usize = 3;
/// The part of the time that kubelet leaves which the state thread gets: 10 of 40 s. Reading the claim
/// gets the rest.
const FOR_THE_STATE: u32 = 4;
/// How long a claim is still read when the plugin is ending. The next instance reads it again.
const WHILE_ENDING: Duration = Duration::from_secs(5);
/// The reason of an event on a claim that is not prepared.
const PREPARE_FAILED: &str = "PrepareFailed";
/// The reason of an event on a claim whose devices could not be given back.
const UNPREPARE_FAILED: &str = "UnprepareFailed";
/// The reason of an event on a claim with a NIC that works on the host network only.
const ROCE: &str = "RoCENeedsHostNetwork";

/// Serves kubelet's calls.
pub struct Service {
    claims: Claims,
    state: State,
    events: Events,
    metrics: Metrics,
    stop: Stop,
    operations: Operations,
}

/// Ids of operations: the same for all lines of the log about one of them, and unique among the
/// instances that write into one log.
#[derive(Debug)]
struct Operations {
    instance: u16,
    last: AtomicU64,
}

/// Why a claim is not prepared.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    State(#[from] PrepareError),
    #[error("prepare claim {0}: it does not exist in the cluster any more")]
    Gone(ClaimId),
    #[error(
        "prepare claim {claim}: a claim of that name has UID {uid} now: expected the one that kubelet asks for"
    )]
    Replaced { claim: ClaimId, uid: String },
    #[error(
        "prepare claim {claim}: it cannot be read from the API server, and no record of it can answer instead; \
         kubelet tries again: {error}"
    )]
    Unread { claim: ClaimId, error: String },
}

impl Service {
    /// With all that it needs. After the wish to stop no claim is waited for that the API server does
    /// not tell of at once.
    pub fn new(claims: Claims, state: State, events: Events, metrics: Metrics, stop: Stop) -> Self {
        Self { claims, state, events, metrics, stop, operations: Operations::new() }
    }

    /// Reads the claim and has it prepared, again when it was unprepared meanwhile.
    async fn fetch_and_prepare(
        &self,
        claim: &ClaimId,
        deadline: Instant,
    ) -> Result<Prepared, Failure> {
        let mut answer = Err(PrepareError::Stale(claim.clone()));
        for _ in 0..ATTEMPTS {
            let ticket = self.state.ticket(claim.uid.clone()).await.ok_or(PrepareError::Ending)?;
            let (found, consumer) = match self.read(claim, &ticket, deadline).await {
                Ok(read) => read?,
                Err(error) => return self.recorded(claim, error).await,
            };
            let fetched = Fetched { claim: found, ticket, consumer };
            answer = self.state.prepare(fetched, deadline).await;
            match &answer {
                Err(PrepareError::Stale(_)) => tracing::info!("unprepared meanwhile: read again"),
                _ => break,
            }
        }
        Ok(answer?)
    }

    /// The claim that kubelet means, and whether a pod wants it. The outer error says that the API
    /// server did not say.
    async fn read(
        &self,
        claim: &ClaimId,
        ticket: &Ticket,
        deadline: Instant,
    ) -> Result<Result<(ResourceClaim, Consumer), Failure>, String> {
        let reading = async {
            let found = match self.claims.get(claim).await? {
                Lookup::Found(found) => *found,
                Lookup::Gone => return Ok(Err(Failure::Gone(claim.clone()))),
                Lookup::Replaced { uid } => {
                    return Ok(Err(Failure::Replaced { claim: claim.clone(), uid }));
                }
            };
            let consumer = match ticket.tombstone {
                Some(_) => self.claims.consumer(&found).await?,
                None => Consumer::NotAsked,
            };
            Ok::<_, LookupError>(Ok((found, consumer)))
        };
        let left = deadline.saturating_duration_since(Instant::now());
        let late = async {
            tokio::select! {
                () = sleep(left - left / FOR_THE_STATE) => "no answer in the time that kubelet leaves",
                () = async { self.stop.clone().requested().await; sleep(WHILE_ENDING).await } => {
                    "no answer while the plugin is ending"
                }
            }
        };
        tokio::select! {
            read = reading => read.map_err(|error| error.to_string()),
            late = late => Err(late.to_owned()),
        }
    }

    /// Running pods restart without an API server: what was prepared for them stands.
    async fn recorded(&self, claim: &ClaimId, error: String) -> Result<Prepared, Failure> {
        match self.state.prepared(claim.clone()).await {
            Some(prepared) => {
                tracing::warn!(error, "the claim cannot be read: its record answers");
                Ok(prepared)
            }
            None => Err(Failure::Unread { claim: claim.clone(), error }),
        }
    }

    fn conclude_prepare(
        &self,
        claim: &ClaimId,
        answer: Result<Prepared, Failure>,
        took: Duration,
    ) -> Result<Vec<PreparedDevice>, String> {
        let outcome = answer.as_ref().map_or_else(Failure::outcome, |_| Outcome::Success);
        self.metrics.operation(Operation::Prepare, outcome, took);
        match answer {
            Ok(prepared) => {
                let devices: Vec<&str> = prepared.devices.iter().map(|d| &*d.device).collect();
                tracing::info!(devices = devices.join(" "), ?took, "claim prepared");
                for note in &prepared.notes {
                    tracing::info!(note, "about the prepared claim");
                }
                self.tell_of_roce(claim, &prepared);
                Ok(prepared.devices)
            }
            Err(failure) => {
                let error = failure.to_string();
                tracing::warn!(error, ?outcome, ?took, "claim not prepared");
                if failure.is_for_people() {
                    self.events.warn(About::Claim(claim.clone()), PREPARE_FAILED, error.clone());
                }
                Err(error)
            }
        }
    }

    /// Which pod the devices are for is not known here, so it is told of every such NIC.
    fn tell_of_roce(&self, claim: &ClaimId, prepared: &Prepared) {
        let granted = prepared.devices.iter().map(|device| &*device.device).collect();
        let machine = self.state.machine();
        let nics = ethernet_nics(&machine.borrow(), &granted);
        if !nics.is_empty() {
            let note = format!(
                "{} on Ethernet: RDMA works in pods with hostNetwork: true alone, as its addresses \
                 are those of the node's interfaces",
                nics.join(", ")
            );
            self.events.inform(About::Claim(claim.clone()), ROCE, note);
        }
    }

    fn conclude_unprepare(
        &self,
        claim: &ClaimId,
        answer: Result<(), UnprepareError>,
        took: Duration,
    ) -> Result<(), String> {
        let outcome = if answer.is_ok() { Outcome::Success } else { Outcome::Error };
        self.metrics.operation(Operation::Unprepare, outcome, took);
        let Err(failure) = answer else {
            tracing::info!(?took, "claim unprepared");
            return Ok(());
        };
        let error = failure.to_string();
        tracing::warn!(error, ?took, "claim not unprepared");
        if matches!(failure, UnprepareError::Failed(_)) {
            self.events.warn(About::Claim(claim.clone()), UNPREPARE_FAILED, error.clone());
        }
        Err(error)
    }

    fn span(&self, deed: &'static str, claim: &ClaimId) -> Span {
        let ClaimId { namespace, name, uid } = claim;
        let operation = self.operations.next();
        // The JSON log has the span's own name under `name`.
        tracing::info_span!("claim", deed, operation, namespace, claim = name, %uid)
    }
}

impl ClaimServer for Service {
    async fn prepare(
        &self,
        claim: ClaimId,
        deadline: Instant,
    ) -> Result<Vec<PreparedDevice>, String> {
        let span = self.span("prepare", &claim);
        async {
            let begun = Instant::now();
            let answer = self.fetch_and_prepare(&claim, deadline).await;
            self.conclude_prepare(&claim, answer, begun.elapsed())
        }
        .instrument(span)
        .await
    }

    async fn unprepare(&self, claim: ClaimId, deadline: Instant) -> Result<(), String> {
        let span = self.span("unprepare", &claim);
        async {
            let begun = Instant::now();
            let answer = self.state.unprepare(claim.clone(), deadline).await;
            self.conclude_unprepare(&claim, answer, begun.elapsed())
        }
        .instrument(span)
        .await
    }
}

impl Failure {
    fn outcome(&self) -> Outcome {
        match self {
            Self::State(PrepareError::Refused(_)) | Self::Gone(_) | Self::Replaced { .. } => {
                Outcome::Refused
            }
            _ => Outcome::Error,
        }
    }

    /// Someone who looks at the claim can do something about it, and there is a claim to look at. What
    /// passes by itself, and what the API server cannot be told of, is in the log.
    fn is_for_people(&self) -> bool {
        let is_state =
            matches!(self, Self::State(PrepareError::Refused(_) | PrepareError::Failed(_)));
        // Without the API server nobody can be told; a right that is missing can.
        is_state || matches!(self, Self::Unread { .. })
    }
}

impl Operations {
    fn new() -> Self {
        // The low bits are enough to tell the few instances of one node apart.
        Self { instance: (random::number() & 0xffff) as u16, last: AtomicU64::new(0) }
    }

    fn next(&self) -> String {
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        format!("{:04x}-{number}", self.instance)
    }
}

/// Names of granted NICs that speak Ethernet, in the order of the inventory.
fn ethernet_nics(machine: &Machine, granted: &BTreeSet<&str>) -> Vec<String> {
    let ethernet = AttributeValue::String("Ethernet".to_owned());
    let nics = machine.inventory.devices.iter().filter(|device| {
        device.kind == Kind::Nic
            && granted.contains(&*device.name)
            && device.attributes.get(attribute::LINK_LAYER) == Some(&ethernet)
    });
    nics.map(|device| device.name.clone()).collect()
}

#[cfg(test)]
mod tests;
