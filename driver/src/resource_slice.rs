//! The ResourceSlices of an inventory.
