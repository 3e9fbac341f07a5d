//! What is checked: all the time, and when people are at rest.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use rollcall::base::event_kind::EventKind;
use rollcall::base::ids::OnlineSet;
use rollcall::presence::figures::Quality;
use rollcall::store::Fence;
use tokio::time::{Instant, sleep};

use crate::expectation::{Expectation, Live, User};
use crate::world::{Truth, World};

/// How often the store and the gateways are looked at.
const LOOK: Duration = Duration::from_millis(500);

/// Ended sockets are forgotten after this.
const MEMORY: Duration = Duration::from_secs(240);

/// Figures may be wrong for this long beyond the time in which gateways tell each other.
const FIGURES_LATE: Duration = Duration::from_secs(3);

/// Looks until the history is over.
pub(crate) async fn run(world: Arc<World>) {
    let mut wrong_since: BTreeMap<(usize, Live), Instant> = BTreeMap::new();
    loop {
        sleep(LOOK).await;
        members(&world);
        figures(&world, &mut wrong_since);
        tasks(&world);
    }
}

/// Nobody is missing, or there too long, beyond what is promised.
fn members(world: &World) {
    let there = world.network.truth.members();
    let now = Instant::now();
    let mut overdue = Vec::new();
    let mut truth = world.truth();
    let rules = truth.rules.clone();
    let is_older = truth.older_until.is_some_and(|until| now < until);
    for live in 0..world.plan.lives {
        let set = OnlineSet::Fans(world.live_id(live)).to_string();
        let present: BTreeSet<User> = match there.get(&set) {
            Some(members) => members.iter().filter_map(|user| world.user(user)).collect(),
            None => BTreeSet::new(),
        };
        let of_live = &mut truth.lives[live];
        let known: BTreeSet<User> = of_live.expectations.keys().copied().chain(present.iter().copied()).collect();
        let nobody = Expectation::default();
        for user in known {
            let is_there = present.contains(&user);
            let expectation = match world.is_fan(user, live) {
                true => of_live.expectations.get(&user).unwrap_or(&nobody),
                false => &nobody,
            };
            // In a closed live nobody has to be there.
            let is_excused = of_live.changes || world.is_fan_unsure(user, live) || (is_there && is_older);
            if is_excused || (!is_there && of_live.epoch.is_none()) {
                continue;
            }
            if let Some(by) = expectation.judge(now, is_there, &rules).overdue {
                let what = if is_there { "is still in" } else { "is missing in" };
                let told = expectation.tell(now);
                overdue.push(format!("u{user} {what} l{live} {} ms beyond the promise: {told}", by.as_millis()));
            }
        }
        let old = now.checked_sub(MEMORY);
        if let Some(old) = old {
            of_live.expectations.values_mut().for_each(|expectation| expectation.tidy(old));
            of_live.expectations.retain(|_, expectation| !expectation.is_empty());
        }
    }
    drop(truth);
    overdue.into_iter().for_each(|what| world.found(what));
}

/// The fewest and the most fans and viewers that a live can have now.
struct Range {
    fans: [u64; 2],
    viewers: [u64; 2],
}

fn range(world: &World, live: Live, at: Instant) -> Range {
    let truth = world.truth();
    let (rules, told) = (&truth.rules, world.timing.told() + FIGURES_LATE);
    let mut range = Range { fans: [0; 2], viewers: [0; 2] };
    for (user, expectation) in &truth.lives[live].expectations {
        let (is_fan, is_unsure) = (world.is_fan(*user, live), world.is_fan_unsure(*user, live));
        let least = expectation.surely_on(at, told, rules);
        let most = expectation.possibly_on(at, told, rules);
        let count = |places: usize| if world.plan.exact_viewers { places.min(1) } else { places } as u64;
        range.viewers[0] += count(least);
        range.viewers[1] += count(most);
        range.fans[0] += u64::from(is_fan && !is_unsure && least > 0);
        range.fans[1] += u64::from((is_fan || is_unsure) && most > 0);
    }
    range
}

