//! A viewer who asks is told which of the people whom they follow are in the live with them: at
//! once, and on change, through whichever gateway those people come and go.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rollcall::config::Config;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::support::redis_view::Redis;
use crate::support::stores::{on_memory, on_redis, story};
use crate::support::story::seed;
use crate::support::viewer::Viewer;
use crate::support::wait::{PATIENCE, names};
use crate::support::world::World;

/// The least time between two answers.
const EVERY: Duration = Duration::from_secs(2);

/// What a busy machine may take off it between two readings.
const JITTER: Duration = Duration::from_millis(400);

/// Joins a live and asks for the friends there.
async fn asks(viewer: &mut Viewer, live: &str) {
    viewer
        .say(json!({"type": "join", "live_id": live, "friends": true}))
        .await;
    viewer.expect("joined").await;
}

/// A viewer who follows these people, is in a live, and asked for the friends there.
async fn asker(world: &World, user: &str, live: &str, follows: &[&str]) -> Viewer {
    for other in follows {
        world.backend().follow(user, other).await;
    }
    let mut viewer = world.viewer(user).await;
    asks(&mut viewer, live).await;
    viewer
}

fn shown(message: &Value) -> BTreeSet<String> {
    let shown: Vec<&str> = message["user_ids"]
        .as_array()
        .unwrap()
        .iter()
        .map(|id| id.as_str().unwrap())
        .collect();
    assert!(shown.is_sorted() && shown.len() <= 20, "{message}");
    let count = message["count"].as_u64().unwrap() as usize;
    assert!(
        count == shown.len() || (shown.len() == 20 && count > 20),
        "{message}"
    );
    shown.into_iter().map(str::to_owned).collect()
}

/// The next answers are about this live, until one shows these friends.
async fn sees(viewer: &mut Viewer, live: &str, friends: &[&str]) -> Value {
    sees_within(viewer, live, &names(friends), PATIENCE).await
}

async fn sees_within(
    viewer: &mut Viewer,
    live: &str,
    wanted: &BTreeSet<String>,
    within: Duration,
) -> Value {
    let deadline = Instant::now() + within;
    let mut last = Value::Null;
    while let Some((_, message)) = viewer.hear_kind("friends", deadline).await {
        assert_eq!(message["live_id"], live, "{message}");
        if shown(&message) == *wanted {
            return message;
        }
        last = message;
    }
    panic!("{} wants {wanted:?}, was told last {last}", viewer.user);
}

on_memory! {
    async fn friends_in_the_live_are_told_at_once_and_on_change(world) {
        world.open("42").await;
        world.open("43").await;
        let _stranger = world.viewer_in("x", "42").await;
        let _elsewhere = world.viewer_in("u3", "43").await;
        let mut first = world.viewer_in("u1", "42").await;
        let mut me = asker(&world, "me", "42", &["u1", "u2", "u3", "s1"]).await;
        let answer = sees(&mut me, "42", &["u1"]).await;
        let wanted = json!({"type":"friends","live_id":"42","count":1,"user_ids":["u1"],"partial":false});
        assert_eq!(answer, wanted);
        let second = world.viewer_in("u2", "42").await;
        sees(&mut me, "42", &["u1", "u2"]).await;
        // Another device of the same friend changes nothing, nor does its end.
        let device = world.viewer_in("u2", "42").await;
        device.close().await;
        first.join("43").await;
        sees(&mut me, "42", &["u2"]).await;
        second.vanish();
        sees_within(&mut me, "42", &names(&[]), world.config.timeout + PATIENCE).await;
        me.hears_no("friends", EVERY).await;
    }
}

on_memory! {
    async fn answers_are_paced_and_the_latest_always_comes(world) {
        world.open("42").await;
        let friends: Vec<String> = (0..30).map(|n| format!("u{n:02}")).collect();
        let mut me = asker(&world, "me", "42", &friends.iter().map(String::as_str).collect::<Vec<_>>()).await;
        sees(&mut me, "42", &[]).await;
        let (mut crowd, mut times, mut last) = (Vec::new(), Vec::new(), Value::Null);
        for friend in &friends {
            crowd.push(world.viewer_in(friend, "42").await);
            if let Some((at, message)) = me.hear_kind("friends", Instant::now() + Duration::from_millis(120)).await {
                times.push(at);
                last = message;
            }
        }
        let deadline = Instant::now() + PATIENCE;
        while last["count"] != 30 {
            let (at, message) = me.hear_kind("friends", deadline).await.expect("everybody is told");
            times.push(at);
            last = message;
        }
        assert_eq!(shown(&last), friends[..20].iter().cloned().collect(), "the first by id");
        for pair in times.windows(2) {
            assert!(pair[1] - pair[0] + JITTER >= EVERY, "{times:?}");
        }
    }
}

on_memory! {
    async fn a_follow_or_an_unfollow_changes_the_answer(world) {
        world.open("42").await;
        let _there = world.crowd("u", 3, "42").await;
        let mut me = asker(&world, "me", "42", &["u0"]).await;
        sees(&mut me, "42", &["u0"]).await;
        world.backend().follow("me", "u2").await;
        sees(&mut me, "42", &["u0", "u2"]).await;
        world.backend().unfollow("me", "u0").await;
        sees(&mut me, "42", &["u2"]).await;
        world.backend().follow("u1", "me").await;
        me.hears_no("friends", EVERY).await;
    }
}

