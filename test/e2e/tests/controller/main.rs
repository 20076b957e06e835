//! Tests that need a control plane and no kubelet: `hack/e2e` runs them in one of `hack/control-plane`.
#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

mod chaos;
mod check;
mod components;
mod fence;
mod gate;
mod ground;
mod leader;
mod node_fence;
mod placing;
mod proxy;
mod races;
mod rights;
mod scene;
mod ungated;
