//! Random walks: another program writes into the keys of many lives and of the users online, while
//! people join and leave all the while. Each write is repaired in time, and at rest everything is
//! exact on every gateway.
//!
//! `STORIES_FOREIGN_WRITES` sets how many writes; from 200 on there are 50 lives. `STORIES_SEED`
//! makes other walks.

use std::collections::BTreeSet;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rollcall::base::ids::UserId;
use rollcall::config::Config;
use tokio::time::{Instant, sleep};

use super::audit::nothing_is_wrong;
use super::foreign_writes::{Of, Target, bound};
use crate::support::foreign::{Meddling, back_up, tidy};
use crate::support::redis_view::Redis;
use crate::support::story::{from_environment, seed, tell};
use crate::support::viewer::Viewer;
use crate::support::wait::{PATIENCE, same, until};
use crate::support::witness::{Truth, Witness};
use crate::support::world::World;

const WRITES: usize = 40;
/// From so many writes on it is a long walk, with many lives.
const LONG: usize = 200;
const LIVES: usize = 8;
const MANY_LIVES: usize = 50;
/// Users 0 to 15 follow the streamer.
const FOLLOWERS: usize = 16;
const USERS: usize = 24;
/// Each user has so many devices, on one gateway or on several.
const DEVICES: usize = 3;
const ONLINE_SLICES: u32 = 64;
/// A join or leave may take so long to be in Redis and on every dashboard.
const TOLD: Duration = Duration::from_millis(1_500);
/// The pause between two steps of the walk: somebody comes or leaves in every flush.
const STEP: Duration = Duration::from_millis(15);
/// Looks at what was written to are this far apart.
const LOOK: Duration = Duration::from_millis(300);
/// The longest that a walk may take for each write, beside the time until all is at rest.
const PATIENCE_PER_WRITE: Duration = Duration::from_secs(2);

/// A set of users that the gateways keep in Redis.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Set {
    Fans(usize),
    Viewers(usize),
    Online(u32),
}

impl Set {
    /// Whether both lie in the same slice, and so have one fence.
    fn shares_slice(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Fans(live) | Self::Viewers(live), Self::Fans(other) | Self::Viewers(other)) => {
                live == other
            }
            _ => self == other,
        }
    }
}

/// A write of the other program that is not known to be repaired yet.
struct Written {
    number: usize,
    at: Instant,
    what: String,
    set: Set,
}

struct Person {
    viewer: Viewer,
    user: usize,
    /// The live in which the person is.
    live: Option<usize>,
}

struct Walk {
    seed: u64,
    rng: StdRng,
    worlds: Vec<World>,
    people: Vec<Person>,
    lives: Vec<String>,
    /// By live.
    truths: Vec<Truth>,
    /// Who came to a live or left it lately.
    changed: Vec<(Instant, usize, usize)>,
    pending: Vec<Written>,
}

impl Walk {
    async fn on(gateways: usize, seed: u64, lives: usize) -> Self {
        let tune = |config: &mut Config| {
            config.check_every = Duration::from_secs(3);
            config.message_rate = 0;
            config.sockets_per_user = 0;
        };
        let first = World::on_redis(tune).await;
        first.crowd_follows("u", FOLLOWERS).await;
        let mut worlds = Vec::new();
        for _ in 1..gateways {
            worlds.push(first.another_gateway().await);
        }
        worlds.push(first);
        let mut walk = Self {
            seed,
            rng: StdRng::seed_from_u64(seed),
            worlds,
            people: Vec::new(),
            lives: (0..lives).map(|n| format!("walk{n}")).collect(),
            truths: vec![Truth::default(); lives],
            changed: Vec::new(),
            pending: Vec::new(),
        };
        for live in &walk.lives {
            walk.worlds[0].open(live).await;
        }
        for number in 0..USERS * DEVICES {
            walk.connects(number % USERS).await;
        }
        walk.note_truths();
        walk
    }

    fn any(&mut self, n: usize) -> usize {
        self.rng.random_range(0..n)
    }

    fn redis(&self) -> &Redis {
        self.worlds[0].redis()
    }

    /// One more device of a user, in any live.
    async fn connects(&mut self, user: usize) {
        let gateway = self.any(self.worlds.len());
        let live = self.any(self.lives.len());
        let viewer = self.worlds[gateway]
            .viewer_in(&format!("u{user}"), &self.lives[live])
            .await;
        self.people.push(Person {
            viewer,
            user,
            live: Some(live),
        });
    }

