//! Random walks: viewers come, swipe, leave, reconnect and lose the network while lives close and
//! open again and the connection to Redis breaks. Once all is quiet, the sets hold exactly the fans
//! whose clients were told that they are in the live.

use std::collections::BTreeSet;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::json;

use crate::support::link::Link;
use crate::support::redis_view::Redis;
use crate::support::stores::story;
use crate::support::story::seed;
use crate::support::viewer::Viewer;
use crate::support::wait::{PATIENCE, same, until};
use crate::support::world::World;

const USERS: usize = 12;
/// Users 0 to 7 follow the streamer.
const FOLLOWERS: usize = 8;
const LIVES: [&str; 2] = ["a", "b"];
const STEPS: usize = 250;

/// What may go wrong during a walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trouble {
    /// Lives are closed and opened again.
    Closes,
    /// Redis loses all its data.
    Losses,
}

struct Walk {
    rng: StdRng,
    /// The gateways, all on one store.
    worlds: Vec<World>,
    /// The links between the gateways and Redis.
    links: Vec<Link>,
    people: Vec<(usize, Viewer)>,
    trouble: Trouble,
}

impl Walk {
    fn any(&mut self, n: usize) -> usize {
        self.rng.random_range(0..n)
    }

    async fn follow_graph(&self) {
        self.worlds[0].crowd_follows("u", FOLLOWERS).await;
    }

    async fn step(&mut self) {
        let at = if self.people.is_empty() {
            None
        } else {
            Some(self.any(self.people.len()))
        };
        match (self.any(100), at) {
            (0..30, _) if self.people.len() < 30 => {
                let (gateway, user, live) = (
                    self.any(self.worlds.len()),
                    self.any(USERS),
                    LIVES[self.any(2)],
                );
                let mut person = self.worlds[gateway].viewer(&format!("u{user}")).await;
                person.ask(json!({"type": "join", "live_id": live})).await;
                self.people.push((gateway, person));
            }
            (30..50, Some(at)) => {
                let live = LIVES[self.any(2)];
                self.people[at]
                    .1
                    .ask(json!({"type": "join", "live_id": live}))
                    .await;
            }
            (50..60, Some(at)) => drop(self.people[at].1.ask(json!({"type": "leave"})).await),
            (60..68, Some(at)) => self.people.swap_remove(at).1.close().await,
            (68..76, Some(at)) => self.people.swap_remove(at).1.vanish(),
            (76..82, Some(at)) => drop(self.people[at].1.heartbeat_json().await),
            (82..88, _) => self.mischief().await,
            (88..91, _) => self.break_a_wire().await,
            // Sometimes this is long enough for a flush.
            (91..100, _) => {
                tokio::time::sleep(Duration::from_millis(self.rng.random_range(0..80))).await
            }
            _ => {}
        }
    }

    async fn mischief(&mut self) {
        let (gateway, live) = (self.any(self.worlds.len()), LIVES[self.any(2)]);
        match (self.trouble, self.any(4)) {
            (Trouble::Closes, 0) => {
                let backend = self.worlds[gateway].backend();
                let closed = backend.delete(&format!("/v1/lives/{live}")).await;
                assert!(matches!(closed.status, 200 | 503), "{closed:?}");
            }
            (Trouble::Closes, _) => {
                let wish = json!({"streamer_id": "s1", "slices": 2});
                let opened = self.worlds[gateway]
                    .backend()
                    .put(&format!("/v1/lives/{live}"), wish)
                    .await;
                assert!(matches!(opened.status, 200 | 201 | 503), "{opened:?}");
            }
            (Trouble::Losses, 0) => {
                if let Some(redis) = &self.worlds[0].redis {
                    redis.ask(&["FLUSHALL"]).await;
                    self.follow_graph().await;
                }
            }
            (Trouble::Losses, _) => {}
        }
    }

