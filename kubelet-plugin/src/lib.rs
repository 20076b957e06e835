//! The node binary as a library: `main.rs` only parses arguments and calls [`run`].
