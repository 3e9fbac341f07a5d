//! The fans of a room whose attendance the store does not have yet: fans whom the flusher is about
//! to add to the set of fans, and fans for whom a part of the store was away. Never awaits.

use std::collections::HashSet;

use parking_lot::Mutex;

use crate::base::ids::UserId;
use crate::store::MAX_BATCH;

/// The most waiting fans of one slice. While a part of the store is away, further fans get no
/// record.
const MAX_WAITING: usize = 65_536;

/// The fans who wait for their record, by slice. In a live without attendance no fan waits.
#[derive(Debug)]
pub struct Unrecorded(Box<[Mutex<HashSet<UserId>>]>);

impl Unrecorded {
    /// Without fans, for this number of slices; zero for a live without attendance.
    pub(super) fn new(slices: u32) -> Self {
        Self((0..slices).map(|_| Mutex::default()).collect())
    }

    /// Queues these fans of the slice at this place.
    pub fn add(&self, place: usize, fans: &[UserId]) {
        let Some(waiting) = self.0.get(place) else {
            return;
        };
        let mut waiting = waiting.lock();
        let left = MAX_WAITING.saturating_sub(waiting.len());
        waiting.extend(fans.iter().take(left).cloned());
    }

    /// Takes up to [`MAX_BATCH`] fans to record now.
    pub fn take(&self, place: usize) -> Vec<UserId> {
        let Some(waiting) = self.0.get(place) else {
            return Vec::new();
        };
        let mut waiting = waiting.lock();
        let some: Vec<UserId> = waiting.iter().take(MAX_BATCH).cloned().collect();
        for user in &some {
            waiting.remove(user);
        }
        if waiting.is_empty() {
            *waiting = HashSet::new();
        }
        some
    }

    /// The number of waiting fans of the slice at this place.
    pub fn waiting(&self, place: usize) -> usize {
        match self.0.get(place) {
            Some(waiting) => waiting.lock().len(),
            None => 0,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(|waiting| waiting.lock().is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn users(count: usize) -> Vec<UserId> {
        (0..count)
            .map(|n| UserId::parse(&format!("u{n}")).unwrap())
            .collect()
    }

    #[test]
    fn who_waits_is_taken_once_and_bounded() {
        let unrecorded = Unrecorded::new(2);
        unrecorded.add(1, &users(MAX_WAITING + 5));
        unrecorded.add(1, &users(3));
        assert_eq!(
            (unrecorded.waiting(0), unrecorded.waiting(1)),
            (0, MAX_WAITING)
        );
        let mut taken = 0;
        while unrecorded.waiting(1) > 0 {
            let some = unrecorded.take(1).len();
            assert!((1..=MAX_BATCH).contains(&some));
            taken += some;
        }
        assert_eq!(taken, MAX_WAITING);
        assert!(unrecorded.is_empty());
    }

    #[test]
    fn nobody_waits_in_a_live_without_attendance() {
        let unrecorded = Unrecorded::new(0);
        unrecorded.add(0, &users(1));
        assert!(unrecorded.is_empty() && unrecorded.take(0).is_empty());
    }
}
