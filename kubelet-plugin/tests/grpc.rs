//! The plugin's sockets as kubelet uses them, with claims that succeed, fail, hang and panic.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lanemate_driver::prepare::PreparedDevice;
use lanemate_kubelet_plugin::claim_id::ClaimId;
use lanemate_kubelet_plugin::grpc::{
    ClaimServer, Config, Registration, ServeError, Serving, SocketPaths, serve,
};
use lanemate_kubelet_sim::{Answers, Claim, Device, Kubelet, KubeletError, Settings, Version};
use tempfile::TempDir;
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

const DRIVER: &str = "lanemate.dev";
const WITHIN: Duration = Duration::from_secs(30);
const UID: &str = "0b9fd2a5-6b2f-4c8e-9a57-3f9d5a3b1c11";
const OTHER_UID: &str = "c4a8f0de-1111-4222-8333-944455556666";

/// Does what the name of a claim says: `fail…`, `panic…`, `hang…` until it is released; others
/// succeed.
#[derive(Default)]
struct Claims {
    name: &'static str,
    /// What was begun and what was finished, in order.
    log: watch::Sender<Vec<String>>,
    release: watch::Sender<bool>,
    deadlines: Mutex<Vec<Duration>>,
}

impl Claims {
    fn named(name: &'static str) -> Arc<Self> {
        Arc::new(Self { name, ..Self::default() })
    }

    async fn work(&self, deed: &str, claim: &ClaimId, deadline: Instant) -> Result<(), String> {
        self.log.send_modify(|log| log.push(format!("{deed} {}", claim.name)));
        self.deadlines.lock().unwrap().push(deadline - Instant::now());
        match claim.name.split('-').next() {
            Some("fail") => return Err(format!("cannot {deed} {claim}")),
            Some("panic") => panic!("broken on {}", claim.name),
            // An error means that the test is over.
            Some("hang") => drop(self.release.subscribe().wait_for(|released| *released).await),
            _ => {}
        }
        self.log.send_modify(|log| log.push(format!("done {}", claim.name)));
        Ok(())
    }

    /// Waits until this was logged so many times.
    async fn until_logged(&self, line: &str, times: usize) {
        let mut log = self.log.subscribe();
        let seen = log.wait_for(|log| log.iter().filter(|l| *l == line).count() >= times);
        tokio::time::timeout(WITHIN, seen).await.expect(line).unwrap();
    }

    fn logged(&self, line: &str) -> usize {
        self.log.borrow().iter().filter(|l| *l == line).count()
    }
}

impl ClaimServer for Claims {
    async fn prepare(
        &self,
        claim: ClaimId,
        deadline: Instant,
    ) -> Result<Vec<PreparedDevice>, String> {
        self.work("prepare", &claim, deadline).await?;
        Ok(vec![PreparedDevice {
            request: "gpu".to_owned(),
            pool: "node-a".to_owned(),
            device: self.name.to_owned(),
            cdi_device_ids: vec![format!("lanemate.dev/claim={}.gpu.0", claim.uid)],
        }])
    }

    async fn unprepare(&self, claim: ClaimId, deadline: Instant) -> Result<(), String> {
        self.work("unprepare", &claim, deadline).await
    }
}

/// Kubelet's directories.
struct Node {
    root: TempDir,
}

impl Node {
    fn new() -> Self {
        Self { root: tempfile::tempdir().unwrap() }
    }

    fn registry(&self) -> PathBuf {
        self.root.path().join("plugins_registry")
    }

    fn config(&self, pod_uid: Option<&str>) -> Config {
        Config {
            plugins: self.root.path().join("plugins"),
            registry: self.registry(),
            pod_uid: pod_uid.map(str::to_owned),
            answer_within: WITHIN,
            drain_within: WITHIN,
        }
    }

    fn settings(&self) -> Settings {
        Settings::new(self.registry())
    }

    async fn plugin(&self, claims: &Arc<Claims>, pod_uid: Option<&str>) -> Plugin {
        Plugin::start(self.config(pod_uid), claims).await.unwrap()
    }

