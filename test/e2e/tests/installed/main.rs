//! Lanemate as a user installs it, images and chart, on a node whose hardware is a captured DGX H100; run by
//! hack/e2e in a cluster of its own.
#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

mod claims;
mod containers;
mod disturbed;
mod mode;
mod records;
mod scene;
mod slices;
mod timing;
