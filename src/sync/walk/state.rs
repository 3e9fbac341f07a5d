//! What the walker remembers from one walk to the next, and when a walk is due.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use crate::base::clock::{Millis, millis};
use crate::base::ids::{GatewayId, LiveId, SliceId};
use crate::presence::gateways::Roster;
use crate::store::{CALL_DEADLINE, LATEST_ENTRY, PassCursor};

/// The most by which a gateway's estimate of the time at Redis is off.
const CLOCK_SLACK: Duration = Duration::from_millis(500);

/// Why the walk visits lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Occasion {
    /// The regular walk. It compares slices whatever their sizes say.
    Regular,
    /// A gateway was buried, a buried one may have made entries since, a live could not be reached
    /// before, or a walk ended early.
    Extra,
}

#[derive(Debug, Default)]
pub(super) struct WalkState {
    /// When the next regular walk is due; `None` while another gateway walks.
    pub(super) next: Option<Millis>,
    /// Whether the last walk ended early, so that it did not visit the lives behind the error.
    pub(super) ended_early: bool,
    /// Lives that are listed without a record, as far as this gateway knows, and since when.
    pub(super) unrecorded: HashMap<LiveId, Millis>,
    /// Lives whose last visit failed.
    pub(super) failed: Vec<LiveId>,
    /// Whether the last visit to the platform failed.
    pub(super) platform_failed: bool,
    /// Lives with a slice that the last visit left out of order, because it is in a rebuild.
    pub(super) open: Vec<LiveId>,
    /// The same of the platform.
    pub(super) platform_open: bool,
    /// The dead gateways that the last walk knew of.
    pub(super) known_dead: HashSet<GatewayId>,
    known_living: BTreeSet<GatewayId>,
    /// `None` if a walk was made after the late calls of all gateways that have appeared.
    late_calls: Option<LateCalls>,
    /// Where the next walk goes on to compare a large slice.
    pub(super) cursors: HashMap<SliceId, PassCursor>,
}

/// When the late calls of gateways that have appeared are over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LateCalls {
    /// Those of the first gateway.
    first_over: Millis,
    /// Those of the last gateway.
    last_over: Millis,
}

impl WalkState {
    /// Notes which gateways live. True if it is time to look for late entries: a gateway that
    /// appears may be one that was buried while it could not reach Redis. Calls that it sent before
    /// it knew may have arrived after the sweep of its former id.
    pub(super) fn note_living(&mut self, roster: &Roster, now: Millis) -> bool {
        if !roster.dead.is_empty() && !roster.living.is_subset(&self.known_living) {
            // A call that began under the former id is sent before its deadline.
            let over = now + millis(CALL_DEADLINE + LATEST_ENTRY + CLOCK_SLACK);
            // Gateways that appear one after another do not put the walk off.
            let first_over = match self.late_calls {
                Some(known) => known.first_over,
                None => over,
            };
            self.late_calls = Some(LateCalls {
                first_over,
                last_over: over,
            });
        }
        self.known_living.clone_from(&roster.living);
        let Some(LateCalls {
            first_over,
            last_over,
        }) = self.late_calls
        else {
            return false;
        };
        if first_over > now {
            return false;
        }
        self.late_calls = if last_over > now {
            Some(LateCalls {
                first_over: last_over,
                last_over,
            })
        } else {
            None
        };
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roster(living: &[&str], dead: &[&str]) -> Roster {
        let ids = |names: &[&str]| {
            names
                .iter()
                .map(|name| GatewayId::parse(name).unwrap())
                .collect::<Vec<_>>()
        };
        let mut roster = Roster::default();
        roster.living.extend(ids(living));
        roster.dead.extend(ids(dead));
        roster
    }

    #[test]
    fn late_entries_are_looked_for_once_after_a_gateway_has_appeared_beside_a_dead_one() {
        let mut memory = WalkState::default();
        assert!(
            !memory.note_living(&roster(&["a", "b"], &[]), 0) && memory.late_calls.is_none(),
            "nobody is dead"
        );
        assert!(!memory.note_living(&roster(&["a"], &["b"]), 1) && memory.late_calls.is_none());
        assert!(
            !memory.note_living(&roster(&["a", "c"], &["b"]), 1_000),
            "its calls may still arrive"
        );
        assert!(!memory.note_living(&roster(&["a", "c"], &["b"]), 8_299));
        assert!(memory.note_living(&roster(&["a", "c"], &["b"]), 8_300));
        assert!(
            !memory.note_living(&roster(&["a", "c"], &["b"]), 8_301) && memory.late_calls.is_none()
        );
    }

    #[test]
    fn gateways_that_appear_one_after_another_do_not_put_the_walk_off() {
        let mut memory = WalkState::default();
        let mut living = vec!["a"];
        memory.note_living(&roster(&living, &["x"]), 0);
        let mut walks = Vec::new();
        for now in (0..20_000).step_by(100) {
            if matches!(now, 1_000 | 4_000 | 7_000) {
                living.push(["b", "c", "d"][living.len() - 1]);
            }
            walks.extend(
                memory
                    .note_living(&roster(&living, &["x"]), now)
                    .then_some(now),
            );
        }
        // 7.3 s after the first and after the last; the very first look came at 0.
        assert_eq!(walks, [7_300, 14_300]);
    }
}
