//! What the controller needs of the API server, looked at before it takes part in anything.
//!
//! ```text
//! ask --all there--> go on
//!  |--something is missing--> not ready, says what --wait--> ask: an upgrade may bring it
//!  '--no answer--> wait --> ask
//! ```
//! An API server that is too old drops fields without a word, so that devices would be granted twice.

use k8s_openapi::apimachinery::pkg::version::Info;
use kube::Client;
use lanemate_api::names;
use lanemate_runtime::backoff::Backoff;
use lanemate_runtime::call::{CallError, call};
use tokio::sync::watch;

use crate::rounds::State;

/// The first minor version of Kubernetes 1 in which device taints are on by default.
const MINOR: u32 = 36;
/// Kinds without which nothing works, by group and version, and what brings them.
const NEEDED: [(&str, &[&str], &str); 2] = [
    (
        "resource.k8s.io/v1",
        &["deviceclasses", "resourceclaims", "resourceslices"],
        "do not switch this API off",
    ),
    (names::API_VERSION, &["nodestates", "resourceclasses"], "apply the manifests in deploy/crds"),
];
/// Without these pods get no gate by their labels, and the controller works all the same.
const GATE: (&str, &[&str]) = ("admissionregistration.k8s.io/v1", &["mutatingadmissionpolicies"]);

/// Returns when the API server has all that is needed; says what is missing meanwhile.
pub async fn until_all_is_there(client: &Client, state: &watch::Sender<State>) {
    let mut backoff = Backoff::default();
    loop {
        let wait = backoff.next_wait();
        match missing(client).await {
            Ok(None) => break,
            Ok(Some(why)) => {
                // The log says it each time, as nothing else happens.
                tracing::error!(why, again_in = ?wait, "nothing is done");
                state.send_replace(State::Refusing(why));
            }
            Err(error) if error.is_passing() => {
                tracing::warn!(%error, again_in = ?wait, "the API server cannot be asked what it serves");
            }
            // Some clusters let few ask; the lists will tell.
            Err(error) => {
                tracing::warn!(%error, "not known whether the API server serves what is needed");
                break;
            }
        }
        tokio::time::sleep(wait).await;
    }
    state.send_replace(State::Standby);
}

/// What is missing, for people; none where all is there.
async fn missing(client: &Client) -> Result<Option<String>, CallError> {
    let version = call(|| "get the version".to_owned(), client.apiserver_version()).await?;
    if is_too_old(&version) {
        return Ok(Some(format!(
            "the API server is of version {}: expected Kubernetes 1.{MINOR} or later; upgrade the cluster, or run the \
             plugins in mode scheduler without this program",
            version.git_version
        )));
    }
    for (group, resources, remedy) in NEEDED {
        if let Some(resource) = not_served(client, group, resources).await? {
            return Ok(Some(format!(
                "the API server does not serve {resource} of {group}: {remedy}"
            )));
        }
    }
    let (group, resources) = GATE;
    if let Some(resource) = not_served(client, group, resources).await? {
        tracing::warn!(
            "the API server does not serve {resource} of {group}: only pods whose authors write the gate get it"
        );
    }
    Ok(None)
}

/// The first of these resources that is not served.
async fn not_served(
    client: &Client,
    group: &str,
    resources: &[&'static str],
) -> Result<Option<&'static str>, CallError> {
    let deed = || format!("list the resources of {group}");
    let served = match call(deed, client.list_api_group_resources(group)).await {
        Ok(listed) => listed.resources.into_iter().map(|resource| resource.name).collect(),
        Err(error) if error.is_not_found() => Vec::new(),
        Err(error) => return Err(error),
    };
    Ok(resources.iter().find(|name| !served.iter().any(|served| served == *name)).copied())
}

