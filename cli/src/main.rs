//! The `lanemate` command line; installed as `kubectl-lanemate` it is `kubectl lanemate`.

use std::process::ExitCode;

fn main() -> ExitCode {
    lanemate::main()
}
