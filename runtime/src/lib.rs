//! What the programs in a cluster have in common; none of it knows what they are for.
//!
//! ```text
//! client, call, backoff   the API server: where it is, one request, waits between tries
//! events                  what is told to people about an object
//! shutdown                tasks that live as long as the process, and the signals that end it
//! telemetry               log, metrics, health
//! random, duration        jitter and ids; durations as people type them
//! ```

#![warn(missing_docs)]

pub mod backoff;
pub mod call;
pub mod client;
pub mod duration;
pub mod events;
pub mod random;
pub mod shutdown;
pub mod telemetry;
