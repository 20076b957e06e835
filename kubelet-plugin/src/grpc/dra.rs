//! Prepare and Unprepare as kubelet calls them: many claims in one call, an entry for each.
//!
//! ```text
//! call --> claims by UID --> one task per claim --> entries, at the latest at the deadline
//!              |                   `--> goes on after the deadline, or when kubelet has hung up
//!              `--> not a claim: an error entry
//! ```

use std::any::Any;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use lanemate_api::validation::format::{is_dns_label, is_dns_subdomain};
use lanemate_driver::prepare::PreparedDevice;
use tokio::sync::Semaphore;
use tokio::task::JoinError;
use tokio::time::{Instant, timeout_at};
use tonic::metadata::MetadataMap;
use tonic::{Request, Response, Status};

use super::ClaimServer;
use super::generated::{dra_v1, dra_v1beta1};
use crate::claim_id::ClaimId;

/// Claims of one call. Kubelet sends those of one pod that have devices of ours; a node has at most
/// 256 devices, and a claim takes one or more of them.
const MOST_CLAIMS: usize = 256;
/// Bytes of one call: a namespace of 63, a name of 253, a UID of 64, with room for their tags.
pub const LONGEST_CALL: usize = MOST_CLAIMS * 512;
/// Claims that are worked on at once, work that kubelet no longer waits for among them. Kubelet makes
/// one call per pod, and a node has some hundred pods; more claims wait for their turn.
const MOST_WORK: u32 = 1024;
/// Characters of a bad value that are told.
const LONGEST_QUOTE: usize = 64;

/// The service, in both versions.
#[derive(Debug)]
pub struct Dra<S> {
    claims: Arc<S>,
    answer_within: Duration,
    work: Arc<Semaphore>,
}

/// What is being worked on.
#[derive(Clone, Debug)]
pub struct Work(Arc<Semaphore>);

/// A claim as it came.
struct Asked {
    namespace: String,
    name: String,
    uid: String,
}

/// The results of a call, by the UID as it came.
type Answers<T> = BTreeMap<String, Result<T, String>>;

impl<S> Clone for Dra<S> {
    fn clone(&self) -> Self {
        Self {
            claims: Arc::clone(&self.claims),
            answer_within: self.answer_within,
            work: Arc::clone(&self.work),
        }
    }
}

impl Work {
    /// Returns when nothing is worked on. For after the last call: new work waits meanwhile.
    pub async fn done(&self) {
        // Closed by nobody, so it is always acquired.
        drop(self.0.acquire_many(MOST_WORK).await);
    }
}

impl<S: ClaimServer> Dra<S> {
    /// Answers within a time, and sooner when the caller waits for less.
    pub fn new(claims: Arc<S>, answer_within: Duration) -> (Self, Work) {
        let work = Arc::new(Semaphore::new(MOST_WORK as usize));
        (Self { claims, answer_within, work: Arc::clone(&work) }, Work(work))
    }

    async fn prepare(
        &self,
        claims: Vec<Asked>,
        metadata: &MetadataMap,
    ) -> Result<Answers<Vec<PreparedDevice>>, Status> {
        let prepare =
            |server: Arc<S>, claim, deadline| async move { server.prepare(claim, deadline).await };
        self.each("prepare", claims, metadata, prepare).await
    }

    async fn unprepare(
        &self,
        claims: Vec<Asked>,
        metadata: &MetadataMap,
    ) -> Result<Answers<()>, Status> {
        let unprepare = |server: Arc<S>, claim, deadline| async move {
            server.unprepare(claim, deadline).await
        };
        self.each("unprepare", claims, metadata, unprepare).await
    }

    /// Works on all claims at once; every UID gets an entry.
    async fn each<T, F>(
        &self,
        deed: &'static str,
        claims: Vec<Asked>,
        metadata: &MetadataMap,
        work: impl Fn(Arc<S>, ClaimId, Instant) -> F,
    ) -> Result<Answers<T>, Status>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, String>> + Send + 'static,
    {
        if claims.len() > MOST_CLAIMS {
            return Err(Status::invalid_argument(format!(
                "{deed} {} claims: expected at most {MOST_CLAIMS}, as a node has no more devices",
                claims.len()
            )));
        }
        let within = self.answer_within.min(patience(metadata).unwrap_or(Duration::MAX));
        let deadline = Instant::now() + within;
        let work = &work;
        let answers = by_uid(claims).into_iter().map(|(uid, claim)| async move {
            let answer = match claim {
                Ok(claim) => {
                    let named = claim.to_string();
                    let task = self.task(work(Arc::clone(&self.claims), claim, deadline));
                    timeout_at(deadline, task).await.unwrap_or_else(|_| {
                        tracing::warn!(claim = named, ?within, "{deed} is not finished in time");
                        Err(format!(
                            "{deed} claim {named}: not finished within {within:?}: it goes on, and \
                             kubelet tries again"
                        ))
                    })
                }
                Err(wrong) => Err(wrong),
            };
            (uid, answer)
        });
        Ok(join_all(answers).await.into_iter().collect())
    }

