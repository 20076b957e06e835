//! The program `lanemate-controller`.

fn main() {}
