//! Notes users as seen without a socket, for platforms that see HTTP requests only. A user is written at most once a
//! minute: within the minute, a further sign of life tells nothing new. The store sees to that over all gateways, and
//! is not asked where this gateway knows it.

use std::sync::Arc;
use std::time::Duration;

use moka::sync::Cache;

use crate::base::clock::{Clock, UnixMillis};
use crate::base::ids::UserId;
use crate::store::{Store, StoreResult};

/// For so long a user who was written is not written again.
const MINUTE: Duration = Duration::from_secs(60);

/// So many users are remembered as written; beyond that, some are written again.
const MOST: u64 = 1_000_000;

pub struct SeenUsers {
    store: Arc<dyn Store>,
    clock: Clock,
    written: Cache<UserId, ()>,
}

impl SeenUsers {
    pub fn new(store: Arc<dyn Store>, clock: Clock) -> Self {
        Self { store, clock, written: Cache::builder().max_capacity(MOST).time_to_live(MINUTE).build() }
    }

    /// Notes that the store was told to forget users, so that those of the last minute are written again.
    pub fn forget(&self) {
        self.written.invalidate_all();
    }

    /// Notes that these users are there now.
    pub async fn note(&self, users: Vec<UserId>) -> StoreResult<()> {
        let now = self.clock.unix();
        let new = users.into_iter().filter(|user| self.written.entry_by_ref(user).or_insert(()).is_fresh());
        let new: Vec<(UserId, UnixMillis)> = new.map(|user| (user, now)).collect();
        if new.is_empty() {
            return Ok(());
        }
        let noted = self.store.note_seen(&new, MINUTE).await;
        if noted.is_err() {
            new.iter().for_each(|(user, _)| self.written.invalidate(user));
        }
        noted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::memory::MemoryStore;
    use crate::store::{LastSeen, OnlineUsers};

    #[tokio::test]
    async fn a_user_is_written_once_a_minute() {
        let clock = Clock::start();
        let store = Arc::new(MemoryStore::new(clock));
        let seen = SeenUsers::new(store.clone(), clock);
        let users = |names: &[&str]| names.iter().map(|name| UserId::parse(name).unwrap()).collect::<Vec<_>>();
        seen.note(users(&["u1", "u1"])).await.unwrap();
        // Whoever writes the user once more brings the user back.
        store.forget_seen(users(&["u1"])[0].slice_index(64), UnixMillis::MAX).await.unwrap();
        seen.note(users(&["u1", "u2"])).await.unwrap();
        let known = store.presence_of(&users(&["u1", "u2"])).await.unwrap();
        assert_eq!((known[0].last_seen, known[1].last_seen.is_some()), (None, true));
        seen.forget();
        seen.note(users(&["u1"])).await.unwrap();
        assert!(store.presence_of(&users(&["u1"])).await.unwrap()[0].last_seen.is_some());
    }
}
