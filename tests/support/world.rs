//! Owns the world of a story: gateways on one store, with short timings, and the people at their sockets.
//!
//! A gateway runs in the test's own process, or as the real program ([`Program`]) where a story kills, stops or drains
//! it. Both are a [`World`], so the same verbs work on both.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use rollcall::config::{Config, Secret};
use rollcall::gateway::{self, Gateway};
use serde_json::json;

use super::backend::Backend;
use super::dashboard::Dashboard;
use super::program::Program;
use super::redis_view::Redis;
use super::socket::Socket;
use super::viewer::Viewer;
use super::wait::{PATIENCE, same, throughout, until};

/// The longest that a story may take.
pub const STORY_DEADLINE: Duration = Duration::from_secs(90);

/// The timings of a story, short enough for many of them to run, long enough for a busy machine.
pub fn timings() -> Config {
    Config {
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        heartbeat: Duration::from_millis(400),
        timeout: Duration::from_millis(1_600),
        flush: Duration::from_millis(50),
        lease: Duration::from_millis(2_500),
        lease_refresh: Duration::from_millis(500),
        log: "off".to_owned(),
        ..Config::default()
    }
}

/// Leaves every setting as [`timings`] has it.
pub fn as_it_is(_: &mut Config) {}

/// A gateway, and the store that it and its peers share.
pub struct World {
    /// Where the gateway listens.
    pub addr: SocketAddr,
    /// Its settings.
    pub config: Config,
    /// Its Redis; `None` with the memory store.
    pub redis: Option<Redis>,
    runs: Runs,
    backend: Backend,
}

enum Runs {
    Here(Gateway),
    Apart(Program),
}

impl World {
    /// A gateway on the memory store.
    pub async fn on_memory(tune: impl FnOnce(&mut Config)) -> Self {
        let mut config = timings();
        tune(&mut config);
        Self::here(config, None).await
    }

    /// A gateway on a redis-server of its own.
    pub async fn on_redis(tune: impl FnOnce(&mut Config)) -> Self {
        Self::beside(Redis::start().await, tune).await
    }

    /// A gateway on this Redis.
    pub async fn beside(redis: Redis, tune: impl FnOnce(&mut Config)) -> Self {
        let mut config = timings();
        config.redis = Some(Secret::new(redis.url()));
        tune(&mut config);
        Self::here(config, Some(redis)).await
    }

    /// The real program, a process of its own, on this Redis.
    pub async fn program(redis: Redis) -> Self {
        let mut config = timings();
        config.redis = Some(Secret::new(redis.url()));
        let program = Program::start(&config).await;
        let addr = program.addr;
        Self { addr, config, redis: Some(redis), runs: Runs::Apart(program), backend: Backend::at(addr) }
    }

    /// One more gateway with the same settings on the same Redis.
    pub async fn another_gateway(&self) -> Self {
        Self::here(self.config.clone(), self.redis.clone()).await
    }

    async fn here(config: Config, redis: Option<Redis>) -> Self {
        let gateway = gateway::start(config.clone()).await.expect("the gateway starts");
        let addr = gateway.addr();
        Self { addr, config, redis, runs: Runs::Here(gateway), backend: Backend::at(addr) }
    }

    /// Stops the gateway in good order; the store stays.
    pub async fn stop(self) {
        if let Runs::Here(gateway) = self.runs {
            gateway.stop().await;
        }
    }

    /// The process, of a gateway that is one.
    pub fn process(&mut self) -> &mut Program {
        match &mut self.runs {
            Runs::Apart(program) => program,
            Runs::Here(_) => panic!("this gateway runs in the test's own process"),
        }
    }

    // ------------------------------------------------------------------------------------------------- people

    /// A viewer at a socket of its own; called again: another device of the same user.
    pub async fn viewer(&self, user: &str) -> Viewer {
        self.person(user, "viewer", "").await
    }

    /// A streamer at a socket.
    pub async fn streamer(&self, user: &str) -> Viewer {
        self.person(user, "streamer", "").await
    }

    /// A back end at a socket.
    pub async fn service(&self) -> Viewer {
        self.person("service", "service", "").await
    }

    /// Anybody; `more` is added to the query, as in `&live_id=42`.
    pub async fn person(&self, user: &str, role: &str, more: &str) -> Viewer {
        let path = format!("/ws?user_id={user}&role={role}{more}");
        let connected = Socket::connect(self.addr, &path, &[]).await;
        let (socket, _) = connected.unwrap_or_else(|error| panic!("{path}: {error}"));
        Viewer::greeted(user, socket).await
    }

    /// A back end that watches a live.
    pub async fn dashboard(&self, live: &str) -> Dashboard {
        let mut dashboard = Dashboard::at(self.service().await);
        dashboard.watch(live).await;
        dashboard
    }

    /// Viewers `<prefix>0` to `<prefix><n-1>`, joined one after the other.
    pub async fn crowd(&self, prefix: &str, n: usize, live: &str) -> Vec<Viewer> {
        let mut crowd = Vec::with_capacity(n);
        for i in 0..n {
            let mut viewer = self.viewer(&format!("{prefix}{i}")).await;
            viewer.join(live).await;
            crowd.push(viewer);
        }
        crowd
    }

    /// The HTTP API.
    pub fn backend(&self) -> &Backend {
        &self.backend
    }

    /// The HTTP API at the internal address.
    pub fn admin(&self) -> Backend {
        match &self.runs {
            Runs::Here(gateway) => Backend::at(gateway.admin_addr().expect("an internal address")),
            Runs::Apart(_) => panic!("the internal address of a process is not known"),
        }
    }

