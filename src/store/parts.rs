//! The servers of a store: slots, parts, and which of them answer. [`super::Status`] uses these
//! types.
//!
//! A *slot* says where a key lies; a *part* is the server that has the slot. A store on one server,
//! or in this process, has one part and one slot; a Redis cluster has a part for each master.

use std::sync::Arc;

/// Whether the store can be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// It answered its last probe.
    Up,
    /// It did not answer its last probe.
    Down,
}

/// Where a key lies: a hash slot of a cluster; always 0 where one server, or this process, has
/// every key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Slot(pub u16);

/// Which part of the store has which slot, and which parts answer. A value never changes. A new
/// value replaces it, in which the parts may have other numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parts {
    /// The part of each slot; empty where there is one part.
    owners: Arc<[u16]>,
    up: Vec<bool>,
}

impl Parts {
    /// A store of one part.
    pub fn one(health: Health) -> Self {
        Self {
            owners: Arc::default(),
            up: vec![health == Health::Up],
        }
    }

    /// The part of each slot, and whether each part answers. The owner of a slot that no server
    /// serves is the number after the last part: such slots form a part of their own, which never
    /// answers.
    pub fn of(owners: Arc<[u16]>, mut up: Vec<bool>) -> Self {
        if owners.iter().any(|part| usize::from(*part) >= up.len()) {
            up.push(false);
        }
        Self { owners, up }
    }

    /// The number of parts. Every [`Parts::part_of`] is below it.
    pub fn count(&self) -> usize {
        self.up.len()
    }

    /// Which part has a slot.
    pub fn part_of(&self, slot: Slot) -> usize {
        match self.owners.get(usize::from(slot.0)) {
            Some(part) => usize::from(*part),
            None => 0,
        }
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
        assert_eq!(
            [0, 1, 2].map(|slot| parts.is_away(Slot(slot))),
            [false, false, true]
        );
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
