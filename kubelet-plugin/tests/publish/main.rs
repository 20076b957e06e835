//! What the plugin reads from and writes to an API server, with the faults of a fake one. What the
//! API server does on its own is tested against a real one.
#![allow(clippy::unwrap_used, reason = "a test may end where it stands")]

mod claims;
mod events;
mod harness;
mod node_state;
mod slices;
