//! Which events are written: equal ones become one with a count, and an object has a budget.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::Event;

/// Equal events within this time are one.
const SAME: Duration = Duration::from_secs(600);
/// Writes for one object at once.
const BURST: u32 = 10;
/// One more write for an object in this time.
const REFILL: Duration = Duration::from_secs(5);
/// Events and objects kept: a node has some hundred claims at most.
const KEPT: usize = 1024;

/// What was written of late.
#[derive(Debug)]
pub(super) struct Fold<A> {
    series: BTreeMap<Event<A>, Series>,
    budgets: BTreeMap<A, Budget>,
}

/// What to do with an event.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// Write a new one.
    Create,
    /// Write that this one has happened again.
    Count {
        /// Name of the event object.
        name: String,
        /// How often it has happened.
        count: i32,
    },
    /// Write nothing; it is counted.
    Drop,
}

#[derive(Debug)]
struct Series {
    /// Absent until the API server has taken it.
    name: Option<String>,
    count: i32,
    first: Instant,
}

#[derive(Debug)]
struct Budget {
    writes: u32,
    since: Instant,
}

impl<A> Default for Fold<A> {
    fn default() -> Self {
        Self { series: BTreeMap::new(), budgets: BTreeMap::new() }
    }
}

impl<A: Clone + Ord> Fold<A> {
    /// Takes an event.
    pub(super) fn take(&mut self, event: &Event<A>, now: Instant) -> Decision {
        self.forget(now);
        let has_budget = self.spend(&event.about, now);
        let series = self.series.entry(event.clone());
        let series = series.or_insert(Series { name: None, count: 0, first: now });
        series.count = series.count.saturating_add(1);
        match (&series.name, has_budget) {
            (_, false) => Decision::Drop,
            (None, true) => Decision::Create,
            (Some(name), true) => Decision::Count { name: name.clone(), count: series.count },
        }
    }

    /// The API server has taken an event as a new one.
    pub(super) fn created(&mut self, event: &Event<A>, name: String) {
        if let Some(series) = self.series.get_mut(event) {
            series.name = Some(name);
            series.count = 1;
        }
    }

    fn spend(&mut self, about: &A, now: Instant) -> bool {
        let budget = self.budgets.entry(about.clone());
        let budget = budget.or_insert(Budget { writes: BURST, since: now });
        while budget.writes < BURST && now.duration_since(budget.since) >= REFILL {
            budget.writes += 1;
            budget.since += REFILL;
        }
        if budget.writes == BURST {
            budget.since = now;
        }
        let has_budget = budget.writes > 0;
        budget.writes = budget.writes.saturating_sub(1);
        has_budget
    }

    /// Forgets what is old, and all when that is not enough: an event twice does no harm.
    fn forget(&mut self, now: Instant) {
        self.series.retain(|_, series| now.duration_since(series.first) < SAME);
        self.budgets.retain(|_, budget| now.duration_since(budget.since) < SAME);
        if self.series.len() >= KEPT {
            self.series.clear();
        }
        if self.budgets.len() >= KEPT {
            self.budgets.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(note: &str) -> Event<u8> {
        Event { about: 0, is_warning: true, reason: "Test", note: note.to_owned() }
    }

    #[test]
    fn equal_events_are_counted_and_others_are_new() {
        let (mut fold, now) = (Fold::default(), Instant::now());
        assert_eq!(fold.take(&event("a"), now), Decision::Create);
        fold.created(&event("a"), "a.1".to_owned());
        let again = Decision::Count { name: "a.1".to_owned(), count: 2 };
        assert_eq!(fold.take(&event("a"), now + SAME / 2), again);
        assert_eq!(fold.take(&event("b"), now + SAME / 2), Decision::Create);
        assert_eq!(fold.take(&event("a"), now + SAME), Decision::Create);
    }

    #[test]
    fn an_event_that_was_not_taken_is_created_the_next_time() {
        let (mut fold, now) = (Fold::default(), Instant::now());
        assert_eq!(fold.take(&event("a"), now), Decision::Create);
        assert_eq!(fold.take(&event("a"), now), Decision::Create);
    }

    #[test]
    fn an_object_has_a_burst_of_ten_and_then_one_in_five_seconds() {
        let (mut fold, start) = (Fold::default(), Instant::now());
        let written = |fold: &mut Fold<u8>, from: u32, now: Instant| {
            let notes = (from..from + 100).map(|number| event(&number.to_string()));
            notes.filter(|event| fold.take(event, now) != Decision::Drop).count()
        };
        assert_eq!(written(&mut fold, 0, start), 10);
        assert_eq!(written(&mut fold, 100, start + REFILL - Duration::from_millis(1)), 0);
        assert_eq!(written(&mut fold, 200, start + REFILL * 3), 3);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let (mut fold, now) = (Fold::default(), Instant::now());
        for number in 0..3 * KEPT {
            fold.take(&event(&number.to_string()), now);
        }
        assert!(fold.series.len() <= KEPT);
    }
}
