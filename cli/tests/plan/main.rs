//! `plan` as a user runs it: who gets what, what does not fit and why, and what is broken.
// Helpers of tests are not seen as tests.
#![allow(clippy::unwrap_used)]

mod bad_input;
#[path = "../program/golden.rs"]
mod golden;
mod objects;
mod output;
mod pairs;
mod pods;
#[path = "../program/mod.rs"]
mod program;
mod scene;