    /// Somebody joins a live, or leaves it.
    async fn somebody_moves(&mut self) {
        let at = self.any(self.people.len());
        let live = self.any(self.lives.len());
        let stays_out = self.any(3) == 0;
        let person = &mut self.people[at];
        let before = person.live;
        match before {
            Some(_) if stays_out => {
                person.viewer.leave().await;
                person.live = None;
            }
            _ => {
                person.viewer.join(&self.lives[live]).await;
                person.live = Some(live);
            }
        }
        let now = Instant::now();
        let user = person.user;
        let concerned = [before, person.live].into_iter().flatten();
        self.changed.extend(concerned.map(|live| (now, live, user)));
        self.changed.retain(|(at, ..)| at.elapsed() < TOLD);
        self.note_truths();
    }

    fn note_truths(&mut self) {
        for live in 0..self.lives.len() {
            let (viewers, fans) = self.truth(live);
            self.truths[live].becomes(viewers, fans);
        }
    }

    fn people_in(&self, live: usize) -> impl Iterator<Item = &Person> {
        self.people
            .iter()
            .filter(move |person| person.live == Some(live))
    }

    /// The viewers of a live and its fans.
    fn truth(&self, live: usize) -> (u64, u64) {
        (
            self.users_in(live).len() as u64,
            self.fans_in(live).len() as u64,
        )
    }

    fn users_in(&self, live: usize) -> BTreeSet<String> {
        self.people_in(live)
            .map(|person| person.viewer.user.clone())
            .collect()
    }

    fn fans_in(&self, live: usize) -> BTreeSet<String> {
        let fans = self
            .people_in(live)
            .filter(|person| person.user < FOLLOWERS);
        fans.map(|person| person.viewer.user.clone()).collect()
    }

    fn wanted(&self, set: &Set) -> BTreeSet<String> {
        match set {
            Set::Fans(live) => self.fans_in(*live),
            Set::Viewers(live) => self.users_in(*live),
            Set::Online(k) => {
                let users = self.people.iter().map(|person| person.viewer.user.clone());
                users
                    .filter(|user| UserId::parse(user).unwrap().slice_index(ONLINE_SLICES) == *k)
                    .collect()
            }
        }
    }

    /// Whose set it is, and the key of its slice.
    fn slice(&self, set: &Set) -> (Of, String) {
        match set {
            Set::Fans(live) => (Of::Fans, format!("online-fans:{}", self.lives[*live])),
            Set::Viewers(live) => (Of::Viewers, format!("online-fans:{}", self.lives[*live])),
            Set::Online(k) => (Of::Users, format!("online-users_slice{k}")),
        }
    }

    /// The key of the set.
    fn key(&self, set: &Set) -> String {
        let (of, slice) = self.slice(set);
        of.set(&slice)
    }

    fn some_set(&mut self) -> Set {
        let live = self.any(self.lives.len());
        match self.any(10) {
            0 => {
                let user = UserId::parse(&format!("u{}", self.any(USERS))).unwrap();
                Set::Online(user.slice_index(ONLINE_SLICES))
            }
            1..=5 => Set::Viewers(live),
            _ => Set::Fans(live),
        }
    }

    /// The other program writes something somewhere, unless what it wrote there before is not
    /// repaired yet.
    async fn writes(&mut self, number: usize) -> bool {
        let set = self.some_set();
        let (of, slice) = self.slice(&set);
        let target = match self.any(10) {
            0..3 => Target::Who,
            3 => Target::Entries,
            4 => Target::Fence,
            _ => Target::Set,
        };
        let meddling = target.meddlings()[self.any(target.meddlings().len())];
        // Older claims of as many users may only differ in who claims them, which nobody finds.
        if target == Target::Who && meddling == Meddling::RestoreOlder {
            return false;
        }
        let key = target.key(of, &slice);
        if self
            .pending
            .iter()
            .any(|written| written.set.shares_slice(&set))
            || self.wanted(&set).is_empty()
        {
            return false;
        }
        if meddling == Meddling::RestoreOlder
            && self.redis().ask(&["EXISTS", &backup_of(&key)]).await == 0
        {
            // It is restored when the walk comes here again.
            self.redis().meddle(&back_up(&key)).await;
            return false;
        }
        let done = self.redis().meddle(&meddling.command(&key)).await;
        let what = format!("{meddling:?} of {key}: {done}");
        self.pending.push(Written {
            number,
            at: Instant::now(),
            what,
            set,
        });
        true
    }

