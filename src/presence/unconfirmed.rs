//! The time since which a slice has changes that the store has not confirmed, for
//! `GET /v1/gateway/slices`. Pure; `now` comes in.

use tokio::time::Instant;

/// When the oldest unconfirmed change was made: among the changes that wait, and among those that
/// are being flushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Unconfirmed {
    waiting: Option<Instant>,
    in_flush: Option<Instant>,
}

impl Unconfirmed {
    pub fn note(&mut self, now: Instant) {
        self.waiting.get_or_insert(now);
    }

    /// A flush of the waiting changes begins.
    pub fn start(&mut self) {
        self.in_flush = earlier(self.in_flush, self.waiting.take());
    }

    /// The store confirmed the flush.
    pub fn confirm(&mut self) {
        self.in_flush = None;
    }

    /// The flush may not have reached the store: its changes wait again.
    pub fn put_back(&mut self) {
        self.waiting = earlier(self.in_flush.take(), self.waiting);
    }

    pub fn since(&self) -> Option<Instant> {
        earlier(self.in_flush, self.waiting)
    }
}

fn earlier(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    one.into_iter().chain(other).min()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_oldest_change_counts_until_its_flush_is_confirmed() {
        let first = Instant::now();
        let (second, third) = (
            first + Duration::from_millis(1),
            first + Duration::from_millis(2),
        );
        let mut slice = Unconfirmed::default();
        assert_eq!(slice.since(), None);
        slice.note(first);
        slice.note(second);
        assert_eq!(slice.since(), Some(first));
        slice.start();
        slice.note(third);
        assert_eq!(slice.since(), Some(first));
        slice.confirm();
        assert_eq!(
            slice.since(),
            Some(third),
            "it was made during the flush of the others"
        );
        slice.start();
        slice.confirm();
        assert_eq!(slice.since(), None);
    }

    #[test]
    fn a_change_whose_flush_failed_keeps_its_age() {
        let first = Instant::now();
        let mut slice = Unconfirmed::default();
        slice.note(first);
        slice.start();
        slice.note(first + Duration::from_millis(1));
        slice.put_back();
        assert_eq!(slice.since(), Some(first));
    }
}
