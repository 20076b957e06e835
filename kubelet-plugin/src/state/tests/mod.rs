//! The state of a captured machine in a scratch directory.

mod faults;
mod place;
mod prepare;
mod reconcile;
mod records;
mod threads;
