//! What the controller tells about itself.

pub mod capacities;
pub mod metrics;
