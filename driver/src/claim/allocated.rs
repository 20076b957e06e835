//! An allocated claim, as the node reads it.
