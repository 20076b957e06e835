//! Claims at a fake API server, and a state thread that answers as a test says.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use lanemate_driver::testing::facts;
use lanemate_runtime::client::connect;
use lanemate_runtime::shutdown::Tasks;
use lanemate_test_api::{Fault, TestApi};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::*;
use crate::fake_state::channel;
use crate::kubernetes::events::Event;
use crate::state::Question;

const CLAIM: &str = "/apis/resource.k8s.io/v1/namespaces/ml/resourceclaims/four";

/// What the state thread says to a Prepare.
type Answer = fn(ClaimId) -> Result<Prepared, PrepareError>;

/// A service between the two, and what it told.
struct Scene {
    api: TestApi,
    service: Service,
    events: mpsc::Receiver<Event>,
    registry: Registry,
    thread: Arc<Mutex<Thread>>,
    _tasks: Tasks,
    _dir: tempfile::TempDir,
}

/// What the state thread says, and what it was asked.
#[derive(Default)]
struct Thread {
    ticket: Ticket,
    /// Answers to Prepare, the last of which is repeated.
    answers: VecDeque<Answer>,
    recorded: Option<Prepared>,
    unprepare: Option<fn(ClaimId) -> UnprepareError>,
    asked: Vec<Fetched>,
}

impl Thread {
    fn answer(&mut self, question: Question) {
        // A send fails when the asker has gone.
        match question {
            Question::Ticket(_, answer) => answer.send(self.ticket.clone()).unwrap_or_default(),
            Question::Prepare(fetched, _, answer) => {
                self.asked.push(*fetched);
                let next = self.answers.pop_front().unwrap();
                if self.answers.is_empty() {
                    self.answers.push_back(next);
                }
                let _ = answer.send(next(claim()));
            }
            Question::Prepared(_, answer) => {
                let _ = answer.send(self.recorded.clone());
            }
            Question::Unprepare(claim, _, answer) => {
                let error = self.unprepare.map(|error| error(claim));
                let _ = answer.send(error.map_or(Ok(()), Err));
            }
            other => panic!("{other:?}"),
        }
    }
}

fn claim() -> ClaimId {
    let uid = "uid-1".parse().unwrap();
    ClaimId { namespace: "ml".to_owned(), name: "four".to_owned(), uid }
}

fn prepared() -> Prepared {
    let device = |device: &str| PreparedDevice {
        request: "pair".to_owned(),
        pool: "n1".to_owned(),
        device: device.to_owned(),
        cdi_device_ids: vec![format!("lanemate.dev/claim={device}")],
    };
    Prepared { devices: vec![device("gpu-1")], notes: vec!["a note".to_owned()] }
}

fn object(uid: &str, reserved_for: Value) -> Value {
    json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {"namespace": "ml", "name": "four", "uid": uid},
        "spec": {}, "status": {"reservedFor": reserved_for}})
}

impl Scene {
    async fn new(machine: Machine) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let api = TestApi::start().await.unwrap();
        api.put(object("uid-1", json!([]))).unwrap();
        let kubeconfig = api.kubeconfig_file(dir.path()).unwrap();
        let claims = Claims::new(connect(Some(&kubeconfig)).await.unwrap());
        let (state, mut questions) = channel(machine);
        let thread = Arc::new(Mutex::new(Thread::default()));
        thread.lock().unwrap().answers.push_back(|_| Ok(prepared()));
        let answering = Arc::clone(&thread);
        tokio::spawn(async move {
            while let Some(question) = questions.recv().await {
                answering.lock().unwrap().answer(question);
            }
        });
        let (tell, events) = Events::channel();
        let mut registry = Registry::default();
        let metrics = Metrics::new(&mut registry);
        let tasks = Tasks::new();
        let service = Service::new(claims, state, tell, metrics, tasks.stop());
        Self { api, service, events, registry, thread, _tasks: tasks, _dir: dir }
    }

    async fn prepare(&self) -> Result<Vec<PreparedDevice>, String> {
        self.service.prepare(claim(), Instant::now() + Duration::from_secs(40)).await
    }

    fn answers(&self, answers: &[Answer]) {
        self.thread.lock().unwrap().answers = answers.iter().copied().collect();
    }

    /// Reasons of the events so far.
    fn told(&mut self) -> Vec<&'static str> {
        std::iter::from_fn(|| self.events.try_recv().ok()).map(|event| event.reason).collect()
    }

    /// So many operations ended with a result.
    fn count(&self, operation: &str, result: &str) -> usize {
        let mut text = String::new();
        encode(&mut text, &self.registry).unwrap();
        let name = "lanemate_plugin_operation_duration_seconds_count";
        let line = format!("{name}{{operation=\"{operation}\",result=\"{result}\"}} ");
        let count = text.lines().find_map(|shown| shown.strip_prefix(&line));
        count.map_or(0, |count| count.parse().unwrap())
    }
}

