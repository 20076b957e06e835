//! Whether a pod may run on a node, as far as objects alone tell.
