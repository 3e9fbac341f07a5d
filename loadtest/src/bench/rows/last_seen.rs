//! What Redis needs to know of a user: when the user was seen last, in both forms and in one plain
//! sorted set, that the user is online, and in which live.

use std::time::Duration;

use fred::interfaces::{HashesInterface, SetsInterface, SortedSetsInterface};
use rollcall::base::clock::unix_now;
use rollcall::base::ids::{OnlineSet, USERS_SLICES, UserId};
use rollcall::config::SeenIds;
use rollcall::store::redis::RedisStore;
use rollcall::store::{LastSeen, MAX_BATCH};

use super::holder::{by_slice, platform_user as user};
use crate::bench::figures::Who;
use crate::bench::servers::Redis;
use crate::bench::settings::Bench;

/// The claim of a gateway on a user who is online.
const ONLINE: &str = " 1=";
/// The same if the user is in one live.
const IN_A_LIVE: &str = " 1=live-1234567";

pub(super) async fn run(bench: &mut Bench) -> anyhow::Result<()> {
    let users = bench.pick(1_000_000, 2_000);
    for _ in 0..bench.rounds().min(3) {
        for ids in [SeenIds::Text, SeenIds::U32] {
            let grown = Filled::new(users)
                .await?
                .grows(async |filled| filled.see(ids).await)
                .await?;
            let what = format!("last seen, ids as {}", ids.as_str());
            note(bench, Who::Rollcall, &what, grown, users);
        }
        let plain = Filled::new(users)
            .await?
            .grows(async |filled| filled.plain().await)
            .await?;
        note(bench, Who::Naive, "last seen, one plain ZSET", plain, users);
        let online = Filled::new(users).await?;
        let set = online.grows(async |filled| filled.online().await).await?;
        note(bench, Who::Rollcall, "online", set, users);
        for (what, claims) in [
            ("online, claimed by a gateway", ONLINE),
            ("in which live, on one gateway", IN_A_LIVE),
        ] {
            let grown = online
                .grows(async |filled| filled.claim(claims).await)
                .await?;
            note(bench, Who::Rollcall, what, grown, users);
        }
    }
    Ok(())
}

/// Notes the memory of one user, when all users take so many bytes.
fn note(bench: &mut Bench, who: Who, what: &str, bytes: f64, users: usize) {
    let measure = format!("{what}: Redis memory of a user, B");
    bench.note(who, &measure, bytes / users as f64);
}

/// A Redis of its own that the row fills with `users`.
struct Filled {
    redis: Redis,
    store: RedisStore,
    users: usize,
}

impl Filled {
    async fn new(users: usize) -> anyhow::Result<Self> {
        let redis = Redis::start().await?;
        Ok(Self {
            store: redis.store().await?,
            redis,
            users,
        })
    }

    /// By how much the memory of Redis grows.
    async fn grows(&self, fill: impl AsyncFn(&Self) -> anyhow::Result<()>) -> anyhow::Result<f64> {
        let before = self.redis.used_memory().await?;
        fill(self).await?;
        // Redis resizes its tables in the background.
        tokio::time::sleep(Duration::from_secs(1)).await;
        Ok(self.redis.used_memory().await? - before)
    }

    async fn see(&self, ids: SeenIds) -> anyhow::Result<()> {
        self.store.fix_seen_ids(ids).await?;
        let now = unix_now();
        let all: Vec<(UserId, u64)> = (0..self.users).map(|n| (user(n), now - n as u64)).collect();
        for some in all.chunks(20 * MAX_BATCH) {
            self.store.note_seen(some, Duration::ZERO).await?;
        }
        Ok(())
    }

    async fn plain(&self) -> anyhow::Result<()> {
        let now = unix_now();
        let all: Vec<(f64, String)> = (0..self.users)
            .map(|n| ((now - n as u64) as f64, user(n).to_string()))
            .collect();
        for some in all.chunks(MAX_BATCH) {
            self.redis
                .client
                .zadd::<(), _, _>("plain", None, None, false, false, some.to_vec())
                .await?;
        }
        Ok(())
    }

    /// Puts the users into the sets of their slices.
    async fn online(&self) -> anyhow::Result<()> {
        for (index, users) in self.slices() {
            let key = format!("online-users_slice{index}");
            for some in users.chunks(MAX_BATCH) {
                self.redis
                    .client
                    .sadd::<(), _, _>(&key, some.to_vec())
                    .await?;
            }
        }
        Ok(())
    }

    /// Writes the same claims on all users, as those of one gateway.
    async fn claim(&self, claims: &str) -> anyhow::Result<()> {
        for (index, users) in self.slices() {
            let key = format!("{{online-users_slice{index}}}:who");
            for some in users.chunks(MAX_BATCH) {
                let fields: Vec<(String, &str)> =
                    some.iter().map(|user| (user.clone(), claims)).collect();
                self.redis.client.hset::<(), _, _>(&key, fields).await?;
            }
        }
        Ok(())
    }

    fn slices(&self) -> impl Iterator<Item = (u32, Vec<String>)> {
        let everybody = (0..self.users).map(user);
        let slices = by_slice(&OnlineSet::Users, USERS_SLICES, everybody).into_iter();
        slices.map(|(slice, users)| (slice.index, users.iter().map(UserId::to_string).collect()))
    }
}
