//! Watches: changes after a resourceVersion, as lines of JSON.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use futures::stream;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::answer::{Selector, status};
use crate::resource::Target;
use crate::store::Refusal;
use crate::{Shared, lock};

/// What a watch asks for.
#[derive(Debug)]
pub(crate) struct Watch {
    pub(crate) collection: Target,
    pub(crate) selector: Selector,
    pub(crate) is_metadata_only: bool,
    pub(crate) after: u64,
    pub(crate) timeout: Duration,
}

/// One watch on its way.
struct Sending {
    shared: Arc<Shared>,
    newest: tokio::sync::watch::Receiver<u64>,
    watch: Watch,
    until: Instant,
    lines: VecDeque<String>,
    is_over: bool,
}

/// A body that never sends anything.
pub(crate) fn silent() -> Body {
    Body::from_stream(stream::pending::<Result<String, std::io::Error>>())
}

/// The line that ends a watch from too long ago.
pub(crate) fn gone() -> Body {
    let refusal = Refusal::new(410, "Expired", "too old resource version");
    Body::from(line("ERROR", &status(&refusal)))
}

/// The changes, until the time that the request gave.
pub(crate) fn body(shared: Arc<Shared>, watch: Watch) -> Body {
    if watch.after < lock(&shared.store).oldest() {
        return gone();
    }
    let newest = shared.newest.subscribe();
    let until = Instant::now() + watch.timeout;
    let lines = VecDeque::new();
    let sending = Sending { shared, newest, watch, until, lines, is_over: false };
    Body::from_stream(stream::unfold(sending, |mut sending| async move {
        let line = sending.next().await?;
        Some((Ok::<_, std::io::Error>(line), sending))
    }))
}

impl Sending {
    async fn next(&mut self) -> Option<String> {
        loop {
            self.newest.borrow_and_update();
            self.read();
            if let Some(line) = self.lines.pop_front() {
                return Some(line);
            }
            if self.is_over {
                return None;
            }
            tokio::select! {
                changed = self.newest.changed() => self.is_over = changed.is_err(),
                () = tokio::time::sleep_until(self.until) => self.is_over = true,
            }
        }
    }

    /// Takes over what has changed.
    fn read(&mut self) {
        let Watch { collection, selector, is_metadata_only, after, .. } = &mut self.watch;
        let store = lock(&self.shared.store);
        for change in store.changes_after(*after) {
            let target = Target::parse(&change.path);
            if target.is_some_and(|target| collection.contains(&target))
                && selector.matches(&change.object)
            {
                let object = selector.shape(&change.object, *is_metadata_only);
                self.lines.push_back(line(change.kind, &object));
            }
        }
        *after = store.version();
    }
}

fn line(kind: &str, object: &Value) -> String {
    format!("{}\n", json!({ "type": kind, "object": object }))
}
