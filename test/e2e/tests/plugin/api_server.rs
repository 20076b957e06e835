//! The plugin without an API server: kubelet keeps its own way to it.

use std::net::SocketAddr;

use anyhow::Context;
use lanemate_test_cluster::{Cluster, until};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::installed::{OTHER, PAIR, PAIRS, Plugin, in_cdi, recorded, server};
use super::pods::{assert_waits, create_pod, run_pod, uid, until_no_files, until_none_is_held};

/// A way to the API server that can be cut.
struct Relay {
    address: SocketAddr,
    is_open: watch::Sender<bool>,
}

impl Relay {
    async fn start(server: &str) -> anyhow::Result<Self> {
        let server = server.strip_prefix("https://").context("expected https")?.to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (is_open, now) = watch::channel(true);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(relay(client, server.clone(), now.clone()));
            }
        });
        Ok(Self { address, is_open })
    }

    /// Ends all connections, and the next ones at once.
    fn cut(&self) {
        self.is_open.send_replace(false);
    }

    fn mend(&self) {
        self.is_open.send_replace(true);
    }
}

async fn relay(mut client: TcpStream, server: String, mut is_open: watch::Receiver<bool>) {
    if !*is_open.borrow_and_update() {
        return;
    }
    let Ok(mut server) = TcpStream::connect(server).await else { return };
    tokio::select! {
        _ = copy_bidirectional(&mut client, &mut server) => {}
        _ = is_open.wait_for(|is_open| !is_open) => {}
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_an_api_server_pods_end_and_new_ones_wait_until_it_is_back() -> anyhow::Result<()> {
    let cluster = Cluster::current().await?;
    let namespace = cluster.namespace_alone("no-api-server").await?;
    let relay = Relay::start(&server()?).await?;
    let mut plugin = Plugin::install(&cluster, &[])?;
    plugin.reach(&format!("https://{}", relay.address))?;
    plugin.run().await?;
    run_pod(&namespace, "ending", PAIR).await?;
    run_pod(&namespace, "lasting", OTHER).await?;

    relay.cut();
    create_pod(&namespace, "new", PAIRS[1]).await?;
    let words = ["cannot be read from the API server", &relay.address.to_string(), "tries again"];
    let pod = ("Pod", "new");
    namespace.until_told(pod, "FailedPrepareDynamicResources", &words).await?;
    assert_waits(&namespace, "new").await?;
    namespace.restart_container("lasting").await?;
    let lasting = vec![uid(&namespace, "lasting").await?];
    namespace.delete_pod("ending").await?;
    until("the files of the pod that ended to be gone", async || {
        let left = (recorded(), in_cdi());
        Ok(if left == (lasting.clone(), lasting.clone()) {
            Ok(())
        } else {
            Err(format!("{left:?}"))
        })
    })
    .await?;

    // A plugin that starts without an API server serves from its records, too.
    plugin.kill()?;
    plugin.spawn()?;
    namespace.delete_pod("lasting").await?;
    until_no_files().await?;
    assert_waits(&namespace, "new").await?;

    relay.mend();
    namespace.pod_running("new").await?;
    namespace.delete_pod("new").await?;
    until_none_is_held(&cluster).await
}
