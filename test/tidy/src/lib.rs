//! The rules of STYLE.md that a program can check: what reads the repository; the rules themselves
//! stand in `tests/`.

pub mod cargo;
pub mod licence;
pub mod markdown;
pub mod repository;
pub mod rust_source;
