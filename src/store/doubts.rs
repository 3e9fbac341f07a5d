//! A *doubt* is a reason to think that the store may have lost writes, or that a gateway missed
//! messages about a change. A gateway that relies on the store's data then checks it.

use std::ops::RangeInclusive;
use std::sync::Arc;

use tokio::sync::broadcast::{self, error::RecvError};

use super::Slot;

/// The data that must be checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Doubt {
    /// Everything.
    All,
    /// The data in these slots.
    Slots(Arc<[RangeInclusive<u16>]>),
}

impl Doubt {
    /// Whether the doubt is about the data in a slot.
    pub fn covers(&self, slot: Slot) -> bool {
        match self {
            Self::All => true,
            Self::Slots(ranges) => ranges.iter().any(|range| range.contains(&slot.0)),
        }
    }

    /// A doubt about these slots, which may overlap; `None` if there are none.
    pub(super) fn of_slots(mut ranges: Vec<RangeInclusive<u16>>) -> Option<Self> {
        ranges.sort_by_key(|range| *range.start());
        let mut joined: Vec<RangeInclusive<u16>> = Vec::new();
        for range in ranges {
            match joined.last_mut() {
                Some(last) if *range.start() <= last.end().saturating_add(1) => {
                    *last = *last.start()..=*last.end().max(range.end());
                }
                _ => joined.push(range),
            }
        }
        if joined.is_empty() {
            None
        } else {
            Some(Self::Slots(joined.into()))
        }
    }
}

/// A receiver of the doubts that a store raises from now on.
#[derive(Debug)]
pub struct Doubts(Option<broadcast::Receiver<Doubt>>);

impl Doubts {
    /// For a store that raises no doubts.
    pub fn never() -> Self {
        Self(None)
    }

    /// Receives from this channel.
    pub fn from(doubts: broadcast::Receiver<Doubt>) -> Self {
        Self(Some(doubts))
    }

    /// The next doubt; [`Doubt::All`] if this receiver has missed some, `None` when the store is
    /// gone. May be dropped while it waits.
    pub async fn next(&mut self) -> Option<Doubt> {
        let Some(doubts) = &mut self.0 else {
            return std::future::pending().await;
        };
        match doubts.recv().await {
            Ok(doubt) => Some(doubt),
            Err(RecvError::Lagged(_)) => Some(Doubt::All),
            Err(RecvError::Closed) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_doubt_covers_its_slots_and_no_others() {
        let doubt = Doubt::of_slots(vec![10..=12, 0..=3, 4..=5, 2..=4]).unwrap();
        assert_eq!(doubt, Doubt::Slots([0..=5, 10..=12].into()));
        assert_eq!(
            [0, 5, 6, 9, 10, 12, 13].map(|slot| doubt.covers(Slot(slot))),
            [true, true, false, false, true, true, false]
        );
        assert!(Doubt::All.covers(Slot(7)));
        assert_eq!(Doubt::of_slots(Vec::new()), None);
    }

    #[tokio::test]
    async fn a_receiver_that_lags_doubts_everything() {
        let (out, doubts) = broadcast::channel(1);
        let mut doubts = Doubts::from(doubts);
        for slot in 0..3 {
            out.send(Doubt::Slots([slot..=slot].into())).unwrap();
        }
        assert_eq!(doubts.next().await, Some(Doubt::All));
        assert_eq!(doubts.next().await, Some(Doubt::Slots([2..=2].into())));
        drop(out);
        assert_eq!(doubts.next().await, None);
    }
}
