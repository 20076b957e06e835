//! Leader election on a Lease, as client-go does it, with a fence for the writes of the leader.
//!
//! ```text
//!             record seen to change: wait anew
//!                 +--------+
//!                 v        |
//! acquire --> candidate ---+--- nobody holds it, or unchanged for its duration --> write our record
//!                 ^                                                                  |        |
//!                 +------------------ another was faster (409) ----------------------+     accepted
//!                                                                                             v
//!            +-- renewed: the fence moves to (instant before the request + duration - safety) leader
//!            +-------------------------------------------------------------------------------^ |
//!                                                                                              |
//! lost <-- another holds it, or the margin is spent without a renewal -------------------------+
//! released <-- told to end, the writer has ended ----------------------------------------------+
//! ```
//! - A candidate never compares clocks. It waits, by its own clock, for as long as the record says, from when it last saw
//!   the record change: a wall clock that steps neither gives a lease nor takes one.
//! - The leader counts from before it sent the request that renewed the lease, so no candidate's wait can end before
//!   its own count does; the safety is for a write that the API server has taken and commits late.
//! - A leader that lost the lease does not become a candidate again: its process ends, and with it whatever it knew.

use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::{Lease as Record, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::PostParams;
use kube::{Api, Client};
use lanemate_runtime::call::{CallError, LIMIT, call, call_within};
use lanemate_runtime::random::jittered;
use lanemate_runtime::shutdown::told_to_end;
use tokio::sync::watch;
use tokio::task::JoinHandle;

mod fence;
#[cfg(test)]
mod tests;

pub use self::fence::Fence;

/// Who writes.
pub const MANAGER: &str = "lanemate-controller";
/// The part of the duration in which the leader writes nothing more: a request that the API server took just before
/// commits within a second, or within the few that its store is slow; of the usual 15 s this leaves almost 4.
const SAFETY_PARTS: u32 = 4;
/// Renewals that fit into the margin, at least: one answer that is lost does not end a leader.
const RENEWALS: u32 = 2;

/// Which lease, and how it is kept.
#[derive(Clone, Debug)]
pub struct LeaseSettings {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub name: String,
    /// Who we are: another for each process, so that what an earlier one of the same pod holds is not taken for ours.
    pub identity: String,
    /// How long others wait after the last renewal, in whole seconds.
    pub duration: Duration,
    /// Between two renewals, and between two looks of a candidate.
    pub renew_interval: Duration,
}

/// A lease that can be taken; cheap to clone.
#[derive(Clone)]
pub struct Lease {
    api: Api<Record>,
    settings: LeaseSettings,
}

/// The lease is held, and renewed for as long as this lives.
pub struct Leadership {
    lease: Lease,
    fence: Fence,
    end: watch::Receiver<Option<LeaseLost>>,
    /// The last record, when told to stop.
    renewing: JoinHandle<Option<Record>>,
    stop: watch::Sender<bool>,
}

/// Settings with which no lease can be kept.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "lease of {duration:?}, renewed each {renew_interval:?}: expected whole seconds, and an interval above zero \
     of at most {most:?}, so that a renewal may fail without the loss of the lease"
)]
pub struct SettingsError {
    duration: Duration,
    renew_interval: Duration,
    most: Duration,
}

/// Why the lease is no longer held.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LeaseLost {
    /// Somebody else has it.
    #[error("renew lease {lease}: it is held by {holder:?}: expected it to stay ours")]
    Taken {
        /// Namespace and name.
        lease: String,
        /// Identity of the holder.
        holder: String,
    },
    /// Somebody has deleted it, and the next one to look makes it anew.
    #[error("renew lease {lease}: it was deleted: expected it to stay")]
    Deleted {
        /// Namespace and name.
        lease: String,
    },
    /// It could not be renewed in time.
    #[error("renew lease {lease}: not renewed in time, the last error: {error}")]
    NotRenewed {
        /// Namespace and name.
        lease: String,
        /// The last failure.
        error: String,
    },
    /// The task that renews it has ended.
    #[error("renew lease {lease}: the task has ended: its words are above")]
    Ended {
        /// Namespace and name.
        lease: String,
    },
}

