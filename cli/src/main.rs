//! The lanemate command line.

fn main() {}
