//! Requests: each is logged, may meet a fault, and is answered from the store.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Query, Request, State};
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Json, Response};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::answer::{Selector, list, status};
use crate::fault::Fault;
use crate::resource::Target;
use crate::store::{Refusal, Write};
use crate::watch::{self, Watch};
use crate::{Logged, Shared, Written, lock};

/// The API server takes 3 MiB.
const MAX_BODY: usize = 3 << 20;
/// What a watch lasts when its request does not say.
const WATCH_SECONDS: u64 = 300;

/// The parts of a request that decide the answer.
struct Asked {
    method: Method,
    target: Target,
    query: Vec<(String, String)>,
    is_metadata_only: bool,
    body: Value,
}

/// Answers requests until the task is ended.
pub(crate) async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    let router = Router::new().fallback(answer).with_state(shared);
    // It fails when the listener does, and then every request of the test fails too.
    let _ = axum::serve(listener, router).await;
}

async fn answer(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let query = Query::<Vec<(String, String)>>::try_from_uri(request.uri());
    let query = query.map(|Query(query)| query).unwrap_or_default();
    let is_watch = asks(&query, "watch").is_some_and(|value| value == "true" || value == "1");
    let method = if is_watch { "WATCH" } else { request.method().as_str() };
    let (method, path) = (method.to_owned(), request.uri().path().to_owned());
    lock(&shared.log).push(Logged { method: method.clone(), path: path.clone() });
    let fault = shared.faults.take(&method, &path);
    match &fault {
        Some(Fault::Drop) => close(),
        Some(Fault::Silent) => return watch::silent().into_response(),
        Some(Fault::Gone) if is_watch => return watch::gone().into_response(),
        Some(Fault::Gone) => return refuse(&Refusal::new(410, "Gone", "ordered by the test")),
        Some(Fault::Status(code, reason)) => {
            return refuse(&Refusal::new(*code, reason, "ordered by the test"));
        }
        Some(Fault::TooManyRequests(seconds)) => return too_many_requests(*seconds),
        _ => {}
    }
    let dropped = match &fault {
        Some(Fault::DropFields(pointers)) => pointers.as_slice(),
        _ => &[],
    };
    let response = match read(request, query).await {
        Ok(asked) if is_watch => start_watch(&shared, asked),
        Ok(asked) => {
            let written = Written { method, path, body: asked.body.clone() };
            lock(&shared.written).push(written);
            if let Some(Fault::Late(time)) = fault {
                return late(&shared, asked, time).await;
            }
            act(&shared, asked, dropped).map(|found| Json(found).into_response())
        }
        Err(refusal) => Err(refusal),
    };
    shared.tell();
    match fault {
        Some(Fault::Hang(time)) => tokio::time::sleep(time).await,
        Some(Fault::LoseAnswer) => close(),
        _ => {}
    }
    response.unwrap_or_else(|refusal| refuse(&refusal))
}

/// Does what was asked after a time; the task outlives the connection.
async fn late(shared: &Arc<Shared>, asked: Asked, time: Duration) -> Response {
    let shared = Arc::clone(shared);
    let acting = tokio::spawn(async move {
        tokio::time::sleep(time).await;
        let done = act(&shared, asked, &[]);
        shared.tell();
        done
    });
    let done = acting
        .await
        .unwrap_or_else(|error| Err(Refusal::new(500, "InternalError", error.to_string())));
    done.map_or_else(|refusal| refuse(&refusal), |found| Json(found).into_response())
}

/// Ends the task of this connection, which closes it. No panic message is printed.
fn close() -> ! {
    std::panic::resume_unwind(Box::new("connection closed by a fault"))
}

fn asks<'a>(query: &'a [(String, String)], name: &str) -> Option<&'a str> {
    query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
}

/// What is not served at all is answered by the server below the API, in plain text.
fn not_served() -> Refusal {
    Refusal::new(404, "", "404 page not found")
}

