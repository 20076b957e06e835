//! Tests against a real control plane and a real node.
