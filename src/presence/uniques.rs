//! The users of a room whom the store does not count among those who came yet. Never awaits.

use std::collections::HashSet;

use parking_lot::Mutex;
use xxhash_rust::xxh3::xxh3_64;

use crate::base::ids::UserId;
use crate::store::MAX_UNIQUES;

/// The most users of each kind who wait; while the store is away, further ones are not counted.
const MAX_WAITING: usize = 65_536;

/// Those who wait to be counted, by a hash.
#[derive(Debug, Default)]
pub struct Uniques(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    viewers: HashSet<u64>,
    fans: HashSet<u64>,
}

impl Uniques {
    pub(super) fn came(&self, user: &UserId) {
        put(&mut self.0.lock().viewers, [hash(user)]);
    }

    pub(super) fn came_as_fan(&self, user: &UserId) {
        put(&mut self.0.lock().fans, [hash(user)]);
    }

    /// Takes up to [`MAX_UNIQUES`] viewers and fans to count now; `None` if nobody waits.
    pub fn take(&self) -> Option<[Vec<u64>; 2]> {
        let mut waiting = self.0.lock();
        let viewers = take(&mut waiting.viewers, MAX_UNIQUES);
        let fans = take(&mut waiting.fans, MAX_UNIQUES - viewers.len());
        (!viewers.is_empty() || !fans.is_empty()).then_some([viewers, fans])
    }

    /// Puts those back who could not be counted.
    pub fn put_back(&self, viewers: &[u64], fans: &[u64]) {
        let mut waiting = self.0.lock();
        put(&mut waiting.viewers, viewers.iter().copied());
        put(&mut waiting.fans, fans.iter().copied());
    }

    pub fn is_empty(&self) -> bool {
        let waiting = self.0.lock();
        waiting.viewers.is_empty() && waiting.fans.is_empty()
    }
}

fn hash(user: &UserId) -> u64 {
    xxh3_64(user.as_str().as_bytes())
}

fn put(waiting: &mut HashSet<u64>, users: impl IntoIterator<Item = u64>) {
    let left = MAX_WAITING.saturating_sub(waiting.len());
    waiting.extend(users.into_iter().take(left));
}

fn take(waiting: &mut HashSet<u64>, most: usize) -> Vec<u64> {
    if waiting.len() <= most {
        // A room that has settled keeps no memory for this.
        return std::mem::take(waiting).into_iter().collect();
    }
    let some: Vec<u64> = waiting.iter().take(most).copied().collect();
    for user in &some {
        waiting.remove(user);
    }
    some
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(n: usize) -> UserId {
        UserId::parse(&format!("u{n}")).unwrap()
    }

    #[test]
    fn everybody_is_taken_once_in_bounded_calls() {
        let uniques = Uniques::default();
        (0..2_500).chain(0..2_500).for_each(|n| uniques.came(&user(n)));
        (0..700).for_each(|n| uniques.came_as_fan(&user(n)));
        let (mut viewers, mut fans) = (HashSet::new(), HashSet::new());
        while let Some([some_viewers, some_fans]) = uniques.take() {
            assert!((1..=MAX_UNIQUES).contains(&(some_viewers.len() + some_fans.len())));
            viewers.extend(some_viewers);
            fans.extend(some_fans);
        }
        assert_eq!((viewers.len(), fans.len(), uniques.is_empty()), (2_500, 700, true));
        assert!(fans.is_subset(&viewers), "a user has one hash");
        uniques.put_back(&[1, 2], &[1]);
        assert_eq!(uniques.take().map(|[viewers, fans]| (viewers.len(), fans.len())), Some((2, 1)));
    }

    #[test]
    fn as_many_wait_as_may() {
        let uniques = Uniques::default();
        (0..MAX_WAITING + 10).for_each(|n| uniques.came(&user(n)));
        assert_eq!(uniques.0.lock().viewers.len(), MAX_WAITING);
    }
}
