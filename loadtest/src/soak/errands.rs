//! What callers of the HTTP API do, each time with a user or a live that was never there before:
//! follow and unfollow, ban and lift, remove, write a room's info, read, and open a live of their
//! own that closes soon.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{anyhow, ensure};
use rand::RngExt;
use rand::rngs::StdRng;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::guest::Guest;
use crate::chaos::backend::Backend;
use crate::chaos::run_state::RunState;
use simulation::expectation::Live;

/// Another gateway has heard of a lifted ban within this time.
const TOLD_WITHIN: Duration = Duration::from_secs(15);
const RETRY_DELAY: Duration = Duration::from_millis(250);
const POP_UP_GUESTS: usize = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Errand {
    Follow,
    Ban,
    Remove,
    Info,
    Read,
    PopUp,
}

impl Errand {
    pub(super) const ALL: [Self; 6] = [
        Self::Follow,
        Self::Ban,
        Self::Remove,
        Self::Info,
        Self::Read,
        Self::PopUp,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Follow => "follow",
            Self::Ban => "ban",
            Self::Remove => "remove",
            Self::Info => "info",
            Self::Read => "read",
            Self::PopUp => "pop-up",
        }
    }
}

/// An errand in a live, with what it draws by chance.
pub(super) struct ErrandVisit<'a> {
    state: &'a RunState,
    http: &'a Backend,
    live: String,
    streamer: String,
    guest: String,
    /// Two gateways; the same one twice if there is no other.
    here: usize,
    there: usize,
    coin: bool,
    die: u32,
}

impl<'a> ErrandVisit<'a> {
    pub(super) fn new(
        state: &'a RunState,
        http: &'a Backend,
        live: Live,
        rng: &mut StdRng,
        name: &str,
    ) -> Self {
        let up: Vec<usize> = state.crowd.gateways_up().collect();
        let first = rng.random_range(0..up.len().max(1));
        Self {
            state,
            http,
            live: state.live_id(live),
            streamer: state.streamer_id(live),
            guest: format!("g{name}"),
            here: gateway_at(&up, first),
            there: gateway_at(&up, first + 1),
            coin: rng.random(),
            die: rng.random(),
        }
    }

    pub(super) async fn run(&self, errand: Errand) -> anyhow::Result<()> {
        match errand {
            Errand::Follow => self.follow().await,
            Errand::Ban => self.ban().await,
            Errand::Remove => self.remove().await,
            Errand::Info => self.info().await,
            Errand::Read => self.read().await,
            Errand::PopUp => self.pop_up().await,
        }
    }

    async fn follow(&self) -> anyhow::Result<()> {
        let mut guest = self.guest(self.here).await?;
        guest.is_no_fan().await?;
        let path = format!("/v1/users/{}/following/{}", self.guest, self.streamer);
        let asked = self.call(Method::PUT, &path, None).await;
        let followed = if asked.is_ok() {
            guest.is_fan().await
        } else {
            Ok(())
        };
        self.unfollow(&path).await?;
        asked?;
        followed?;
        guest.is_no_fan().await?;
        guest.leave().await
    }

    async fn ban(&self) -> anyhow::Result<()> {
        let guest = self.guest(self.here).await?;
        self.call(
            Method::PUT,
            &self.path("/bans"),
            Some(&json!({"ban_s": 600})),
        )
        .await?;
        guest.until_removed().await?;
        let refused = Guest::enter(self.target(self.here), &self.guest, &self.live)
            .await?
            .err();
        ensure!(
            refused.as_deref() == Some("banned"),
            "a banned user's join: {refused:?}"
        );
        self.call(Method::DELETE, &self.path("/bans"), None).await?;
        let deadline = Instant::now() + TOLD_WITHIN;
        loop {
            match Guest::enter(self.target(self.here), &self.guest, &self.live).await? {
                Ok(guest) => return guest.leave().await,
                Err(code) => ensure!(
                    Instant::now() < deadline,
                    "after the ban was lifted: {code}"
                ),
            }
            sleep(RETRY_DELAY).await;
        }
    }

    async fn remove(&self) -> anyhow::Result<()> {
        let guest = self.guest(self.here).await?;
        self.call(Method::DELETE, &self.path("/viewers"), None)
            .await?;
        guest.until_removed().await
    }

    async fn info(&self) -> anyhow::Result<()> {
        let info = json!({"said": self.guest, "pinned": self.die});
        self.call(
            Method::PUT,
            &format!("/v1/lives/{}/info", self.live),
            Some(&info),
        )
        .await
        .map(drop)
    }