/// No figure is called exact and is wrong for longer than it takes to tell.
fn figures(world: &World, wrong_since: &mut BTreeMap<(usize, Live), Instant>) {
    let now = Instant::now();
    for gateway in 0..world.plan.gateways {
        for live in 0..world.plan.lives {
            let is_open = world.epoch(live).is_some();
            let told = world.figures(gateway, live).filter(|_| is_open && world.is_sound(gateway));
            let Some((told, Quality::Exact)) = told else {
                wrong_since.remove(&(gateway, live));
                continue;
            };
            let range = range(world, live, now);
            let is_within = |figure: u64, [least, most]: [u64; 2]| least <= figure && figure <= most;
            if is_within(told.viewers, range.viewers) && is_within(told.fans, range.fans) {
                wrong_since.remove(&(gateway, live));
                continue;
            }
            let since = *wrong_since.entry((gateway, live)).or_insert(now);
            if now - since > world.timing.told() + FIGURES_LATE {
                wrong_since.insert((gateway, live), now);
                world.found(format!(
                    "gateway {gateway} says exactly {} viewers and {} fans of l{live}, and there are {:?} and {:?}",
                    told.viewers, told.fans, range.viewers, range.fans
                ));
            }
        }
    }
}

/// No task of a gateway ends early.
fn tasks(world: &World) {
    let ended: Vec<(usize, &str)> = {
        let spots = world.spots.lock();
        let running = spots.iter().enumerate().filter_map(|(gateway, spot)| Some((gateway, spot.running.as_ref()?)));
        running.filter_map(|(gateway, running)| Some((gateway, running.gateway.failed().now_or_never()?))).collect()
    };
    for (gateway, task) in ended {
        world.found(format!("the task {task} of gateway {gateway} has ended"));
    }
}

/// What is wrong while everybody stays where they are.
pub(crate) fn at_rest(world: &World) -> Vec<String> {
    let mut wrong = Vec::new();
    let there = world.network.truth.members();
    let truth = world.truth();
    let mut exact_sets = Vec::new();
    for (live, of_live) in truth.lives.iter().enumerate().filter(|(_, of_live)| of_live.epoch.is_some()) {
        let held = || of_live.expectations.iter().filter(|(_, expectation)| expectation.is_held());
        let here: BTreeSet<String> = held().map(|(user, _)| format!("u{user}")).collect();
        let fans = held().filter(|(user, _)| world.is_fan(**user, live)).map(|(user, _)| format!("u{user}")).collect();
        exact_sets.push((OnlineSet::Fans(world.live_id(live)).to_string(), fans));
        if world.plan.exact_viewers {
            exact_sets.push((OnlineSet::Viewers(world.live_id(live)).to_string(), here));
        }
    }
    for (user, lives) in wrong_whereabouts(world, &truth) {
        wrong.push(format!("{user} is said to be in {lives:?}"));
    }
    let online: BTreeSet<String> = truth.online.values().map(|(_, user)| format!("u{user}")).collect();
    exact_sets.push((OnlineSet::Users.to_string(), online));
    drop(truth);
    for (set, right) in exact_sets {
        let members: Vec<String> = there.get(&set).into_iter().flatten().map(ToString::to_string).collect();
        let present: BTreeSet<String> = members.iter().cloned().collect();
        if members.len() != present.len() {
            wrong.push(format!("{set} has a member twice"));
        }
        if present != right {
            let extra: Vec<_> = present.difference(&right).collect();
            let missing: Vec<_> = right.difference(&present).collect();
            wrong.push(format!("{set} has {extra:?} too many and lacks {missing:?}"));
        }
    }
    for gateway in (0..world.plan.gateways).filter(|gateway| world.is_up(*gateway)) {
        for live in 0..world.plan.lives {
            if let Some(what) = wrong_figures(world, gateway, live) {
                wrong.push(what);
            }
        }
    }
    wrong
}

