//! What the plugin tells about itself: metrics, health, logs.

pub mod health;
pub mod logging;
pub mod metrics;
pub mod metrics_server;
pub mod probe;
pub mod process;
