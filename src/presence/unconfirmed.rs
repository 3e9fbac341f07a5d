//! Owns since when a slice has changes that the store has not confirmed: the counts' pace asks, so that what is about
//! to be confirmed is told with the next counts and not with those after. Pure; `now` comes in.

use tokio::time::Instant;

/// When the oldest unconfirmed change of a slice was made: of those that wait, and of those whose turn it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Unconfirmed {
    waiting: Option<Instant>,
    in_turn: Option<Instant>,
}

impl Unconfirmed {
    /// Something changed.
    pub fn note(&mut self, now: Instant) {
        self.waiting.get_or_insert(now);
    }

    /// What waits has its turn.
    pub fn start(&mut self) {
        self.in_turn = earlier(self.in_turn, self.waiting.take());
    }

    /// What had its turn is confirmed.
    pub fn confirm(&mut self) {
        self.in_turn = None;
    }

    /// What had its turn may not have reached the store: it waits as before.
    pub fn put_back(&mut self) {
        self.waiting = earlier(self.in_turn.take(), self.waiting);
    }

    /// When the oldest change was made; `None` if all is confirmed.
    pub fn since(&self) -> Option<Instant> {
        earlier(self.in_turn, self.waiting)
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
    fn the_oldest_counts_until_its_turn_is_over() {
        let first = Instant::now();
        let (second, third) = (first + Duration::from_millis(1), first + Duration::from_millis(2));
        let mut slice = Unconfirmed::default();
        assert_eq!(slice.since(), None);
        slice.note(first);
        slice.note(second);
        assert_eq!(slice.since(), Some(first));
        slice.start();
        slice.note(third);
        assert_eq!(slice.since(), Some(first));
        slice.confirm();
        assert_eq!(slice.since(), Some(third), "it came while the others had their turn");
        slice.start();
        slice.confirm();
        assert_eq!(slice.since(), None);
    }

    #[test]
    fn what_was_not_confirmed_grows_no_younger() {
        let first = Instant::now();
        let mut slice = Unconfirmed::default();
        slice.note(first);
        slice.start();
        slice.note(first + Duration::from_millis(1));
        slice.put_back();
        assert_eq!(slice.since(), Some(first));
    }
}
