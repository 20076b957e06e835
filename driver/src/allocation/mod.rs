//! Which node and which devices a pod's pending claims get.
//!
//! [`Problem`] says what the claims ask for, [`Cluster`] what nodes have and who holds it. On one node
//! [`solve`] finds the best grant or says what is missing; [`choose`] chooses among nodes, and [`decide`] says of each
//! why or why not.
//!
//! ```text
//! Claim -> Problem -> alike devices -> sets -> blocks -> search -> Grant -> Allocation
//! ```

pub mod alike;
pub mod block;
pub mod capacity;
mod change_log;
pub mod choose;
pub mod evaluation;
pub mod ledger;
pub mod node;
pub mod problem;
pub mod reason;
mod refusal;
pub mod result;
pub mod score;
pub mod search;
pub mod sets;
pub mod shortage;
pub mod solve;
pub mod state;
pub mod supply;

pub use choose::{Choice, Refusal, choose, judge, refuse};
pub use evaluation::Evaluations;
pub use node::{Answer, Candidate, Decision, Rank, decide};
pub use problem::Problem;
pub use result::{Allocation, allocations};
pub use score::Score;
pub use shortage::Shortage;
pub use solve::{Budget, Grant, SEARCH_BUDGET, State, solve};
pub use state::{Cluster, DeviceId, Node, device_of};

#[cfg(test)]
mod tests;
