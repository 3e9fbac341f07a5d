//! Owns the world of a story: gateways on one store, with short timings, and the people at their
//! sockets.
//!
//! A gateway runs in the test's own process, or as the real program ([`Program`]) where a story
//! kills, stops or drains it. Both are a [`World`], so the same verbs work on both.

use std::net::SocketAddr;
use std::time::Duration;

use rollcall::base::secret::Secret;
use rollcall::config::Config;
use rollcall::gateway::{self, Gateway};

use super::backend::Backend;
use super::dashboard::Dashboard;
use super::link::Link;
use super::program::Program;
use super::redis_view::Redis;
use super::viewer::Viewer;
use super::wait::{PATIENCE, SLACK, same, until};

/// The timings of a story, short enough for many of them to run, long enough for a busy machine.
pub fn timings() -> Config {
    Config {
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        heartbeat: Duration::from_millis(400),
        timeout: Duration::from_millis(1_600),
        flush: Duration::from_millis(50),
        lease: Duration::from_millis(2_500),
        lease_refresh: Duration::from_millis(500),
        check_every: Duration::from_secs(2),
        // When a story loses Redis's data, the follow graph is lost too: answers of fan checks must
        // outlive the story.
        fan_ttl: Duration::from_secs(86_400),
        drain: Duration::ZERO,
        log: "off".to_owned(),
        ..Config::default()
    }
}

/// A gateway, and the store that it and its peers share.
pub struct World {
    /// Where the gateway listens.
    pub addr: SocketAddr,
    /// Its settings. They are many, and a story holds several worlds.
    pub config: Box<Config>,
    /// Its Redis; `None` with the memory store.
    pub redis: Option<Redis>,
    runs: Runs,
    pub(super) backend: Backend,
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

    /// A gateway that reaches this Redis over a link that the story controls.
    pub async fn over_a_link(redis: &Redis, tune: impl FnOnce(&mut Config)) -> (Self, Link) {
        let link = Link::to(redis.addr()).await;
        let url = Secret::new(link.url());
        let world = Self::beside(redis.clone(), |config| {
            config.redis = Some(url);
            tune(config);
        })
        .await;
        (world, link)
    }

    /// A gateway on a Redis that the story looks into by itself.
    pub async fn at(url: &str) -> Self {
        Self::at_tuned(url, |_| ()).await
    }

    /// The same with other settings.
    pub async fn at_tuned(url: &str, tune: impl FnOnce(&mut Config)) -> Self {
        let mut config = timings();
        config.redis = Some(Secret::new(url));
        tune(&mut config);
        Self::here(config, None).await
    }

    /// The real program, a process of its own, on this Redis.
    pub async fn program(redis: Redis) -> Self {
        Self::program_with(redis, |_| ()).await
    }

    /// The real program with other settings.
    pub async fn program_with(redis: Redis, tune: impl FnOnce(&mut Config)) -> Self {
        Self::apart(redis, async |config| Program::start(config).await, tune).await
    }

    /// The real program with a wall clock that is wrong by so much, as in `+1h`.
    pub async fn program_at(redis: Redis, offset: &str) -> Self {
        let start = async |config: &Config| Program::start_at(config, offset).await;
        Self::apart(redis, start, |_| ()).await
    }

    /// The real program, which logs in to this Redis as `user:password`.
    pub async fn program_as(redis: Redis, login: &str) -> Self {
        let url = Secret::new(format!("redis://{login}@{}", redis.addr()));
        Self::program_with(redis, |config| config.redis = Some(url)).await
    }

    async fn apart(
        redis: Redis,
        start: impl AsyncFnOnce(&Config) -> Program,
        tune: impl FnOnce(&mut Config),
    ) -> Self {
        let mut config = timings();
        config.redis = Some(Secret::new(redis.url()));
        tune(&mut config);
        let program = start(&config).await;
        let addr = program.addr;
        Self {
            addr,
            config: config.into(),
            redis: Some(redis),
            runs: Runs::Apart(program),
            backend: Backend::at(addr),
        }
    }

    /// One more gateway with the same settings on the same Redis, which hears what the others say.
    pub async fn another_gateway(&self) -> Self {
        let before = self.listening("gateways").await;
        let other = Self::here((*self.config).clone(), self.redis.clone()).await;
        until("the gateway hears the others", PATIENCE, async || {
            let now = self.listening("gateways").await;
            if now > before { Ok(()) } else { Err(now) }
        })
        .await;
        other
    }

    /// From now on this gateway walks over the lives that it does not hold, as long as it runs.
    pub async fn takes_the_sweepers_turn(&self) {
        let me = self.gateway_id().await;
        let turn = format!("{}rollcall:sweeper", self.config.key_prefix);
        self.redis().ask(&["SET", &turn, &me]).await;
    }