on_memory! {
    async fn who_does_not_ask_is_told_nothing_and_asking_ends_with_a_join_without_it(world) {
        world.open("42").await;
        world.open("43").await;
        let mut quiet = world.viewer_in("me", "42").await;
        let mut me = asker(&world, "me", "42", &["u1"]).await;
        sees(&mut me, "42", &[]).await;
        let mut friend = world.viewer_in("u1", "42").await;
        sees(&mut me, "42", &["u1"]).await;
        me.join("42").await;
        friend.leave().await;
        me.hears_no("friends", EVERY).await;
        asks(&mut me, "43").await;
        sees(&mut me, "43", &[]).await;
        friend.join("43").await;
        sees(&mut me, "43", &["u1"]).await;
        me.leave().await;
        friend.leave().await;
        me.hears_no("friends", EVERY).await;
        quiet.hears_no("friends", Duration::from_millis(100)).await;
        assert_eq!(world.metric("rollcall_friends_followed").await, 0.0, "nothing is kept of who does not ask");
    }
}

on_memory! {
    async fn a_friend_in_two_lives_is_in_both(world) {
        world.open("42").await;
        world.open("43").await;
        let one = world.viewer_in("u1", "42").await;
        let _two = world.viewer_in("u1", "43").await;
        let mut me = asker(&world, "me", "42", &["u1"]).await;
        let mut other = asker(&world, "other", "43", &["u1"]).await;
        sees(&mut me, "42", &["u1"]).await;
        sees(&mut other, "43", &["u1"]).await;
        one.close().await;
        sees(&mut me, "42", &[]).await;
        other.hears_no("friends", EVERY).await;
    }
}

on_memory! {
    tuned(|config: &mut Config| config.track_online = false)
    async fn a_gateway_that_does_not_track_users_says_so(world) {
        world.open("42").await;
        let mut me = world.viewer("me").await;
        me.is_refused(json!({"type": "join", "live_id": "42", "friends": true}), "not_available").await;
        assert_eq!(me.heartbeat_json().await["live_id"], Value::Null);
        me.join("42").await;
    }
}

on_redis! {
    async fn friends_come_and_go_through_any_gateway(world) {
        world.open("42").await;
        let other = world.another_gateway().await;
        // The room of the other gateway learned that nobody wants to know before anybody asks.
        let mut early = other.viewer_in("u1", "42").await;
        world.live_is_heard_by("42", 2).await;
        let mut me = asker(&world, "me", "42", &["u1", "u2"]).await;
        sees(&mut me, "42", &["u1"]).await;
        let late = other.viewer_in("u2", "42").await;
        sees(&mut me, "42", &["u1", "u2"]).await;
        // The same user through both gateways.
        let here = world.viewer_in("u2", "42").await;
        late.close().await;
        early.leave().await;
        sees(&mut me, "42", &["u2"]).await;
        here.close().await;
        sees(&mut me, "42", &[]).await;
        early.join("42").await;
        sees(&mut me, "42", &["u1"]).await;
    }
}

on_redis! {
    async fn friends_are_told_again_after_redis_lost_its_data(world) {
        world.open("42").await;
        let other = world.another_gateway().await;
        let there = other.viewer_in("u1", "42").await;
        let mut me = asker(&world, "me", "42", &["u1", "u2"]).await;
        sees(&mut me, "42", &["u1"]).await;
        world.redis().ask(&["FLUSHALL"]).await;
        for friend in ["u1", "u2"] {
            world.backend().follow("me", friend).await;
        }
        let _second = other.viewer_in("u2", "42").await;
        sees_within(&mut me, "42", &names(&["u1", "u2"]), PATIENCE * 2).await;
        there.close().await;
        sees(&mut me, "42", &["u2"]).await;
    }
}

on_redis! {
    async fn whoever_follows_nobody_once_redis_lost_the_follows_is_told_so(world) {
        world.open("42").await;
        let _here = world.viewer_in("u1", "42").await;
        let mut me = asker(&world, "me", "42", &["u1"]).await;
        sees(&mut me, "42", &["u1"]).await;
        world.redis().ask(&["FLUSHALL"]).await;
        sees_within(&mut me, "42", &names(&[]), PATIENCE * 2).await;
        // Also when the gateway has told the store again who is here.
        me.hears_no("friends", Duration::from_secs(4)).await;
    }
}

// -------------------------------------------------------------------------------- a random history

const PEOPLE: usize = 12;
const ASKERS: [&str; 3] = ["a0", "a1", "a2"];
const STEPS: usize = 120;

struct History {
    rng: StdRng,
    worlds: Vec<World>,
    /// By user, the sockets in the live, each with the gateway.
    people: Vec<(usize, Viewer)>,
    askers: Vec<(usize, Viewer)>,
    told: BTreeMap<String, BTreeSet<String>>,
}

