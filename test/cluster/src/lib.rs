//! The real cluster that `hack/cluster` or `hack/control-plane` starts, as tests see it.
//!
//! Tests run inside the cluster's namespaces, where `hack/e2e` puts them: kubelet's and
//! containerd's directories are at their usual paths, and the API server is reached through the
//! kubeconfig of an administrator.

mod account;
mod allocation;
mod cluster;
mod component;
mod container;
pub mod controller;
mod fake_node;
mod fence;
mod namespace;
pub mod node;
mod objects;
pub mod rendered_host;
mod rights;
mod wait;

pub use account::Access;
pub use allocation::Allocation;
pub use cluster::{CDI_DIR, Cluster, KUBELET_DIR, NODE};
pub use component::{Component, Deed, Outage};
pub use container::{WAITS, container_id};
pub use fake_node::{FakeNode, NodeOptions, TEST_LABEL};
pub use fence::OpenFence;
pub use namespace::{Output, TestNamespace};
pub use objects::{claim, pod};
pub use rights::{Right, Rights, TakenRight};
pub use wait::until;
