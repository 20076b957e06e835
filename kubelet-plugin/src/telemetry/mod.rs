//! What the plugin tells about itself: metrics, health, logs.

pub mod metrics;
