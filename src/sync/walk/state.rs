//! What the walker remembers from one walk to the next, and when a walk is due.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use crate::base::clock::{Moment, millis};
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
    pub(super) next: Option<Moment>,
    /// Whether the last walk ended early, so that it did not visit the lives behind the error.
    pub(super) ended_early: bool,
    /// Lives that are listed without a record, as far as this gateway knows, and since when.
    pub(super) unrecorded: HashMap<LiveId, Moment>,
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
    /// The living gateways, and since when this gateway knows that each lives.
    living: HashMap<GatewayId, Moment>,
    /// When [`Self::note_living`] was called last.
    looked: Moment,
    /// Where the next walk goes on to compare a large slice.
    pub(super) cursors: HashMap<SliceId, PassCursor>,
}

impl WalkState {
    /// Notes which gateways live. True if it is time to look for late entries: a gateway that
    /// appears may be one that was buried while it could not reach Redis. Calls that it sent before
    /// it knew may have arrived after the sweep of its former id.
    pub(super) fn note_living(&mut self, roster: &Roster, now: Moment) -> bool {
        self.living
            .retain(|gateway, _| roster.living.contains(gateway));
        for gateway in &roster.living {
            self.living.entry(gateway.clone()).or_insert(now);
        }
        // A call that began under the former id is sent before its deadline.
        let late = millis(CALL_DEADLINE + LATEST_ENTRY + CLOCK_SLACK);
        let is_over = |since: &Moment, at: Moment| *since + late <= at;
        let looked = std::mem::replace(&mut self.looked, now);
        let mut appeared = self.living.values();
        !roster.dead.is_empty()
            && appeared.any(|since| !is_over(since, looked) && is_over(since, now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock::moment;

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
        let both = roster(&["a", "b"], &[]);
        assert!(!memory.note_living(&both, moment(0)));
        assert!(!memory.note_living(&both, moment(7_300)), "nobody is dead");
        let after = roster(&["a", "c"], &["b"]);
        assert!(
            !memory.note_living(&after, moment(10_000)),
            "its calls may still arrive"
        );
        assert!(!memory.note_living(&after, moment(17_299)));
        assert!(memory.note_living(&after, moment(17_300)));
        assert!(!memory.note_living(&after, moment(17_301)));
    }

    #[test]
    fn each_gateway_that_appears_is_followed_by_a_walk() {
        let mut memory = WalkState::default();
        let mut living = vec!["a"];
        memory.note_living(&roster(&living, &["x"]), moment(0));
        let mut walks = Vec::new();
        for now in (0..20_000).step_by(100) {
            if matches!(now, 1_000 | 4_000 | 7_000) {
                living.push(["b", "c", "d"][living.len() - 1]);
            }
            walks.extend(
                memory
                    .note_living(&roster(&living, &["x"]), moment(now))
                    .then_some(now),
            );
        }
        // 7.3 s after each.
        assert_eq!(walks, [7_300, 8_300, 11_300, 14_300]);
    }
}
