//! A state thread for tests: they take the questions and answer as they like.

use std::sync::Arc;

use lanemate_driver::machine::Machine;
use lanemate_driver::resource_slice::Mode;
use tokio::sync::{mpsc, watch};

use crate::state::{Question, State};

/// The asking end, and the questions. Nothing is held.
pub fn channel(machine: Machine) -> (State, mpsc::Receiver<Question>) {
    let held = watch::channel(Arc::default()).1;
    let machine = watch::channel(Arc::new(machine)).1;
    State::channel(held, machine, watch::channel(Mode::default()).1)
}
