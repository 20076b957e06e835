//! Watches: what the API server tells, as updates of the index.
//!
//! ```text
//! list (quorum, in pages) --Apply, one by one, then Listed--> watch --Apply, Delete … cut or too old--> list
//! ```
//! A list is handed on object by object: all slices of a large cluster at once would take more memory than the index.
//!
//! A list without a resource version is read from a quorum, so that a new leader sees every write of the one before it
//! that the API server has answered.

use std::collections::BTreeSet;
use std::pin::pin;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::{Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::resource::v1::{DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice};
use kube::runtime::watcher::{self, Config, Event, watcher};
use kube::{Api, Client, Resource};
use lanemate_api::{NodeState, ResourceClass};
use lanemate_runtime::backoff::Backoff;
use lanemate_runtime::shutdown::{InputEnded, Stop, Tasks};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;

use crate::id::Key;
use crate::index::{Kind, Object, Update};

/// Updates that wait for the index. More wait in the watches, and at last in the API server.
const WAITING: usize = 1024;
/// Seconds that one watch lasts: a connection that died unnoticed is found by then.
const LASTS_SECONDS: u32 = 60;
/// Objects of one page of a list.
const PAGE: u32 = 500;
/// How often a kind is asked for that the API server does not serve.
const ABSENT: Duration = Duration::from_secs(60);

/// A kind that can be watched.
trait Watched:
    Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + Send + 'static
{
    /// The kind.
    const KIND: Kind;
    /// Under this name in the log.
    const NAME: &'static str;
    /// The cluster works without this kind: an API server that does not serve it has none.
    const OPTIONAL: bool = false;

    fn object(self) -> Object;
}

macro_rules! watched {
    ($($kind:ty => $variant:ident, $name:literal $(, optional = $optional:literal)?;)*) => {$(
        impl Watched for $kind {
            const KIND: Kind = Kind::$variant;
            const NAME: &'static str = $name;
            $(const OPTIONAL: bool = $optional;)?

            fn object(self) -> Object {
                Object::$variant(Box::new(self))
            }
        }
    )*};
}

watched! {
    Pod => Pod, "watch pods";
    ResourceClaim => Claim, "watch resourceclaims";
    Node => Node, "watch nodes";
    ResourceSlice => Slice, "watch resourceslices";
    DeviceClass => DeviceClass, "watch deviceclasses";
    ResourceClass => ResourceClass, "watch resourceclasses";
    NodeState => NodeState, "watch nodestates";
    DeviceTaintRule => TaintRule, "watch devicetaintrules", optional = true;
    PersistentVolume => Volume, "watch persistentvolumes";
    PersistentVolumeClaim => VolumeClaim, "watch persistentvolumeclaims";
    Namespace => Namespace, "watch namespaces";
}

/// Begins a watch of every kind; what they tell comes out here.
pub fn begin(client: &Client, tasks: &mut Tasks) -> mpsc::Receiver<Update> {
    let (sender, receiver) = mpsc::channel(WAITING);
    let mut begin = Begin { client, tasks, sender };
    begin.kind::<Pod>();
    begin.kind::<ResourceClaim>();
    begin.kind::<Node>();
    begin.kind::<ResourceSlice>();
    begin.kind::<DeviceClass>();
    begin.kind::<ResourceClass>();
    begin.kind::<NodeState>();
    begin.kind::<DeviceTaintRule>();
    begin.kind::<PersistentVolume>();
    begin.kind::<PersistentVolumeClaim>();
    begin.kind::<Namespace>();
    receiver
}

struct Begin<'a> {
    client: &'a Client,
    tasks: &'a mut Tasks,
    sender: mpsc::Sender<Update>,
}

impl Begin<'_> {
    fn kind<K: Watched>(&mut self) {
        let api = Api::<K>::all(self.client.clone());
        let watch = run(api, self.sender.clone(), self.tasks.stop());
        self.tasks.begin(K::NAME, watch);
    }
}

/// Watches one kind until it is told to end.
async fn run<K: Watched>(
    api: Api<K>,
    sender: mpsc::Sender<Update>,
    stop: Stop,
) -> Result<(), InputEnded> {
    let config = Config::default().timeout(LASTS_SECONDS).page_size(PAGE);
    let mut events = Box::pin(watcher(api.clone(), config.clone()));
    let mut stopped = pin!(stop.requested());
    let mut backoff = Backoff::default();
    let mut listed = BTreeSet::new();
    loop {
        let event = tokio::select! {
            () = &mut stopped => return Ok(()),
            event = events.next() => event,
        };
        let event = event.ok_or(InputEnded { task: K::NAME, input: "events of the watch" })?;
        let (update, wait) = match event {
            Ok(event) => {
                backoff.reset();
                (update_of(event, &mut listed), None)
            }
            Err(error) => {
                // The client would begin at the version that is gone, again and again.
                if has_expired(&error) {
                    events = Box::pin(watcher(api.clone(), config.clone()));
                }
                failed::<K>(&error, &mut backoff)
            }
        };
        let next = async {
            if let Some(update) = update
                && sender.send(update).await.is_err()
            {
                // The index ends only together with the process.
                std::future::pending::<()>().await;
            }
            if let Some(wait) = wait {
                tokio::time::sleep(wait).await;
            }
        };
        tokio::select! {
            () = &mut stopped => return Ok(()),
            () = next => {}
        }
    }
}

/// An event as an update; the names of a list are gathered until it is complete.
fn update_of<K: Watched>(event: Event<K>, listed: &mut BTreeSet<Key>) -> Option<Update> {
    match event {
        Event::Init => {
            listed.clear();
            None
        }
        Event::InitApply(object) => {
            listed.extend(Key::of(object.meta()));
            Some(Update::Apply(object.object()))
        }
        Event::InitDone => Some(Update::Listed(K::KIND, std::mem::take(listed))),
        Event::Apply(object) => Some(Update::Apply(object.object())),
        Event::Delete(object) => Key::of(object.meta()).map(|key| Update::Delete(K::KIND, key)),
    }
}

/// The watch mends itself; how long to leave the API server alone before.
fn failed<K: Watched>(
    error: &watcher::Error,
    backoff: &mut Backoff,
) -> (Option<Update>, Option<Duration>) {
    if K::OPTIONAL && is_not_served(error) {
        tracing::debug!(watch = K::NAME, "the API server does not serve this kind");
        return (Some(Update::Listed(K::KIND, BTreeSet::new())), Some(ABSENT));
    }
    let wait = backoff.next_wait();
    tracing::warn!(watch = K::NAME, %error, again_in = ?wait, "a watch was cut");
    (None, Some(wait))
}

/// The API server no longer has the version at which the watch was to begin.
fn has_expired(error: &watcher::Error) -> bool {
    matches!(error, watcher::Error::WatchStartFailed(kube::Error::Api(status)) if status.code == 410)
}

fn is_not_served(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status)) => status.code == 404,
        _ => false,
    }
}
