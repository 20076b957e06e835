//! What the controller tells machines.

pub mod metrics;