    /// What is wrong with a set, leaving aside who has come or gone just now.
    async fn wrong_with(&self, set: &Set) -> Option<String> {
        let key = self.key(set);
        let there = self.redis().members_of(&key).await;
        let wanted = self.wanted(set);
        let lately: BTreeSet<String> = match set {
            Set::Fans(live) | Set::Viewers(live) => {
                let here = self
                    .changed
                    .iter()
                    .filter(|(_, changed, _)| changed == live);
                here.map(|(_, _, user)| format!("u{user}")).collect()
            }
            Set::Online(_) => BTreeSet::new(),
        };
        let wrong: Vec<&String> = there
            .symmetric_difference(&wanted)
            .filter(|user| !lately.contains(*user))
            .collect();
        if !wrong.is_empty() {
            return Some(format!("{key} is wrong about {wrong:?}"));
        }
        let (of, slice) = self.slice(set);
        let fence = self
            .redis()
            .ask(&["TYPE", &Target::Fence.key(of, &slice)])
            .await;
        (fence == "none" || fence == "list")
            .then(|| format!("the fence of {slice} is of type {fence}"))
    }

    /// Strikes off what is repaired, and fails if something took too long.
    async fn looks(&mut self) {
        let bound = bound(&self.worlds[0]);
        let mut left = Vec::new();
        for written in std::mem::take(&mut self.pending) {
            // What expires is gone only a moment later.
            let wrong = if written.at.elapsed() < LOOK {
                Some(String::new())
            } else {
                self.wrong_with(&written.set).await
            };
            let Some(wrong) = wrong else { continue };
            let Written {
                number, at, what, ..
            } = &written;
            let took = at.elapsed();
            assert!(
                took <= bound,
                "seed {}: write {number}, {what}: after {took:?}, {wrong}",
                self.seed
            );
            left.push(written);
        }
        self.pending = left;
    }

    /// Nobody moves any more: all sets and all figures become right.
    async fn comes_to_rest(&self) {
        let deadline = Instant::now() + bound(&self.worlds[0]);
        for live in 0..self.lives.len() {
            for set in [Set::Fans(live), Set::Viewers(live)] {
                self.becomes_right(&set, deadline).await;
            }
            let (viewers, fans) = self.truth(live);
            for world in &self.worlds {
                let left = deadline.saturating_duration_since(Instant::now());
                world
                    .figures_become_exact(&self.lives[live], (viewers, fans), left)
                    .await;
            }
        }
        for k in 1..=ONLINE_SLICES {
            self.becomes_right(&Set::Online(k), deadline).await;
        }
    }

    async fn becomes_right(&self, set: &Set, deadline: Instant) {
        let key = self.key(set);
        let what = format!("seed {}: {key} at rest", self.seed);
        until(
            &what,
            deadline.saturating_duration_since(Instant::now()),
            async || same(self.redis().members_of(&key).await, self.wanted(set)),
        )
        .await;
    }

    async fn tidies(&self) {
        for key in self.redis().keys("other:*").await {
            self.redis().ask(&["DEL", &key]).await;
        }
    }
}

/// Where the backup of a key is.
fn backup_of(key: &str) -> String {
    tidy(key).swap_remove(1)
}

fn walk(gateways: usize, n: u64) {
    let writes = from_environment("STORIES_FOREIGN_WRITES").unwrap_or(WRITES as u64) as usize;
    let seed = seed(n);
    let lives = if writes >= LONG { MANY_LIVES } else { LIVES };
    println!("seed {seed}, {gateways} gateways, {writes} writes into {lives} lives");
    let deadline = Duration::from_secs(60) + PATIENCE_PER_WRITE * writes as u32;
    tell(deadline, walks(gateways, seed, writes, lives));
}

async fn walks(gateways: usize, seed: u64, writes: usize, lives: usize) {
    let mut walk = Walk::on(gateways, seed, lives).await;
    // A gateway says how good its figures of a live are only if somebody there looks at it.
    let mut witnesses = Vec::new();
    for (live, name) in walk.lives.iter().enumerate() {
        for world in &walk.worlds {
            witnesses.push((live, Witness::watches(world, name).await));
        }
    }
    walk.comes_to_rest().await;
    let mut written = 0;
    let mut looked = Instant::now();
    while written < writes || !walk.pending.is_empty() {
        walk.somebody_moves().await;
        // On average a write each 0.1 s, as long as there is a set that is right.
        if written < writes && walk.any(6) == 0 && walk.writes(written + 1).await {
            written += 1;
        }
        if looked.elapsed() >= LOOK {
            walk.looks().await;
            looked = Instant::now();
        }
        sleep(STEP).await;
    }
    walk.comes_to_rest().await;
    let bound = bound(&walk.worlds[0]);
    for (live, witness) in &witnesses {
        let lie = witness
            .longest_lie(&walk.truths[*live], TOLD)
            .filter(|lie| lie.span > bound);
        assert!(
            lie.is_none(),
            "seed {seed}: {}: {}",
            witness.place,
            lie.unwrap()
        );
    }
    walk.tidies().await;
    nothing_is_wrong(&walk.redis().url(), PATIENCE).await;
}

#[test]
fn on_one_gateway() {
    walk(1, 1);
}

#[test]
fn on_three_gateways() {
    walk(3, 5);
}
