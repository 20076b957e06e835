//! Tests against a real control plane and a real node.
#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

mod cluster;
mod plugin;
mod together;
