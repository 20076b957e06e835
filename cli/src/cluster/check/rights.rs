//! The rights of the controller's service account, one by one, as its shipped manifest lists them.

use anyhow::Context;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::api::PostParams;
use kube::{Api, Client};
use lanemate_runtime::call::call;
use serde_json::Value;

use super::policies::objects;
use super::{Check, named};

const MANIFEST: &str = include_str!("../../../../deploy/rbac/controller.yaml");
const NAMESPACE: &str = "lanemate-system";
const ACCOUNT: &str = "lanemate-controller";

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

/// The controller has all of its rights. They are fewer than a hundred, asked one after another.
pub async fn controller(client: &Client) -> anyhow::Result<Check> {
    let user = format!("system:serviceaccount:{NAMESPACE}:{ACCOUNT}");
    let groups = groups(NAMESPACE);
    let rights = rights(MANIFEST)?;
    let mut missing = Vec::new();
    for right in &rights {
        if !may(client, &user, &groups, right).await? {
            missing.push(right.words());
        }
    }
    if missing.is_empty() {
        let found = format!("{NAMESPACE}/{ACCOUNT} has all {} that it needs", rights.len());
        return Ok(Check::ok("Rights", found));
    }
    let found = format!("{NAMESPACE}/{ACCOUNT} may not {}", named(&missing));
    Ok(Check::failed("Rights", found, "kubectl apply -f deploy/rbac/controller.yaml"))
}
