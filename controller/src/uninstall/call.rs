//! Calls of the API server that are tried again while it is in trouble, and lists of any length.

use std::fmt::Debug;
use std::time::Duration;

use kube::api::{DeleteParams, ListParams, PatchParams};
use kube::{Api, Client, Resource};
use lanemate_runtime::backoff::Backoff;
use lanemate_runtime::call::{CallError, call};
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::UninstallError;
use crate::lease::MANAGER;

/// Tries of one call: with growing waits in between, some 12 s and the time of the calls.
const TRIES: u32 = 6;
/// Objects of one answer.
const PAGE: u32 = 500;
/// Between two looks at what is waited for.
const LOOK: Duration = Duration::from_millis(500);
/// Between two lines about it.
const TOLD: Duration = Duration::from_secs(10);

/// The cluster, and how it is treated.
pub(super) struct Cluster {
    pub(super) client: Client,
    /// The API server checks each write, and does none.
    pub(super) dry_run: bool,
    /// The longest wait for one thing.
    pub(super) within: Duration,
}

impl Cluster {
    /// Tells of a deed.
    pub(super) fn say(&self, deed: &str) {
        println!("{}{deed}", if self.dry_run { "would " } else { "" });
    }

    /// Calls, and calls again while the API server cannot serve.
    pub(super) async fn call<T, F>(
        &self,
        deed: &str,
        request: impl Fn() -> F,
    ) -> Result<T, CallError>
    where
        F: Future<Output = kube::Result<T>>,
    {
        let mut backoff = Backoff::default();
        for _ in 1..TRIES {
            match call(|| deed.to_owned(), request()).await {
                Err(error) if error.is_passing() => {
                    println!("{error}: tried again");
                    tokio::time::sleep(backoff.next_wait().max(error.retry_after())).await;
                }
                answer => return answer,
            }
        }
        call(|| deed.to_owned(), request()).await
    }

    /// What is wanted of each object of a kind; nothing where the API server does not serve the kind.
    pub(super) async fn list<K, T>(
        &self,
        wanted: impl Fn(&K) -> Vec<T>,
    ) -> Result<Vec<T>, CallError>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
    {
        match self.pages(&Api::all(self.client.clone()), ListParams::default(), wanted).await {
            Err(error) if error.is_not_found() => Ok(Vec::new()),
            listed => listed,
        }
    }

    /// The same of the objects that the parameters choose. Only what is wanted is kept: all pods of a large cluster do not
    /// fit into a small pod. A list that writes of others have made too old in between is read anew.
    pub(super) async fn pages<K, T>(
        &self,
        api: &Api<K>,
        parameters: ListParams,
        wanted: impl Fn(&K) -> Vec<T>,
    ) -> Result<Vec<T>, CallError>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
    {
        let deed = format!("list {}", K::plural(&()));
        let first = parameters.limit(PAGE);
        let (mut all, mut next, mut anew) = (Vec::new(), first.clone(), 1..TRIES);
        loop {
            let page = match self.call(&deed, || api.list(&next)).await {
                Err(error) if next.continue_token.is_some() && anew.next().is_some() => {
                    println!("{error}: listed anew");
                    (all, next) = (Vec::new(), first.clone());
                    continue;
                }
                page => page?,
            };
            all.extend(page.items.iter().flat_map(&wanted));
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => next = first.clone().continue_token(&token),
                None => return Ok(all),
            }
        }
    }

    /// Asks until the answer is there. `Err(state)` of the question is "not yet": how it stands, and what to do.
    pub(super) async fn until(
        &self,
        what: &str,
        mut question: impl AsyncFnMut() -> Result<Result<(), String>, CallError>,
    ) -> Result<(), UninstallError> {
        let (begun, mut told) = (Instant::now(), None::<Instant>);
        while let Err(state) = question().await? {
            if begun.elapsed() >= self.within {
                let what = what.to_owned();
                return Err(UninstallError::Late { what, within: self.within, state });
            }
            if told.is_none_or(|told| told.elapsed() >= TOLD) {
                println!("wait for {what}: {state}");
                told = Some(Instant::now());
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    /// How patches are sent.
    pub(super) fn patching(&self) -> PatchParams {
        PatchParams {
            dry_run: self.dry_run,
            field_manager: Some(MANAGER.to_owned()),
            ..PatchParams::default()
        }
    }

    /// How deletions are sent.
    pub(super) fn deleting(&self) -> DeleteParams {
        DeleteParams { dry_run: self.dry_run, ..DeleteParams::default() }
    }
}
