//! What a store says of itself: whether it answers, which server has which key, and when to look again at what it has.
//!
//! A *slot* says where a key lies; a *part* is the server that has it. A store of one server, or of this process, has
//! one part and one slot; a Redis cluster has a part for each master.

use std::sync::Arc;

use tokio::sync::watch;

use super::{Doubts, Store};
use crate::base::ids::{LiveId, SliceId};

/// Whether the store can be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// It answered its last probe.
    Up,
    /// It did not answer its last probe.
    Down,
}

/// What a store says of itself.
pub trait Status {
    /// Whether the store answers, or any part of it; changes as the store's own watchdog sees it.
    fn health(&self) -> watch::Receiver<Health>;

    /// Which part of the store has which slot, and whether that part answers now: a cluster with a master that does not
    /// is `Up`, but not whole.
    fn parts(&self) -> watch::Receiver<Arc<Parts>>;

    /// From now on, every reason to look once more at what the store has. One event gives one doubt or two; the first
    /// comes as soon as the part that it is about can be asked.
    fn doubts(&self) -> Doubts {
        Doubts::never()
    }

    /// Where the list of open lives lies.
    fn slot_of_list(&self) -> Slot {
        Slot::default()
    }

    /// Where the record of a live lies.
    fn slot_of_live(&self, _live: &LiveId) -> Slot {
        Slot::default()
    }

    /// Where the set of a slice lies, with its companions.
    fn slot_of_slice(&self, _slice: &SliceId) -> Slot {
        Slot::default()
    }

    /// The same store for what clients ask for: over the same connections, with a bound of its own on the calls under
    /// way, so that no number of requests keeps the gateway's own calls from the store.
    fn for_clients(self: Arc<Self>) -> Arc<dyn Store>;

    /// A word for logs and `/healthz`: `memory` or `redis`.
    fn kind(&self) -> &'static str;
}

/// Where a key lies: a hash slot of a cluster; always 0 where one server, or this process, has every key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Slot(pub u16);

/// Which part of the store has which slot, and which parts answer. A value never changes: a new one takes its place, in
/// which the parts may be numbered in another way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parts {
    /// The part of each slot; empty where there is one part.
    owners: Arc<[u16]>,
    up: Vec<bool>,
}

impl Parts {
    /// A store of one part.
    pub fn one(health: Health) -> Self {
        Self { owners: Arc::default(), up: vec![health == Health::Up] }
    }

    /// The part of each slot, and whether each part answers. Slots that nobody serves have the number after the last
    /// part for an owner: they make a part of their own, one that never answers.
    pub(super) fn of(owners: Arc<[u16]>, mut up: Vec<bool>) -> Self {
        if owners.iter().any(|part| usize::from(*part) >= up.len()) {
            up.push(false);
        }
        Self { owners, up }
    }

    /// How many there are. Every [`Parts::part_of`] is below that.
    pub fn count(&self) -> usize {
        self.up.len()
    }

    /// Which part has a slot.
    pub fn part_of(&self, slot: Slot) -> usize {
        self.owners.get(usize::from(slot.0)).map_or(0, |part| usize::from(*part))
    }

    /// Whether the part that has a slot does not answer.
    pub fn is_away(&self, slot: Slot) -> bool {
        !self.up.get(self.part_of(slot)).copied().unwrap_or(false)
    }

    /// Whether every part answers.
    pub fn is_whole(&self) -> bool {
        self.up.iter().all(|up| *up)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_away_with_its_part() {
        let parts = Parts::of([0, 0, 1].into(), vec![true, false]);
        assert_eq!(parts.count(), 2);
        assert_eq!([0, 1, 2].map(|slot| parts.is_away(Slot(slot))), [false, false, true]);
        assert!(!parts.is_whole());
        assert!(Parts::of([0, 0, 1].into(), vec![true, true]).is_whole());
    }

    #[test]
    fn slots_that_nobody_serves_are_a_part_that_is_away() {
        let parts = Parts::of([0, 1].into(), vec![true]);
        assert_eq!((parts.count(), parts.part_of(Slot(1))), (2, 1));
        assert!(parts.is_away(Slot(1)) && !parts.is_away(Slot(0)) && !parts.is_whole());
    }

    #[test]
    fn one_part_has_everything() {
        assert!(Parts::one(Health::Up).is_whole());
        assert!(Parts::one(Health::Down).is_away(Slot(0)));
    }
}
