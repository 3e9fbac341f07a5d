//! Notes users as seen without a socket, for platforms that see HTTP requests only. A user is
//! written at most once a minute: within the minute, a further sign of life tells nothing new. The
//! store sees to that over all gateways. A gateway remembers the times that the store has, and does
//! not ask while it knows the answer. After every doubt it asks again, because the store may have
//! lost them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use moka::sync::Cache;

use crate::base::clock::{Clock, UnixMillis, millis};
use crate::base::ids::UserId;
use crate::store::{Store, StoreResult};

/// The shortest time between two writes about the same user.
pub const APART: Duration = Duration::from_secs(60);

/// For how many users a gateway remembers when they were written. It asks the store about others.
const MAX_REMEMBERED: u64 = 1_000_000;

pub struct SeenUsers {
    store: Arc<dyn Store>,
    clock: Clock,
    apart: Duration,
    /// How often [`Self::forget`] was called.
    forgotten: AtomicU64,
    /// The time that the store has, and the value of `forgotten` when the store was asked. With a
    /// value from before, it does not count.
    written: Cache<UserId, (UnixMillis, u64)>,
}

impl SeenUsers {
    pub fn new(store: Arc<dyn Store>, clock: Clock, apart: Duration) -> Self {
        let written = Cache::builder()
            .max_capacity(MAX_REMEMBERED)
            .time_to_live(apart)
            .build();
        Self {
            store,
            clock,
            apart,
            forgotten: AtomicU64::new(0),
            written,
        }
    }

    /// Notes that the store may have lost times, or was told to forget them, so that users of the
    /// last minute are written again.
    pub fn forget(&self) {
        self.forgotten.fetch_add(1, Ordering::AcqRel);
    }

    /// Forgets when a user was written: the user was erased, and is a new one from now on.
    pub fn forget_user(&self, user: &UserId) {
        self.written.invalidate(user);
    }

    /// Notes that these users are there now.
    pub async fn note(&self, users: Vec<UserId>) -> StoreResult<()> {
        let now = self.clock.unix();
        // This is read before the store is asked, which may lose its answer meanwhile.
        let forgotten = self.forgotten.load(Ordering::Acquire);
        let mut due: Vec<(UserId, UnixMillis)> = Vec::new();
        for user in users {
            if self.is_due(&user, now, forgotten) {
                due.push((user, now));
            }
        }
        if due.is_empty() {
            return Ok(());
        }
        let unchanged = self.store.note_seen(&due, self.apart).await?;
        for (user, at) in due.into_iter().chain(unchanged) {
            self.written.insert(user, (at, forgotten));
        }
        Ok(())
    }

    /// Whether a user is to be written now, as far as this gateway knows.
    fn is_due(&self, user: &UserId, now: UnixMillis, forgotten: u64) -> bool {
        match self.written.get(user) {
            Some((at, when)) if when == forgotten => at.saturating_add(millis(self.apart)) <= now,
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::memory::MemoryStore;
    use crate::store::{LastSeen, OnlineUsers};

    #[tokio::test]
    async fn a_user_is_written_once_a_minute_over_all_gateways() {
        let clock = Clock::start();
        let store = Arc::new(MemoryStore::new(clock));
        let apart = Duration::from_secs(3);
        let [here, there] = [(); 2].map(|()| SeenUsers::new(store.clone(), clock, apart));
        let users = |names: &[&str]| {
            names
                .iter()
                .map(|name| UserId::parse(name).unwrap())
                .collect::<Vec<_>>()
        };
        let last_seen =
            async |users: &[UserId]| store.presence_of(users).await.unwrap()[0].last_seen;
        let (u1, u2) = (users(&["u1"]), users(&["u2"]));
        here.note(users(&["u1", "u1"])).await.unwrap();
        // Whoever writes the user once more brings the user back.
        store
            .forget_seen(u1[0].slice_index(64), UnixMillis::MAX)
            .await
            .unwrap();
        here.note(users(&["u1", "u2"])).await.unwrap();
        assert_eq!(last_seen(&u1).await, None);
        here.forget_user(&u1[0]);
        here.note(u1.clone()).await.unwrap();
        assert!(last_seen(&u1).await.is_some(), "one user");
        store
            .forget_seen(u1[0].slice_index(64), UnixMillis::MAX)
            .await
            .unwrap();
        here.forget();
        here.note(u1.clone()).await.unwrap();
        assert!(last_seen(&u1).await.is_some(), "all");
        // The other gateway asks the store, and goes by the time that the store has.
        let first = last_seen(&u2).await.unwrap();
        while last_seen(&u2).await == Some(first) {
            there.note(u2.clone()).await.unwrap();
            tokio::time::sleep(Duration::from_millis(20)).await;
            assert!(
                clock.unix() < first + 60_000,
                "the user is never written again"
            );
        }
        let next = last_seen(&u2).await.unwrap();
        assert!(next >= first + 3_000, "after {} ms", next - first);
    }

    #[tokio::test]
    async fn an_answer_that_the_store_may_have_lost_since_does_not_count() {
        let clock = Clock::start();
        let store = Arc::new(MemoryStore::new(clock));
        let seen = SeenUsers::new(store.clone(), clock, APART);
        let user = UserId::parse("u1").unwrap();
        // The doubt comes between the store's answer and the moment when it is remembered.
        let asked = seen.forgotten.load(Ordering::Acquire);
        seen.forget();
        seen.written.insert(user.clone(), (clock.unix(), asked));
        seen.note(vec![user.clone()]).await.unwrap();
        assert!(
            store.presence_of(&[user]).await.unwrap()[0]
                .last_seen
                .is_some()
        );
    }
}
