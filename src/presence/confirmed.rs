//! How many of the viewers of a room a back end confirmed within the last minute. The store knows it
//! slice by slice; whichever gateway learns something tells the others. State only. Nothing here
//! happens while nobody is confirmed.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::base::clock::{Millis, Moment};

/// How long after the last news the store is asked again, in ms: confirmations run out by
/// themselves, and viewers leave.
const READ_EVERY: Millis = 1_000;

/// The gateways that hold a live do not ask at the same time: the first one tells the others, and
/// they ask later.
const SPREAD: Millis = 500;

/// What the store says of a slice of a live.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SliceConfirmed {
    /// The index of the slice.
    pub slice: u32,
    /// The viewers who are there now and were confirmed within the last minute.
    pub viewers: u64,
    /// The viewers whose last confirmation the store keeps, however old it is.
    pub kept: u64,
}

/// What a room knows of its confirmed viewers.
#[derive(Debug, Default)]
pub struct ConfirmedViewers(Mutex<KnownConfirmed>);

#[derive(Debug, Default)]
struct KnownConfirmed {
    /// By slice, where the store keeps any confirmation.
    slices: BTreeMap<u32, u64>,
    ask_at: Moment,
}

impl ConfirmedViewers {
    /// How many viewers are confirmed now.
    pub fn viewers(&self) -> u64 {
        self.0.lock().sum()
    }

    /// Notes what the store said of some slices. True if the number of viewers changed.
    pub fn note(&self, said: &[SliceConfirmed], now: Moment) -> bool {
        let mut known = self.0.lock();
        let before = known.sum();
        for slice in said {
            if slice.kept == 0 {
                known.slices.remove(&slice.slice);
            } else {
                known.slices.insert(slice.slice, slice.viewers);
            }
        }
        known.ask_at = now + READ_EVERY + rand::random_range(0..=SPREAD);
        known.sum() != before
    }

    /// Asks the store later: it did not answer.
    pub fn put_off(&self, now: Moment) {
        self.0.lock().ask_at = now + READ_EVERY;
    }

    /// When to ask the store again; `None` if it keeps no confirmation.
    pub fn ask_at(&self) -> Option<Moment> {
        let known = self.0.lock();
        (!known.slices.is_empty()).then_some(known.ask_at)
    }

    /// The slices of which the store keeps confirmations.
    pub fn slices(&self) -> Vec<u32> {
        self.0.lock().slices.keys().copied().collect()
    }
}

impl KnownConfirmed {
    fn sum(&self) -> u64 {
        self.slices.values().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock::moment;

    fn said(slice: u32, viewers: u64, kept: u64) -> SliceConfirmed {
        SliceConfirmed {
            slice,
            viewers,
            kept,
        }
    }

    #[test]
    fn the_figure_is_the_sum_of_what_the_store_said_last_of_each_slice() {
        let confirmed = ConfirmedViewers::default();
        assert!(!confirmed.note(&[said(1, 0, 0)], moment(0)));
        assert_eq!((confirmed.viewers(), confirmed.ask_at()), (0, None));
        assert!(confirmed.note(&[said(1, 3, 3), said(4, 2, 9)], moment(0)));
        assert_eq!((confirmed.viewers(), confirmed.slices()), (5, vec![1, 4]));
        assert!(confirmed.note(&[said(4, 1, 9)], moment(0)));
        assert_eq!(confirmed.viewers(), 4);
        assert!(!confirmed.note(&[said(4, 1, 5)], moment(0)));
    }

    #[test]
    fn the_store_is_asked_until_it_keeps_nothing() {
        let confirmed = ConfirmedViewers::default();
        confirmed.note(&[said(1, 2, 2)], moment(10_000));
        let at = confirmed.ask_at().unwrap();
        assert!((moment(11_000)..=moment(11_500)).contains(&at), "{at:?}");
        // Nobody counts any more, but the store has something to take out.
        confirmed.note(&[said(1, 0, 1)], moment(20_000));
        assert_eq!(confirmed.viewers(), 0);
        assert!(confirmed.ask_at() > Some(moment(20_000)));
        confirmed.put_off(moment(30_000));
        assert_eq!(confirmed.ask_at(), Some(moment(31_000)));
        confirmed.note(&[said(1, 0, 0)], moment(40_000));
        assert_eq!(confirmed.ask_at(), None);
    }
}
