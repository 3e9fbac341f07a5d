//! Somebody who has read the id of a session, and goes on using it after the session has ended or
//! has another id. No gateway may take a beat with it.

use std::sync::Arc;
use std::time::Duration;

use axum::http::Method;
use rand::rngs::StdRng;
use rand::seq::IteratorRandom;
use rand::{RngExt, SeedableRng};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::crowd::session::{OldId, status};
use crate::crowd::{Mode, Outcome, Surroundings, derived};
use crate::expectation::Beat;
use crate::world::World;

/// A beat that was sent before the session ended arrives so long after that, in seconds.
const LATE: std::ops::Range<f64> = 1.5..10.0;

/// Later beats follow, so long after one another, in seconds.
const LATER: std::ops::Range<f64> = 5.0..120.0;

/// So many of them.
const LATE_BEATS: usize = 8;

/// So long after an end the store has it, if the gateway that ended the session reaches the store.
const WRITTEN_WITHIN: Duration = Duration::from_secs(3);

/// Sends beats with the id to any gateway, also to those that started later. None may take one if
/// the gateway through which the id came to be over could tell the store.
pub(crate) fn are_tried(world: &Arc<World>, old: &OldId) {
    let seed = derived(world.plan.seed, &old.id);
    if old.has_left {
        tokio::spawn(arrives_late(world.clone(), old.clone(), seed));
    }
    tokio::spawn(is_tried(world.clone(), old.clone(), !seed));
}

async fn arrives_late(world: Arc<World>, old: OldId, seed: u64) {
    let mut rng = StdRng::seed_from_u64(seed);
    let ended = Instant::now();
    sleep(Duration::from_secs_f64(rng.random_range(LATE))).await;
    let gateway = world.crowd.gateways_up().choose(&mut rng);
    if let Some(gateway) = gateway {
        let may_not = |world: &World| world.was_told_since(ended);
        is_tried_at(&world, &old, gateway, may_not).await;
    }
}

async fn is_tried(world: Arc<World>, old: OldId, seed: u64) {
    let mut rng = StdRng::seed_from_u64(seed);
    sleep(WRITTEN_WITHIN).await;
    let is_written = !world.plan.loses_data() && world.is_sound(old.through);
    for _ in 0..LATE_BEATS {
        sleep(Duration::from_secs_f64(rng.random_range(LATER))).await;
        if *world.crowd.mode.borrow() != Mode::Wander {
            return;
        }
        let gateway = world.crowd.gateways_up().choose(&mut rng);
        if let Some(gateway) = gateway {
            // One that stood still hears of the end after it has gone on.
            let may_not = |world: &World| is_written && world.is_sound(gateway);
            is_tried_at(&world, &old, gateway, may_not).await;
        }
    }
}

async fn is_tried_at(world: &World, old: &OldId, gateway: usize, may_not: impl Fn(&World) -> bool) {
    let (user, live) = (old.user, old.live);
    let place = world.crowd.place(gateway);
    world.crowd.beating(user, live, place);
    let sent = Instant::now();
    let path = format!("/v1/presence/{}", old.id);
    let asked = world.ask(gateway, Method::POST, &path, &Value::Null).await;
    let told = format!("u{user} tries an old id of l{live}: {}", status(&asked));
    world.trace.tell(Some(gateway), &told);
    match asked {
        Outcome::Answered(answer) if answer.status == 200 => {
            if may_not(world) {
                world.found(format!(
                    "gateway {gateway} took an old id of u{user} in l{live}"
                ));
            }
            let answered = Instant::now();
            let beat = Beat { sent, answered };
            world.crowd.beaten(user, live, old.epoch, place, beat);
            world.crowd.leaving(user, live, place);
        }
        Outcome::Unanswered => world.crowd.unanswered(user, live, place),
        Outcome::Answered(_) | Outcome::Nobody => {
            world.crowd.refused(user, live, place);
            world.crowd.seen_somewhere(user);
        }
    }
}
