//! The lanemate command line.

#[cfg(test)]
mod objects;

fn main() {}
