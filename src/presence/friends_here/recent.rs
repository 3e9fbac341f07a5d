//! The follows of viewers that this gateway read within the last seconds, and the reads under way:
//! a viewer who switches from live to live, or has several sockets, costs one read. A change of a
//! follow that this gateway hears of drops an earlier read.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::base::clock::{Millis, Moment};
use crate::base::ids::UserId;

/// How long a read stays in use, in ms.
const FRESH: Millis = 5_000;

/// The most follows kept. The gateway reads follows that do not fit again each time.
const MOST_KEPT: usize = 200_000;

/// The users whom a viewer follows; `partial` if these are not all.
#[derive(Debug, Clone)]
pub struct FollowsRead {
    pub users: Arc<[UserId]>,
    pub partial: bool,
}

/// One read of a viewer's follows that is under way. It ends with [`RecentFollows::end`] or
/// [`RecentFollows::give_up`].
#[derive(Debug)]
pub struct FollowsReading(u64);

/// The state of a viewer's follows.
#[derive(Debug)]
pub enum KnownFollows {
    Read(FollowsRead),
    /// Another caller is reading them.
    UnderWay,
    /// The caller must read them.
    Unknown(FollowsReading),
}

#[derive(Debug)]
enum RecentEntry {
    Reading(u64),
    Read(FollowsRead, Moment),
}

#[derive(Debug, Default)]
pub struct RecentFollows(Mutex<ReadFollows>);

#[derive(Debug, Default)]
struct ReadFollows {
    by_user: HashMap<UserId, RecentEntry>,
    /// Follows of all entries.
    follows: usize,
    /// The number of the last reading.
    last: u64,
    forgot_at: Moment,
}

impl RecentFollows {
    /// The state of a user's follows. A read begins if they are unknown and no other read is under
    /// way.
    pub fn get(&self, user: &UserId, now: Moment) -> KnownFollows {
        let mut kept = self.0.lock();
        match kept.by_user.get(user) {
            Some(RecentEntry::Read(read, at)) if now < *at + FRESH => {
                return KnownFollows::Read(read.clone());
            }
            Some(RecentEntry::Reading(_)) => return KnownFollows::UnderWay,
            _ => {}
        }
        kept.forget_old(now);
        kept.last += 1;
        let reading = kept.last;
        kept.put(user, RecentEntry::Reading(reading));
        KnownFollows::Unknown(FollowsReading(reading))
    }

    /// Keeps the result of a read, unless the follows changed since it began.
    pub fn end(&self, user: &UserId, reading: &FollowsReading, read: &FollowsRead, now: Moment) {
        let mut kept = self.0.lock();
        if kept.is_under_way(user, reading) {
            kept.take(user);
            if kept.follows + read.users.len() <= MOST_KEPT {
                kept.put(user, RecentEntry::Read(read.clone(), now));
            }
        }
    }

    /// Notes that a read failed.
    pub fn give_up(&self, user: &UserId, reading: &FollowsReading) {
        let mut kept = self.0.lock();
        if kept.is_under_way(user, reading) {
            kept.take(user);
        }
    }

    /// Notes that the follows of a user changed.
    pub fn forget(&self, user: &UserId) {
        self.0.lock().take(user);
    }

    /// Notes that the follows of any user may have changed.
    pub fn clear(&self) {
        let mut kept = self.0.lock();
        kept.by_user = HashMap::new();
        kept.follows = 0;
    }
}

impl ReadFollows {
    /// False if the follows changed since the read began.
    fn is_under_way(&self, user: &UserId, reading: &FollowsReading) -> bool {
        matches!(self.by_user.get(user), Some(RecentEntry::Reading(number)) if *number == reading.0)
    }

    fn put(&mut self, user: &UserId, entry: RecentEntry) {
        self.take(user);
        self.follows += size(&entry);
        self.by_user.insert(user.clone(), entry);
    }

    fn take(&mut self, user: &UserId) {
        if let Some(entry) = self.by_user.remove(user) {
            self.follows -= size(&entry);
        }
    }

