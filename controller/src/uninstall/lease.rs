//! The controller's lease: while it may be held, a controller may allocate, whoever has started it.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::Api;
use tokio::time::Instant;

use super::UninstallError;
use super::call::Cluster;

/// A record, and since when it has been seen as it is.
struct Observed {
    spec: LeaseSpec,
    since: Instant,
}

/// Waits until nobody holds it: it was given back, or has not been renewed for its duration.
pub(super) async fn until_over(
    cluster: &Cluster,
    namespace: &str,
    name: &str,
) -> Result<(), UninstallError> {
    let api = Api::<Lease>::namespaced(cluster.client.clone(), namespace);
    let deed = format!("get lease {namespace}/{name}");
    let mut observed: Option<Observed> = None;
    cluster
        .until(&format!("lease {namespace}/{name} to be over"), async || {
            let found = cluster.call(&deed, || api.get_opt(name)).await?;
            let spec = found.and_then(|lease| lease.spec).unwrap_or_default();
            let now = Instant::now();
            let seen = match observed.take() {
                Some(seen) if seen.spec == spec => seen,
                _ => Observed { spec, since: now },
            };
            let is_over = is_over(&seen.spec, now.duration_since(seen.since));
            let holder = seen.spec.holder_identity.clone().unwrap_or_default();
            observed = Some(seen);
            let words = format!("held by {holder:?}; if it is renewed, end that controller");
            Ok(if is_over { Ok(()) } else { Err(words) })
        })
        .await
}

/// Nobody holds a lease whose record has been unchanged for that long.
fn is_over(spec: &LeaseSpec, unchanged: Duration) -> bool {
    let holder = spec.holder_identity.as_deref().unwrap_or_default();
    let seconds = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
    holder.is_empty() || unchanged >= Duration::from_secs(seconds.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_over_when_given_back_or_unchanged_for_its_duration() {
        let lease = |holder: Option<&str>| LeaseSpec {
            holder_identity: holder.map(str::to_owned),
            lease_duration_seconds: Some(15),
            ..LeaseSpec::default()
        };
        let seconds = Duration::from_secs;
        assert!(is_over(&LeaseSpec::default(), seconds(0)));
        assert!(is_over(&lease(None), seconds(0)));
        assert!(is_over(&lease(Some("")), seconds(0)));
        assert!(!is_over(&lease(Some("a")), seconds(14)));
        assert!(is_over(&lease(Some("a")), seconds(15)));
    }
}
