//! One slice of a set, in a room or of the platform: its [`SliceState`] behind a small lock, and its size over all
//! gateways, which is read without that lock. Never awaits.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};

use super::slice_state::SliceState;
use crate::base::clock::Millis;
use crate::base::ids::SliceId;
use crate::store::ExpectedSlice;

#[derive(Debug)]
pub struct Slice {
    pub id: SliceId,
    state: Mutex<SliceState>,
    size: Mutex<Size>,
    /// Whether the store told this gateway something that the peers may not have heard yet.
    news: AtomicBool,
}

/// The size over all gateways, as the store last said.
#[derive(Debug, Default)]
struct Size {
    members: u64,
    /// The version of the slice that had this size.
    version: u64,
    /// When the store last said so.
    heard: Millis,
}

impl Slice {
    /// An empty slice, made at `now`.
    pub fn new(id: SliceId, now: Millis) -> Self {
        let (state, size) = (SliceState::new(now), Size { heard: now, ..Size::default() });
        Self { id, state: Mutex::new(state), size: Mutex::new(size), news: AtomicBool::new(false) }
    }

    /// Takes the lock; for a few instructions, never across an await.
    pub fn lock(&self) -> MutexGuard<'_, SliceState> {
        self.state.lock()
    }

    /// Takes in a size and its version, as the store told this gateway or a peer. The highest version wins. `sum`, the
    /// size of all slices of the set, is updated with it. True if the size changed.
    pub fn note(&self, card: u64, version: u64, now: Millis, sum: &AtomicU64) -> bool {
        let mut size = self.size.lock();
        version >= size.version && size.set((card, version), now, sum)
    }

    /// Takes in what a check read that expected version `expected`. The reading wins even with a lower version, since a
    /// store that lost data starts again from a low one. It is ignored if another version was heard of meanwhile.
    pub fn note_reading(&self, expected: u64, read: (u64, u64), now: Millis, sum: &AtomicU64) -> bool {
        let mut size = self.size.lock();
        size.version == expected && size.set(read, now, sum)
    }

    /// The size and its version.
    pub fn size(&self) -> (u64, u64) {
        let size = self.size.lock();
        (size.members, size.version)
    }

    /// What a check should find; `None` if something is unsettled: then one more call is made, and its answer tells as
    /// much as the check would.
    pub fn expect(&self, incarnation: u32) -> Option<ExpectedSlice> {
        let (card, _) = self.size();
        let (entry, held) = self.lock().expect(incarnation)?;
        Some(ExpectedSlice { slice: self.id.clone(), entry, held, card })
    }

    /// Notes that the store still had this version at `now`.
    pub fn confirm_version(&self, version: u64, now: Millis) {
        let mut size = self.size.lock();
        if size.version == version {
            size.heard = size.heard.max(now);
        }
    }

    /// Has the peers told the size.
    pub fn set_news(&self) {
        self.news.store(true, Ordering::Relaxed);
    }

    /// The size and its version, if the peers must be told. Asked once.
    pub fn take_news(&self) -> Option<(u64, u64)> {
        self.news.swap(false, Ordering::Relaxed).then(|| self.size())
    }

    /// When the store last told the size.
    pub fn heard(&self) -> Millis {
        self.size.lock().heard
    }
}

impl Size {
    fn set(&mut self, (members, version): (u64, u64), now: Millis, sum: &AtomicU64) -> bool {
        let before = std::mem::replace(self, Self { members, version, heard: now }).members;
        // Under the lock: two differences of one slice in the wrong order could make the sum negative for a moment.
        sum.fetch_add(members.wrapping_sub(before), Ordering::Relaxed);
        before != members
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ids::LiveId;

    fn slice() -> Slice {
        let id = SliceId::of_fans(LiveId::parse("42").unwrap(), 1, 1);
        Slice::new(id, 1)
    }

    fn note(slice: &Slice, (card, version): (u64, u64), now: Millis) -> bool {
        let sum = AtomicU64::new(slice.size().0);
        let news = slice.note(card, version, now, &sum);
        assert_eq!(sum.into_inner(), slice.size().0, "the sum follows");
        news
    }

    #[test]
    fn an_older_size_never_replaces_a_newer_one() {
        let slice = slice();
        assert!(note(&slice, (5, 100), 10));
        assert!(!note(&slice, (4, 99), 11));
        assert_eq!((slice.size(), slice.heard()), ((5, 100), 10));
        assert!(!note(&slice, (5, 101), 12));
        assert_eq!((slice.size(), slice.heard()), ((5, 101), 12));
    }

    #[test]
    fn a_reading_wins_unless_another_version_was_heard_of_meanwhile() {
        let slice = slice();
        note(&slice, (5, 100), 10);
        let read = |expected, size| slice.note_reading(expected, size, 20, &AtomicU64::new(slice.size().0));
        assert!(!read(99, (7, 101)));
        assert!(read(100, (0, 3)), "the store lost its data");
        assert_eq!(slice.size(), (0, 3));
    }

    #[test]
    fn peers_are_told_once_and_the_newest_size() {
        let slice = slice();
        assert_eq!(slice.take_news(), None);
        note(&slice, (5, 100), 10);
        slice.set_news();
        note(&slice, (6, 110), 11);
        assert_eq!(slice.take_news(), Some((6, 110)));
        assert_eq!(slice.take_news(), None);
    }
}