    /// A live of streamer `s1`, opened by a back end.
    pub async fn open(&self, live: &str) {
        self.backend.open(live, "s1").await;
    }

    /// Makes users follow the streamer `s1`.
    pub async fn follow(&self, users: &[&str]) {
        for user in users {
            self.backend.follow(user, "s1").await;
        }
    }

    /// Makes users `<prefix>0` to `<prefix><n-1>` follow `s1`; with Redis the way the platform would, by key.
    pub async fn crowd_follows(&self, prefix: &str, n: usize) {
        let users: Vec<String> = (0..n).map(|i| format!("{prefix}{i}")).collect();
        if self.redis.is_none() {
            return self.follow(&users.iter().map(String::as_str).collect::<Vec<_>>()).await;
        }
        let mut words = vec!["ZADD", "followers:s1"];
        words.extend(users.iter().flat_map(|user| ["1", user.as_str()]));
        self.redis().ask(&words).await;
    }

    // -------------------------------------------------------------------------------------------------- store

    /// Its Redis.
    pub fn redis(&self) -> &Redis {
        self.redis.as_ref().expect("this story needs Redis")
    }

    /// The fans online: by key from Redis, through the API from the memory store.
    pub async fn fans_in_store(&self, live: &str) -> BTreeSet<String> {
        match &self.redis {
            Some(redis) => redis.fans(live).await,
            None => self.backend.fans(live).await,
        }
    }

    /// How many fans are online in the store.
    pub async fn card(&self, live: &str) -> u64 {
        match &self.redis {
            Some(redis) => redis.card(live).await,
            None => self.backend.fans(live).await.len() as u64,
        }
    }

    /// Waits until exactly these fans are in the store.
    pub async fn fans_become(&self, live: &str, fans: &[&str]) {
        self.fans_become_within(live, fans, PATIENCE).await;
    }

    /// Waits, no longer than this, until exactly these fans are in the store.
    pub async fn fans_become_within(&self, live: &str, fans: &[&str], within: Duration) {
        let wanted = set(fans);
        until(&format!("the fans of {live}"), within, || async {
            same(self.fans_in_store(live).await, wanted.clone())
        })
        .await;
    }

    /// Waits, no longer than this, until so many fans are in the store.
    pub async fn card_becomes(&self, live: &str, card: u64, within: Duration) {
        until(&format!("the number of fans of {live}"), within, || async { same(self.card(live).await, card) }).await;
    }

    /// For so long, exactly these fans are in the store.
    pub async fn fans_stay(&self, live: &str, fans: &[&str], span: Duration) {
        let wanted = set(fans);
        throughout(&format!("the fans of {live}"), span, || async {
            same(self.fans_in_store(live).await, wanted.clone())
        })
        .await;
    }

    /// Every key that has to do with a live.
    pub async fn keys_of(&self, live: &str) -> BTreeSet<String> {
        self.redis().keys(&format!("*{live}*")).await
    }

    /// Waits until the gateway says that it is ready (or not).
    pub async fn readyz_becomes(&self, status: u16) {
        until("/readyz", PATIENCE, || async { same(self.backend.get("/readyz").await.status, status) }).await;
    }

    /// Waits until a viewer's acks carry these figures.
    pub async fn acks_become(&self, viewer: &mut Viewer, fan: Option<bool>, viewers: u64, fans: u64) {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            let ack = viewer.heartbeat().await;
            if (ack.fan, ack.viewers, ack.fans) == (fan, viewers, fans) {
                return;
            }
            let wanted = json!({"fan": fan, "viewers": viewers, "fans": fans});
            assert!(tokio::time::Instant::now() < deadline, "{ack:?} instead of {wanted}");
            tokio::time::sleep(Duration::from_millis(150)).await;
        }
    }
}

fn set(users: &[&str]) -> BTreeSet<String> {
    users.iter().map(|&user| user.to_owned()).collect()
}

/// Runs one story with its deadline.
pub async fn within_deadline(story: impl Future<Output = ()>) {
    tokio::time::timeout(STORY_DEADLINE, Box::pin(story)).await.expect("the story ends before its deadline");
}

/// Makes two tests of a story, `on_memory` and `on_redis`. `tuned(|config| …)` in front changes its settings.
macro_rules! on_both_stores {
    ($(#[$doc:meta])* async fn $name:ident($world:ident) $story:block) => {
        on_both_stores! { $(#[$doc])* tuned($crate::support::world::as_it_is) async fn $name($world) $story }
    };
    ($(#[$doc:meta])* tuned($tune:expr) async fn $name:ident($world:ident) $story:block) => {
        $(#[$doc])*
        mod $name {
            #[allow(unused_imports)]
            use super::*;

            async fn story($world: $crate::support::world::World) $story

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_memory() {
                let world = $crate::support::world::World::on_memory($tune).await;
                $crate::support::world::within_deadline(story(world)).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_redis() {
                let world = $crate::support::world::World::on_redis($tune).await;
                $crate::support::world::within_deadline(story(world)).await;
            }
        }
    };
}

/// Makes a test of a story that needs Redis.
macro_rules! on_redis {
    ($(#[$doc:meta])* async fn $name:ident($world:ident) $story:block) => {
        on_redis! { $(#[$doc])* tuned($crate::support::world::as_it_is) async fn $name($world) $story }
    };
    ($(#[$doc:meta])* tuned($tune:expr) async fn $name:ident($world:ident) $story:block) => {
        $(#[$doc])*
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            let $world = $crate::support::world::World::on_redis($tune).await;
            $crate::support::world::within_deadline(async move $story).await;
        }
    };
}

pub(crate) use {on_both_stores, on_redis};