    /// One of what a back end and a dashboard read.
    async fn read(&self) -> anyhow::Result<()> {
        let Self {
            live,
            streamer,
            die,
            ..
        } = self;
        let user = self.state.user_id(die % self.state.people);
        let paths = [
            format!("/v1/lives/{live}"),
            format!("/v1/lives/{live}/fans?limit=100"),
            format!("/v1/lives/{live}/viewers?limit=100"),
            format!("/v1/lives/{live}/fans/{user}"),
            format!("/v1/lives/{live}/history?step=60"),
            format!("/v1/lives/{live}/bans"),
            "/v1/lives?limit=100&sort=viewers".to_owned(),
            "/v1/online/count?window_s=300".to_owned(),
            format!("/v1/users/{user}/friends/online?window_s=600&of=following"),
            format!("/v1/users/{user}/feed?limit=20"),
            format!("/v1/users/{user}/following?limit=100"),
            format!("/v1/streamers/{streamer}/lives?limit=20"),
            format!("/v1/attendance?op=any&streamer_id={streamer}&days=7&limit=100"),
            format!("/v1/streamers/{streamer}/lives/open"),
            "/v1/online?limit=100".to_owned(),
            "/v1/gateway/slices".to_owned(),
        ];
        let path = &paths[*die as usize % paths.len()];
        self.call(Method::GET, path, None).await.map(drop)
    }

    /// A live that nobody knew opens, has some guests on all gateways, one of them a fan, and
    /// closes under them.
    async fn pop_up(&self) -> anyhow::Result<()> {
        let live = format!("pop-{}", self.guest);
        let streamer = format!("pop-s-{}", self.guest);
        let follow = format!("/v1/users/{}-0/following/{streamer}", self.guest);
        let asked = self.call(Method::PUT, &follow, None).await;
        let visited = if asked.is_ok() {
            self.pop_up_of(&live, &streamer).await
        } else {
            Ok(Vec::new())
        };
        self.unfollow(&follow).await?;
        asked?;
        for mut guest in visited? {
            guest.next("closed").await?;
            guest.leave().await?;
        }
        let state = self
            .call(Method::GET, &format!("/v1/lives/{live}"), None)
            .await?["state"]
            .take();
        ensure!(state == "closed", "a live that has closed is {state}");
        Ok(())
    }

    async fn pop_up_of(&self, live: &str, streamer: &str) -> anyhow::Result<Vec<Guest>> {
        let path = format!("/v1/lives/{live}");
        let body =
            json!({"streamer_id": streamer, "slices": 1 + self.die % 4, "attendance": self.coin});
        self.call(Method::PUT, &path, Some(&body)).await?;
        let guests = self.pop_up_visited(live).await;
        self.call(Method::DELETE, &path, None).await?;
        guests
    }

    async fn pop_up_visited(&self, live: &str) -> anyhow::Result<Vec<Guest>> {
        let mut guests = Vec::new();
        for number in 0..POP_UP_GUESTS {
            let at = if number % 2 == 0 {
                self.here
            } else {
                self.there
            };
            guests.push(
                Guest::join(self.target(at), &format!("{}-{number}", self.guest), live).await?,
            );
        }
        let fan = guests
            .first_mut()
            .ok_or_else(|| anyhow!("a live without guests"))?;
        fan.is_fan().await?;
        Ok(guests)
    }

    /// Whatever went wrong, the follow must not stay: a gateway that has just been restarted is
    /// asked again.
    async fn unfollow(&self, path: &str) -> anyhow::Result<()> {
        let deadline = Instant::now() + TOLD_WITHIN;
        loop {
            match self.call(Method::DELETE, path, None).await {
                Err(_) if Instant::now() < deadline => sleep(RETRY_DELAY).await,
                done => return done.map(drop),
            }
        }
    }

    async fn guest(&self, gateway: usize) -> anyhow::Result<Guest> {
        Guest::join(self.target(gateway), &self.guest, &self.live).await
    }

    /// The path of what belongs to the guest in the live.
    fn path(&self, what: &str) -> String {
        format!("/v1/lives/{}{what}/{}", self.live, self.guest)
    }

    fn target(&self, gateway: usize) -> &crate::target::Target {
        &self.state.targets[gateway]
    }

    /// Calls the other gateway, so that what it did must reach this one.
    async fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<Value> {
        let gateway: SocketAddr = self.target(self.there).address;
        self.http.call(&method, (gateway, path), body).await
    }
}

/// The gateway at a place of a ring.
fn gateway_at(ring: &[usize], place: usize) -> usize {
    ring.get(place % ring.len().max(1))
        .copied()
        .unwrap_or_default()
}
