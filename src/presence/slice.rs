//! One slice of a set, in a room or of the platform: its [`SliceState`] behind a small lock, and
//! its size over all gateways, which readers get without that lock. Never awaits.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};

use super::expected_slice::ExpectedSlice;
use super::slice_state::SliceState;
use crate::base::clock::{AtomicMoment, Moment};
use crate::base::ids::{Epoch, SliceId};
use crate::store::SliceSize;

#[derive(Debug)]
pub struct Slice {
    pub id: SliceId,
    state: Mutex<SliceState>,
    size: Mutex<HeardSize>,
    /// Whether the store told this gateway a size that the peers may not have heard of yet.
    unpublished: AtomicBool,
    /// When this gateway sent the last call or check that showed that the content of the store is
    /// right.
    proven: AtomicMoment,
}

/// The size over all gateways, as the store last said.
#[derive(Debug, Default)]
struct HeardSize {
    there: SliceSize,
    /// When the store last told the size.
    heard: Moment,
}

/// The sum of the slices of one set. Every heartbeat reads it.
#[derive(Debug, Default)]
pub struct SetSize {
    members: AtomicU64,
    fans: AtomicU64,
    guests: AtomicU64,
    /// The number of slices in a rebuild.
    rebuilds: AtomicU64,
}

impl SetSize {
    pub fn members(&self) -> u64 {
        self.members.load(Ordering::SeqCst)
    }

    pub fn fans(&self) -> u64 {
        self.fans.load(Ordering::SeqCst)
    }

    pub fn guests(&self) -> u64 {
        self.guests.load(Ordering::SeqCst)
    }

    pub fn has_rebuild(&self) -> bool {
        self.rebuilds.load(Ordering::SeqCst) > 0
    }

    /// The caller holds the lock of the slice: two differences of one slice in the wrong order
    /// could make the sum negative for a moment.
    fn replace(&self, before: SliceSize, after: SliceSize) {
        // A thread that reads the members first, and then the rebuilds, never takes members of a
        // rebuild for certain ones.
        if after.rebuild && !before.rebuild {
            self.rebuilds.fetch_add(1, Ordering::SeqCst);
        }
        self.members
            .fetch_add(after.card.wrapping_sub(before.card), Ordering::SeqCst);
        self.fans
            .fetch_add(after.fans.wrapping_sub(before.fans), Ordering::SeqCst);
        self.guests
            .fetch_add(after.guests.wrapping_sub(before.guests), Ordering::SeqCst);
        if before.rebuild && !after.rebuild {
            self.rebuilds.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

impl Slice {
    /// An empty slice, made at `now`.
    pub fn new(id: SliceId, now: Moment) -> Self {
        Self {
            id,
            state: Mutex::new(SliceState::new(now)),
            size: Mutex::new(HeardSize {
                heard: now,
                ..HeardSize::default()
            }),
            unpublished: AtomicBool::new(false),
            proven: AtomicMoment::default(),
        }
    }

    /// Takes the lock; for a few instructions, never across an await.
    pub fn lock(&self) -> MutexGuard<'_, SliceState> {
        self.state.lock()
    }

    /// Notes a size, which the store told this gateway or a peer. The highest version wins. Updates
    /// `sum`, the size of the whole set, with it. True if more than the version changed.
    pub fn note(&self, told: SliceSize, now: Moment, sum: &SetSize) -> bool {
        let mut size = self.size.lock();
        told.version >= size.there.version && size.set(told, now, sum)
    }

    /// The size as the store last told it.
    pub fn size(&self) -> SliceSize {
        self.size.lock().there
    }

    /// What a look at the slice should find; `None` if something is unsettled: then one more call
    /// follows, and its answer tells as much as the look would.
    pub fn expect(&self, epoch: Epoch, incarnation: u32) -> Option<ExpectedSlice> {
        let size = self.size();
        let entry = self.lock().expect(incarnation)?;
        Some(ExpectedSlice {
            slice: self.id.clone(),
            epoch,
            entry,
            size,
        })
    }

    /// Notes that a call or a check, sent at `asked`, showed that the content of the store is
    /// right.
    pub fn note_proven(&self, asked: Moment) {
        self.proven.advance(asked);
    }

    /// Whether this gateway sent such a call or check after `then`.
    pub fn is_proven_since(&self, then: Moment) -> bool {
        self.proven.load() > then
    }

    /// Notes that the peers need the size.
    pub fn set_unpublished(&self) {
        self.unpublished.store(true, Ordering::Relaxed);
    }

    /// The size, if the peers need it. The call resets that.
    pub fn take_unpublished(&self) -> Option<SliceSize> {
        if !self.unpublished.swap(false, Ordering::Relaxed) {
            return None;
        }
        Some(self.size())
    }

    /// When the store last told the size.
    pub fn heard(&self) -> Moment {
        self.size.lock().heard
    }
}

impl HeardSize {
    /// Replaces the size. True if more than its version changed.
    fn set(&mut self, there: SliceSize, now: Moment, sum: &SetSize) -> bool {
        let before = self.there;
        self.there = there;
        self.heard = now;
        sum.replace(before, there);
        let with_new_version = SliceSize {
            version: there.version,
            ..before
        };
        with_new_version != there
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock::moment;
    use crate::base::ids::LiveId;

    fn slice() -> Slice {
        let id = SliceId::of_live(LiveId::parse("42").unwrap(), 1, 1);
        Slice::new(id, moment(1))
    }

    fn size(card: u64, version: u64) -> SliceSize {
        SliceSize {
            card,
            version,
            ..SliceSize::default()
        }
    }

    fn sum_of(slice: &Slice) -> SetSize {
        let sum = SetSize::default();
        sum.replace(SliceSize::default(), slice.size());
        sum
    }

    fn note(slice: &Slice, told: SliceSize, now: Moment) -> bool {
        let sum = sum_of(slice);
        let has_changed = slice.note(told, now, &sum);
        assert_eq!(sum.members(), slice.size().card, "the sum follows");
        assert_eq!(sum.has_rebuild(), slice.size().rebuild);
        has_changed
    }

    #[test]
    fn a_rebuild_is_news_although_the_size_is_the_same() {
        let slice = slice();
        assert!(note(&slice, size(5, 100), moment(10)));
        assert!(note(
            &slice,
            SliceSize {
                rebuild: true,
                ..size(5, 101)
            },
            moment(11)
        ));
        assert!(!note(
            &slice,
            SliceSize {
                rebuild: true,
                ..size(5, 102)
            },
            moment(12)
        ));
        assert!(note(&slice, size(5, 103), moment(13)));
    }

    #[test]
    fn an_older_size_never_replaces_a_newer_one() {
        let slice = slice();
        assert!(note(&slice, size(5, 100), moment(10)));
        assert!(!note(&slice, size(4, 99), moment(11)));
        assert_eq!((slice.size(), slice.heard()), (size(5, 100), moment(10)));
        assert!(!note(&slice, size(5, 101), moment(12)));
        assert_eq!((slice.size(), slice.heard()), (size(5, 101), moment(12)));
    }

    #[test]
    fn peers_are_told_once_and_the_newest_size() {
        let slice = slice();
        assert_eq!(slice.take_unpublished(), None);
        note(&slice, size(5, 100), moment(10));
        slice.set_unpublished();
        note(&slice, size(6, 110), moment(11));
        assert_eq!(slice.take_unpublished(), Some(size(6, 110)));
        assert_eq!(slice.take_unpublished(), None);
    }
}
