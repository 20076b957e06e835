//! Rights of a service account, taken away one by one; for tests in a [`Cluster::namespace_alone`].

use std::fmt;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Context;
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule, Role};
use kube::Api;
use kube::api::PostParams;
use serde_json::json;

use crate::cluster::Cluster;
use crate::wait::until;

/// One verb on one resource. Written as the API server names it to who lacks it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Right {
    pub verb: String,
    pub group: String,
    /// Plural, and the subresource.
    pub resource: String,
    /// One of the names that it is limited to.
    pub name: Option<String>,
    /// Of the Role in the account's namespace, and not of the ClusterRole.
    pub is_local: bool,
}

/// The roles of an account without one right. They are whole again when this is dropped, a moment later: a test that
/// succeeds ends with [`TakenRight::give_back`].
#[must_use = "the right is back when this is dropped"]
pub struct TakenRight<'a> {
    rights: &'a Rights,
    right: Right,
    is_back: bool,
}

/// What a file of `deploy/rbac` gives: to an account, by a ClusterRole and perhaps a Role of its name.
pub struct Rights {
    cluster: Cluster,
    manifest: &'static str,
    account: (&'static str, &'static str),
    of_cluster: ClusterRole,
    of_namespace: Option<Role>,
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {} resource \"{}\"", self.verb, self.resource)
    }
}

impl Rights {
    /// Gives an account what a file gives.
    pub async fn apply(
        cluster: &Cluster,
        manifest: &'static str,
        account: (&'static str, &'static str),
    ) -> anyhow::Result<Rights> {
        apply(manifest)?;
        let (namespace, name) = account;
        let roles: Api<ClusterRole> = Api::all(cluster.client());
        let local: Api<Role> = Api::namespaced(cluster.client(), namespace);
        let of_cluster = roles.get(name).await.context("read the ClusterRole of an account")?;
        let of_namespace = local.get_opt(name).await.context("read the Role of an account")?;
        Ok(Rights { cluster: cluster.clone(), manifest, account, of_cluster, of_namespace })
    }

    /// All of them.
    pub fn all(&self) -> Vec<Right> {
        let cluster = self.of_cluster.rules.iter().flatten().flat_map(|rule| rights(rule, false));
        let local = self.of_namespace.iter().flat_map(|role| role.rules.iter().flatten());
        cluster.chain(local.flat_map(|rule| rights(rule, true))).collect()
    }

    /// Takes one away, and returns when it is gone.
    pub async fn take(&self, right: &Right) -> anyhow::Result<TakenRight<'_>> {
        let taken = TakenRight { rights: self, right: right.clone(), is_back: false };
        self.write(Some(right)).await?;
        self.until_may(right, false).await?;
        Ok(taken)
    }

    async fn write(&self, without: Option<&Right>) -> anyhow::Result<()> {
        let (namespace, name) = self.account;
        let rules = |rules: Option<&Vec<PolicyRule>>, is_local: bool| {
            let without = without.filter(|right| right.is_local == is_local);
            let rules = rules.into_iter().flatten();
            rules.flat_map(|rule| lessened(rule, without)).collect::<Vec<_>>()
        };
        let parameters = PostParams::default();
        // Whatever version is there: nobody else writes them.
        let mut role = self.of_cluster.clone();
        role.metadata.resource_version = None;
        role.rules = Some(rules(self.of_cluster.rules.as_ref(), false));
        let roles: Api<ClusterRole> = Api::all(self.cluster.client());
        roles.replace(name, &parameters, &role).await.context("write a ClusterRole")?;
        if let Some(mut role) = self.of_namespace.clone() {
            role.metadata.resource_version = None;
            role.rules = Some(rules(role.rules.as_ref(), true));
            let roles: Api<Role> = Api::namespaced(self.cluster.client(), namespace);
            roles.replace(name, &parameters, &role).await.context("write a Role")?;
        }
        Ok(())
    }

    async fn until_may(&self, right: &Right, expected: bool) -> anyhow::Result<()> {
        let (namespace, name) = self.account;
        let reviews: Api<SubjectAccessReview> = Api::all(self.cluster.client());
        let (resource, subresource) =
            right.resource.split_once('/').unwrap_or((&right.resource, ""));
        let review = serde_json::from_value(json!({"spec": {
            "user": format!("system:serviceaccount:{namespace}:{name}"),
            "resourceAttributes": {
                "verb": right.verb, "group": right.group, "resource": resource,
                "subresource": subresource, "name": right.name,
                "namespace": if right.is_local { namespace } else { "" },
            },
        }}))?;
        until(&format!("{name} to be told it {right}: {}", !expected), async || {
            let answer = reviews.create(&PostParams::default(), &review).await?;
            let may = answer.status.is_some_and(|status| status.allowed);
            Ok(if may == expected { Ok(()) } else { Err(format!("allowed: {may}")) })
        })
        .await
    }
}

