//! Who speaks to the API server: service accounts, and people that an administrator stands in for.

use std::path::{Path, PathBuf};

use anyhow::Context;
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Node, ServiceAccount};
use kube::api::PostParams;
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::json;

use crate::cluster::Cluster;

/// Seconds that a token is good for: longer than any run of tests.
const TOKEN_SECONDS: i64 = 3600;

/// Where an API server is, and whose certificate makes it believable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// Its URL.
    pub server: String,
    /// A file with the certificate of its authority, in PEM.
    pub authority: PathBuf,
}

impl Access {
    /// A kubeconfig for whoever has the token.
    pub fn kubeconfig(&self, token: &str) -> String {
        json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [{"name": "test", "cluster": {
                "server": self.server, "certificate-authority": self.authority,
            }}],
            "users": [{"name": "test", "user": {"token": token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        })
        .to_string()
    }
}

impl Cluster {
    /// The way to the API server itself.
    pub fn access(&self) -> anyhow::Result<Access> {
        let found = Kubeconfig::read().context("read the kubeconfig of the cluster")?;
        let cluster = found.clusters.into_iter().next().and_then(|named| named.cluster);
        let cluster = cluster.context("the kubeconfig names no cluster")?;
        Ok(Access {
            server: cluster.server.context("the kubeconfig names no server")?,
            authority: cluster
                .certificate_authority
                .map(PathBuf::from)
                .context("the kubeconfig names no file of the authority")?,
        })
    }

    /// A token of a service account; with a node, as a pod on that node has it.
    pub async fn token(
        &self,
        (namespace, account): (&str, &str),
        node: Option<&str>,
    ) -> anyhow::Result<String> {
        let bound = match node {
            None => None,
            Some(name) => {
                let nodes: Api<Node> = Api::all(self.client());
                let node = nodes.get(name).await.context("read the node of a token")?;
                Some(BoundObjectReference {
                    api_version: Some("v1".to_owned()),
                    kind: Some("Node".to_owned()),
                    name: Some(name.to_owned()),
                    uid: node.metadata.uid,
                })
            }
        };
        let asked = TokenRequest {
            spec: Some(TokenRequestSpec {
                bound_object_ref: bound,
                expiration_seconds: Some(TOKEN_SECONDS),
                ..TokenRequestSpec::default()
            }),
            ..TokenRequest::default()
        };
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client(), namespace);
        let params = PostParams::default();
        let given = accounts.create_token_request(account, &params, &asked).await;
        let given = given.with_context(|| format!("a token of {namespace}/{account}"))?;
        let token = given.status.and_then(|status| status.token);
        token.context("an answered request has a token")
    }

    /// A client with the rights of a service account, and no others.
    pub async fn as_account(&self, account: (&str, &str)) -> anyhow::Result<Client> {
        let token = self.token(account, None).await?;
        self.client_of(AuthInfo { token: Some(token.into()), ..AuthInfo::default() }).await
    }

    /// A client with the rights of a person.
    pub async fn as_user(&self, name: &str) -> anyhow::Result<Client> {
        let mut administrator = Kubeconfig::read()?.auth_infos.into_iter();
        let found = administrator.next().and_then(|named| named.auth_info);
        let administrator = found.context("the kubeconfig names no user")?;
        self.client_of(AuthInfo { impersonate: Some(name.to_owned()), ..administrator }).await
    }

    async fn client_of(&self, who: AuthInfo) -> anyhow::Result<Client> {
        let mut kubeconfig = Kubeconfig::read()?;
        for named in &mut kubeconfig.auth_infos {
            named.auth_info = Some(who.clone());
        }
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await?;
        Client::try_from(config).context("make a client of the cluster")
    }

    /// A kubeconfig with the rights of a service account and no others, written to a file.
    pub async fn write_kubeconfig(
        &self,
        file: &Path,
        account: (&str, &str),
        node: Option<&str>,
    ) -> anyhow::Result<()> {
        let text = self.access()?.kubeconfig(&self.token(account, node).await?);
        std::fs::write(file, text).with_context(|| format!("write {}", file.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kubeconfig_leads_to_the_server_with_the_token() {
        let access = Access { server: "https://a:1".to_owned(), authority: PathBuf::from("/ca") };
        let read = Kubeconfig::from_yaml(&access.kubeconfig("secret")).unwrap();
        let cluster = read.clusters[0].cluster.as_ref().unwrap();
        assert_eq!(cluster.server.as_deref(), Some("https://a:1"));
        assert_eq!(cluster.certificate_authority.as_deref(), Some("/ca"));
        assert!(read.auth_infos[0].auth_info.as_ref().unwrap().token.is_some());
    }
}