    /// Names of all files in both directories.
    fn files(&self) -> Vec<String> {
        let mut names = Vec::new();
        for directory in [self.registry(), self.root.path().join("plugins").join(DRIVER)] {
            for entry in fs::read_dir(directory).into_iter().flatten() {
                names.push(entry.unwrap().file_name().into_string().unwrap());
            }
        }
        names.sort();
        names
    }
}

/// A plugin and its stop.
struct Plugin {
    serving: Serving,
    stop: oneshot::Sender<()>,
}

impl Plugin {
    async fn start(config: Config, claims: &Arc<Claims>) -> Result<Self, ServeError> {
        let (stop, stopped) = oneshot::channel();
        let shutdown = async {
            let _ = stopped.await;
        };
        Ok(Self { serving: serve(config, Arc::clone(claims), shutdown).await?, stop })
    }

    async fn stop(mut self) -> Result<(), ServeError> {
        self.stop.send(()).unwrap();
        tokio::time::timeout(WITHIN * 2, self.serving.ended()).await.expect("the plugin ends")
    }
}

async fn registered(kubelet: &Kubelet, count: usize) {
    kubelet.until_registered(DRIVER, count, WITHIN).await.unwrap();
}

async fn until(what: &str, is_so: impl Fn() -> bool) {
    let so = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(WITHIN, so).await.unwrap_or_else(|_| panic!("waited for: {what}"));
}

fn claim(name: &str) -> Claim {
    Claim { namespace: "team-a".to_owned(), name: name.to_owned(), uid: format!("uid-{name}") }
}

fn error<T: std::fmt::Debug>(answers: &Answers<T>, uid: &str) -> String {
    answers[uid].as_ref().unwrap_err().clone()
}

#[tokio::test]
async fn a_device_arrives_in_both_versions_as_it_was_prepared() {
    for version in [None, Some(Version::V1), Some(Version::V1beta1)] {
        let node = Node::new();
        let claims = Claims::named("gpu-0");
        let plugin = node.plugin(&claims, Some(UID)).await;
        let kubelet = Kubelet::start(Settings { version, ..node.settings() });
        registered(&kubelet, 1).await;
        assert_eq!(kubelet.plugins(DRIVER)[0].versions, ["v1.DRAPlugin", "v1beta1.DRAPlugin"]);
        let mut told = plugin.serving.registered.clone();
        let told = told.wait_for(|told| *told == Registration::Registered);
        tokio::time::timeout(WITHIN, told).await.expect("registered").unwrap();
        let answers = kubelet.prepare(DRIVER, &[claim("a")]).await.unwrap();
        let device = Device {
            request_names: vec!["gpu".to_owned()],
            pool: "node-a".to_owned(),
            device: "gpu-0".to_owned(),
            cdi_ids: vec!["lanemate.dev/claim=uid-a.gpu.0".to_owned()],
            share_id: None,
        };
        assert_eq!(answers, BTreeMap::from([("uid-a".to_owned(), Ok(vec![device]))]));
        let answers = kubelet.unprepare(DRIVER, &[claim("a"), claim("never")]).await.unwrap();
        assert!(answers.len() == 2 && answers.values().all(Result::is_ok), "{answers:?}");
        plugin.stop().await.unwrap();
        assert!(node.files().is_empty(), "{:?}", node.files());
    }
}

#[tokio::test]
async fn a_bad_claim_has_its_own_error_and_its_siblings_go_on() {
    let node = Node::new();
    let claims = Claims::named("gpu-0");
    let _plugin = node.plugin(&claims, Some(UID)).await;
    let kubelet = Kubelet::start(node.settings());
    registered(&kubelet, 1).await;
    let no_uid = Claim { uid: "../../etc".to_owned(), ..claim("a") };
    let no_name = Claim { name: "A/B".to_owned(), ..claim("b") };
    let no_namespace = Claim { namespace: String::new(), ..claim("c") };
    let all = [claim("good"), claim("fail-1"), claim("panic-1"), no_uid, no_name, no_namespace];
    let answers = kubelet.prepare(DRIVER, &all).await.unwrap();
    assert!(answers["uid-good"].is_ok());
    assert_eq!(error(&answers, "uid-fail-1"), "cannot prepare team-a/fail-1 (uid-fail-1)");
    assert!(error(&answers, "uid-panic-1").contains("broken on panic-1"));
    assert!(error(&answers, "../../etc").starts_with("claim UID "));
    assert!(error(&answers, "uid-b").starts_with("claim name "));
    assert!(error(&answers, "uid-c").starts_with("claim namespace "));
    let answers = kubelet.unprepare(DRIVER, &all).await.unwrap();
    assert_eq!(answers.values().filter(|answer| answer.is_ok()).count(), 1, "{answers:?}");
    assert_eq!(error(&answers, "uid-fail-1"), "cannot unprepare team-a/fail-1 (uid-fail-1)");
    // Nothing has taken the server along.
    kubelet.forget(DRIVER, &[claim("good")]);
    assert!(kubelet.prepare(DRIVER, &[claim("good")]).await.unwrap()["uid-good"].is_ok());
}