impl TakenRight<'_> {
    /// Gives it back, and returns when it is there.
    pub async fn give_back(mut self) -> anyhow::Result<()> {
        self.rights.write(None).await?;
        self.is_back = true;
        self.rights.until_may(&self.right, true).await
    }
}

impl Drop for TakenRight<'_> {
    fn drop(&mut self) {
        if self.is_back {
            return;
        }
        if let Err(error) = apply(self.rights.manifest) {
            eprintln!("give the rights of {} back: {error}", self.rights.manifest);
        }
    }
}

fn apply(manifest: &str) -> anyhow::Result<()> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/rbac").join(manifest);
    let applied = Command::new("kubectl")
        .args(["apply", "--filename", &file.display().to_string()])
        .stdout(Stdio::null())
        .status()
        .context("run kubectl")?;
    anyhow::ensure!(applied.success(), "apply {}: {applied}", file.display());
    Ok(())
}

/// The rights of one rule.
fn rights(rule: &PolicyRule, is_local: bool) -> Vec<Right> {
    let names = rule.resource_names.as_ref();
    let name = names.and_then(|names| names.first()).cloned();
    let mut rights = Vec::new();
    for group in rule.api_groups.iter().flatten() {
        for resource in rule.resources.iter().flatten() {
            rights.extend(rule.verbs.iter().map(|verb| Right {
                verb: verb.clone(),
                group: group.clone(),
                resource: resource.clone(),
                name: name.clone(),
                is_local,
            }));
        }
    }
    rights
}

/// A rule as rules that give all but one right.
fn lessened(rule: &PolicyRule, without: Option<&Right>) -> Vec<PolicyRule> {
    let is_it = |right: &Right| rights(rule, right.is_local).contains(right);
    let Some(right) = without.filter(|right| is_it(right)) else { return vec![rule.clone()] };
    let resources = rule.resources.iter().flatten();
    let others: Vec<String> = resources.filter(|name| **name != right.resource).cloned().collect();
    let verbs = rule.verbs.iter().filter(|verb| **verb != right.verb).cloned().collect();
    let of_others = PolicyRule { resources: Some(others), ..rule.clone() };
    let of_it = PolicyRule { resources: Some(vec![right.resource.clone()]), verbs, ..rule.clone() };
    let gives = |rule: &PolicyRule| {
        !rule.verbs.is_empty() && rule.resources.as_ref().is_some_and(|names| !names.is_empty())
    };
    [of_others, of_it].into_iter().filter(gives).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_without_one_right_gives_all_others() {
        let rule: PolicyRule = serde_json::from_value(json!({
            "apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["get", "list"],
        }))
        .unwrap();
        let all = rights(&rule, false);
        assert_eq!(all.len(), 4);
        for right in &all {
            let left = lessened(&rule, Some(right));
            let mut left: Vec<_> = left.iter().flat_map(|rule| rights(rule, false)).collect();
            assert!(!left.contains(right));
            left.push(right.clone());
            assert!(all.iter().all(|right| left.contains(right)) && left.len() == 4, "{left:?}");
        }
        assert_eq!(all[0].to_string(), "cannot get resource \"nodes\"");
    }
}