/// A record, and since when it has been seen as it is.
struct Observed {
    spec: LeaseSpec,
    since: Instant,
}

/// A record as the API server took it, and an instant before the request left.
struct Sent {
    record: Record,
    at: Instant,
}

/// Why a renewal has failed.
enum Failed {
    /// For good.
    Lost(LeaseLost),
    /// This time.
    Call(CallError),
}

impl From<CallError> for Failed {
    fn from(error: CallError) -> Self {
        Self::Call(error)
    }
}

impl Lease {
    /// Nothing is sent yet.
    ///
    /// # Errors
    /// When no lease can be kept like that.
    pub fn new(client: Client, settings: LeaseSettings) -> Result<Self, SettingsError> {
        let LeaseSettings { duration, renew_interval, .. } = settings;
        let most = usable(duration) / RENEWALS;
        let is_whole = duration.subsec_nanos() == 0 && i32::try_from(duration.as_secs()).is_ok();
        if !is_whole || renew_interval.is_zero() || renew_interval > most {
            return Err(SettingsError { duration, renew_interval, most });
        }
        let api = Api::namespaced(client, &settings.namespace);
        Ok(Self { api, settings })
    }

    /// Waits until the lease is ours, and goes on renewing it; absent when told to end before.
    pub async fn acquire(&self, mut shutdown: watch::Receiver<bool>) -> Option<Leadership> {
        let acquiring = async {
            let mut observed = None;
            loop {
                match self.look(&mut observed).await {
                    Ok(Some(sent)) => return sent,
                    Ok(None) => {}
                    Err(error) => tracing::warn!(%error, "the lease cannot be acquired now"),
                }
                tokio::time::sleep(jittered(self.settings.renew_interval)).await;
            }
        };
        let sent = tokio::select! {
            () = told_to_end(&mut shutdown) => return None,
            sent = acquiring => sent,
        };
        tracing::info!(lease = self.words(), identity = self.settings.identity, "leading");
        Some(self.lead(sent))
    }