/// The users whose lives the store does not know, with those that it says.
fn wrong_whereabouts(world: &World, truth: &Truth) -> Vec<(String, BTreeSet<String>)> {
    let mut right: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (live, of_live) in truth.lives.iter().enumerate() {
        for user in of_live.expectations.iter().filter(|(_, expectation)| expectation.is_held()).map(|(user, _)| user) {
            right.entry(format!("u{user}")).or_default().insert(world.live_id(live).to_string());
        }
    }
    let mut said: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (user, lives) in world.network.truth.whereabouts() {
        said.insert(user.to_string(), lives.iter().map(|(_, live)| live.to_string()).collect());
    }
    let users: BTreeSet<String> = right.keys().chain(said.keys()).cloned().collect();
    let wrong = users.into_iter().filter(|user| right.get(user) != said.get(user));
    wrong.map(|user| (user.clone(), said.get(&user).cloned().unwrap_or_default())).collect()
}

fn wrong_figures(world: &World, gateway: usize, live: Live) -> Option<String> {
    let (told, quality) = world.figures(gateway, live)?;
    let truth = world.truth();
    let of_live = truth.lives.get(live).filter(|of_live| of_live.epoch.is_some())?;
    let held = || of_live.expectations.iter().filter(|(_, expectation)| expectation.is_held());
    let fans = held().filter(|(user, _)| world.is_fan(**user, live)).count() as u64;
    let viewers = match world.plan.exact_viewers {
        true => held().count() as u64,
        false => held().map(|(_, expectation)| expectation.gateways().len() as u64).sum(),
    };
    let is_right = (told.viewers, told.fans, quality) == (viewers, fans, Quality::Exact);
    let now = Instant::now();
    let there = || held().map(|(user, expectation)| format!("u{user} {}", expectation.tell(now))).collect::<Vec<_>>();
    (!is_right).then(|| {
        let right = format!("{viewers} viewers and {fans} fans: {:?}", there());
        format!("gateway {gateway} says {told:?}, {quality:?}, of l{live} instead of {right}")
    })
}

/// What is left when all have gone home and all lives are closed.
pub(crate) fn left_over(world: &World) -> Vec<String> {
    let store = &world.network.truth;
    let mut left = Vec::new();
    for (set, slice) in store.all_slices() {
        let is_open = matches!(slice.fence(), Some(Fence::Open(_))) && set != OnlineSet::Users;
        if is_open || slice.card() > 0 {
            left.push(format!(
                "a slice of {set} is left with {} members, and its fence is {:?}",
                slice.card(),
                slice.fence()
            ));
        }
    }
    for (user, lives) in store.whereabouts() {
        left.push(format!("{user} is said to be in {lives:?}"));
    }
    for live in 0..world.plan.lives {
        if store.is_listed(&world.live_id(live)) {
            left.push(format!("l{live} is still on the list of open lives"));
        }
    }
    left.extend(untold_events(world));
    left
}

/// Openings and closings that the stream of events lacks, has out of order, or has more than once. Where data was lost,
/// events may be lost with it.
fn untold_events(world: &World) -> Vec<String> {
    if world.plan.faults.iter().any(|fault| fault.kind.loses_data()) {
        return Vec::new();
    }
    let mut told: BTreeMap<(String, EventKind), Vec<usize>> = BTreeMap::new();
    for (place, event) in world.network.truth.stream().into_iter().enumerate() {
        if matches!(event.kind, EventKind::LiveOpened | EventKind::LiveClosed) {
            let of = event.id.rsplitn(3, ':').last().unwrap_or_default().to_owned();
            told.entry((of, event.kind)).or_default().push(place);
        }
    }
    let mut wrong = Vec::new();
    let truth = world.truth();
    for (live, of_live) in truth.lives.iter().enumerate() {
        for (epoch, is_closed) in &of_live.epochs {
            let of = format!("{}:{epoch}", world.live_id(live));
            let opened = told.get(&(of.clone(), EventKind::LiveOpened)).cloned().unwrap_or_default();
            let closed = told.get(&(of.clone(), EventKind::LiveClosed)).cloned().unwrap_or_default();
            let is_right = !opened.is_empty() && (!is_closed || closed.first() > opened.first());
            if !is_right {
                wrong.push(format!(
                    "the stream tells of {of} at {opened:?} that it opened, at {closed:?} that it closed"
                ));
            }
        }
    }
    wrong
}