#[tokio::test]
async fn the_answer_comes_by_the_deadline_and_the_work_goes_on() {
    let node = Node::new();
    let claims = Claims::named("gpu-0");
    let config = Config { answer_within: Duration::from_secs(3), ..node.config(Some(UID)) };
    let plugin = Plugin::start(config, &claims).await.unwrap();
    let kubelet = Kubelet::start(node.settings());
    registered(&kubelet, 1).await;
    // Answers are made in the order of UIDs; nobody waits for the one before.
    let answers = kubelet.prepare(DRIVER, &[claim("hang-1"), claim("zero")]).await.unwrap();
    assert!(answers["uid-zero"].is_ok());
    let late = error(&answers, "uid-hang-1");
    assert!(late.contains("not finished within 3s") && late.contains("tries again"), "{late}");
    assert_eq!(claims.logged("done hang-1"), 0);
    claims.release.send_replace(true);
    claims.until_logged("done hang-1", 1).await;
    plugin.stop().await.unwrap();
}

#[tokio::test]
async fn the_deadline_is_sooner_than_that_of_the_caller_and_than_the_configured_one() {
    let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
    for (caller, configured, expect) in
        [(minutes(45), minutes(50), minutes(40)), (minutes(45), minutes(30), minutes(30))]
    {
        let node = Node::new();
        let claims = Claims::named("gpu-0");
        let config = Config { answer_within: configured, ..node.config(Some(UID)) };
        let _plugin = Plugin::start(config, &claims).await.unwrap();
        let kubelet = Kubelet::start(Settings { call_timeout: caller, ..node.settings() });
        registered(&kubelet, 1).await;
        assert!(kubelet.prepare(DRIVER, &[claim("a")]).await.unwrap()["uid-a"].is_ok());
        let left = claims.deadlines.lock().unwrap()[0];
        assert!(left <= expect && left > expect - minutes(5), "{left:?}");
    }
}

#[tokio::test]
async fn a_claim_that_is_named_twice_is_served_once() {
    let node = Node::new();
    let claims = Claims::named("gpu-0");
    let _plugin = node.plugin(&claims, Some(UID)).await;
    let kubelet = Kubelet::start(node.settings());
    registered(&kubelet, 1).await;
    let answers = kubelet.prepare(DRIVER, &[claim("a"), claim("a")]).await.unwrap();
    assert!(answers.len() == 1 && answers["uid-a"].is_ok(), "{answers:?}");
    assert_eq!(claims.logged("prepare a"), 1);
    let other = Claim { name: "b".to_owned(), ..claim("a") };
    let answers = kubelet.unprepare(DRIVER, &[claim("a"), other]).await.unwrap();
    assert!(error(&answers, "uid-a").contains("two names"));
}

#[tokio::test]
async fn a_call_with_more_claims_than_a_node_has_devices_is_refused() {
    let node = Node::new();
    let claims = Claims::named("gpu-0");
    let _plugin = node.plugin(&claims, Some(UID)).await;
    let kubelet = Kubelet::start(node.settings());
    registered(&kubelet, 1).await;
    let longest = |number: usize| Claim {
        namespace: "n".repeat(63),
        name: "c".repeat(253),
        uid: format!("{number:064}"),
    };
    let most: Vec<Claim> = (0..256).map(longest).collect();
    let answers = kubelet.prepare(DRIVER, &most).await.unwrap();
    assert!(answers.len() == 256 && answers.values().all(Result::is_ok));
    let more: Vec<Claim> = (0..257).map(longest).collect();
    kubelet.restart();
    registered(&kubelet, 1).await;
    let refused = kubelet.prepare(DRIVER, &more).await.unwrap_err().to_string();
    assert!(refused.contains("at most 256"), "{refused}");
    let huge = Claim { namespace: "n".repeat(1 << 20), ..claim("a") };
    let refused = kubelet.prepare(DRIVER, &[huge]).await;
    assert!(matches!(refused, Err(KubeletError::Call { .. })), "{refused:?}");
}

