//! This node's objects in the cluster: claims are read; slices, the NodeState and events are written.

pub mod events;
