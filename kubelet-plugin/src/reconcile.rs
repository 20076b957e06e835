//! Compares the claims on record with the cluster, one read for each: claims cannot be listed by node,
//! and a list of all claims from every node would stop the API server.

use std::time::Duration;

use futures::future::join_all;
use lanemate_runtime::random::jittered;
use lanemate_runtime::shutdown::Stop;

use crate::claim_id::ClaimId;
use crate::kubernetes::claims::{Claims, Lookup};
use crate::state::{Fate, Reconciled, State};

/// Claims that are read at once.
const AT_ONCE: usize = 8;
/// When claims have to be looked at again: gone for too short a time, or not read.
const SOON: Duration = Duration::from_secs(20);

/// Compares; cheap to clone.
#[derive(Clone)]
pub struct Reconciler {
    claims: Claims,
    state: State,
}

/// The rounds have ended.
#[derive(Debug, thiserror::Error)]
#[error("the state thread has ended, so records can no longer be compared with the cluster")]
pub struct ReconcileError;

/// When the next round is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// After the usual time.
    AsUsual,
    /// Something is left to do.
    Soon,
}

impl Reconciler {
    /// Between this API server and this state thread.
    pub fn new(claims: Claims, state: State) -> Self {
        Self { claims, state }
    }

    /// One round.
    ///
    /// # Errors
    /// The state thread has ended.
    pub async fn round(&self) -> Result<Next, ReconcileError> {
        let claims = self.state.claims().await.ok_or(ReconcileError)?;
        let fates = self.fates(&claims).await;
        let unknown = fates.iter().filter(|(_, fate)| matches!(fate, Fate::Unknown(_))).count();
        let reconciled = self.state.reconcile(fates).await.ok_or(ReconcileError)?;
        tell(&reconciled, claims.len(), unknown);
        let is_done = unknown == 0 && reconciled.waiting.is_empty() && reconciled.failed.is_empty();
        Ok(if is_done { Next::AsUsual } else { Next::Soon })
    }

    /// Rounds until told to end. The first one comes after the wait that the last one asked for.
    ///
    /// # Errors
    /// The state thread has ended.
    pub async fn run(
        self,
        interval: Duration,
        mut next: Next,
        stop: Stop,
    ) -> Result<(), ReconcileError> {
        let rounds = async {
            loop {
                let wait = match next {
                    Next::AsUsual => interval,
                    Next::Soon => SOON.min(interval),
                };
                tokio::time::sleep(jittered(wait)).await;
                next = self.round().await?;
            }
        };
        tokio::select! {
            () = stop.requested() => Ok(()),
            ended = rounds => ended,
        }
    }

    /// What became of each claim. Once the API server did not answer it is not asked for the rest: it
    /// would take long, and the API server has other troubles.
    async fn fates(&self, claims: &[ClaimId]) -> Vec<(ClaimId, Fate)> {
        let mut fates = Vec::with_capacity(claims.len());
        let mut silent = None;
        for some in claims.chunks(AT_ONCE) {
            let read = async |claim: &ClaimId| match self.claims.get(claim).await {
                Ok(Lookup::Found(found)) => Fate::Exists(found),
                Ok(Lookup::Gone | Lookup::Replaced { .. }) => Fate::Gone,
                Err(error) => Fate::Unknown(error.to_string()),
            };
            let found = match &silent {
                Some(error) => vec![Fate::Unknown(String::clone(error)); some.len()],
                None => join_all(some.iter().map(read)).await,
            };
            silent = silent.or_else(|| found.iter().find_map(unknown));
            fates.extend(some.iter().cloned().zip(found));
        }
        fates
    }
}

fn unknown(fate: &Fate) -> Option<String> {
    match fate {
        Fate::Unknown(error) => Some(error.clone()),
        Fate::Exists(_) | Fate::Gone => None,
    }
}

fn tell(reconciled: &Reconciled, claims: usize, unknown: usize) {
    let Reconciled { released, waiting, rebuilt, repaired, failed } = reconciled;
    for (claim, error) in failed {
        tracing::warn!(%claim, error, "claim on record is not in order");
    }
    for (deed, changed) in [("released", released), ("rebuilt", rebuilt), ("repaired", repaired)] {
        for claim in changed {
            tracing::info!(%claim, deed, "claim on record changed");
        }
    }
    let waiting = waiting.len();
    tracing::debug!(claims, unknown, waiting, "records compared with the cluster");
    if unknown > 0 {
        tracing::warn!(claims, unknown, "the API server did not tell of all claims on record");
    }
}

