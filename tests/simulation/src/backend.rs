//! The platform's back end: opens and closes lives over HTTP, at one gateway after the other until
//! one has done it.

use std::sync::Arc;
use std::time::Duration;

use axum::http::Method;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use crate::crowd::{Mode, derived};
use crate::expectation::{Live, User};
use crate::world::World;

/// For how long it tries.
const PATIENCE: Duration = Duration::from_secs(120);

/// The back end does something each so often, on average, in seconds.
const PACE: f64 = 30.0;

/// The back end looks so often whether its live is still there.
const LOOK: Duration = Duration::from_secs(10);

async fn everybody_goes_home(mode: &mut watch::Receiver<Mode>) {
    // The sender lives as long as the world.
    let _ = mode.wait_for(|mode| *mode == Mode::GoHome).await;
}

pub(crate) struct SimulatedBackend {
    world: Arc<World>,
    rng: StdRng,
}

impl SimulatedBackend {
    pub(crate) fn new(world: &Arc<World>, live: Live) -> Self {
        let rng = StdRng::seed_from_u64(derived(world.plan.seed, &format!("back end {live}")));
        Self {
            world: world.clone(),
            rng,
        }
    }

    /// Runs one live: it is open most of the time, until everybody goes home.
    pub(crate) async fn run(mut self, live: Live) {
        let mut mode = self.world.crowd.mode.subscribe();
        if !self.open(live).await {
            return;
        }
        loop {
            let wait = -PACE * (1.0 - self.rng.random::<f64>()).ln();
            tokio::select! {
                biased;
                () = everybody_goes_home(&mut mode) => {
                    self.close(live).await;
                    return;
                }
                () = self.is_lost(live) => {
                    if !self.open(live).await {
                        return;
                    }
                    continue;
                }
                () = sleep(Duration::from_secs_f64(wait)) => {}
            }
            if *mode.borrow() != Mode::Wander {
                continue;
            }
            if self.rng.random_bool(0.7) {
                self.moderate(live).await;
                continue;
            }
            if !self.close(live).await {
                return;
            }
            sleep(Duration::from_millis(self.rng.random_range(1..8_000))).await;
            if !self.open(live).await {
                return;
            }
        }
    }

    /// Waits until the store has lost the live, and no gateway is left that knew it. Nobody but the
    /// back end can open it again.
    async fn is_lost(&self, live: Live) {
        let mut looks_without = 0;
        while looks_without < 2 {
            sleep(LOOK).await;
            looks_without = if self.is_unknown(live) {
                looks_without + 1
            } else {
                0
            };
        }
    }

    fn is_unknown(&self, live: Live) -> bool {
        let world = &self.world;
        let mut gateways = 0..world.plan.gateways;
        world.plan.loses_data()
            && !world
                .network
                .truth
                .records()
                .contains_key(&world.live_id(live))
            && gateways.all(|gateway| world.figures(gateway, live).is_none())
    }

    async fn open(&mut self, live: Live) -> bool {
        let slices = 1 << self.rng.random_range(0..3);
        let attends = self.rng.random_bool(0.5);
        let streamer = self.world.streamer_id(live).to_string();
        let body = json!({"streamer_id": streamer, "slices": slices, "attendance": attends});
        self.world.truth().lives[live].changes = true;
        let Some(mut opened) = self.ask(&Method::PUT, live, "", &body).await else {
            return false;
        };
        if self.has_closed(live, &opened) {
            // Older data came back, and with it an opening that is over. It will be closed once
            // more.
            if !self.world.plan.loses_data() {
                self.world.found(format!(
                    "l{live} is open again in epoch {}, which is closed",
                    opened["epoch"]
                ));
            }
            let which = format!("?epoch={}", opened["epoch"]);
            self.ask(&Method::DELETE, live, &which, &Value::Null).await;
            let Some(again) = self.ask(&Method::PUT, live, "", &body).await else {
                return false;
            };
            opened = again;
        }
        let epoch = opened["epoch"].as_u64();
        let slices = opened["slices"].as_u64().unwrap_or(1) as u32;
        let mut truth = self.world.truth();
        let there = &mut truth.lives[live];
        (there.epoch, there.slices, there.changes) = (epoch, slices, false);
        there.opened = Some(Instant::now());
        there.forgotten = None;
        there.was_entered = false;
        there.attends = opened["attendance"] == true;
        there.epochs.extend(epoch.map(|epoch| (epoch, false)));
        true
    }

