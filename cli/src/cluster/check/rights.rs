//! The rights of the service accounts, one by one, as the shipped manifests list them.

use anyhow::Context;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::api::PostParams;
use kube::{Api, Client};
use lanemate_runtime::call::{CallError, call};
use serde_json::Value;

use super::policies::{apply, in_namespace, objects};
use super::{Check, found, named};

/// A service account, and the manifest that gives it its rights.
pub struct Account {
    /// Name of the check.
    pub check: &'static str,
    name: &'static str,
    pub manifest: &'static str,
    file: &'static str,
}

/// The account of the controller.
pub const CONTROLLER: Account = Account {
    check: "Rights",
    name: found::CONTROLLER,
    manifest: include_str!("../../../../deploy/rbac/controller.yaml"),
    file: "deploy/rbac/controller.yaml",
};
/// The account of the kubelet plugin.
pub const PLUGIN: Account = Account {
    check: "Plugin rights",
    name: found::PLUGIN,
    manifest: include_str!("../../../../deploy/rbac/kubelet-plugin.yaml"),
    file: "deploy/rbac/kubelet-plugin.yaml",
};

/// One thing that somebody may do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Right {
    /// Absent: in the whole cluster.
    pub namespace: Option<String>,
    /// API group.
    pub group: String,
    /// Plural, and the subresource.
    pub resource: String,
    /// Verb.
    pub verb: String,
}

/// The rights of the roles in a manifest.
pub fn rights(manifest: &str) -> anyhow::Result<Vec<Right>> {
    let mut all = Vec::new();
    for object in objects(manifest)? {
        if !matches!(object["kind"].as_str(), Some("Role" | "ClusterRole")) {
            continue;
        }
        let namespace = object["metadata"]["namespace"].as_str().map(str::to_owned);
        let rules = object.get("rules").cloned().unwrap_or(Value::Array(Vec::new()));
        let rules: Vec<PolicyRule> =
            serde_json::from_value(rules).context("read a shipped role")?;
        for rule in rules {
            all.extend(of_rule(namespace.as_deref(), &rule));
        }
    }
    all.sort();
    all.dedup();
    Ok(all)
}

fn of_rule(namespace: Option<&str>, rule: &PolicyRule) -> Vec<Right> {
    let mut rights = Vec::new();
    for group in rule.api_groups.iter().flatten() {
        for resource in rule.resources.iter().flatten() {
            for verb in &rule.verbs {
                rights.push(Right {
                    namespace: namespace.map(str::to_owned),
                    group: group.clone(),
                    resource: resource.clone(),
                    verb: verb.clone(),
                });
            }
        }
    }
    rights
}

impl Right {
    /// As `kubectl auth can-i` takes it.
    fn words(&self) -> String {
        let group = if self.group.is_empty() { String::new() } else { format!(".{}", self.group) };
        match self.resource.split_once('/') {
            Some((resource, part)) => format!("{} {resource}{group}/{part}", self.verb),
            None => format!("{} {}{group}", self.verb, self.resource),
        }
    }

    fn attributes(&self) -> ResourceAttributes {
        let (resource, part) = match self.resource.split_once('/') {
            Some((resource, part)) => (resource.to_owned(), Some(part.to_owned())),
            None => (self.resource.clone(), None),
        };
        ResourceAttributes {
            namespace: self.namespace.clone(),
            group: Some(self.group.clone()),
            resource: Some(resource),
            subresource: part,
            verb: Some(self.verb.clone()),
            ..ResourceAttributes::default()
        }
    }
}

/// Whether a user has a right.
pub async fn may(
    client: &Client,
    user: &str,
    groups: &[String],
    right: &Right,
) -> anyhow::Result<bool> {
    let review = SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: Some(user.to_owned()),
            groups: Some(groups.to_vec()),
            resource_attributes: Some(right.attributes()),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    };
    let api = Api::<SubjectAccessReview>::all(client.clone());
    let deed = || format!("ask whether {user} may {}", right.words());
    let answer = call(deed, api.create(&PostParams::default(), &review)).await?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}

/// Groups of a service account.
pub fn groups(namespace: &str) -> Vec<String> {
    let own = format!("system:serviceaccounts:{namespace}");
    vec!["system:authenticated".to_owned(), "system:serviceaccounts".to_owned(), own]
}

/// An account has all of its rights. They are fewer than a hundred, asked one after another.
pub async fn of_account(client: &Client, account: &Account, system: &str) -> anyhow::Result<Check> {
    let user = format!("system:serviceaccount:{system}:{}", account.name);
    let groups = groups(system);
    let rights = rights(&in_namespace(account.manifest, system))?;
    let mut missing = Vec::new();
    for right in &rights {
        match may(client, &user, &groups, right).await {
            Ok(true) => {}
            Ok(false) => missing.push(right.words()),
            Err(error) if is_forbidden(&error) => return Ok(unasked(account.check)),
            Err(error) => return Err(error),
        }
    }
    Ok(account.check(&missing, rights.len(), system))
}

impl Account {
    /// Of the rights that are missing, and how many there are.
    pub(super) fn check(&self, missing: &[String], all: usize, system: &str) -> Check {
        let Account { check, name, file, .. } = self;
        if missing.is_empty() {
            return Check::ok(check, format!("{system}/{name} has all {all} that it needs"));
        }
        let found = format!("{system}/{name} may not {}", named(missing));
        Check::failed(check, found, apply(&[file], system))
    }
}

/// What only a review of access tells is not known to who may not ask for one.
pub fn unasked(check: &'static str) -> Check {
    Check::note(
        check,
        "not asked: you may not create SubjectAccessReviews",
        "ask with the rights of an administrator; a right that is missing is named in the log of who lacks it",
    )
}

/// The API server refused for lack of a right.
pub fn is_forbidden(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(CallError::Forbidden { .. }))
}
