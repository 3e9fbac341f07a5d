//! The number of follows of askers that this gateway keeps, in all rooms together.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The most follows that the gateway keeps, each of some 250 bytes. Beyond that, askers get a
/// partial answer.
pub(super) const MOST_FOLLOWS: usize = 500_000;

#[derive(Debug, Default)]
pub struct KeptFollows(AtomicUsize);

impl KeptFollows {
    /// Takes room for up to `wanted` follows. Returns the number that there is room for.
    pub(super) fn take(&self, wanted: usize) -> usize {
        let mut taken = 0;
        let _ = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |kept| {
                taken = wanted.min(MOST_FOLLOWS.saturating_sub(kept));
                Some(kept + taken)
            });
        taken
    }

    pub(super) fn give_back(&self, some: usize) {
        self.0.fetch_sub(some, Ordering::Relaxed);
    }

    pub fn kept(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}