#[tokio::test]
async fn a_claim_is_read_prepared_and_counted() {
    let mut scene = Scene::new(Machine::default()).await;
    assert_eq!(scene.prepare().await, Ok(prepared().devices));
    let asked = scene.thread.lock().unwrap().asked.pop().unwrap();
    assert_eq!(asked.claim.metadata.uid.as_deref(), Some("uid-1"));
    assert_eq!((asked.consumer, asked.ticket), (Consumer::NotAsked, Ticket::default()));
    assert_eq!((scene.count("Prepare", "Success"), scene.told()), (1, vec![]));
    let unprepared = scene.service.unprepare(claim(), Instant::now()).await;
    assert_eq!((unprepared, scene.count("Unprepare", "Success")), (Ok(()), 1));
    // Unprepare needs no API server.
    assert_eq!(scene.api.requests().len(), 1);
}

#[tokio::test]
async fn a_claim_that_is_gone_or_another_is_refused_before_the_state_is_asked() {
    let mut scene = Scene::new(Machine::default()).await;
    scene.api.remove(CLAIM);
    scene.api.put(object("uid-2", json!([]))).unwrap();
    let error = scene.prepare().await.unwrap_err();
    assert!(error.contains("ml/four (uid-1): a claim of that name has UID uid-2"), "{error}");
    scene.api.remove(CLAIM);
    let error = scene.prepare().await.unwrap_err();
    assert!(error.ends_with("does not exist in the cluster any more"), "{error}");
    assert_eq!((scene.count("Prepare", "Refused"), scene.told()), (2, vec![]));
    assert!(scene.thread.lock().unwrap().asked.is_empty());
}

#[tokio::test]
async fn after_a_tombstone_it_is_asked_whether_a_pod_wants_the_claim() {
    let scene = Scene::new(Machine::default()).await;
    let ticket = Ticket { tombstone: Some("t1".to_owned()) };
    scene.thread.lock().unwrap().ticket = ticket.clone();
    let pod = json!([{"resource": "pods", "name": "p", "uid": "pod-1"}]);
    scene.api.put(object("uid-1", pod)).unwrap();
    let of_fetched = |scene: &Scene| scene.thread.lock().unwrap().asked.pop().unwrap();
    scene.prepare().await.unwrap();
    let asked = of_fetched(&scene);
    assert!(matches!(asked.consumer, Consumer::Gone(_)), "{:?}", asked.consumer);
    assert_eq!(asked.ticket, ticket);
    let pod = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "ml", "name": "p", "uid": "pod-1"}, "spec": {"containers": []}});
    scene.api.put(pod).unwrap();
    scene.prepare().await.unwrap();
    assert_eq!(of_fetched(&scene).consumer, Consumer::Alive);
}

#[tokio::test]
async fn a_claim_that_was_unprepared_while_it_was_read_is_read_again_a_few_times() {
    let mut scene = Scene::new(Machine::default()).await;
    scene.answers(&[|claim| Err(PrepareError::Stale(claim)), |_| Ok(prepared())]);
    assert_eq!(scene.prepare().await, Ok(prepared().devices));
    assert_eq!(scene.api.count("GET", CLAIM), 2);
    scene.answers(&[|claim| Err(PrepareError::Stale(claim))]);
    let error = scene.prepare().await.unwrap_err();
    assert!(error.contains("was unprepared while it was being read"), "{error}");
    assert_eq!(scene.api.count("GET", CLAIM), 2 + ATTEMPTS);
    assert_eq!((scene.count("Prepare", "Error"), scene.told()), (1, vec![]));
}

