//! What a gateway expects to find in a slice of the store.

use crate::base::ids::{Epoch, SliceId};
use crate::store::{Fence, SliceEntry, SliceLook, SliceSize};

/// A slice as a gateway expects it.
#[derive(Debug, Clone)]
pub struct ExpectedSlice {
    /// The slice.
    pub slice: SliceId,
    /// The epoch to which it should belong.
    pub epoch: Epoch,
    /// The number in the gateway's entry; `None` if it has none there.
    pub entry: Option<u64>,
    /// The newest size that the gateway knows. Peers may have changed it since.
    pub size: SliceSize,
}

impl ExpectedSlice {
    /// Whether the slice is open, intact and in order, has the gateway's entry, and has neither lost
    /// a change nor forgotten since. A slice in which nobody ever was must have no key at all.
    pub fn is_met(&self, found: &SliceLook) -> bool {
        let entry = self.entry.map(|number| SliceEntry::At {
            number,
            is_complete: true,
        });
        if found.entry != entry || !found.is_intact {
            return false;
        }
        match found.fence {
            Some(fence) if fence.epoch() >= self.epoch => {
                fence == Fence::Open(self.epoch)
                    && found.size.is_in_order()
                    && found.size.incarnation == self.size.incarnation
                    && !found.size.is_older_than(self.size)
            }
            // Nobody has come since an older epoch, if there was one.
            Some(_) | None => !found.has_keys && self.size == SliceSize::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ids::LiveId;

    /// An open slice with two members, one of them a fan.
    fn size() -> SliceSize {
        SliceSize {
            card: 2,
            fans: 1,
            leaves: 3,
            version: 10,
            incarnation: 4,
            ..SliceSize::default()
        }
    }

    fn found() -> SliceLook {
        SliceLook {
            fence: Some(Fence::Open(Epoch(1))),
            size: size(),
            is_intact: true,
            has_keys: true,
            entry: Some(SliceEntry::At {
                number: 7,
                is_complete: true,
            }),
            entries: Vec::new(),
        }
    }

    fn expected(entry: Option<u64>, size: SliceSize) -> ExpectedSlice {
        ExpectedSlice {
            slice: SliceId::of_live(LiveId::parse("42").unwrap(), 1, 1),
            epoch: Epoch(1),
            entry,
            size,
        }
    }

    #[test]
    fn every_difference_is_found() {
        let expected = expected(Some(7), size());
        assert!(expected.is_met(&found()));
        let mut newer = found();
        (newer.size.version, newer.size.card) = (11, 3);
        assert!(expected.is_met(&newer), "a peer made a call");
        type Change = fn(&mut SliceLook);
        let changes: [(&str, Change); 11] = [
            ("closed", |it| it.fence = Some(Fence::Closed(Epoch(1)))),
            ("of another epoch", |it| {
                it.fence = Some(Fence::Open(Epoch(2)))
            }),
            ("without a fence", |it| it.fence = None),
            ("not intact", |it| it.is_intact = false),
            ("without the entry", |it| it.entry = None),
            ("marked as dead", |it| it.entry = Some(SliceEntry::Dead)),
            ("older", |it| it.size.version = 9),
            ("forgotten since", |it| it.size.incarnation = 11),
            ("without a leave", |it| it.size.leaves = 2),
            ("in a rebuild", |it| it.size.rebuild = true),
            ("with other sets", |it| it.size.differs = true),
        ];
        for (what, change) in changes {
            let mut found = found();
            change(&mut found);
            assert!(!expected.is_met(&found), "a slice that is {what}");
        }
    }

    #[test]
    fn a_slice_in_which_nobody_ever_was_has_nothing() {
        let nothing = SliceLook {
            is_intact: true,
            ..SliceLook::default()
        };
        assert!(expected(None, SliceSize::default()).is_met(&nothing));
        assert!(
            !expected(None, size()).is_met(&nothing),
            "it lost its fence"
        );
        let older = SliceLook {
            fence: Some(Fence::Closed(Epoch(0))),
            ..nothing.clone()
        };
        assert!(expected(None, SliceSize::default()).is_met(&older));
        for of in [nothing, older] {
            let left_over = SliceLook {
                has_keys: true,
                ..of
            };
            assert!(!expected(None, SliceSize::default()).is_met(&left_over));
        }
    }
}
