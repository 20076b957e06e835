//! Faults that a test orders in advance, and requests meet once.

use std::sync::Mutex;
use std::time::Duration;

use serde_json::Value;

use crate::lock;

/// What goes wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// This HTTP status with this reason, such as `(409, "Conflict")`; nothing is done.
    Status(u16, &'static str),
    /// As [`Fault::Status`] with 429, and the seconds after which to come again.
    TooManyRequests(u32),
    /// The answer comes late; what was asked is done at once.
    Hang(Duration),
    /// What was asked is done only after this time, also when nobody waits for the answer any more: a
    /// write that the API server has taken, and that commits late.
    Late(Duration),
    /// The connection is closed without an answer; nothing is done.
    Drop,
    /// What was asked is done, and the connection is closed without an answer.
    LoseAnswer,
    /// These fields of what is written are dropped without a word, as where a feature is off: JSON
    /// pointers, in which `*` stands for every entry.
    DropFields(Vec<&'static str>),
    /// A watch is told that its resourceVersion is too old; another request gets the status 410.
    Gone,
    /// Nothing is ever sent, and nothing is done.
    Silent,
}

/// Faults in the order in which they were ordered.
#[derive(Debug, Default)]
pub struct Faults {
    ordered: Mutex<Vec<Ordered>>,
}

#[derive(Debug)]
struct Ordered {
    method: String,
    prefix: String,
    fault: Fault,
    times: usize,
}

impl Faults {
    /// The next so many requests with this method (`GET`, `WATCH`, …; `*` for any) and a path with
    /// this prefix meet a fault.
    pub fn next(&self, method: &str, prefix: &str, fault: Fault, times: usize) {
        let (method, prefix) = (method.to_owned(), prefix.to_owned());
        lock(&self.ordered).push(Ordered { method, prefix, fault, times });
    }

    /// No more faults.
    pub fn clear(&self) {
        lock(&self.ordered).clear();
    }

    /// How many requests are still to meet one.
    pub fn left(&self) -> usize {
        lock(&self.ordered).iter().fold(0, |sum, order| order.times.saturating_add(sum))
    }

    /// The fault that a request meets.
    pub(crate) fn take(&self, method: &str, path: &str) -> Option<Fault> {
        let mut ordered = lock(&self.ordered);
        let order = ordered.iter_mut().find(|order| {
            (order.method == "*" || order.method == method) && path.starts_with(&order.prefix)
        })?;
        let fault = order.fault.clone();
        order.times = order.times.saturating_sub(1);
        ordered.retain(|order| order.times > 0);
        Some(fault)
    }
}

/// Removes a field; `*` stands for every entry of a list or object.
pub(crate) fn drop_field(value: &mut Value, pointer: &str) {
    let mut parts: Vec<&str> = pointer.trim_start_matches('/').split('/').collect();
    let Some(last) = parts.pop() else { return };
    drop_below(value, &parts, last);
}

fn drop_below(value: &mut Value, parts: &[&str], last: &str) {
    let Some((first, rest)) = parts.split_first() else {
        if let Value::Object(fields) = value {
            fields.shift_remove(last);
        }
        return;
    };
    match value {
        Value::Array(entries) if *first == "*" => {
            entries.iter_mut().for_each(|entry| drop_below(entry, rest, last));
        }
        Value::Object(fields) if *first == "*" => {
            fields.values_mut().for_each(|entry| drop_below(entry, rest, last));
        }
        Value::Object(fields) => {
            if let Some(entry) = fields.get_mut(*first) {
                drop_below(entry, rest, last);
            }
        }
        _ => {}
    }
}