fn refuse(refusal: &Refusal) -> Response {
    if refusal.reason.is_empty() {
        return (StatusCode::NOT_FOUND, refusal.message.clone()).into_response();
    }
    let code = StatusCode::from_u16(refusal.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (code, Json(status(refusal))).into_response()
}

fn too_many_requests(seconds: u32) -> Response {
    let refusal = Refusal::new(429, "TooManyRequests", "ordered by the test");
    let mut body = status(&refusal);
    body["details"] = json!({ "retryAfterSeconds": seconds });
    let after = [(header::RETRY_AFTER, seconds.to_string())];
    (StatusCode::TOO_MANY_REQUESTS, after, Json(body)).into_response()
}

async fn read(request: Request, query: Vec<(String, String)>) -> Result<Asked, Refusal> {
    let target = Target::parse(request.uri().path()).ok_or_else(not_served)?;
    let accept = request.headers().get(header::ACCEPT).and_then(|value| value.to_str().ok());
    let is_metadata_only = accept.is_some_and(|text| text.contains("as=PartialObjectMetadata"));
    let method = request.method().clone();
    let bytes = to_bytes(request.into_body(), MAX_BODY)
        .await
        .map_err(|error| Refusal::new(413, "RequestEntityTooLarge", error.to_string()))?;
    let body = if bytes.is_empty() {
        Value::Null
    } else {
        serde_json::from_slice(&bytes)
            .map_err(|error| Refusal::new(400, "BadRequest", error.to_string()))?
    };
    Ok(Asked { method, target, query, is_metadata_only, body })
}

fn selector(asked: &Asked) -> Result<Selector, Refusal> {
    Selector::parse(asked.target.resource, asks(&asked.query, "fieldSelector").unwrap_or_default())
}

fn check_installed(shared: &Shared, asked: &Asked) -> Result<(), Refusal> {
    if lock(&shared.store).is_installed(asked.target.resource.plural) {
        return Ok(());
    }
    Err(not_served())
}

fn start_watch(shared: &Arc<Shared>, asked: Asked) -> Result<Response, Refusal> {
    check_installed(shared, &asked)?;
    let selector = selector(&asked)?;
    let number = |name| asks(&asked.query, name).and_then(|text| text.parse().ok());
    let newest = lock(&shared.store).version();
    let watch = Watch {
        selector,
        is_metadata_only: asked.is_metadata_only,
        after: number("resourceVersion").filter(|version| *version > 0).unwrap_or(newest),
        timeout: Duration::from_secs(number("timeoutSeconds").unwrap_or(WATCH_SECONDS)),
        collection: asked.target,
    };
    let body: Body = watch::body(Arc::clone(shared), watch);
    Ok(([(header::CONTENT_TYPE, "application/json")], body).into_response())
}

fn act(shared: &Shared, asked: Asked, dropped: &[&'static str]) -> Result<Value, Refusal> {
    check_installed(shared, &asked)?;
    let selector = selector(&asked)?;
    let Asked { method, target, body, is_metadata_only, .. } = asked;
    let mut store = lock(&shared.store);
    let write = Write { object: body.clone(), dropped };
    match (method.as_str(), target.name.is_some()) {
        ("GET", true) => {
            store.find(&target).map(|object| selector.shape(&object, is_metadata_only))
        }
        ("GET", false) => {
            let found = store.list(&target).into_iter().filter(|object| selector.matches(object));
            let items = found.map(|object| selector.shape(&object, is_metadata_only)).collect();
            Ok(list(target.resource, store.version(), items, is_metadata_only))
        }
        ("POST", false) => store.create(&target, write),
        ("PUT", true) => store.replace(&target, write),
        ("PATCH", true) => store.patch(&target, &body),
        ("DELETE", true) => store.delete(&target, &body),
        (method, _) => {
            Err(Refusal::new(405, "MethodNotAllowed", format!("{method} is not served here")))
        }
    }
}
