//! Who holds the controller's lease.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use serde::Serialize;

use super::age;

/// How far the clock of this machine may be off that of the holder.
const CLOCKS: SignedDuration = SignedDuration::from_secs(5);
/// The duration of a Lease that names none, as client-go takes it.
const DURATION: i32 = 15;

/// The leader.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Leader {
    /// Who holds the lease; absent: nobody.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
    /// It was renewed within its duration.
    pub is_fresh: bool,
    /// Since the last renewal, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub renewed: Option<String>,
}

impl Leader {
    /// Of a lease, which may not be there.
    pub fn of(lease: Option<&Lease>, now: Timestamp) -> Self {
        let spec = lease.and_then(|lease| lease.spec.as_ref());
        let holder = spec.and_then(|spec| spec.holder_identity.clone());
        let holder = holder.filter(|holder| !holder.is_empty());
        let renewed = spec.and_then(|spec| spec.renew_time.as_ref()).map(|time| time.0);
        let seconds = spec.and_then(|spec| spec.lease_duration_seconds).unwrap_or(DURATION);
        let limit = SignedDuration::from_secs(i64::from(seconds)) + CLOCKS;
        let is_recent = renewed.is_some_and(|renewed| now.duration_since(renewed) <= limit);
        Self {
            is_fresh: holder.is_some() && is_recent,
            renewed: renewed.map(|renewed| age::words(renewed, now)),
            holder,
        }
    }

    /// In a line.
    pub fn words(&self) -> String {
        match (&self.holder, &self.renewed) {
            (Some(holder), Some(renewed)) if self.is_fresh => {
                format!("{holder}, lease renewed {renewed} ago")
            }
            (Some(holder), Some(renewed)) => {
                format!("none: {holder} has not renewed its lease for {renewed}")
            }
            _ => "none: nobody holds the lease".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn check(spec: Option<Value>, is_fresh: bool, words: &str) {
        let lease = spec.map(|spec| serde_json::from_value(json!({ "spec": spec })).unwrap());
        let now = "2026-01-01T00:01:00Z".parse().unwrap();
        let leader = Leader::of(lease.as_ref(), now);
        assert_eq!((leader.is_fresh, leader.words().as_str()), (is_fresh, words));
    }

    #[test]
    fn a_lease_counts_while_it_is_renewed_within_its_duration() {
        let held = |time: &str| json!({ "holderIdentity": "c-1", "leaseDurationSeconds": 15, "renewTime": time });
        let fresh = "c-1, lease renewed 15s ago";
        check(Some(held("2026-01-01T00:00:45.000000Z")), true, fresh);
        let stale = "none: c-1 has not renewed its lease for 30s";
        check(Some(held("2026-01-01T00:00:30.000000Z")), false, stale);
        check(None, false, "none: nobody holds the lease");
        let mut released = held("2026-01-01T00:00:59.000000Z");
        released["holderIdentity"] = json!("");
        check(Some(released), false, "none: nobody holds the lease");
    }
}