impl History {
    fn any(&mut self, n: usize) -> usize {
        self.rng.random_range(0..n)
    }

    async fn step(&mut self) {
        let (person, gateway) = (
            format!("p{}", self.any(PEOPLE)),
            self.any(self.worlds.len()),
        );
        let asker = ASKERS[self.any(ASKERS.len())];
        let at = (!self.people.is_empty()).then(|| self.any(self.people.len()));
        match (self.any(100), at) {
            (0..35, _) if self.people.len() < 24 => {
                self.people
                    .push((gateway, self.worlds[gateway].viewer_in(&person, "42").await));
            }
            (35..60, Some(at)) => self.people.swap_remove(at).1.close().await,
            (60..68, Some(at)) => self.people.swap_remove(at).1.vanish(),
            (68..74, Some(at)) => drop(self.people[at].1.ask(json!({"type": "leave"})).await),
            (74..80, Some(at)) => drop(
                self.people[at]
                    .1
                    .ask(json!({"type": "join", "live_id": "42"}))
                    .await,
            ),
            (80..88, _) => self.worlds[gateway].backend().follow(asker, &person).await,
            (88..94, _) => {
                self.worlds[gateway]
                    .backend()
                    .unfollow(asker, &person)
                    .await
            }
            (94..97, _) => {
                // An asker comes back, perhaps through another gateway.
                let at = self.any(self.askers.len());
                let (_, old) = self.askers.swap_remove(at);
                let user = old.user.clone();
                self.told.remove(&user);
                old.close().await;
                let mut new = self.worlds[gateway].viewer(&user).await;
                asks(&mut new, "42").await;
                self.askers.push((gateway, new));
            }
            _ => tokio::time::sleep(Duration::from_millis(self.rng.random_range(0..150))).await,
        }
    }

    /// Takes in what the askers heard.
    async fn listen(&mut self) {
        for (_, asker) in &mut self.askers {
            while let Some((_, message)) = asker
                .hear_kind("friends", Instant::now() + Duration::from_millis(20))
                .await
            {
                self.told.insert(asker.user.clone(), shown(&message));
            }
        }
    }

    /// Waits until every asker was told what the intersection of the sets in Redis is.
    async fn comes_to_rest(&mut self, within: Duration) {
        let deadline = Instant::now() + within;
        loop {
            self.listen().await;
            let mut wanted = BTreeMap::new();
            for asker in ASKERS {
                let sets = [
                    "ZINTER",
                    "2",
                    &format!("following:{asker}"),
                    "{online-fans:42}:viewers",
                ];
                let both = self.worlds[0].redis().ask(&sets).await;
                let both = both
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|user| user.as_str().unwrap().to_owned())
                    .collect();
                wanted.insert(asker.to_owned(), both);
            }
            let there: BTreeSet<String> = self
                .people
                .iter()
                .filter(|(_, person)| person.seat.is_some())
                .chain(&self.askers)
                .map(|(_, person)| person.user.clone())
                .collect();
            let stored = self.worlds[0].redis().viewers("42").await;
            if self.told == wanted && stored == there {
                return;
            }
            assert!(
                Instant::now() < deadline,
                "told {:?}, in Redis {wanted:?}; {stored:?}, {there:?}",
                self.told
            );
        }
    }
}

/// Joins, leaves, follows and unfollows through three gateways, of which one is killed at last.
async fn history(seed: u64) {
    println!("seed {seed}");
    let tune = |config: &mut Config| config.message_rate = 0;
    let redis = Redis::start().await;
    let mut worlds = Vec::new();
    for _ in 0..2 {
        worlds.push(World::beside(redis.clone(), tune).await);
    }
    worlds.push(World::program_with(redis.clone(), tune).await);
    worlds[0].open("42").await;
    let mut askers = Vec::new();
    for (n, user) in ASKERS.iter().enumerate() {
        askers.push((
            n % 2,
            asker(&worlds[n % 2], user, "42", &["p1", "p2"]).await,
        ));
    }
    let rng = StdRng::seed_from_u64(seed);
    let mut history = History {
        rng,
        worlds,
        people: Vec::new(),
        askers,
        told: BTreeMap::new(),
    };
    let timeout = history.worlds[0].config.timeout;
    for _ in 0..2 {
        for _ in 0..STEPS {
            history.step().await;
        }
        history.comes_to_rest(timeout + PATIENCE).await;
    }
    history.askers.retain(|(gateway, _)| *gateway != 2);
    for user in ASKERS {
        if !history.askers.iter().any(|(_, asker)| asker.user == user) {
            let mut back = history.worlds[0].viewer(user).await;
            asks(&mut back, "42").await;
            history.told.remove(user);
            history.askers.push((0, back));
        }
    }
    let mut doomed = history.worlds.pop().unwrap();
    doomed.process().kill();
    history.people.retain(|(gateway, _)| *gateway != 2);
    let bound = history.worlds[0].sweep_bound() + timeout;
    for _ in 0..STEPS / 4 {
        history.step().await;
    }
    history.comes_to_rest(bound + PATIENCE).await;
}

#[test]
fn a_random_history_ends_with_the_intersection_of_the_sets() {
    story(history(seed(1)));
}
