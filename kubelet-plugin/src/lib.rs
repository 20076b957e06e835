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

pub mod claim_id;
pub mod fault;
pub mod grpc;
pub mod kubernetes;
pub mod service;
pub mod state;
pub mod telemetry;