    /// Whether the back end has closed that opening already.
    fn has_closed(&self, live: Live, opened: &Value) -> bool {
        let epoch = opened["epoch"].as_u64().unwrap_or_default();
        self.world.truth().lives[live].epochs.get(&epoch) == Some(&true)
    }

    async fn close(&mut self, live: Live) -> bool {
        let epoch = {
            let mut truth = self.world.truth();
            truth.lives[live].changes = true;
            truth.lives[live].epoch.take()
        };
        let which = epoch.map_or_else(String::new, |epoch| format!("?epoch={epoch}"));
        if self
            .ask(&Method::DELETE, live, &which, &Value::Null)
            .await
            .is_none()
        {
            return false;
        }
        let now = Instant::now();
        let mut truth = self.world.truth();
        let there = &mut truth.lives[live];
        there.changes = false;
        there.banned.clear();
        there.epochs.extend(epoch.map(|epoch| (epoch, true)));
        truth.lives[live]
            .expectations
            .values_mut()
            .for_each(|expectation| expectation.closed(now));
        true
    }

    /// Bans somebody, or has somebody follow the streamer or end it.
    async fn moderate(&mut self, live: Live) {
        let user: User = self
            .rng
            .random_range(0..self.world.plan.people.max(1) as u32);
        let gateway = self.rng.random_range(0..self.world.plan.gateways);
        let world = self.world.clone();
        let user_id = world.user_id(user);
        if self.rng.random_bool(0.5) {
            let path = format!("/v1/lives/{}/bans/{user_id}", world.live_id(live));
            let ban = Duration::from_secs(self.rng.random_range(10..60));
            let epoch = world.crowd.epoch(live);
            let body = json!({"ban_s": ban.as_secs()});
            world.crowd.removing(user, live);
            let asked = Instant::now();
            let answer = world.http(gateway, Method::PUT, &path, &body).await;
            let now = Instant::now();
            let mut truth = world.truth();
            let there = &mut truth.lives[live];
            if answer.is_some_and(|(status, _)| status == 200)
                && epoch.is_some()
                && there.epoch == epoch
            {
                // It began between the question and the answer.
                there.banned.insert(user, (now, asked + ban));
            }
        } else {
            let path = format!("/v1/users/{user_id}/following/{}", world.streamer_id(live));
            let follows = !world.is_fan(user, live);
            let method = if follows { Method::PUT } else { Method::DELETE };
            world.follows(user, live, follows);
            // Until it has an answer, nobody knows.
            for _ in 0..200 {
                let answer = world
                    .http(gateway, method.clone(), &path, &Value::Null)
                    .await;
                world.follows(user, live, follows);
                if answer.is_some_and(|(status, _)| status < 300) {
                    return;
                }
                sleep(Duration::from_millis(500)).await;
            }
            world.found(format!("{method} of {path} was not done"));
        }
    }

    async fn ask(
        &mut self,
        method: &Method,
        live: Live,
        query: &str,
        body: &Value,
    ) -> Option<Value> {
        let world = self.world.clone();
        let mut query = query;
        let began = Instant::now();
        let mut last = None;
        while began.elapsed() < PATIENCE {
            let gateway = self.rng.random_range(0..world.plan.gateways);
            let path = format!("/v1/lives/{}{query}", world.live_id(live));
            match world.http(gateway, method.clone(), &path, body).await {
                Some((status, answer)) if (200..300).contains(&status) => {
                    world
                        .trace
                        .tell(Some(gateway), &format!("{method} l{live}"));
                    return Some(answer);
                }
                // The store lost everything while no gateway knew the live, or has an older opening
                // of it, which is closed in place of the lost one.
                Some((404 | 409, answer))
                    if *method == Method::DELETE && world.plan.loses_data() =>
                {
                    if query.is_empty() {
                        return Some(answer);
                    }
                    query = "";
                }
                Some(answer) => last = Some(answer),
                None => {}
            }
            sleep(Duration::from_millis(300)).await;
        }
        world.found(format!(
            "{method} of l{live} was not done in {PATIENCE:?}: {last:?}"
        ));
        None
    }
}
