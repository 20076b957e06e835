//! The published crate, re-exported.
//!
//! Only its default features fetch schemas from the network; they bring an HTTP client and a TLS stack
//! in C, which take most of the time of a build. The CDI crate validates against schemas of its own and
//! cannot be asked to leave them out.

pub use published::*;
