//! The node binary as a library: `main.rs` only parses arguments and calls [`run::run`].
//!
//! ```text
//! kubelet --grpc--> service --GET--> API server
//!                      | Fetched claim
//!                      v
//!                  state thread: records, CDI and metadata files      (the only writer)
//!                      | held devices, machine (watch)
//!                      v
//!                  kubernetes: slices, NodeState, events              (this node's objects only)
//! ```

#![warn(missing_docs)]

pub mod args;
pub mod claim_id;
#[cfg(test)]
mod fake_state;
pub mod fault;
pub mod grpc;
pub mod kubernetes;
pub mod machine_source;
pub mod reconcile;
pub mod run;
pub mod service;
pub mod settings;
pub mod state;
pub mod telemetry;