#[tokio::test]
async fn a_refusal_and_a_failure_are_told_on_the_claim_and_being_late_is_not() {
    let mut scene = Scene::new(Machine::default()).await;
    for (answer, result, reasons) in [
        (
            (|_| Err(PrepareError::Refused("held by ml/other".to_owned()))) as Answer,
            "Refused",
            vec![PREPARE_FAILED],
        ),
        (|_| Err(PrepareError::Failed("disk is full".to_owned())), "Error", vec![PREPARE_FAILED]),
        (|claim| Err(PrepareError::Late(claim)), "Error", vec![]),
        (|_| Err(PrepareError::Ending), "Error", vec![]),
    ] {
        scene.answers(&[answer]);
        let before = scene.count("Prepare", result);
        let expect = answer(claim()).unwrap_err().to_string();
        assert_eq!(scene.prepare().await, Err(expect));
        assert_eq!((scene.count("Prepare", result), scene.told()), (before + 1, reasons));
    }
    scene.thread.lock().unwrap().unprepare =
        Some(|_| UnprepareError::Failed("read-only file system".to_owned()));
    let unprepared = scene.service.unprepare(claim(), Instant::now()).await;
    assert_eq!(unprepared, Err("read-only file system".to_owned()));
    assert_eq!((scene.count("Unprepare", "Error"), scene.told()), (1, vec![UNPREPARE_FAILED]));
}

#[tokio::test]
async fn without_an_answer_of_the_api_server_the_record_answers_or_the_error_says_why() {
    let scene = Scene::new(Machine::default()).await;
    scene.api.faults().next("*", CLAIM, Fault::Status(403, "Forbidden"), 2);
    let error = scene.prepare().await.unwrap_err();
    assert!(error.contains("cannot be read from the API server"), "{error}");
    assert!(error.contains("kubelet tries again") && error.contains("ml/four (uid-1)"), "{error}");
    assert_eq!(scene.count("Prepare", "Error"), 1);
    scene.thread.lock().unwrap().recorded = Some(prepared());
    assert_eq!(scene.prepare().await, Ok(prepared().devices));
    assert!(scene.thread.lock().unwrap().asked.is_empty());
}

#[tokio::test]
async fn an_api_server_that_hangs_leaves_time_for_the_record() {
    let scene = Scene::new(Machine::default()).await;
    scene.api.faults().next("*", CLAIM, Fault::Hang(Duration::from_secs(60)), 9);
    scene.thread.lock().unwrap().recorded = Some(prepared());
    let deadline = Instant::now() + Duration::from_millis(400);
    assert_eq!(scene.service.prepare(claim(), deadline).await, Ok(prepared().devices));
}

#[tokio::test]
async fn a_granted_nic_on_ethernet_is_told_of() {
    // Its NICs speak RoCE.
    let machine = Machine::from_facts("n1", facts("mi355x-bm"), None, &Default::default());
    let granted = "nic-0000-03-00-0";
    assert_eq!(ethernet_nics(&machine, &BTreeSet::from([granted, "gpu-1"])), [granted]);
    let mut scene = Scene::new(machine).await;
    scene.answers(&[|_| {
        let mut prepared = prepared();
        prepared.devices[0].device = "nic-0000-03-00-0".to_owned();
        Ok(prepared)
    }]);
    scene.prepare().await.unwrap();
    let event = scene.events.try_recv().unwrap();
    assert_eq!((event.reason, event.about), (ROCE, About::Claim(claim())));
    assert!(event.note.starts_with("nic-0000-03-00-0 on Ethernet: "), "{}", event.note);
}

#[test]
fn operations_have_ids_of_their_own() {
    let operations = Operations::new();
    let ids: BTreeSet<String> = (0..100).map(|_| operations.next()).collect();
    assert_eq!(ids.len(), 100);
    assert!(ids.iter().all(|id| id.len() <= 8 && id.contains('-')), "{ids:?}");
}