#[tokio::test]
async fn a_call_that_kubelet_gives_up_is_finished_all_the_same() {
    let node = Node::new();
    let claims = Claims::named("gpu-0");
    let _plugin = node.plugin(&claims, Some(UID)).await;
    let kubelet = Arc::new(Kubelet::start(node.settings()));
    registered(&kubelet, 1).await;
    let call = tokio::spawn({
        let kubelet = Arc::clone(&kubelet);
        async move { kubelet.prepare(DRIVER, &[claim("hang-1")]).await }
    });
    claims.until_logged("prepare hang-1", 1).await;
    call.abort();
    // Kubelet's connections go, too, and come again.
    kubelet.restart();
    registered(&kubelet, 1).await;
    assert!(kubelet.prepare(DRIVER, &[claim("a")]).await.unwrap()["uid-a"].is_ok());
    claims.release.send_replace(true);
    claims.until_logged("done hang-1", 1).await;
}

#[tokio::test]
async fn during_an_update_two_instances_serve_and_the_newer_one_is_asked() {
    let node = Node::new();
    let kubelet = Kubelet::start(node.settings());
    let (old, new) = (Claims::named("old"), Claims::named("new"));
    let device = |answers: &Answers<Vec<Device>>, uid: &str| {
        answers[uid].as_ref().unwrap()[0].device.clone()
    };
    let first = node.plugin(&old, Some(UID)).await;
    registered(&kubelet, 1).await;
    let second = node.plugin(&new, Some(OTHER_UID)).await;
    registered(&kubelet, 2).await;
    let answers = kubelet.prepare(DRIVER, &[claim("a")]).await.unwrap();
    assert_eq!(device(&answers, "uid-a"), "new");
    // The update is taken back: the old one goes on.
    second.stop().await.unwrap();
    registered(&kubelet, 1).await;
    let answers = kubelet.prepare(DRIVER, &[claim("b")]).await.unwrap();
    assert_eq!(device(&answers, "uid-b"), "old");
    // The update goes through: the new one has never removed or lost a socket to the old one.
    let third = node.plugin(&new, Some(OTHER_UID)).await;
    registered(&kubelet, 2).await;
    first.stop().await.unwrap();
    registered(&kubelet, 1).await;
    let answers = kubelet.prepare(DRIVER, &[claim("c")]).await.unwrap();
    assert_eq!(device(&answers, "uid-c"), "new");
    third.stop().await.unwrap();
    registered(&kubelet, 0).await;
}

#[tokio::test]
async fn a_shutdown_unregisters_first_and_finishes_the_calls_in_flight() {
    let node = Node::new();
    let claims = Claims::named("gpu-0");
    let mut plugin = node.plugin(&claims, Some(UID)).await;
    let paths = plugin.serving.paths.clone();
    let kubelet = Arc::new(Kubelet::start(node.settings()));
    registered(&kubelet, 1).await;
    // Something that connects and says nothing does not hold the shutdown up.
    let _silent = UnixStream::connect(paths.dra()).unwrap();
    let call = tokio::spawn({
        let kubelet = Arc::clone(&kubelet);
        async move { kubelet.prepare(DRIVER, &[claim("hang-1")]).await }
    });
    claims.until_logged("prepare hang-1", 1).await;
    plugin.stop.send(()).unwrap();
    until("the registration socket goes", || !Path::new(paths.registration()).exists()).await;
    assert!(Path::new(paths.dra()).exists());
    claims.release.send_replace(true);
    let answers = tokio::time::timeout(WITHIN, call).await.expect("an answer").unwrap().unwrap();
    assert!(answers["uid-hang-1"].is_ok(), "{answers:?}");
    let ended = tokio::time::timeout(WITHIN / 2, plugin.serving.ended()).await;
    ended.expect("the plugin ends").unwrap();
    assert!(node.files().is_empty(), "{:?}", node.files());
}

