//! Rounds over small clusters that are built from real objects.

mod batches;
mod simulation;
mod states;
mod world;
