//! What a container needs for its granted devices, as a plan that touches nothing.
