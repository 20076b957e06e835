//! One call that changes an object, between two points at which tests end the process.

use std::io;

use lanemate_runtime::call::{CallError, call};

use crate::fault::{self, Point};

/// A call that changes an object, between two fault points.
///
/// # Errors
/// See [`CallError`].
pub async fn change<T>(
    [before, after]: [Point; 2],
    deed: impl Fn() -> String,
    request: impl Future<Output = kube::Result<T>>,
) -> Result<T, CallError> {
    let pass = |point| {
        let refused =
            |error: io::Error| CallError::Refused { deed: deed(), message: error.to_string() };
        fault::at(point).map_err(refused)
    };
    pass(before)?;
    let changed = call(&deed, request).await?;
    pass(after)?;
    Ok(changed)
}