    /// One look of a candidate: the record, and ours in its place where that is allowed.
    async fn look(&self, observed: &mut Option<Observed>) -> Result<Option<Sent>, CallError> {
        let found = match self.read().await {
            Ok(found) => found,
            Err(error) if error.is_not_found() => return self.create(observed.as_ref()).await,
            Err(error) => return Err(error),
        };
        let now = Instant::now();
        let spec = found.spec.clone().unwrap_or_default();
        let held_for = held_for(&spec, self.settings.duration);
        let seen = match observed.take() {
            Some(seen) if seen.spec == spec => seen,
            _ => Observed { spec, since: now },
        };
        let is_free = held_for.is_zero() || now.duration_since(seen.since) >= held_for;
        let record = self.taken(found, &seen.spec);
        *observed = Some(seen);
        if !is_free {
            return Ok(None);
        }
        match self.settle(Sent { record, at: now }).await {
            Ok(sent) => Ok(Some(sent)),
            Err(error) if error.is_conflict() => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn create(&self, seen: Option<&Observed>) -> Result<Option<Sent>, CallError> {
        // Deleted while it was held: the holder hears of it at its next renewal, and not before.
        let is_held =
            |seen: &Observed| seen.since.elapsed() < held_for(&seen.spec, self.settings.duration);
        if seen.is_some_and(is_held) {
            return Ok(None);
        }
        let metadata = ObjectMeta { name: Some(self.settings.name.clone()), ..Default::default() };
        let record = self.taken(Record { metadata, spec: None }, &LeaseSpec::default());
        let at = Instant::now();
        let deed = || format!("create lease {}", self.words());
        match call(deed, self.api.create(&as_controller(), &record)).await {
            Ok(record) => Ok(Some(Sent { record, at })),
            // An answer that was lost: what is there is waited for, as anybody else's.
            Err(error) if error.is_conflict() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes a record once. Where the answer is lost, what is there then decides.
    async fn settle(&self, sent: Sent) -> Result<Sent, CallError> {
        let error = match self.write(LIMIT, &sent.record).await {
            Ok(record) => return Ok(Sent { record, at: sent.at }),
            Err(error) if error.is_conflict() => return Err(error),
            Err(error) => error,
        };
        let found = self.read().await?;
        if found.spec == sent.record.spec {
            Ok(Sent { record: found, at: sent.at })
        } else {
            Err(error)
        }
    }

    /// Our record in the place of another.
    fn taken(&self, mut found: Record, old: &LeaseSpec) -> Record {
        let now = after(old.renew_time.as_ref());
        let transitions = old.lease_transitions.unwrap_or_default();
        // As client-go counts: the first holder of a new lease is no transition.
        let is_first = old.holder_identity.is_none() && old.renew_time.is_none();
        found.spec = Some(LeaseSpec {
            holder_identity: Some(self.settings.identity.clone()),
            lease_duration_seconds: i32::try_from(self.settings.duration.as_secs()).ok(),
            acquire_time: Some(now.clone()),
            renew_time: Some(now),
            lease_transitions: Some(transitions.saturating_add(i32::from(!is_first))),
            ..old.clone()
        });
        found
    }

    fn lead(&self, sent: Sent) -> Leadership {
        let fence = Fence::until(self.end_of(sent.at));
        let (stop, stopped) = watch::channel(false);
        let (ended, end) = watch::channel(None);
        let (lease, guarded) = (self.clone(), fence.clone());
        let renewing = tokio::spawn(async move {
            match lease.renew(&guarded, sent.record, stopped).await {
                Ok(record) => Some(record),
                Err(lost) => {
                    guarded.close();
                    ended.send_replace(Some(lost));
                    None
                }
            }
        });
        Leadership { lease: self.clone(), fence, end, renewing, stop }
    }

    /// Renews until told to stop, or until the lease is lost.
    async fn renew(
        &self,
        fence: &Fence,
        mut record: Record,
        mut stop: watch::Receiver<bool>,
    ) -> Result<Record, LeaseLost> {
        let mut error = "none: the process did not run".to_owned();
        loop {
            tokio::select! {
                () = told_to_end(&mut stop) => return Ok(record),
                () = tokio::time::sleep(self.settings.renew_interval) => {}
            }
            let Some(margin) = fence.margin() else {
                return Err(LeaseLost::NotRenewed { lease: self.words(), error });
            };
            let renewal = self.renew_once(&record, margin);
            match tokio::time::timeout(margin, renewal).await {
                Ok(Ok(sent)) => {
                    fence.extend(self.end_of(sent.at));
                    record = sent.record;
                }
                Ok(Err(Failed::Lost(lost))) => return Err(lost),
                Ok(Err(Failed::Call(failed))) => {
                    tracing::warn!(error = %failed, "the lease cannot be renewed now");
                    error = failed.to_string();
                }
                Err(_) => error = format!("no answer within {margin:?}"),
            }
        }
    }

    /// One renewal: the record, unless others have written it, in which case what they wrote decides.
    async fn renew_once(&self, record: &Record, margin: Duration) -> Result<Sent, Failed> {
        let sent = Sent { at: Instant::now(), record: renewed(record) };
        match self.write(margin, &sent.record).await {
            Ok(record) => return Ok(Sent { record, at: sent.at }),
            Err(error) if error.is_conflict() || error.is_not_found() => {}
            Err(error) => return Err(error.into()),
        }
        let found = match self.read().await {
            Ok(found) => found,
            Err(error) if error.is_not_found() => {
                return Err(Failed::Lost(LeaseLost::Deleted { lease: self.words() }));
            }
            Err(error) => return Err(error.into()),
        };
        let spec = found.spec.clone().unwrap_or_default();
        let holder = spec.holder_identity.unwrap_or_default();
        if holder != self.settings.identity {
            return Err(Failed::Lost(LeaseLost::Taken { lease: self.words(), holder }));
        }
        // Ours, by a request whose answer was lost, or with another's labels: renewed on top of what is there.
        let sent = Sent { at: Instant::now(), record: renewed(&found) };
        let record = self.write(margin, &sent.record).await?;
        Ok(Sent { record, at: sent.at })
    }

    async fn read(&self) -> Result<Record, CallError> {
        call(|| format!("get lease {}", self.words()), self.api.get(&self.settings.name)).await
    }

    async fn write(&self, within: Duration, record: &Record) -> Result<Record, CallError> {
        let deed = || format!("update lease {}", self.words());
        let name = &self.settings.name;
        call_within(within, deed, self.api.replace(name, &as_controller(), record)).await
    }

    /// The end of what a renewal gives that was sent then.
    fn end_of(&self, sent: Instant) -> Instant {
        sent + usable(self.settings.duration)
    }

    fn words(&self) -> String {
        format!("{}/{}", self.settings.namespace, self.settings.name)
    }
}

impl Leadership {
    /// What writers ask before each request.
    pub fn fence(&self) -> Fence {
        self.fence.clone()
    }

    /// Returns when the lease is lost, with the reason; the fence is closed by then. Not after [`Self::release`].
    pub fn lost(&self) -> impl Future<Output = LeaseLost> + Send + 'static {
        let mut end = self.end.clone();
        let lease = self.lease.words();
        async move {
            match end.wait_for(Option::is_some).await.map(|lost| lost.clone()) {
                Ok(Some(lost)) => lost,
                _ => LeaseLost::Ended { lease },
            }
        }
    }

    /// Gives the lease back, so that the next leader need not wait. Only for a leader none of whose writes is in doubt:
    /// where one is, dropping this lets the lease run out instead.
    ///
    /// # Errors
    /// When the API server did not take it; the lease runs out by itself then.
    pub async fn release(mut self) -> Result<(), CallError> {
        self.fence.close();
        self.stop.send_replace(true);
        // It stops between two renewals, and each of those is bounded.
        let Ok(Some(mut record)) = (&mut self.renewing).await else { return Ok(()) };
        let old = record.spec.take().unwrap_or_default();
        let now = after(old.renew_time.as_ref());
        record.spec = Some(LeaseSpec {
            holder_identity: Some(String::new()),
            lease_duration_seconds: Some(1),
            acquire_time: Some(now.clone()),
            renew_time: Some(now),
            ..old
        });
        self.lease.write(LIMIT, &record).await.map(drop)
    }
}

impl Drop for Leadership {
    fn drop(&mut self) {
        self.fence.close();
        self.renewing.abort();
    }
}

/// The part of a lease's duration in which its holder writes.
fn usable(duration: Duration) -> Duration {
    duration - duration / SAFETY_PARTS
}

/// How long a record that does not change keeps others out.
fn held_for(spec: &LeaseSpec, own: Duration) -> Duration {
    if spec.holder_identity.as_deref().unwrap_or_default().is_empty() {
        return Duration::ZERO;
    }
    let seconds = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
    seconds.filter(|seconds| *seconds > 0).map_or(own, Duration::from_secs)
}

/// The record with a new time of renewal.
fn renewed(record: &Record) -> Record {
    let mut record = record.clone();
    let spec = record.spec.get_or_insert_default();
    spec.renew_time = Some(after(spec.renew_time.as_ref()));
    record
}

/// The time by the wall clock, in microseconds, but later than another: a renewal must be seen as a change even where
/// the clock has gone back.
fn after(other: Option<&MicroTime>) -> MicroTime {
    let now = jiff::Timestamp::now().as_microsecond();
    let least = other.map_or(i64::MIN, |time| time.0.as_microsecond().saturating_add(1));
    // Both are times, so the later one is one too, but at the very end of time.
    MicroTime(jiff::Timestamp::from_microsecond(now.max(least)).unwrap_or(jiff::Timestamp::MAX))
}

fn as_controller() -> PostParams {
    PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() }
}
