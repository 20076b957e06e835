//! What `hack/cluster` asks for nodes that are captured machines.
//!
//! `test-node render HOST DIR` writes a machine of `test/hosts` into a directory;
//! `test-node add NAME HOST` adds a node without a kubelet that publishes its devices.

use std::path::Path;

use anyhow::{Context, bail, ensure};
use kube::{Client, Config};
use lanemate_driver::resource_slice::Mode;
use lanemate_driver::testing::{HOSTS, host};
use lanemate_test_cluster::{FakeNode, NodeOptions, rendered_host};

/// Keeps pods away that do not ask for such a node: nothing would run them.
const TAINT: &str = "lanemate-test/no-kubelet";

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["render", name, directory] => {
            let mut capture = host(known(name)?);
            rendered_host::let_one_open(&mut capture);
            rendered_host::render(&capture, Path::new(directory))
        }
        ["add", node, name] => add(node, known(name)?).await,
        _ => bail!("expected render HOST DIR or add NAME HOST, found {words:?}"),
    }
}

fn known(name: &str) -> anyhow::Result<&str> {
    ensure!(HOSTS.contains(&name), "host {name:?}: expected one of {}", HOSTS.join(", "));
    Ok(name)
}

async fn add(node: &str, name: &str) -> anyhow::Result<()> {
    let config = Config::infer().await.context("read the kubeconfig of the cluster")?;
    let client = Client::try_from(config).context("make a client of the cluster")?;
    let taint = k8s_openapi::api::core::v1::Taint {
        key: TAINT.to_owned(),
        effect: "NoSchedule".to_owned(),
        ..Default::default()
    };
    let options = NodeOptions { taints: vec![taint], ..NodeOptions::default() };
    let mut fake = FakeNode::create(client, node, &options).await?;
    fake.publish(name, Mode::Controller).await?;
    fake.keep();
    Ok(())
}
