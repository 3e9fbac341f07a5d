//! The highest figures of a live that this gateway knows of, and those of them that the store was told.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::figures::Figures;
use crate::store::Peaks;

#[derive(Debug)]
pub(super) struct PeakTracker {
    viewers: AtomicU64,
    fans: AtomicU64,
    told: Mutex<Peaks>,
}

impl PeakTracker {
    /// Starts from the peaks in the live's record.
    pub(super) fn new(told: Peaks) -> Self {
        Self { viewers: AtomicU64::new(told.viewers), fans: AtomicU64::new(told.fans), told: Mutex::new(told) }
    }

    pub(super) fn note(&self, Figures { viewers, fans }: Figures) {
        self.viewers.fetch_max(viewers, Ordering::Relaxed);
        self.fans.fetch_max(fans, Ordering::Relaxed);
    }

    pub(super) fn highest(&self) -> Peaks {
        Peaks { viewers: self.viewers.load(Ordering::Relaxed), fans: self.fans.load(Ordering::Relaxed) }
    }

    pub(super) fn note_told(&self, peaks: Peaks) {
        *self.told.lock() = peaks;
    }

    pub(super) fn has_news(&self) -> bool {
        let told = *self.told.lock();
        told.max(self.highest()) != told
    }
}