#[cfg(test)]
mod tests {
    use lanemate_runtime::client::connect;
    use lanemate_test_api::{Fault, TestApi};
    use serde_json::json;
    use tokio::sync::mpsc;

    use super::*;
    use crate::fake_state::channel;
    use crate::state::Question;

    const CLAIMS: &str = "/apis/resource.k8s.io/v1/namespaces/ml/resourceclaims/";

    fn claim(name: &str, uid: &str) -> ClaimId {
        let uid = uid.parse().unwrap();
        ClaimId { namespace: "ml".to_owned(), name: name.to_owned(), uid }
    }

    /// A thread with claims on record that takes what became of them.
    fn answer(mut questions: mpsc::Receiver<Question>, claims: Vec<ClaimId>, answer: Reconciled) {
        tokio::spawn(async move {
            while let Some(question) = questions.recv().await {
                match question {
                    Question::Claims(asker) => asker.send(claims.clone()).unwrap(),
                    Question::Reconcile(_, asker) => asker.send(answer.clone()).unwrap(),
                    other => panic!("{other:?}"),
                }
            }
        });
    }

    async fn reconciler(api: &TestApi) -> (Reconciler, mpsc::Receiver<Question>) {
        let dir = tempfile::tempdir().unwrap();
        let kubeconfig = api.kubeconfig_file(dir.path()).unwrap();
        let claims = Claims::new(connect(Some(&kubeconfig)).await.unwrap());
        let (state, questions) = channel(Default::default());
        (Reconciler::new(claims, state), questions)
    }

    fn put(api: &TestApi, name: &str, uid: &str) {
        let metadata = json!({"namespace": "ml", "name": name, "uid": uid});
        let claim = json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
            "metadata": metadata, "spec": {}});
        api.put(claim).unwrap();
    }

    #[tokio::test]
    async fn each_claim_is_read_and_its_fate_is_told_apart() {
        let api = TestApi::start().await.unwrap();
        put(&api, "here", "u1");
        put(&api, "another", "u9");
        api.faults().next("GET", &format!("{CLAIMS}secret"), Fault::Status(403, "Forbidden"), 1);
        let (reconciler, _questions) = reconciler(&api).await;
        let claims = [
            claim("here", "u1"),
            claim("another", "u2"),
            claim("gone", "u3"),
            claim("secret", "u4"),
        ];
        let fates = reconciler.fates(&claims).await;
        let shown: Vec<&str> = fates
            .iter()
            .map(|(_, fate)| match fate {
                Fate::Exists(found) => found.metadata.uid.as_deref().unwrap(),
                Fate::Gone => "gone",
                Fate::Unknown(_) => "unknown",
            })
            .collect();
        assert_eq!(shown, ["u1", "gone", "gone", "unknown"]);
    }

    #[tokio::test]
    async fn an_api_server_that_does_not_answer_is_not_asked_for_every_claim() {
        let api = TestApi::start().await.unwrap();
        api.faults().next("GET", CLAIMS, Fault::Status(403, "Forbidden"), 1000);
        let (reconciler, _questions) = reconciler(&api).await;
        let claims: Vec<ClaimId> = (0..100).map(|i| claim("c", &format!("u{i}"))).collect();
        let fates = reconciler.fates(&claims).await;
        assert_eq!(fates.len(), 100);
        assert!(fates.iter().all(|(_, fate)| matches!(fate, Fate::Unknown(_))));
        assert_eq!(api.count("GET", CLAIMS), AT_ONCE);
    }

    #[tokio::test]
    async fn a_round_that_leaves_something_asks_for_the_next_one_soon() {
        let api = TestApi::start().await.unwrap();
        put(&api, "here", "u1");
        let left = Reconciled { waiting: vec![claim("gone", "u2")], ..Reconciled::default() };
        for (reconciled, expect) in [(Reconciled::default(), Next::AsUsual), (left, Next::Soon)] {
            let (reconciler, questions) = reconciler(&api).await;
            answer(questions, vec![claim("here", "u1")], reconciled);
            assert_eq!(reconciler.round().await.unwrap(), expect);
        }
        let (reconciler, questions) = reconciler(&api).await;
        drop(questions);
        assert!(reconciler.round().await.is_err());
    }
}