    async fn break_a_wire(&mut self) {
        if self.links.is_empty() {
            return;
        }
        let (at, how, for_ms) = (
            self.any(self.links.len()),
            self.any(4),
            self.rng.random_range(20..300),
        );
        let link = &self.links[at];
        match how {
            0 => link.cut(),
            1 => link.stall(),
            2 => link.mute(),
            _ => link.slow(Duration::from_millis(30)),
        }
        if how < 3 {
            tokio::time::sleep(Duration::from_millis(for_ms)).await;
            link.heal();
        }
    }

    /// The fans who are in a live according to what their clients were told.
    fn told(&self, live: &str) -> BTreeSet<String> {
        let here = self
            .people
            .iter()
            .filter(|(_, person)| person.seat.as_deref() == Some(live));
        let fan = |user: &str| user[1..].parse::<usize>().unwrap() < FOLLOWERS;
        here.map(|(_, person)| person.user.clone())
            .filter(|user| fan(user))
            .collect()
    }

    async fn comes_to_rest(&mut self) {
        for link in &self.links {
            link.heal();
        }
        for world in &self.worlds {
            world.readyz_becomes(200).await;
        }
        let deadline = tokio::time::Instant::now() + PATIENCE * 2;
        for live in LIVES {
            loop {
                for (_, person) in &mut self.people {
                    assert!(person.is_connected().await, "lost: {}", person.transcript());
                }
                let (told, stored) = (self.told(live), self.worlds[0].fans_in_store(live).await);
                if told == stored {
                    break;
                }
                let late = tokio::time::Instant::now() > deadline;
                assert!(
                    !late,
                    "live {live} at rest: told {told:?}, in the store {stored:?}"
                );
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        for (_, person) in &mut self.people {
            let ack = person.heartbeat_json().await;
            assert_eq!(
                ack["live_id"].as_str(),
                person.seat.as_deref(),
                "{ack}; {}",
                person.transcript()
            );
        }
    }

    /// Everybody leaves, and nothing may remain.
    async fn ends_empty(mut self) {
        for (_, person) in self.people.drain(..) {
            person.close().await;
        }
        for live in LIVES {
            self.worlds[0].fans_become(live, &[]).await;
            for world in &self.worlds {
                // Figures may be too high, and say so, while a slice that lost data is in doubt.
                until("no viewer left", PATIENCE * 3, || async {
                    let live = world.backend().get(&format!("/v1/lives/{live}")).await;
                    same(live.body["viewers"].as_u64().unwrap_or(0), 0)
                })
                .await;
            }
        }
    }
}

async fn walk(seed: u64, trouble: Trouble, worlds: Vec<World>, links: Vec<Link>) {
    println!("seed {seed}, {trouble:?}");
    let mut walk = Walk {
        rng: StdRng::seed_from_u64(seed),
        worlds,
        links,
        people: Vec::new(),
        trouble,
    };
    walk.follow_graph().await;
    for live in LIVES {
        walk.worlds[0].backend().open_sliced(live, "s1", 2).await;
    }
    for _ in 0..2 {
        for _ in 0..STEPS {
            walk.step().await;
        }
        walk.comes_to_rest().await;
    }
    walk.ends_empty().await;
}

async fn on_redis(seed: u64, trouble: Trouble) {
    let redis = Redis::start().await;
    let (mut worlds, mut links) = (Vec::new(), Vec::new());
    for _ in 0..2 {
        let (world, link) = World::over_a_link(&redis, |config| {
            config.message_rate = 0;
            // A fan check that was made while the graph was lost is repeated soon.
            config.fan_ttl = Duration::from_secs(1);
        })
        .await;
        worlds.push(world);
        links.push(link);
    }
    walk(seed, trouble, worlds, links).await;
}

#[test]
fn on_memory() {
    story(async {
        let world = World::on_memory(|config| config.message_rate = 0).await;
        walk(seed(1), Trouble::Closes, vec![world], Vec::new()).await;
    });
}

#[test]
fn on_two_gateways_with_closes() {
    story(on_redis(seed(3), Trouble::Closes));
}

#[test]
fn on_two_gateways_with_losses() {
    story(on_redis(seed(5), Trouble::Losses));
}
