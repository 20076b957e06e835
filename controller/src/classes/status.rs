//! The condition of a class: whether its claims can be served, and if not, what to mend.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use lanemate_api::resource_class::READY;
use lanemate_api::{ReadyReason, ResourceClass, ResourceClassStatus};

use super::compile::Broken;
use crate::id::Key;

/// Characters of a message: what is wrong with one field fits, and a class whose every field is wrong stays far from the
/// 32 KiB that a condition takes.
const MAX_MESSAGE: usize = 4096;

/// What the condition says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Claims of the class can be served.
    pub is_ready: bool,
    /// For programs.
    pub reason: ReadyReason,
    /// For people.
    pub message: String,
}

impl Verdict {
    /// Of a class whose DeviceClass is as it ought to be, or of one that is broken.
    pub fn of(broken: Option<&Broken>) -> Self {
        match broken {
            None => Self {
                is_ready: true,
                reason: ReadyReason::Compiled,
                message: "compiled to the DeviceClass of the same name".to_owned(),
            },
            Some(Broken { reason, message }) => {
                let message = message.chars().take(MAX_MESSAGE).collect();
                Self { is_ready: false, reason: *reason, message }
            }
        }
    }

    /// Of a class that is to go, and is still used: it says by whom, one of them.
    pub fn in_use(mut self, user: &Key) -> Self {
        self.message = format!(
            "being deleted: goes when no claim uses it any more, such as {user}; {}",
            self.message
        );
        self
    }
}

/// The class with the verdict in its status; none where the status says that already. The time is that of the last
/// change between True and False; conditions of other types stay.
pub fn with_verdict(
    class: &ResourceClass,
    verdict: &Verdict,
    now: Timestamp,
) -> Option<ResourceClass> {
    let generation = class.metadata.generation;
    let status = if verdict.is_ready { "True" } else { "False" };
    let before = class.ready();
    let since = before.filter(|before| before.status == status);
    let ready = Condition {
        type_: READY.to_owned(),
        status: status.to_owned(),
        reason: verdict.reason.as_str().to_owned(),
        message: verdict.message.clone(),
        observed_generation: generation,
        last_transition_time: since
            .map_or_else(|| Time(whole_seconds(now)), |since| since.last_transition_time.clone()),
    };
    let old = class.status.clone().unwrap_or_default();
    if before == Some(&ready) && old.observed_generation == generation {
        return None;
    }
    let mut conditions = old.conditions;
    match conditions.iter_mut().find(|condition| condition.type_ == READY) {
        Some(condition) => *condition = ready,
        None => conditions.push(ready),
    }
    let status = ResourceClassStatus { conditions, observed_generation: generation };
    Some(ResourceClass { status: Some(status), ..class.clone() })
}

/// As `metav1.Time` keeps it.
fn whole_seconds(now: Timestamp) -> Timestamp {
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}
