//! Which node and which devices a pod's pending claims get.