#[tokio::test]
async fn a_shutdown_finishes_work_that_kubelet_no_longer_waits_for() {
    let node = Node::new();
    let claims = Claims::named("gpu-0");
    let config = Config { answer_within: Duration::from_millis(50), ..node.config(Some(UID)) };
    let mut plugin = Plugin::start(config, &claims).await.unwrap();
    let paths = plugin.serving.paths.clone();
    let kubelet = Kubelet::start(node.settings());
    registered(&kubelet, 1).await;
    let answers = kubelet.prepare(DRIVER, &[claim("hang-1")]).await.unwrap();
    assert!(error(&answers, "uid-hang-1").contains("not finished"));
    plugin.stop.send(()).unwrap();
    until("the registration socket goes", || !Path::new(paths.registration()).exists()).await;
    claims.release.send_replace(true);
    let ended = tokio::time::timeout(WITHIN, plugin.serving.ended()).await;
    ended.expect("the plugin ends").unwrap();
    assert_eq!(claims.logged("done hang-1"), 1);
}

#[tokio::test]
async fn a_shutdown_does_not_wait_for_ever() {
    let node = Node::new();
    let claims = Claims::named("gpu-0");
    let config = Config {
        answer_within: Duration::from_millis(50),
        drain_within: Duration::from_millis(50),
        ..node.config(Some(UID))
    };
    let plugin = Plugin::start(config, &claims).await.unwrap();
    let kubelet = Kubelet::start(node.settings());
    registered(&kubelet, 1).await;
    let answers = kubelet.prepare(DRIVER, &[claim("hang-1")]).await.unwrap();
    assert!(error(&answers, "uid-hang-1").contains("not finished"));
    let ended = plugin.stop().await;
    assert!(matches!(ended, Err(ServeError::NotDrained(_))), "{ended:?}");
    assert!(node.files().is_empty(), "{:?}", node.files());
}

#[tokio::test]
async fn a_refusal_by_kubelet_is_known_with_its_reason() {
    let node = Node::new();
    let claims = Claims::named("gpu-0");
    let plugin = node.plugin(&claims, Some(UID)).await;
    // A second socket that leads to the same plugin: kubelet takes one of the two.
    let paths = &plugin.serving.paths;
    fs::hard_link(paths.registration(), node.registry().join("again@reg.sock")).unwrap();
    let kubelet = Kubelet::start(node.settings());
    let mut told = plugin.serving.registered.clone();
    let refused = told.wait_for(|told| matches!(told, Registration::Refused(_)));
    let refused = tokio::time::timeout(WITHIN, refused).await.expect("refused").unwrap().clone();
    let Registration::Refused(reason) = refused else { unreachable!() };
    assert!(reason.contains("registered already"), "{reason}");
    assert_eq!(kubelet.plugins(DRIVER).len(), 1);
}

#[tokio::test]
async fn dead_sockets_are_swept_and_nothing_else() {
    let node = Node::new();
    let own = node.root.path().join("plugins").join(DRIVER);
    fs::create_dir_all(&own).unwrap();
    fs::create_dir_all(node.registry()).unwrap();
    let dead = |path: PathBuf| drop(UnixListener::bind(path).unwrap());
    // What crashed instances leave: this pod's own, another pod's, one without a UID.
    for name in [format!("dra-{UID}.sock"), format!("dra-{OTHER_UID}.sock"), "dra.sock".to_owned()]
    {
        dead(own.join(name));
    }
    for name in [format!("lanemate.dev@{OTHER_UID}-reg.sock"), "lanemate.dev@reg.sock".to_owned()] {
        dead(node.registry().join(name));
    }
    // What is not ours, not a socket, or alive.
    dead(own.join("other.sock"));
    dead(node.registry().join("gpu.example.com-reg.sock"));
    dead(node.registry().join("lanemate.dev.example.com-reg.sock"));
    fs::write(own.join("dra-file.sock"), "").unwrap();
    let _alive = UnixListener::bind(node.registry().join("lanemate.dev@alive-reg.sock")).unwrap();
    let plugin = node.plugin(&Claims::named("gpu-0"), Some(UID)).await;
    let mut expect = vec![
        "dra-file.sock".to_owned(),
        format!("dra-{UID}.sock"),
        "gpu.example.com-reg.sock".to_owned(),
        format!("lanemate.dev@{UID}-reg.sock"),
        "lanemate.dev@alive-reg.sock".to_owned(),
        "lanemate.dev.example.com-reg.sock".to_owned(),
        "other.sock".to_owned(),
    ];
    expect.sort();
    assert_eq!(node.files(), expect);
    let paths = plugin.serving.paths.clone();
    for path in [paths.dra(), paths.registration()] {
        assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600, "{path}");
    }
}

