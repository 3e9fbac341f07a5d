//! The removals that a room knows of: the number of the last one that it carried out, and the users
//! who may not join, each with the end of the ban. Every join asks here, so no join waits for the
//! store. A new room starts with the active bans.
//!
//! The store says how long a ban still lasts; this gateway counts that time on its own clock.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::base::clock::{Moment, millis};
use crate::base::ids::UserId;

/// The bans of a live, as the store has them.
#[derive(Debug, Clone, Default)]
pub struct KnownBans {
    /// The number of the last removal that the bans include.
    pub last: u64,
    /// Each banned user, with the time that the ban still lasts.
    pub bans: Vec<(UserId, Duration)>,
}

#[derive(Debug, Default)]
pub struct Bans {
    last: AtomicU64,
    /// Whether there may be bans. Most lives have none, and their joins then take no lock.
    any: AtomicBool,
    until: Mutex<HashMap<UserId, Moment>>,
    /// Held during a read of the bans from the store: an older read must not undo a newer one.
    catching_up: tokio::sync::Mutex<()>,
}

impl Bans {
    pub fn new(known: KnownBans, now: Moment) -> Self {
        let bans = Self::default();
        bans.replace(known, now);
        bans
    }

    /// The number of the last removal that this room carried out.
    pub fn last(&self) -> u64 {
        self.last.load(Ordering::Acquire)
    }

    pub fn advance(&self, to: u64) {
        self.last.fetch_max(to, Ordering::AcqRel);
    }

    /// How long a user's ban still lasts; `None` if the user may join.
    pub fn remaining(&self, user: &UserId, now: Moment) -> Option<Duration> {
        if !self.any.load(Ordering::Acquire) {
            return None;
        }
        let until = *self.until.lock().get(user)?;
        if until <= now {
            return None;
        }
        Some(Duration::from_millis(until.since(now)))
    }

    /// Bans a user for this long from `now` on; `None` lifts the ban.
    pub fn set(&self, user: &UserId, left: Option<Duration>, now: Moment) {
        self.change(|until| match left {
            Some(left) => {
                until.insert(user.clone(), now + millis(left));
            }
            None => {
                until.remove(user);
            }
        });
    }

    /// Replaces all bans by those that the caller read at `now`.
    pub fn replace(&self, known: KnownBans, now: Moment) {
        let bans = known
            .bans
            .into_iter()
            .map(|(user, left)| (user, now + millis(left)));
        self.change(|until| *until = bans.collect());
        self.advance(known.last);
    }

    /// Every active ban, with the time that it still lasts. Forgets the bans that have ended.
    pub fn active(&self, now: Moment) -> Vec<(UserId, Duration)> {
        self.forget_ended(now);
        self.until
            .lock()
            .iter()
            .map(|(user, until)| (user.clone(), Duration::from_millis(until.since(now))))
            .collect()
    }

    pub fn forget_ended(&self, now: Moment) {
        if self.any.load(Ordering::Acquire) {
            self.change(|until| until.retain(|_, until| *until > now));
        }
    }

    fn change(&self, change: impl FnOnce(&mut HashMap<UserId, Moment>)) {
        let mut until = self.until.lock();
        change(&mut until);
        self.any.store(!until.is_empty(), Ordering::Release);
    }

    /// Waits until no other task is reading removals of this live from the store and carrying them
    /// out.
    pub async fn lock_catch_up(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.catching_up.lock().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock::moment;

    fn user(id: &str) -> UserId {
        UserId::parse(id).unwrap()
    }

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn a_ban_ends_when_its_time_is_over_and_not_before() {
        let bans = Bans::new(
            KnownBans {
                last: 3,
                bans: vec![(user("u1"), ms(100))],
            },
            moment(1_000),
        );
        assert_eq!(bans.remaining(&user("u1"), moment(1_099)), Some(ms(1)));
        assert_eq!(bans.remaining(&user("u1"), moment(1_100)), None);
        assert_eq!(bans.remaining(&user("u2"), moment(1_000)), None);
        bans.forget_ended(moment(1_099));
        assert_eq!(bans.active(moment(1_050)), [(user("u1"), ms(50))]);
        bans.forget_ended(moment(1_100));
        assert!(bans.active(moment(1_000)).is_empty() && !bans.any.into_inner());
    }

    #[test]
    fn numbers_only_grow_and_the_last_change_of_a_users_ban_wins() {
        let bans = Bans::new(KnownBans::default(), moment(0));
        bans.set(&user("u1"), Some(Duration::MAX), moment(5));
        bans.advance(2);
        bans.advance(1);
        assert_eq!(bans.last(), 2);
        bans.set(&user("u1"), Some(ms(10)), moment(5));
        assert_eq!(bans.remaining(&user("u1"), moment(5)), Some(ms(10)));
        bans.set(&user("u1"), None, moment(6));
        assert_eq!(bans.remaining(&user("u1"), moment(6)), None);
        bans.replace(
            KnownBans {
                last: 9,
                bans: vec![(user("u2"), ms(1))],
            },
            moment(7),
        );
        assert_eq!(
            (bans.last(), bans.active(moment(7))),
            (9, vec![(user("u2"), ms(1))])
        );
    }
}
