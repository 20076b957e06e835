//! The plugin of a node writes what is of its node.

use k8s_openapi::api::resource::v1::ResourceSlice;
use kube::api::{DeleteParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, ResourceExt};
use lanemate_api::node_state::{NodeState, NodeStateStatus};

use super::ground::{Ground, assert_refused, renamed};

const PLUGIN: (&str, &str) = ("lanemate-system", "lanemate-kubelet-plugin");
const WORDS: &str = "may not write what is of node";

/// The plugin's account with the token of a pod on a node, or with one of no node.
async fn plugin_of(ground: &Ground, node: Option<&str>) -> anyhow::Result<Client> {
    let token = ground.cluster.token(PLUGIN, node).await?;
    let kubeconfig = Kubeconfig::from_yaml(&ground.cluster.access()?.kubeconfig(&token))?;
    let options = KubeConfigOptions::default();
    Ok(Client::try_from(Config::from_custom_kubeconfig(kubeconfig, &options).await?)?)
}

#[tokio::test]
async fn a_plugin_writes_slices_and_the_state_of_its_own_node_alone() -> anyhow::Result<()> {
    // One node has its slices from a plugin, the other is the victim.
    let ground = Ground::new("node-fence").await?;
    let own = lanemate_test_cluster::FakeNode::create(
        ground.cluster.client(),
        &format!("{}-own", ground.namespace.name()),
        &Default::default(),
    )
    .await?;
    let administrators: Api<ResourceSlice> = Api::all(ground.cluster.client());
    let of_node =
        kube::api::ListParams::default().fields(&format!("spec.nodeName={}", ground.node.name()));
    let foreign = administrators.list(&of_node).await?.items.remove(0);
    let mut mine = renamed(&foreign, "mine");
    mine.spec.node_name = Some(own.name().to_owned());
    mine.spec.pool.name = own.name().to_owned();

    let post = PostParams::default();
    let dry = PostParams { dry_run: true, ..post.clone() };
    let delete_dry = DeleteParams { dry_run: true, ..DeleteParams::default() };
    ground.node.hold(Vec::new()).await?;
    let state = |node: &str| NodeState::new(node, NodeStateStatus::default());
    for node in [None, Some(own.name())] {
        let client = plugin_of(&ground, node).await?;
        let (slices, states): (Api<ResourceSlice>, Api<NodeState>) =
            (Api::all(client.clone()), Api::all(client));
        assert_refused(slices.create(&dry, &renamed(&foreign, "more")).await, WORDS);
        assert_refused(slices.replace(&foreign.name_any(), &dry, &foreign).await, WORDS);
        assert_refused(slices.delete(&foreign.name_any(), &delete_dry).await, WORDS);
        assert_refused(states.create(&dry, &state("elsewhere")).await, WORDS);
        let mut there = states.get(ground.node.name()).await?;
        there.metadata.labels = Some([("a".to_owned(), "b".to_owned())].into());
        assert_refused(states.replace(ground.node.name(), &dry, &there).await, WORDS);
        if node.is_none() {
            assert_refused(slices.create(&dry, &mine).await, WORDS);
            assert_refused(states.create(&dry, &state(own.name())).await, WORDS);
            continue;
        }
        let mut made = slices.create(&post, &mine).await?;
        made.spec.pool.generation += 1;
        let made = slices.replace(&made.name_any(), &post, &made).await?;
        slices.delete(&made.name_any(), &DeleteParams::default()).await?;
        let mut made = state(own.name());
        made.metadata.owner_references = Some(vec![own.owner()]);
        let made = states.create(&post, &made).await?;
        states.replace(own.name(), &post, &made).await?;
    }
    Ok(())
}