/// Vendors write `36+` for the minor version. One that is not a number says nothing.
fn is_too_old(version: &Info) -> bool {
    let number = |text: &str| {
        let end = text.find(|symbol: char| !symbol.is_ascii_digit()).unwrap_or(text.len());
        text[..end].parse::<u32>().ok()
    };
    let found = number(&version.major).zip(number(&version.minor));
    found.is_some_and(|found| found < (1, MINOR))
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use axum::Router;
    use axum::extract::State as Shared;
    use axum::http::{StatusCode, Uri};
    use serde_json::{Value, json};

    use super::*;

    /// What an API server of a version says, without one of its resources.
    struct Api {
        minor: &'static str,
        without: &'static str,
    }

    fn version(major: &str, minor: &str) -> Info {
        Info { major: major.to_owned(), minor: minor.to_owned(), ..Info::default() }
    }

    #[test]
    fn versions_are_compared_as_numbers() {
        for (major, minor, expect) in [
            ("1", "35", true),
            ("1", "9+", true),
            ("0", "99", true),
            ("1", "36", false),
            ("1", "36+", false),
            ("1", "100", false),
            ("2", "0", false),
            ("", "", false),
        ] {
            assert_eq!(is_too_old(&version(major, minor)), expect, "{major}.{minor}");
        }
    }

    async fn answer(
        Shared(api): Shared<Arc<Mutex<Api>>>,
        uri: Uri,
    ) -> Result<axum::Json<Value>, StatusCode> {
        let api = api.lock().unwrap();
        let git = format!("v1.{}.0", api.minor);
        if uri.path() == "/version" {
            let text = "";
            return Ok(axum::Json(json!({
                "major": "1", "minor": api.minor, "gitVersion": git, "buildDate": text, "compiler": text,
                "gitCommit": text, "gitTreeState": text, "goVersion": text, "platform": text,
            })));
        }
        let all = NEEDED.map(|(group, resources, _)| (group, resources)).into_iter().chain([GATE]);
        let mut all = all.filter(|(group, _)| uri.path() == format!("/apis/{group}"));
        let (group, names) = all.next().ok_or(StatusCode::NOT_FOUND)?;
        let names = names.iter().filter(|name| **name != api.without);
        let resource = |name: &&str| json!({"name": name, "singularName": "", "namespaced": false, "kind": "A", "verbs": []});
        let resources: Vec<Value> = names.map(resource).collect();
        if resources.is_empty() {
            return Err(StatusCode::NOT_FOUND);
        }
        Ok(axum::Json(json!({"groupVersion": group, "resources": resources})))
    }

    #[tokio::test]
    async fn it_says_what_is_missing_and_goes_on_when_that_is_there() {
        let api = Arc::new(Mutex::new(Api { minor: "35", without: "" }));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().fallback(answer).with_state(Arc::clone(&api));
        let server = tokio::spawn(async move { axum::serve(listener, router).await });
        let config = kube::Config::new(format!("http://{address}").parse().unwrap());
        let client = Client::try_from(config).unwrap();
        let (state, mut seen) = watch::channel(State::Standby);
        let asking = tokio::spawn(async move {
            until_all_is_there(&client, &state).await;
            state
        });
        for (next, words) in [
            (
                Api { minor: "36", without: "resourceclaims" },
                "version v1.35.0: expected Kubernetes 1.36",
            ),
            (
                Api { minor: "36", without: "nodestates" },
                "not serve resourceclaims of resource.k8s.io/v1",
            ),
            // Pods may have the gate from their authors.
            (
                Api { minor: "36+", without: "mutatingadmissionpolicies" },
                "not serve nodestates of lanemate.dev/v1alpha1: apply the manifests in deploy/crds",
            ),
        ] {
            let says = |state: &State| matches!(state, State::Refusing(why) if why.contains(words));
            let told =
                tokio::time::timeout(std::time::Duration::from_secs(20), seen.wait_for(says));
            assert!(told.await.is_ok_and(|told| told.is_ok()), "{words}");
            *api.lock().unwrap() = next;
        }
        let state = asking.await.unwrap();
        assert_eq!(*state.borrow(), State::Standby);
        server.abort();
    }
}
