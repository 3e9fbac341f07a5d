//! The sockets of each user on this gateway, so that a user who opens too many loses the oldest. A
//! table of pointers, some 14 bytes per socket: the user's id lies in the [`Conn`]. Only open
//! sockets are here, not seats that outlive their sockets.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::Arc;

use hashbrown::HashTable;
use parking_lot::Mutex;

use super::conn::{Conn, Signals};

/// Locks, so that sockets that open at the same time rarely wait for each other.
const SHARDS: u64 = 64;

#[derive(Debug)]
pub(crate) struct UserSockets {
    /// 0 is no limit; the table stays empty then.
    most: usize,
    hasher: RandomState,
    shards: Box<[Mutex<HashTable<Arc<Conn>>>]>,
}

impl UserSockets {
    /// A table for up to `most` sockets per user; 0 is no limit.
    pub(crate) fn new(most: u32) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self {
            most: most as usize,
            hasher: RandomState::new(),
            shards,
        }
    }

    /// Notes a new socket. If the user has too many now, signals the oldest one to close. True if
    /// so.
    pub(crate) fn admit(&self, conn: &Arc<Conn>) -> bool {
        if self.most == 0 {
            return false;
        }
        let hash = self.hash(conn);
        let mut table = self.shard(conn).lock();
        let mut others = 0;
        let mut oldest: Option<&Arc<Conn>> = None;
        for other in table.iter_hash(hash) {
            if other.identity.user != conn.identity.user {
                continue;
            }
            others += 1;
            let is_oldest = match oldest {
                Some(oldest) => age(other, conn) >= age(oldest, conn),
                None => true,
            };
            if is_oldest {
                oldest = Some(other);
            }
        }
        let is_full = others >= self.most;
        let crowded_out = if is_full { oldest.cloned() } else { None };
        table.insert_unique(hash, conn.clone(), |conn| self.hash(conn));
        // At once, not when its session has ended: a user who opens sockets faster than they end
        // must not fill the table.
        if let Some(oldest) = &crowded_out {
            remove(&mut table, hash, oldest);
        }
        drop(table);
        if let Some(oldest) = &crowded_out {
            oldest.signal(Signals::CROWDED_OUT);
        }
        is_full
    }

    /// Forgets a socket that ended.
    pub(crate) fn forget(&self, conn: &Arc<Conn>) {
        if self.most == 0 {
            return;
        }
        let mut table = self.shard(conn).lock();
        remove(&mut table, self.hash(conn), conn);
        // After a peak.
        if table.capacity() > 64 && table.len() < table.capacity() / 8 {
            let room = table.len() * 2;
            table.shrink_to(room, |conn| self.hash(conn));
        }
    }

    /// Seeded: no client can choose ids that meet in one place.
    fn hash(&self, conn: &Conn) -> u64 {
        self.hasher.hash_one(&conn.identity.user)
    }

    /// The table itself uses the other bits of the hash.
    fn shard(&self, conn: &Conn) -> &Mutex<HashTable<Arc<Conn>>> {
        &self.shards[(self.hash(conn) >> 32 & (SHARDS - 1)) as usize]
    }
}

/// The number of sessions that began after that of `other`, up to that of `conn`. Signed: a socket
/// that began after `conn` may have been admitted before it.
fn age(other: &Conn, conn: &Conn) -> i32 {
    other.socket_id().before(conn.socket_id()).cast_signed()
}

fn remove(table: &mut HashTable<Arc<Conn>>, hash: u64, conn: &Arc<Conn>) {
    if let Ok(there) = table.find_entry(hash, |other| Arc::ptr_eq(other, conn)) {
        there.remove();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock::moment;
    use crate::base::socket_id::SocketId;
    use crate::testing;

    fn conn(user: &str, session: u32) -> Arc<Conn> {
        Arc::new(Conn::new(testing::viewer(user), moment(0)).numbered(SocketId::numbered(session)))
    }

    fn must_go(conn: &Conn) -> bool {
        !conn.take(Signals::CROWDED_OUT).is_empty()
    }

    fn kept(sockets: &UserSockets) -> usize {
        sockets.shards.iter().map(|shard| shard.lock().len()).sum()
    }

    #[test]
    fn the_oldest_socket_of_a_user_goes_when_there_is_one_too_many() {
        let sockets = UserSockets::new(2);
        // The numbers of sessions begin again meanwhile.
        let conns = [10, 0, 20, 30].map(|later| conn("u1", (u32::MAX - 15).wrapping_add(later)));
        let others = [0, 1].map(|session| conn("u2", session));
        others
            .iter()
            .for_each(|other| assert!(!sockets.admit(other)));
        let crowded = conns.each_ref().map(|conn| sockets.admit(conn));
        assert_eq!(crowded, [false, false, true, true]);
        assert_eq!(
            conns.each_ref().map(|conn| must_go(conn)),
            [true, true, false, false]
        );
        assert!(!others.iter().any(|other| must_go(other)));
        assert_eq!(kept(&sockets), 4);
    }

    #[test]
    fn a_socket_that_ended_leaves_nothing_behind() {
        let sockets = UserSockets::new(1);
        let conns: Vec<_> = (0..50_000).map(|n| conn(&format!("u{n}"), n)).collect();
        assert!(!conns.iter().any(|conn| sockets.admit(conn)));
        conns.iter().for_each(|conn| sockets.forget(conn));
        let room: usize = sockets
            .shards
            .iter()
            .map(|shard| shard.lock().capacity())
            .sum();
        assert!(
            kept(&sockets) == 0 && room <= 64 * SHARDS as usize,
            "{} kept, room for {room}",
            kept(&sockets)
        );
        assert!(!sockets.admit(&conn("u7", 60_000)));
    }

    #[test]
    fn without_a_limit_nothing_is_kept() {
        let sockets = UserSockets::new(0);
        assert!(!(0..1_000).any(|n| sockets.admit(&conn("u1", n))));
        assert_eq!(kept(&sockets), 0);
    }
}
