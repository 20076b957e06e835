//! How near two functions are: [`Place`] and the path class between two places.

pub mod place;

pub use place::{Path, Place, path_between};
