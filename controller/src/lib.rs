//! The cluster binary: what is watched becomes an index, the index a plan, and the plan writes.
//!
//! ```text
//! watches --Update--> Index --plan(now)--> Planned { changes, notices } --> Writer (lease held) --Report--> Index
//! ```
//!
//! One task owns the index and plans; it neither waits nor reads a clock within a round. Only the holder of the lease
//! watches and writes.

#![warn(missing_docs)]

pub mod args;
pub mod change;
pub mod classes;
pub mod health;
pub mod id;
pub mod index;
pub mod lease;
pub mod plan;
pub mod rounds;
pub mod run;
pub mod served;
pub mod settings;
pub mod telemetry;
pub mod telling;
pub mod uninstall;
pub mod watch;
pub mod write;