    /// Runs to its end even when nobody waits for it: half of a Prepare would be left otherwise.
    async fn task<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, String>> + Send + 'static,
    ) -> Result<T, String> {
        let turn = Arc::clone(&self.work).acquire_owned().await;
        let turn = turn.map_err(|_| "the plugin is ending".to_owned())?;
        let task = tokio::spawn(async move {
            let _until_done = turn;
            work.await
        });
        task.await.unwrap_or_else(|error| Err(told(error)))
    }
}

/// Eight ninths of what the caller waits, so that the answer is there before it hangs up: of
/// kubelet's 45 s that is 40. The header is described in the gRPC protocol over HTTP/2, "Timeout".
fn patience(metadata: &MetadataMap) -> Option<Duration> {
    let text = metadata.get("grpc-timeout")?.to_str().ok()?;
    let (amount, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if amount.len() > 8 || !amount.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let amount = amount.parse::<u64>().ok()?;
    let timeout = match unit {
        "H" => Duration::from_secs(amount.saturating_mul(3600)),
        "M" => Duration::from_secs(amount.saturating_mul(60)),
        "S" => Duration::from_secs(amount),
        "m" => Duration::from_millis(amount),
        "u" => Duration::from_micros(amount),
        "n" => Duration::from_nanos(amount),
        _ => return None,
    };
    Some(timeout - timeout / 9)
}

/// A claim that is asked for twice is served once. What is no claim gets the reason.
fn by_uid(claims: Vec<Asked>) -> BTreeMap<String, Result<ClaimId, String>> {
    let mut found: BTreeMap<String, Result<ClaimId, String>> = BTreeMap::new();
    for asked in claims {
        let claim = parsed(&asked);
        match found.entry(asked.uid) {
            Entry::Vacant(entry) => {
                entry.insert(claim);
            }
            // Its one entry cannot answer for both.
            Entry::Occupied(mut entry) if *entry.get() != claim => {
                let uid = quoted(entry.key());
                *entry.get_mut() = Err(format!(
                    "claim UID {uid} was sent with two names: expected one claim per UID"
                ));
            }
            Entry::Occupied(_) => {}
        }
    }
    found
}

fn parsed(asked: &Asked) -> Result<ClaimId, String> {
    let wrong = |field: &str, value: &str, expected: &str| {
        format!("claim {field} {} from kubelet is not {expected}", quoted(value))
    };
    let Ok(uid) = asked.uid.parse() else {
        return Err(wrong("UID", &asked.uid, "at most 64 letters, digits and dashes"));
    };
    if !is_dns_label(&asked.namespace) {
        return Err(wrong("namespace", &asked.namespace, "a DNS label"));
    }
    if !is_dns_subdomain(&asked.name) {
        return Err(wrong("name", &asked.name, "a DNS subdomain"));
    }
    Ok(ClaimId { namespace: asked.namespace.clone(), name: asked.name.clone(), uid })
}

fn quoted(value: &str) -> String {
    let start: String = value.chars().take(LONGEST_QUOTE).collect();
    if start.len() < value.len() { format!("{start:?}…") } else { format!("{start:?}") }
}

fn told(error: JoinError) -> String {
    let Ok(panic) = error.try_into_panic() else { return "the plugin is ending".to_owned() };
    let text = panic_text(panic.as_ref());
    tracing::error!(panic = text, "the work on a claim has panicked");
    format!("a fault of the plugin, please report it: {text}")
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

/// The two versions have the same messages under different types.
macro_rules! serve_version {
    ($version:ident) => {
        #[tonic::async_trait]
        impl<S: ClaimServer> $version::dra_plugin_server::DraPlugin for Dra<S> {
            async fn node_prepare_resources(
                &self,
                request: Request<$version::NodePrepareResourcesRequest>,
            ) -> Result<Response<$version::NodePrepareResourcesResponse>, Status> {
                let (metadata, _, request) = request.into_parts();
                let claims = request.claims.into_iter().map(Asked::from).collect();
                let answers = self.prepare(claims, &metadata).await?;
                let claims = answers.into_iter().map(|(uid, answer)| (uid, answer.into()));
                Ok(Response::new($version::NodePrepareResourcesResponse {
                    claims: claims.collect(),
                }))
            }

            async fn node_unprepare_resources(
                &self,
                request: Request<$version::NodeUnprepareResourcesRequest>,
            ) -> Result<Response<$version::NodeUnprepareResourcesResponse>, Status> {
                let (metadata, _, request) = request.into_parts();
                let claims = request.claims.into_iter().map(Asked::from).collect();
                let answers = self.unprepare(claims, &metadata).await?;
                let claims = answers.into_iter().map(|(uid, answer)| {
                    let error = answer.err().unwrap_or_default();
                    (uid, $version::NodeUnprepareResourceResponse { error })
                });
                Ok(Response::new($version::NodeUnprepareResourcesResponse {
                    claims: claims.collect(),
                }))
            }
        }

        impl From<$version::Claim> for Asked {
            fn from(claim: $version::Claim) -> Self {
                Self { namespace: claim.namespace, name: claim.name, uid: claim.uid }
            }
        }

        impl From<Result<Vec<PreparedDevice>, String>> for $version::NodePrepareResourceResponse {
            fn from(answer: Result<Vec<PreparedDevice>, String>) -> Self {
                match answer {
                    Ok(devices) => Self {
                        devices: devices.into_iter().map(Into::into).collect(),
                        error: String::new(),
                    },
                    Err(error) => Self { devices: Vec::new(), error },
                }
            }
        }
    };
}

serve_version!(dra_v1);
serve_version!(dra_v1beta1);

impl From<PreparedDevice> for dra_v1::Device {
    fn from(device: PreparedDevice) -> Self {
        Self {
            request_names: vec![device.request],
            pool_name: device.pool,
            device_name: device.device,
            cdi_device_ids: device.cdi_device_ids,
            // Nothing of ours is shared by parts.
            share_id: None,
        }
    }
}

impl From<PreparedDevice> for dra_v1beta1::Device {
    fn from(device: PreparedDevice) -> Self {
        Self {
            request_names: vec![device.request],
            pool_name: device.pool,
            device_name: device.device,
            cdi_device_ids: device.cdi_device_ids,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_is_due_before_the_caller_hangs_up() {
        for (header, expect) in [
            ("45S", Some(Duration::from_secs(40))),
            ("45000m", Some(Duration::from_secs(40))),
            ("44999999u", Some(Duration::from_nanos(39_999_999_111 + 1))),
            ("900n", Some(Duration::from_nanos(800))),
            ("3M", Some(Duration::from_secs(160))),
            ("1H", Some(Duration::from_secs(3200))),
            ("99999999H", Some(Duration::from_secs(319_999_996_800))),
            ("0S", Some(Duration::ZERO)),
            ("S", None),
            ("", None),
            ("45", None),
            ("-1S", None),
            ("1.5S", None),
            ("123456789S", None),
        ] {
            let mut metadata = MetadataMap::new();
            metadata.insert("grpc-timeout", header.parse().unwrap());
            assert_eq!(patience(&metadata), expect, "{header}");
        }
        assert_eq!(patience(&MetadataMap::new()), None);
    }

    #[test]
    fn what_is_no_claim_is_refused_with_the_field() {
        let long = "x".repeat(1000);
        for (namespace, name, uid, expect) in [
            ("ns", "claim", "", "UID"),
            ("ns", "claim", "../a", "UID"),
            ("ns", "claim", long.as_str(), "UID"),
            ("", "claim", "a", "namespace"),
            ("n/s", "claim", "a", "namespace"),
            ("ns", "", "a", "name"),
            ("ns", "Claim", "a", "name"),
        ] {
            let [namespace, name, uid] = [namespace, name, uid].map(str::to_owned);
            let wrong = parsed(&Asked { namespace, name, uid }).unwrap_err();
            assert!(wrong.starts_with(&format!("claim {expect} ")), "{wrong}");
            assert!(wrong.len() < 200, "{wrong}");
        }
    }

    #[test]
    fn one_uid_is_one_claim() {
        let asked = |name: &str, uid: &str| Asked {
            namespace: "ns".to_owned(),
            name: name.to_owned(),
            uid: uid.to_owned(),
        };
        let found =
            by_uid(vec![asked("a", "1"), asked("a", "1"), asked("b", "2"), asked("c", "2")]);
        assert_eq!(found.keys().collect::<Vec<_>>(), ["1", "2"]);
        assert!(found["1"].is_ok());
        assert!(found["2"].as_ref().unwrap_err().contains("two names"));
    }
}