    /// Waits until so many gateways hear what is said of a live.
    pub async fn live_is_heard_by(&self, live: &str, gateways: u64) {
        until("the gateways listen to the live", PATIENCE, async || {
            same(
                self.listening(&format!("{{{}live:{live}}}", self.config.key_prefix))
                    .await,
                gateways,
            )
        })
        .await;
    }

    /// The gateway's id of now.
    pub async fn gateway_id(&self) -> String {
        self.service().await.welcome["gateway_id"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    /// Which opening of a live it is.
    pub async fn epoch(&self, live: &str) -> u64 {
        self.backend.live(live).await["epoch"]
            .as_u64()
            .expect("an epoch")
    }

    /// How many gateways hear this channel.
    async fn listening(&self, channel: &str) -> u64 {
        let channel = format!("{}rollcall:{channel}", self.config.key_prefix);
        let said = self.redis().ask(&["PUBSUB", "SHARDNUMSUB", &channel]).await;
        said[1].as_u64().unwrap_or(0)
    }

    async fn here(config: Config, redis: Option<Redis>) -> Self {
        let gateway = gateway::start(config.clone())
            .await
            .expect("the gateway starts");
        let addr = gateway.addr();
        Self {
            addr,
            config: config.into(),
            redis,
            runs: Runs::Here(gateway),
            backend: Backend::at(addr),
        }
    }

    /// Stops the gateway in good order; the store stays.
    pub async fn stop(self) {
        if let Runs::Here(gateway) = self.runs {
            gateway.stop().await;
        }
    }

    /// Makes the gateway read its files again, as SIGHUP does.
    pub async fn reload(&self) {
        match &self.runs {
            Runs::Here(gateway) => gateway.reload().await,
            Runs::Apart(program) => program.hang_up(),
        }
    }

    /// The process, of a gateway that is one.
    pub fn process(&mut self) -> &mut Program {
        match &mut self.runs {
            Runs::Apart(program) => program,
            Runs::Here(_) => panic!("this gateway runs in the test's own process"),
        }
    }

    // -------------------------------------------------------------------------------------- people

    /// A viewer at a socket of its own; called again: another device of the same user.
    pub async fn viewer(&self, user: &str) -> Viewer {
        self.person(user, "viewer", "").await
    }

    /// A viewer who has joined a live.
    pub async fn viewer_in(&self, user: &str, live: &str) -> Viewer {
        let mut viewer = self.viewer(user).await;
        viewer.join(live).await;
        viewer
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
        Viewer::connects(self.addr, user, &format!("&role={role}{more}")).await
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
            crowd.push(self.viewer_in(&format!("{prefix}{i}"), live).await);
        }
        crowd
    }

    /// Opens live 42 with the fans `u0` to `u<n-1>`, who are all in the store.
    pub async fn live_with_fans(&self, n: usize) -> Vec<Viewer> {
        self.open("42").await;
        self.crowd_follows("u", n).await;
        let crowd = self.crowd("u", n, "42").await;
        self.card_becomes("42", n as u64, PATIENCE).await;
        crowd
    }

    /// How long the fans of a dead gateway may stay in the store: its lease, and one round of the
    /// sweeper.
    pub fn sweep_bound(&self) -> Duration {
        self.config.lease + Duration::from_secs(2) + SLACK
    }

    /// A figure of the gateway; 0 before there is one.
    pub async fn metric(&self, name: &str) -> f64 {
        let text = self.backend().get("/metrics").await.is(200).text;
        let value = |line: &str| {
            line.strip_prefix(name)?
                .strip_prefix(' ')?
                .trim()
                .parse()
                .ok()
        };
        text.lines().find_map(value).unwrap_or(0.0)
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

    /// Makes users `<prefix>0` to `<prefix><n-1>` follow `s1`; with Redis the way the platform
    /// would, by key.
    pub async fn crowd_follows(&self, prefix: &str, n: usize) {
        let users: Vec<String> = (0..n).map(|i| format!("{prefix}{i}")).collect();
        if self.redis.is_none() {
            return self
                .follow(&users.iter().map(String::as_str).collect::<Vec<_>>())
                .await;
        }
        let mut words = vec!["ZADD", "followers:s1"];
        words.extend(users.iter().flat_map(|user| ["1", user.as_str()]));
        self.redis().ask(&words).await;
    }

    /// Makes these users follow `s1` the way the platform would, by key.
    pub async fn follow_as_the_platform(&self, users: &[&str]) {
        for user in users {
            self.redis().ask(&["ZADD", "followers:s1", "1", user]).await;
        }
    }
}
