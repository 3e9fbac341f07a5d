//! Random walks of users over three gateways: two devices, switches between lives and gateways,
//! leaves, lost networks, lost messages. Once all is quiet, every gateway shows the same figures,
//! and the right ones.

use std::collections::BTreeSet;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::json;
use tokio::time::Instant;

use crate::support::dashboard::{Counts, Dashboard, fans, viewers};
use crate::support::redis_view::Redis;
use crate::support::stores::story;
use crate::support::story::seed;
use crate::support::viewer::Viewer;
use crate::support::wait::{SLACK, same, until};
use crate::support::world::World;

const STEPS: usize = 1_000;
const USERS: usize = 30;
/// Users 0 to 19 follow the streamer.
const FOLLOWERS: usize = 20;
const LIVES: [&str; 2] = ["a", "b"];
/// The most sockets at a time.
const SOCKETS: usize = 60;

struct Walk {
    rng: StdRng,
    worlds: Vec<World>,
    /// Each person with the number of their gateway.
    people: Vec<(usize, Viewer)>,
}

impl Walk {
    fn any(&mut self, n: usize) -> usize {
        self.rng.random_range(0..n)
    }

    async fn step(&mut self) {
        let at = if self.people.is_empty() {
            None
        } else {
            Some(self.any(self.people.len()))
        };
        let live = LIVES[self.any(2)];
        match (self.any(100), at) {
            (0..40, _) if self.people.len() < SOCKETS => self.comes(live).await,
            // A switch to another live, or to another gateway. The user arrives there before
            // leaving here.
            (40..55, Some(at)) => drop(
                self.people[at]
                    .1
                    .ask(json!({"type": "join", "live_id": live}))
                    .await,
            ),
            (55..65, Some(at)) => {
                self.comes(live).await;
                self.people.swap_remove(at).1.close().await;
            }
            (65..72, Some(at)) => drop(self.people[at].1.ask(json!({"type": "leave"})).await),
            (72..86, Some(at)) => self.people.swap_remove(at).1.close().await,
            (86..93, Some(at)) => self.people.swap_remove(at).1.vanish(),
            (93..98, _) => {
                tokio::time::sleep(Duration::from_millis(self.rng.random_range(0..60))).await
            }
            (98..100, _) => drop(self.worlds[0].redis().say("CLIENT KILL TYPE pubsub").await),
            _ => {}
        }
    }

    async fn comes(&mut self, live: &str) {
        let (gateway, user) = (self.any(self.worlds.len()), self.any(USERS));
        let mut person = self.worlds[gateway].viewer(&format!("u{user}")).await;
        person.ask(json!({"type": "join", "live_id": live})).await;
        self.people.push((gateway, person));
    }

    /// The viewers of a live and its fans; each user counts once.
    fn truth(&self, live: &str) -> (u64, u64) {
        let here = self
            .people
            .iter()
            .filter(|(_, person)| person.seat.as_deref() == Some(live));
        let viewers: BTreeSet<_> = here.map(|(_, person)| &person.user).collect();
        let follows = |user: &str| user[1..].parse::<usize>().unwrap() < FOLLOWERS;
        let fans = viewers.iter().filter(|user| follows(user)).count();
        (viewers.len() as u64, fans as u64)
    }

    async fn is_exact_everywhere(&self, dashboards: &mut [(&str, Dashboard)]) {
        let config = &self.worlds[0].config;
        // A user who vanished stays for `timeout`, and the next refresh makes up for lost messages.
        let deadline =
            Instant::now() + config.timeout + config.lease_refresh + Duration::from_secs(1) + SLACK;
        for live in LIVES {
            let truth = self.truth(live);
            for world in &self.worlds {
                let left = deadline.saturating_duration_since(Instant::now());
                world.figures_become(live, truth, left).await;
            }
            for (_, dashboard) in dashboards
                .iter_mut()
                .filter(|(watched, _)| *watched == live)
            {
                // After a lost connection the figures are in doubt for a moment.
                let (viewers, fans) = (viewers(truth.0), fans(truth.1));
                let is_true = |counts: &Counts| {
                    counts.are(viewers, fans) && counts.json["quality"] == "exact"
                };
                dashboard.sees_that("the exact figures", is_true).await;
            }
        }
    }
}

async fn walk(n: u64) {
    let seed = seed(n);
    println!("seed {seed}");
    let first = World::on_redis(|config| {
        config.lease_refresh = Duration::from_millis(700);
        config.message_rate = 0;
    })
    .await;
    let worlds = vec![
        first.another_gateway().await,
        first.another_gateway().await,
        first,
    ];
    let mut walk = Walk {
        rng: StdRng::seed_from_u64(seed),
        worlds,
        people: Vec::new(),
    };
    walk.worlds[0].crowd_follows("u", FOLLOWERS).await;
    let mut dashboards = Vec::new();
    for live in LIVES {
        walk.worlds[0].backend().open_sliced(live, "s1", 2).await;
        for world in &walk.worlds {
            dashboards.push((live, world.dashboard(live).await));
        }
    }
    for _ in 0..2 {
        for _ in 0..STEPS / 2 {
            walk.step().await;
        }
        walk.is_exact_everywhere(&mut dashboards).await;
    }
    for (_, person) in walk.people.drain(..) {
        person.close().await;
    }
    walk.is_exact_everywhere(&mut dashboards).await;
}

#[test]
fn on_three_gateways() {
    story(walk(1));
}

/// A gateway that sends messages without having a lease counts only until the next look at the
/// leases.
#[test]
fn words_of_gateways_that_never_were_do_not_stay() {
    story(async {
        let world = World::beside(Redis::start().await, |_| ()).await;
        world.open("42").await;
        let mut dashboard = world.dashboard("42").await;
        let epoch = world.epoch("42").await;
        let _viewer = world.viewer_in("u1", "42").await;
        dashboard.sees(viewers(1), fans(0)).await;
        let word = json!({
            "v": 4, "gateway": "gw-ghost", "type": "counts", "epoch": epoch, "number": 1, "viewers": 5, "away": 5,
        });
        let word = &word.to_string();
        until("the word is heard", SLACK, || async {
            same(
                world
                    .redis()
                    .ask(&["SPUBLISH", "rollcall:{live:42}", word])
                    .await
                    .as_u64(),
                Some(1),
            )
        })
        .await;
        for away in [1, 0] {
            let what = format!("{away} are away");
            until(&what, SLACK, || async {
                same(
                    world.backend().live("42").await["away"].as_u64(),
                    Some(away),
                )
            })
            .await;
        }
        dashboard.sees_quality("exact").await;
    });
}
