//! The pages of `docs/user/reference`, made from the code; `tests/pages.rs` compares them.

pub mod attributes;
pub mod constants;
pub mod events;
pub mod fields;
pub mod flags;
pub mod markdown;
pub mod metrics;
pub mod names;
pub mod repository;