    fn forget_old(&mut self, now: Moment) {
        if now < self.forgot_at + FRESH {
            return;
        }
        self.forgot_at = now;
        self.by_user.retain(|_, entry| match entry {
            RecentEntry::Reading(_) => true,
            RecentEntry::Read(_, at) => now < *at + FRESH,
        });
        self.by_user.shrink_to_fit();
        self.follows = self.by_user.values().map(size).sum();
    }
}

fn size(entry: &RecentEntry) -> usize {
    match entry {
        RecentEntry::Reading(_) => 0,
        RecentEntry::Read(read, _) => read.users.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock::moment;

    fn user(id: &str) -> UserId {
        UserId::parse(id).unwrap()
    }

    fn follows(count: usize) -> FollowsRead {
        FollowsRead {
            users: (0..count).map(|n| user(&n.to_string())).collect(),
            partial: false,
        }
    }

    fn begins(recent: &RecentFollows, id: &str, now: Moment) -> FollowsReading {
        let KnownFollows::Unknown(reading) = recent.get(&user(id), now) else {
            panic!("nothing is to be read of {id}")
        };
        reading
    }

    fn known(recent: &RecentFollows, id: &str, now: Moment) -> usize {
        let KnownFollows::Read(read) = recent.get(&user(id), now) else {
            panic!("the follows of {id} are not known")
        };
        read.users.len()
    }

    fn reads(recent: &RecentFollows, id: &str, count: usize, now: Moment) {
        let reading = begins(recent, id, now);
        recent.end(&user(id), &reading, &follows(count), now);
    }

    #[test]
    fn what_was_read_is_used_for_some_seconds() {
        let recent = RecentFollows::default();
        reads(&recent, "u1", 3, moment(10));
        assert_eq!(known(&recent, "u1", moment(FRESH + 9)), 3);
        begins(&recent, "u1", moment(FRESH + 10));
        begins(&recent, "u2", moment(10));
    }

    #[test]
    fn what_is_being_read_is_not_read_by_another() {
        let recent = RecentFollows::default();
        let reading = begins(&recent, "u1", moment(0));
        reads(&recent, "u2", 3, moment(3 * FRESH));
        assert!(matches!(
            recent.get(&user("u1"), moment(3 * FRESH)),
            KnownFollows::UnderWay
        ));
        recent.end(&user("u1"), &reading, &follows(3), moment(3 * FRESH));
        assert_eq!(known(&recent, "u1", moment(3 * FRESH)), 3);
        let failed = begins(&recent, "u1", moment(4 * FRESH));
        recent.give_up(&user("u1"), &failed);
        reads(&recent, "u1", 4, moment(4 * FRESH));
        recent.give_up(&user("u1"), &failed);
        assert_eq!(known(&recent, "u1", moment(4 * FRESH)), 4);
    }

    #[test]
    fn a_change_drops_what_was_read_and_what_is_being_read() {
        let recent = RecentFollows::default();
        reads(&recent, "u1", 3, moment(0));
        recent.forget(&user("u1"));
        let first = begins(&recent, "u1", moment(1));
        recent.forget(&user("u1"));
        let second = begins(&recent, "u1", moment(2));
        recent.end(&user("u1"), &first, &follows(3), moment(3));
        assert!(matches!(
            recent.get(&user("u1"), moment(3)),
            KnownFollows::UnderWay
        ));
        recent.clear();
        recent.end(&user("u1"), &second, &follows(3), moment(4));
        begins(&recent, "u1", moment(4));
    }

    #[test]
    fn so_much_is_kept_and_no_more() {
        let recent = RecentFollows::default();
        for n in 0..50 {
            reads(&recent, &n.to_string(), 5_000, moment(0));
        }
        assert_eq!(recent.0.lock().follows, MOST_KEPT);
        reads(&recent, "49", 5_000, moment(FRESH));
        assert_eq!(known(&recent, "49", moment(FRESH)), 5_000);
        assert_eq!(recent.0.lock().by_user.len(), 1);
    }
}
