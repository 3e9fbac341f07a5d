//! Whom viewers follow, as it was read within the last seconds: a viewer who switches from live to live, or has several
//! sockets, costs one read. A change of a follow that this gateway hears of drops what was read before it.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::base::clock::Millis;
use crate::base::ids::UserId;

/// How long what was read is used, in ms.
const FRESH: Millis = 5_000;

/// So many follows are kept at most. What does not fit is read again each time.
const MOST_KEPT: usize = 200_000;

/// Whom a viewer follows, and whether those are not all.
#[derive(Debug, Clone)]
pub struct FollowsRead {
    pub users: Arc<[UserId]>,
    pub partial: bool,
}

/// One read of a viewer's follows that is under way.
#[derive(Debug)]
pub struct Reading(u64);

#[derive(Debug)]
enum Entry {
    Reading(u64),
    Read(FollowsRead, Millis),
}

#[derive(Debug, Default)]
pub struct RecentFollows(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    by_user: HashMap<UserId, Entry>,
    /// Follows of all entries.
    follows: usize,
    /// The number of the last reading.
    last: u64,
    forgot_at: Millis,
}

impl RecentFollows {
    pub fn get(&self, user: &UserId, now: Millis) -> Option<FollowsRead> {
        match self.0.lock().by_user.get(user)? {
            Entry::Read(read, at) if now < at + FRESH => Some(read.clone()),
            _ => None,
        }
    }

    /// Notes that a read begins.
    pub fn begin(&self, user: &UserId, now: Millis) -> Reading {
        let mut kept = self.0.lock();
        kept.forget_old(now);
        kept.last += 1;
        let reading = kept.last;
        kept.put(user, Entry::Reading(reading));
        Reading(reading)
    }

    /// Takes in what was read, unless the follows changed since the read began.
    pub fn end(&self, user: &UserId, reading: &Reading, read: &FollowsRead, now: Millis) {
        let mut kept = self.0.lock();
        let is_valid = matches!(kept.by_user.get(user), Some(Entry::Reading(number)) if *number == reading.0);
        if is_valid && kept.follows + read.users.len() <= MOST_KEPT {
            kept.put(user, Entry::Read(read.clone(), now));
        }
    }

    /// The user follows others by now.
    pub fn forget(&self, user: &UserId) {
        self.0.lock().take(user);
    }

    /// Anybody may follow others by now.
    pub fn clear(&self) {
        let mut kept = self.0.lock();
        kept.by_user = HashMap::new();
        kept.follows = 0;
    }
}

impl Kept {
    fn put(&mut self, user: &UserId, entry: Entry) {
        self.take(user);
        self.follows += size(&entry);
        self.by_user.insert(user.clone(), entry);
    }

    fn take(&mut self, user: &UserId) {
        if let Some(entry) = self.by_user.remove(user) {
            self.follows -= size(&entry);
        }
    }

    fn forget_old(&mut self, now: Millis) {
        if now < self.forgot_at + FRESH {
            return;
        }
        self.forgot_at = now;
        // A reading that failed is among them.
        self.by_user.retain(|_, entry| matches!(entry, Entry::Read(_, at) if now < *at + FRESH));
        self.by_user.shrink_to_fit();
        self.follows = self.by_user.values().map(size).sum();
    }
}

fn size(entry: &Entry) -> usize {
    match entry {
        Entry::Reading(_) => 0,
        Entry::Read(read, _) => read.users.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(id: &str) -> UserId {
        UserId::parse(id).unwrap()
    }

    fn follows(count: usize) -> FollowsRead {
        FollowsRead { users: (0..count).map(|n| user(&n.to_string())).collect(), partial: false }
    }

    fn reads(recent: &RecentFollows, id: &str, count: usize, now: Millis) {
        let reading = recent.begin(&user(id), now);
        recent.end(&user(id), &reading, &follows(count), now);
    }

    #[test]
    fn what_was_read_is_used_for_some_seconds() {
        let recent = RecentFollows::default();
        reads(&recent, "u1", 3, 10);
        assert_eq!(recent.get(&user("u1"), FRESH + 9).unwrap().users.len(), 3);
        assert!(recent.get(&user("u1"), FRESH + 10).is_none());
        assert!(recent.get(&user("u2"), 10).is_none());
    }

    #[test]
    fn a_change_drops_what_was_read_and_what_is_being_read() {
        let recent = RecentFollows::default();
        reads(&recent, "u1", 3, 0);
        recent.forget(&user("u1"));
        assert!(recent.get(&user("u1"), 1).is_none());
        let under_way = recent.begin(&user("u1"), 1);
        recent.forget(&user("u1"));
        recent.end(&user("u1"), &under_way, &follows(3), 2);
        assert!(recent.get(&user("u1"), 2).is_none());
        let under_way = recent.begin(&user("u1"), 3);
        recent.clear();
        recent.end(&user("u1"), &under_way, &follows(3), 4);
        assert!(recent.get(&user("u1"), 4).is_none());
    }

    #[test]
    fn so_much_is_kept_and_no_more() {
        let recent = RecentFollows::default();
        for n in 0..50 {
            reads(&recent, &n.to_string(), 5_000, 0);
        }
        assert_eq!(recent.0.lock().follows, MOST_KEPT);
        assert!(recent.get(&user("49"), 0).is_none());
        reads(&recent, "49", 5_000, FRESH);
        assert!(recent.get(&user("49"), FRESH).is_some());
        assert_eq!(recent.0.lock().by_user.len(), 1);
    }
}
