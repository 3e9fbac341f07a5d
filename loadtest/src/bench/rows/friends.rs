//! Which friends are online: 1,000 followed, a million users online in one Redis, over HTTP. And
//! how many users are online. How long an answer takes, how many calls it costs, and whether any
//! call keeps Redis busy for long.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use fred::interfaces::{ClientLike, SortedSetsInterface};
use fred::types::{ClusterHash, CustomCommand, Value};
use reqwest::Method;
use rollcall::base::clock::unix_now;
use rollcall::base::ids::{LiveId, OnlineSet, PLATFORM_EPOCH, SliceId, USERS_SLICES, UserId};
use rollcall::base::metrics::Metrics;
use rollcall::base::secret::Secret;
use rollcall::store::LastSeen;
use rollcall::store::redis::RedisStore;

use super::holder::Holder;
use super::users::user;
use crate::bench::figures::{Figures, Who};
use crate::bench::servers::{Gateway, Redis};
use crate::bench::settings::Bench;

pub(super) const NAME: &str = "friends";
const FOLLOWED: usize = 1_000;
/// Of the followed users, this many are online. Half of the others were online within the window.
const FRIENDS_ONLINE: usize = 500;
const FRIENDS_BEFORE: usize = 250;
const CALLS: &str = "rollcall_store_calls_total";
/// Redis notes calls that take longer, in µs.
const SLOW: &str = "1000";

pub(super) async fn run(bench: &Bench, figures: &mut Figures) -> anyhow::Result<()> {
    let redis = Redis::start().await?;
    let gateway = bench
        .programs
        .gateway_with(&redis, None, &["--track-online", "on"])
        .await?;
    let users = bench.pick(1_000_000, 5_000);
    let store =
        RedisStore::connect(&Secret::new(redis.url()), Arc::new(Metrics::default())).await?;
    let live = LiveId::parse("42")?;
    let friends: HashSet<UserId> = friends_online().collect();
    let _holder = Holder::start(&store, PLATFORM_EPOCH, users_by_slice(users), |user| {
        if friends.contains(user) {
            vec![live.clone()]
        } else {
            Vec::new()
        }
    })
    .await?;
    seed(&redis, &store, users).await?;
    for _ in 0..bench.rounds.min(3) {
        let asked = Asked {
            gateway: &gateway,
            redis: &redis,
            times: bench.pick(2_000, 50),
        };
        let path = format!("/v1/users/{}/friends/online?limit=1000", user(0));
        let is_whole =
            |text: &str| text.matches("user_id").count() == FRIENDS_ONLINE + FRIENDS_BEFORE;
        asked
            .about(&path, is_whole)
            .await?
            .note(figures, "friends of 1,000 followed");
        let everybody = format!("\"online_users\":{users},");
        let count = asked
            .about("/v1/online/count?window_s=300", |text| {
                text.contains(&everybody)
            })
            .await?;
        count.note(figures, "users online, counted");
    }
    Ok(())
}

/// Users 0 to `users`, by their slices of the platform.
fn users_by_slice(users: usize) -> Vec<(SliceId, Vec<UserId>)> {
    let mut slices: Vec<(SliceId, Vec<UserId>)> = Vec::new();
    for index in 1..=USERS_SLICES {
        let slice = SliceId {
            set: OnlineSet::Users,
            index,
            of: USERS_SLICES,
        };
        slices.push((slice, Vec::new()));
    }
    for user in (0..users).map(user) {
        let place = user.slice_index(USERS_SLICES) as usize - 1;
        let (_, inside) = &mut slices[place];
        inside.push(user);
    }
    slices
}

/// The followed users who are online, in live 42.
fn friends_online() -> impl Iterator<Item = UserId> {
    (1..=FRIENDS_ONLINE).map(user)
}

/// Users 1 to `users` are online. User 0 follows some of them, and some who are not.
async fn seed(redis: &Redis, store: &RedisStore, users: usize) -> anyhow::Result<()> {
    let now = unix_now();
    let mut away: Vec<(UserId, u64)> = Vec::new();
    for n in 0..users / 4 {
        let seen = if n < FRIENDS_BEFORE {
            now
        } else {
            now - 3_600_000
        };
        away.push((user(users + n), seen));
    }
    for some in away.chunks(20_000) {
        store.note_seen(some, Duration::ZERO).await?;
    }
    let followed: Vec<UserId> = friends_online()
        .chain(away.into_iter().map(|(user, _)| user))
        .take(FOLLOWED)
        .collect();
    let edges: Vec<(f64, String)> = followed
        .iter()
        .map(|user| (1.0, user.to_string()))
        .collect();
    redis
        .client
        .zadd::<(), _, _>(
            format!("following:{}", user(0)),
            None,
            None,
            false,
            false,
            edges,
        )
        .await?;
    Ok(())
}

struct Asked<'a> {
    gateway: &'a Gateway,
    redis: &'a Redis,
    times: usize,
}

/// What the answers took.
struct Took {
    /// In ms, sorted.
    times: Vec<f64>,
    calls: f64,
    slow: f64,
}

impl Asked<'_> {
    /// Asks one question after the other.
    async fn about(&self, path: &str, is_right: impl Fn(&str) -> bool) -> anyhow::Result<Took> {
        let first = self.gateway.call(Method::GET, path, None).await?;
        ensure!(
            is_right(&first),
            "a wrong answer to {path}: {}",
            first.get(..300).unwrap_or(&first)
        );
        self.redis_does("CONFIG", &["SET", "slowlog-log-slower-than", SLOW])
            .await?;
        self.redis_does("SLOWLOG", &["RESET"]).await?;
        let before = self.gateway.metric(CALLS).await?;
        let mut times = Vec::with_capacity(self.times);
        for _ in 0..self.times {
            let began = Instant::now();
            self.gateway.call(Method::GET, path, None).await?;
            times.push(began.elapsed().as_secs_f64() * 1e3);
        }
        let calls = (self.gateway.metric(CALLS).await? - before) / self.times as f64;
        let slow = self
            .redis_does("SLOWLOG", &["LEN"])
            .await?
            .as_f64()
            .context("a number of slow calls")?;
        times.sort_by(f64::total_cmp);
        Ok(Took { times, calls, slow })
    }

    async fn redis_does(&self, command: &'static str, words: &[&str]) -> anyhow::Result<Value> {
        let command = CustomCommand::new_static(command, ClusterHash::FirstKey, false);
        Ok(self.redis.client.custom(command, words.to_vec()).await?)
    }
}

impl Took {
    fn note(&self, figures: &mut Figures, what: &str) {
        let slow_share = self.slow / (self.calls * self.times.len() as f64);
        for (measure, unit, value) in [
            ("p50", "ms", self.time_at(0.5)),
            ("p99", "ms", self.time_at(0.99)),
            ("calls to Redis", "", self.calls),
            ("calls over 1 ms in Redis, of all", "", slow_share),
        ] {
            let measure = format!("{what}: {measure}");
            figures.note(NAME, Who::Rollcall, (&measure, unit), value);
        }
    }

    /// The time at this share of the sorted times.
    fn time_at(&self, share: f64) -> f64 {
        self.times[((self.times.len() - 1) as f64 * share) as usize]
    }
}
