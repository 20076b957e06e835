//! What the plugin tells about itself: metrics and health.

pub mod health;
pub mod metrics;
pub mod probe;
