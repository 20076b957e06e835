//! Nodes: what pods need to know of them.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use lanemate_driver::node_fit::NodeView;

use crate::id::Uid;

/// What is known of a node.
#[derive(Clone, Debug)]
pub struct NodeFacts {
    /// Its name.
    pub name: String,
    /// UID: a node that comes again under its name is another one.
    pub uid: Uid,
    /// Labels, taints, room.
    pub view: Arc<NodeView>,
    /// Condition `Ready` is true.
    pub ready: bool,
}

impl NodeFacts {
    /// Reads a node; none without a name.
    pub fn of(node: &Node) -> Option<Self> {
        let view = NodeView::of(node);
        let name = node.metadata.name.clone().filter(|name| !name.is_empty())?;
        Some(Self {
            name,
            uid: Uid(node.metadata.uid.clone().unwrap_or_default()),
            ready: view.ready == Some(true),
            view: Arc::new(view),
        })
    }
}
