//! What is checked all the time. [`crate::at_rest`] checks more, when people stay where they are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use rollcall::base::ids::{Group, LiveId, OnlineSet, UserId};
use rollcall::presence::figures::Quality;
use rollcall::store::{LiveRecord, LiveState};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::crowd::Surroundings;
use crate::crowd::truth::{Truth, Wronged};
use crate::expectation::{Expectation, Live, User, Wrong};
use crate::moderation;
use crate::world::World;

/// How often the store and the gateways are looked at.
const LOOK: Duration = Duration::from_secs(1);

/// Ended sockets are forgotten after this.
const MEMORY: Duration = Duration::from_secs(240);

/// A process runs once a turn, so that each of so many calls in a row takes a turn.
const CALLS_IN_A_ROW: u32 = 10;

/// Figures may be wrong for this long beyond the time in which gateways tell each other.
const FIGURES_LATE: Duration = Duration::from_secs(3);

/// Looks until the history is over.
pub(crate) async fn run(world: Arc<World>) {
    loop {
        sleep(LOOK).await;
        world.crowd.lapse();
        members(&world);
        stays_open(&world);
        figures(&world);
        moderation::look(&world);
        tasks(&world);
    }
}

/// Whether older data may still be there.
fn is_older(world: &World, now: Instant) -> bool {
    world.notes().older_until.is_some_and(|until| now < until)
}

/// Nobody is missing, or there too long, beyond what is promised.
fn members(world: &World) {
    let there = world.network.truth.members();
    let now = Instant::now();
    let mut overdue = Vec::new();
    let last_renewals = world.network.last_renewals(world.plan.gateways);
    let mut truth = world.truth();
    truth.rules.last_renewals = last_renewals;
    let slack = world.plan.turn * CALLS_IN_A_ROW;
    let is_older = is_older(world, now);
    for live in 0..world.plan.lives {
        let set = OnlineSet::Live(world.live_id(live));
        let of_live = &truth.lives[live];
        for group in set.groups() {
            let present = users(world, there.get(&(set.clone(), *group)));
            // No set has guests.
            let belongs = |user| match group {
                Group::All => !world.is_guest(user),
                Group::Fans => world.is_fan(user, live),
            };
            for wronged in of_live.judge(&present, belongs, now, &truth.rules) {
                let Wronged { user, wrong, .. } = wronged;
                let is_there = wrong == Wrong::Ghost;
                let is_unsure = *group == Group::Fans && world.is_fan_unsure(user, live);
                // In a closed live nobody has to be there.
                let is_excused = of_live.changes || is_unsure || (is_there && is_older);
                if is_excused || (!is_there && of_live.epoch.is_none()) {
                    continue;
                }
                let Some(by) = wronged.overdue.filter(|by| *by > slack) else {
                    continue;
                };
                let group = group.name();
                overdue.push(if by == Duration::MAX {
                    format!("u{user} is in l{live} ({group}), and was never there")
                } else {
                    format!(
                        "a {wrong:?}: u{user} in l{live} ({group}) {} ms beyond the promise: {}",
                        by.as_millis(),
                        wronged.expectation.tell(now)
                    )
                });
            }
        }
        truth.lives[live].tidy(now, MEMORY);
    }
    drop(truth);
    overdue.into_iter().for_each(|what| world.found(what));
}

/// The users of the simulation among these members.
fn users(world: &World, members: Option<&Vec<UserId>>) -> BTreeSet<User> {
    members
        .into_iter()
        .flatten()
        .filter_map(|user| world.user(user))
        .collect()
}

/// A live that its back end holds open stays open.
fn stays_open(world: &World) {
    let records = world.network.truth.records();
    let mut truth = world.truth();
    let now = Instant::now();
    if world.plan.loses_data() {
        forget_openings(world, &mut truth, &records);
    }
    // A record that is gone is written again, and older data may have another one.
    let is_excused = is_older(world, now);
    let mut closed = Vec::new();
    for (live, of_live) in truth
        .lives
        .iter()
        .enumerate()
        .filter(|(_, of_live)| !of_live.changes)
    {
        let Some(epoch) = of_live.epoch.filter(|_| !is_excused) else {
            continue;
        };
        match records.get(&world.live_id(live)) {
            Some(record) if record.epoch.0 == epoch && record.state == LiveState::Open => {}
            Some(record) => closed.push(format!(
                "l{live} is {:?} in epoch {}, and open in epoch {epoch}",
                record.state, record.epoch
            )),
            None if world.plan.loses_data() => {}
            None => closed.push(format!("l{live} has no record")),
        }
    }
    drop(truth);
    closed.into_iter().for_each(|what| world.found(what));
}

/// Older data has another opening, and no gateway has run for long enough to know of the newer one:
/// that one is over, unless a gateway knew of it all the same and writes it again.
fn forget_openings(world: &World, truth: &mut Truth, records: &BTreeMap<LiveId, LiveRecord>) {
    let first = truth.rules.runs_since.iter().flatten().min().copied();
    for (live, of_live) in truth.lives.iter_mut().enumerate() {
        let has_run = first
            .zip(of_live.opened)
            .is_some_and(|(first, opened)| first <= opened);
        let is_known = of_live.was_entered && has_run;
        let record = records
            .get(&world.live_id(live))
            .filter(|record| record.state == LiveState::Open);
        if let Some(epoch) = of_live.epoch
            && let Some(record) = record
        {
            if record.epoch.0 < epoch && !is_known {
                of_live.forgotten = of_live.epoch.replace(record.epoch.0);
            } else if of_live.forgotten == Some(record.epoch.0) {
                of_live.epoch = of_live.forgotten.take();
            }
        }
    }
}

