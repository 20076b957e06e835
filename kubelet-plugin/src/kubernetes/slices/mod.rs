//! The ResourceSlices of this node: what is offered, kept equal in the cluster.
//!
//! ```text
//! machine, mode --render--> desired --+
//!                                     |  plan (pure)
//! fresh list of this node's slices ---+--> deletes, updates, creates --answers compared--> published
//!        ^                                                                              |
//!        +-- watch: not as published; a failure; a change of the machine or the mode <--+
//! ```

pub mod content;
pub mod plan;
pub mod publisher;
mod round;
mod seen;
