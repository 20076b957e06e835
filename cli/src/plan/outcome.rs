//! What became of the claims.

use std::time::Duration;

use k8s_openapi::api::resource::v1::ResourceClaim;
use lanemate_driver::allocation::{Allocation, Rank};
use lanemate_driver::pending::{ClaimRef, PodRef};

/// Everything that was decided.
#[derive(Default)]
pub struct Outcome {
    /// In the order of the decisions; what could not be decided comes last.
    pub verdicts: Vec<Verdict>,
    /// With `--repeat`.
    pub timing: Option<Timing>,
}

/// The answer to the claims of one pod, or to a claim that no pod names.
pub struct Verdict {
    /// The pod.
    pub pod: Option<PodRef>,
    /// The claims, at least one.
    pub claims: Vec<ClaimRef>,
    /// The answer.
    pub answer: Answer,
    /// Every candidate, by name; empty where none was looked at.
    pub considered: Vec<Considered>,
}

/// Placed, or not.
pub enum Answer {
    /// All claims have devices on one node.
    Placed(Placed),
    /// None of them has any.
    Refused(Refused),
}

/// A node, and what each claim gets there.
pub struct Placed {
    /// Name of the node.
    pub node: String,
    /// The claims with `status.allocation`, in the order of the verdict's claims.
    pub claims: Vec<ResourceClaim>,
    /// The same with units.
    pub allocations: Vec<Allocation>,
    /// No candidate spent its search budget.
    pub optimal: bool,
}

/// Why there are no devices.
#[derive(Clone)]
pub struct Refused {
    /// Whether a person has to mend something.
    pub kind: RefusalKind,
    /// For people.
    pub reason: String,
}

/// Two ways to get nothing.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum RefusalKind {
    /// Something is taken or too small.
    NoFit,
    /// Something is broken.
    Error,
}

/// What one candidate can give.
pub struct Considered {
    /// Name of the node.
    pub node: String,
    /// The rank, or why it does not fit.
    pub rank: Result<Rank, String>,
}

/// How long one decision takes.
pub struct Timing {
    /// Decisions measured.
    pub decisions: usize,
    /// The fastest.
    pub min: Duration,
    /// The middle one.
    pub median: Duration,
    /// The one that 99 of 100 are not slower than.
    pub p99: Duration,
}

impl Outcome {
    /// Whether anything was refused in this way.
    pub fn has(&self, kind: RefusalKind) -> bool {
        self.refused().any(|(_, refused)| refused.kind == kind)
    }

    /// What was placed.
    pub fn placed(&self) -> impl Iterator<Item = (&Verdict, &Placed)> {
        self.verdicts.iter().filter_map(|verdict| match &verdict.answer {
            Answer::Placed(placed) => Some((verdict, placed)),
            Answer::Refused(_) => None,
        })
    }

    /// What was refused.
    pub fn refused(&self) -> impl Iterator<Item = (&Verdict, &Refused)> {
        self.verdicts.iter().filter_map(|verdict| match &verdict.answer {
            Answer::Refused(refused) => Some((verdict, refused)),
            Answer::Placed(_) => None,
        })
    }
}

impl Verdict {
    /// The claims by name.
    pub fn claim_names(&self) -> Vec<String> {
        self.claims.iter().map(ToString::to_string).collect()
    }

    /// The node where the claims are.
    pub fn chosen(&self) -> Option<&str> {
        match &self.answer {
            Answer::Placed(placed) => Some(&placed.node),
            Answer::Refused(_) => None,
        }
    }
}

impl Timing {
    /// Of some measured decisions; none where there was none.
    pub fn of(mut durations: Vec<Duration>) -> Option<Self> {
        durations.sort_unstable();
        // The smallest rank that covers the share.
        let at = |percent: usize| {
            durations.get((durations.len() * percent).div_ceil(100).max(1) - 1).copied()
        };
        Some(Self {
            decisions: durations.len(),
            min: durations.first().copied()?,
            median: at(50)?,
            p99: at(99)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_measured_values() {
        let timing = |nanos: &[u64]| {
            let timing = Timing::of(nanos.iter().map(|n| Duration::from_nanos(*n)).collect())?;
            Some([timing.min, timing.median, timing.p99].map(|duration| duration.as_nanos()))
        };
        assert_eq!(timing(&[]), None);
        assert_eq!(timing(&[7]), Some([7, 7, 7]));
        assert_eq!(timing(&[3, 1, 2]), Some([1, 2, 3]));
        let hundred: Vec<u64> = (1..=100).rev().collect();
        assert_eq!(timing(&hundred), Some([1, 50, 99]));
    }
}