/// The fewest and the most fans, viewers and guests that a gateway can say that a live has now.
struct Range {
    fans: [u64; 2],
    viewers: [u64; 2],
    guests: [u64; 2],
}

/// How long figures may be wrong. Without a fault that is a flush and a throttle.
fn figures_late(world: &World) -> Duration {
    let is_quiet = (0..world.plan.gateways)
        .all(|gateway| !world.crowd.is_up(gateway) || world.is_sound(gateway));
    if is_quiet {
        world.timing.settled() + world.plan.turn * CALLS_IN_A_ROW
    } else {
        world.timing.told() + FIGURES_LATE
    }
}

fn range(world: &World, gateway: usize, live: Live, at: Instant, told: Duration) -> Range {
    let truth = world.truth();
    let rules = &truth.rules;
    let mut range = Range {
        fans: [0; 2],
        viewers: [0; 2],
        guests: [0; 2],
    };
    // If the guest and the user are in different slices, only the gateway of the socket always
    // counts exactly one of the two.
    let is_one = truth.lives[live].slices == 1;
    let of = if is_one { None } else { Some(gateway) };
    for (user, expectation) in &truth.lives[live].expectations {
        let (is_fan, is_unsure) = (world.is_fan(*user, live), world.is_fan_unsure(*user, live));
        let is_sure = expectation.is_surely_there(at, told, rules);
        let is_possible = expectation.is_possibly_there(at, told, rules);
        let is_counted = expectation.is_surely_counted(at, told, of, rules);
        range.viewers[0] += u64::from(is_counted);
        range.viewers[1] += u64::from(match is_one {
            true => {
                let account = world.account_of(*user);
                let account = account.and_then(|user| truth.lives[live].expectations.get(&user));
                expectation.is_possibly_counted(account, at, told, rules)
            }
            false => is_possible,
        });
        let is_guest = world.is_guest(*user);
        range.guests[0] += u64::from(is_guest && is_sure);
        range.guests[1] += u64::from(is_guest && is_possible);
        range.fans[0] += u64::from(is_fan && !is_unsure && is_sure);
        range.fans[1] += u64::from((is_fan || is_unsure) && is_possible);
    }
    range
}

/// A user who has just joined is told of all viewers who are surely there, and counts among them.
pub(crate) fn joined(world: &World, user: User, live: Live, gateway: usize, told: &Value) {
    let is_exact = matches!(world.figures(gateway, live), Some((_, Quality::Exact)));
    if !is_exact || !world.is_sound(gateway) {
        return;
    }
    world.crowd.lapse();
    let now = Instant::now();
    let long = figures_late(world);
    let truth = world.truth();
    let is_sure = |(other, expectation): &(&User, &Expectation)| {
        **other != user && expectation.is_surely_there(now, long, &truth.rules)
    };
    let others = truth.lives[live]
        .expectations
        .iter()
        .filter(is_sure)
        .count() as u64;
    drop(truth);
    if told["viewers"]
        .as_u64()
        .is_none_or(|viewers| viewers <= others)
    {
        let there = who(&world.truth(), live, now);
        world.found(format!(
            "gateway {gateway} told u{user} {told} after the join of l{live}, and {others} others are there: {there}"
        ));
    }
}

/// No figure is called exact and is wrong for longer than it takes to tell.
fn figures(world: &World) {
    let now = Instant::now();
    let late = figures_late(world);
    for gateway in 0..world.plan.gateways {
        for live in 0..world.plan.lives {
            let is_open = world.crowd.epoch(live).is_some();
            let told = world
                .figures(gateway, live)
                .filter(|_| is_open && world.is_sound(gateway));
            let Some((told, Quality::Exact)) = told else {
                continue;
            };
            let range = range(world, gateway, live, now, late);
            let is_within =
                |figure: u64, [least, most]: [u64; 2]| least <= figure && figure <= most;
            if is_within(told.viewers, range.viewers)
                && is_within(told.fans, range.fans)
                && is_within(told.guests, range.guests)
            {
                continue;
            }
            let who = who(&world.truth(), live, now);
            let Range {
                fans,
                viewers,
                guests,
            } = range;
            let there = format!("{viewers:?} viewers, {fans:?} fans, {guests:?} guests: {who}");
            world.found(format!(
                "gateway {gateway} says exactly {told:?} of l{live}, and there are {there}"
            ));
        }
    }
}

/// Everybody who is or may be in a live, in words.
pub(crate) fn who(truth: &Truth, live: Live, now: Instant) -> String {
    let users = truth.lives[live]
        .expectations
        .iter()
        .filter(|(_, expectation)| expectation.is_held());
    users
        .map(|(user, expectation)| format!("u{user} {}", expectation.tell(now)))
        .collect::<Vec<_>>()
        .join("; ")
}

/// No task of a gateway ends early.
fn tasks(world: &World) {
    let ended: Vec<(usize, &str)> = {
        let spots = world.spots.lock();
        let running = spots
            .iter()
            .enumerate()
            .filter_map(|(gateway, spot)| Some((gateway, spot.running.as_ref()?)));
        running
            .filter_map(|(gateway, running)| {
                Some((gateway, running.gateway.failed().now_or_never()?))
            })
            .collect()
    };
    for (gateway, task) in ended {
        world.found(format!("the task {task} of gateway {gateway} has ended"));
    }
}