#[tokio::test]
async fn a_place_that_is_taken_is_left_alone() {
    let node = Node::new();
    let first = node.plugin(&Claims::named("first"), None).await;
    let second = Plugin::start(node.config(None), &Claims::named("second")).await;
    let error = second.err().expect("the place is taken").to_string();
    assert!(error.contains("another process listens there"), "{error}");
    let kubelet = Kubelet::start(node.settings());
    registered(&kubelet, 1).await;
    assert!(kubelet.prepare(DRIVER, &[claim("a")]).await.unwrap()["uid-a"].is_ok());
    // What replaces a socket of ours is not removed with it.
    let path = first.serving.paths.dra().to_owned();
    fs::remove_file(&path).unwrap();
    fs::write(&path, "not ours").unwrap();
    first.stop().await.unwrap();
    assert_eq!(node.files(), ["dra.sock"]);
    let third = Plugin::start(node.config(None), &Claims::named("third")).await;
    let error = third.err().expect("the place is taken").to_string();
    assert!(error.contains("not a socket"), "{error}");
    // The registration socket comes last, so kubelet never saw this one.
    assert_eq!(node.files(), ["dra.sock"]);
}

#[test]
fn paths_fit_the_kernel_and_name_the_pod() {
    let hash = "c04a6f6a9d02ba6b".len();
    let paths = |plugins: &str, registry: &str, uid: Option<&str>| {
        SocketPaths::new(Path::new(plugins), Path::new(registry), uid)
    };
    let usual =
        paths("/var/lib/kubelet/plugins", "/var/lib/kubelet/plugins_registry/", Some(UID)).unwrap();
    assert_eq!(usual.dra(), format!("/var/lib/kubelet/plugins/lanemate.dev/dra-{UID}.sock"));
    let registration = format!("/var/lib/kubelet/plugins_registry/lanemate.dev@{UID}-reg.sock");
    assert_eq!(usual.registration(), registration);
    let without = paths("/p", "/r", None).unwrap();
    assert_eq!(without.dra(), "/p/lanemate.dev/dra.sock");
    assert_eq!(without.registration(), "/r/lanemate.dev@reg.sock");
    // 48 bytes follow the directory: `/lanemate.dev/dra-`, the UID, `.sock`.
    for (length, expect) in [(48, Some(UID.len())), (49, Some(hash)), (68, Some(hash)), (69, None)]
    {
        let directory = format!("/{}", "d".repeat(length - 1));
        match (paths(&directory, "/r", Some(UID)), expect) {
            (Ok(found), Some(part)) => {
                let rest = directory.len() + "/lanemate.dev/dra-.sock".len();
                assert_eq!(found.dra().len(), rest + part, "{length}");
                assert!(found.dra().len() <= 107);
                let other = paths(&directory, "/r", Some(OTHER_UID)).unwrap();
                assert_ne!(found.dra(), other.dra());
            }
            (Err(error), None) => {
                let error = error.to_string();
                assert!(error.contains("108 bytes") && error.contains("at most 107"), "{error}");
            }
            (found, _) => panic!("{length}: {found:?}"),
        }
    }
    for uid in ["", "../x", "a/b", "-a", "a b", &"a".repeat(65)] {
        assert!(paths("/p", "/r", Some(uid)).unwrap_err().to_string().contains("pod UID"), "{uid}");
    }
    assert!(paths("p", "/r", None).unwrap_err().to_string().contains("absolute"));
}
