//! Reads a machine, live or captured, into [`Facts`].

pub mod facts;

pub use facts::Facts;
