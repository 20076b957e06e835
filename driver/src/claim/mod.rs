//! Claims and classes, parsed at the door.

pub mod allocated;
