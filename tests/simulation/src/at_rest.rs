//! What must be right while everybody stays where they are, and what must be gone when all have
//! gone home.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;
use std::time::Duration;

use rollcall::base::clock::{UnixMillis, unix_now};
use rollcall::base::event_kind::EventKind;
use rollcall::base::ids::{Epoch, GatewayId, Group, LiveId, OnlineSet, UserId};
use rollcall::features::attendance::store::Attendance;
use rollcall::presence::figures::Quality;
use rollcall::store::LatestStays;
use rollcall::store::LiveEpoch;
use rollcall::store::slice::StoredSlice;
use rollcall::store::{Claim, ClaimedUser, Entries, Fence, Figures, OnlineUsers, SliceEntry};
use tokio::time::Instant;

use crate::crowd::truth::Truth;
use crate::expectation::{Expectation, Live, User};
use crate::media_server;
use crate::network::at_once;
use crate::oracle::who;
use crate::world::{ShownFriends, World};

/// When a user was seen last may be off by so much: a user who vanished was heard up to a timeout
/// before.
const SEEN_EARLIER: Duration = Duration::from_secs(60);

/// When the gateway heard of the end of a socket, in ms after that.
const SEEN_LATER: UnixMillis = 1_500;

/// A gateway that does not exist.
static NOBODY: LazyLock<GatewayId> = LazyLock::new(|| GatewayId::parse("nobody").expect("an id"));

/// What is wrong while everybody stays where they are.
pub(crate) fn wrong(world: &World) -> Vec<String> {
    world.crowd.lapse();
    let mut wrong = Vec::new();
    let there = world.network.truth.members();
    let truth = world.truth();
    let mut exact_sets = Vec::new();
    for (live, of_live) in truth.open_lives() {
        let is_empty = of_live.held().next().is_none();
        let users = of_live.held().filter(|user| !world.is_guest(*user));
        let here: BTreeSet<String> = users.map(|user| format!("u{user}")).collect();
        // Nobody writes a lost list again for a live that no gateway knows.
        let is_known = !is_empty || !world.plan.loses_data();
        if is_known && !world.network.truth.is_listed(&world.live_id(live)) {
            wrong.push(format!("l{live} is not on the list of open lives"));
        }
        let fans = of_live
            .held()
            .filter(|user| world.is_fan(*user, live))
            .map(|user| format!("u{user}"))
            .collect();
        let set = OnlineSet::Live(world.live_id(live));
        exact_sets.push(((set.clone(), Group::Fans), fans));
        exact_sets.push(((set, Group::All), here));
    }
    for (user, lives) in wrong_whereabouts(world, &truth) {
        wrong.push(format!("{user} is said to be in {lives:?}"));
    }
    wrong.extend(wrong_records(world, &truth));
    wrong.extend(wrong_attendance(world, &truth));
    wrong.extend(wrong_claims(world, &truth));
    wrong.extend(wrong_friends(world, &truth));
    wrong.extend(wrong_times(world, &truth));
    wrong.extend(wrong_moderators(world, &truth));
    let online = truth.online.values().map(|online| online.user);
    let online: BTreeSet<User> = online.filter(|user| !world.is_guest(*user)).collect();
    let streamers = online
        .iter()
        .filter(|user| world.is_streamer(**user))
        .map(|user| format!("u{user}"))
        .collect();
    exact_sets.push(((OnlineSet::Streamers, Group::All), streamers));
    exact_sets.push((
        (OnlineSet::Users, Group::All),
        online.iter().map(|user| format!("u{user}")).collect(),
    ));
    drop(truth);
    wrong.extend(media_server::wrong(world));
    for (place, right) in exact_sets {
        let set = format!("{} ({})", place.0, place.1.name());
        let members: Vec<String> = there
            .get(&place)
            .into_iter()
            .flatten()
            .map(ToString::to_string)
            .collect();
        let present: BTreeSet<String> = members.iter().cloned().collect();
        if members.len() != present.len() {
            wrong.push(format!("{set} has a member twice"));
        }
        if present != right {
            let extra: Vec<_> = present.difference(&right).collect();
            let missing: Vec<_> = right.difference(&present).collect();
            wrong.push(format!(
                "{set} has {extra:?} too many and lacks {missing:?}"
            ));
        }
    }
    for gateway in 0..world.plan.gateways {
        if !world.crowd.is_up(gateway) {
            wrong.push(format!("gateway {gateway} does not run"));
            continue;
        }
        for live in 0..world.plan.lives {
            if let Some(what) = wrong_figures(world, gateway, live) {
                wrong.push(what);
            }
        }
    }
    wrong
}

/// The users whose lives the store does not know, with those that it says.
fn wrong_whereabouts(world: &World, truth: &Truth) -> Vec<(String, Vec<(GatewayId, LiveId)>)> {
    let mut right: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (live, of_live) in truth.lives.iter().enumerate() {
        for user in of_live.held().filter(|user| !world.is_guest(*user)) {
            right
                .entry(format!("u{user}"))
                .or_default()
                .insert(world.live_id(live).to_string());
        }
    }
    let mut said: BTreeMap<String, Vec<(GatewayId, LiveId)>> = BTreeMap::new();
    for (user, lives) in world.network.truth.whereabouts() {
        said.insert(user.to_string(), lives);
    }
    let users: BTreeSet<&String> = right.keys().chain(said.keys()).collect();
    let mut wrong = Vec::new();
    for user in users {
        let said = said.get(user).cloned().unwrap_or_default();
        let lives: BTreeSet<String> = said.iter().map(|(_, live)| live.to_string()).collect();
        if lives != right.get(user).cloned().unwrap_or_default() {
            wrong.push((user.clone(), said));
        }
    }
    wrong
}

/// Open slices with claims that no gateway can have made, or whose public sets and sizes are not
/// what the claims say.
fn wrong_claims(world: &World, truth: &Truth) -> Vec<String> {
    let mut wrong = Vec::new();
    for (set, slice) in world.network.truth.all_slices() {
        if !matches!(slice.fence(), Some(Fence::Open(_))) {
            continue;
        }
        let live = (0..truth.lives.len()).find(|live| set.live() == Some(&world.live_id(*live)));
        for claimed in every_claim(&slice) {
            let ClaimedUser { user, by, .. } = claimed;
            let gateways: BTreeSet<_> = by.iter().filter_map(|(of, _)| of.as_ref()).collect();
            if by.is_empty() || gateways.len() != by.len() {
                wrong.push(format!("the claims on {user} in {set} are {by:?}"));
            }
            let Some(live) = live.filter(|live| truth.lives[*live].epoch.is_some()) else {
                continue;
            };
            let users = truth.lives[live].expectations.keys();
            let is_fan = users
                .filter(|number| world.user_id(**number) == user)
                .any(|number| world.is_fan(*number, live));
            if by.iter().any(|(_, claim)| (*claim == Claim::Fan) != is_fan) {
                wrong.push(format!(
                    "{user} is a fan in l{live}: {is_fan}, and claimed as {by:?}"
                ));
            }
        }
        wrong.extend(wrong_sizes(&set, &slice));
    }
    wrong
}

fn every_claim(slice: &StoredSlice) -> Vec<ClaimedUser> {
    let mut all = Vec::new();
    let mut cursor = Some(0);
    while let Some(from) = cursor {
        let page = slice.claims_page(from);
        all.extend(page.users);
        cursor = page.next;
    }
    all
}

/// What is wrong with a slice by itself.
fn wrong_sizes(set: &OnlineSet, slice: &StoredSlice) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut claimed: [BTreeSet<UserId>; 2] = Default::default();
    let mut guests = 0;
    for user in every_claim(slice) {
        // Guests have claims, and are in no set.
        if user.user.is_guest() {
            guests += 1;
            continue;
        }
        if user.by.iter().any(|(_, claim)| *claim == Claim::Fan) {
            claimed[1].insert(user.user.clone());
        }
        claimed[0].insert(user.user);
    }
    let size = slice.size();
    if size.guests != guests {
        wrong.push(format!(
            "{set} has {guests} guests, and counts {}",
            size.guests
        ));
    }
    let counted = [size.card.saturating_sub(guests), size.fans];
    for ((group, claimed), counted) in [Group::All, Group::Fans].iter().zip(claimed).zip(counted) {
        let there: BTreeSet<UserId> = slice.members(*group).cloned().collect();
        let group = group.name();
        if there != claimed {
            wrong.push(format!(
                "{set} ({group}) has {there:?}, and claims on {claimed:?}"
            ));
        }
        if claimed.len() as u64 != counted {
            wrong.push(format!(
                "{set} ({group}) has claims on {claimed:?}, and counts {counted}"
            ));
        }
    }
    let look = slice.look(&NOBODY, Entries::All);
    if !size.is_in_order() || !look.is_intact {
        wrong.push(format!("a slice of {set} is not in order: {look:?}"));
    }
    for (gateway, entry) in look.entries {
        let is_complete = matches!(
            entry,
            SliceEntry::At {
                is_complete: true,
                ..
            }
        );
        if !is_complete {
            wrong.push(format!("the entry of {gateway} in {set} is {entry:?}"));
        }
    }
    wrong
}

/// Lives whose record has other figures than there are.
fn wrong_records(world: &World, truth: &Truth) -> Vec<String> {
    let records = world.network.truth.records();
    let mut wrong = Vec::new();
    for (live, of_live) in truth.open_lives() {
        let right = right_figures(world, truth, live);
        let record = records.get(&world.live_id(live));
        // Nobody gives back a lost live in which nobody is: no gateway knows it.
        if record.is_none() && right == Figures::default() && world.plan.loses_data() {
            continue;
        }
        let counted = record.map(|record| record.counted.map(|counted| counted.figures));
        // Nobody writes the figures of a live in which nobody ever was.
        let counted = counted.map(Option::unwrap_or_default);
        if counted != Some(right) && of_live.was_entered {
            wrong.push(format!(
                "the record of l{live} has {counted:?} instead of {right:?}"
            ));
        }
    }
    wrong
}

/// Fans who are there and are not among those who came, and users there, or gone, of whom the
/// sessions say otherwise.
fn wrong_attendance(world: &World, truth: &Truth) -> Vec<String> {
    if world.plan.loses_data() {
        return Vec::new();
    }
    let store = &world.network.truth;
    let mut wrong = Vec::new();
    for (live, of_live) in truth.open_lives().filter(|(_, of_live)| of_live.attends) {
        let Some(epoch) = of_live.epoch else { continue };
        let of = LiveEpoch {
            live: world.live_id(live),
            epoch: Epoch(epoch),
        };
        let users = of_live.expectations.iter();
        for (user, expectation) in users.filter(|(user, _)| !world.is_guest(**user)) {
            let id = [world.user_id(*user)];
            let attended =
                at_once(store.have_attended(&of, &id)).is_ok_and(|attended| attended == [true]);
            let is_fan = world.is_fan(*user, live) && !world.is_fan_unsure(*user, live);
            if expectation.is_held() && is_fan && !attended {
                wrong.push(format!("u{user} is in l{live} and did not come there"));
            }
            let latest = at_once(store.latest_sessions(&of, of_live.slices, &id))
                .ok()
                .and_then(|stays| stays[0]);
            let is_open = latest.is_some_and(|stay| stay.left_at.is_none());
            if is_open != expectation.is_held() {
                wrong.push(format!(
                    "the last session of u{user} in l{live} is {latest:?}"
                ));
            }
        }
    }
    wrong
}

/// Viewers who are shown others than those of their friends who are in the live.
fn wrong_friends(world: &World, truth: &Truth) -> Vec<String> {
    let mut wrong = Vec::new();
    for (socket, shown) in &world.notes().shown_friends {
        let Some(user) = truth.online.get(socket).map(|online| online.user) else {
            continue;
        };
        let there = &truth.lives[shown.live].expectations;
        let is_there = |friend: &User| there.get(friend).is_some_and(Expectation::is_held);
        let users = world
            .friends_of(user)
            .filter(is_there)
            .map(|friend| format!("u{friend}"))
            .collect();
        let right = ShownFriends {
            live: shown.live,
            users,
            partial: false,
        };
        if *shown != right {
            wrong.push(format!("u{user} is {shown:?}, and should be {right:?}"));
        }
    }
    wrong
}

/// Viewers who were told wrongly whether they moderate in their live.
fn wrong_moderators(world: &World, truth: &Truth) -> Vec<String> {
    let notes = world.notes();
    let mut wrong = Vec::new();
    for (socket, belief) in &truth.beliefs {
        let Some(shown) = notes.shown_moderator.get(socket) else {
            continue;
        };
        let moderates = world.rules.moderates(belief.user, belief.live);
        if moderates.is_some_and(|moderates| moderates != *shown) {
            let user = belief.user;
            wrong.push(format!(
                "u{user} moderates: {moderates:?}, and was told {shown}"
            ));
        }
    }
    wrong
}

/// Users of whom the store says wrongly whether they are online, or when they were seen last.
fn wrong_times(world: &World, truth: &Truth) -> Vec<String> {
    if world.plan.loses_data() || world.plan.steps_clock() {
        return Vec::new();
    }
    let now = unix_now();
    let mut wrong = Vec::new();
    for (user, left) in &truth.last_online {
        if world.is_guest(*user) {
            continue;
        }
        let is_online = truth.online.values().any(|online| online.user == *user);
        let known = at_once(world.network.truth.presence_of(&[world.user_id(*user)]))
            .ok()
            .and_then(|known| known.into_iter().next());
        let Some(known) = known else { continue };
        let left = now.saturating_sub(left.elapsed().as_millis() as UnixMillis);
        let earliest = left.saturating_sub(SEEN_EARLIER.as_millis() as UnixMillis);
        let is_right = match known.last_seen {
            None => is_online && known.online,
            Some(seen) => {
                !is_online && !known.online && (earliest..=left + SEEN_LATER).contains(&seen)
            }
        };
        if !is_right {
            wrong.push(format!("u{user} went offline at {left}, is online: {is_online}, and the store says {known:?}"));
        }
    }
    wrong
}

fn right_figures(world: &World, truth: &Truth, live: Live) -> Figures {
    let of_live = &truth.lives[live];
    let is_fan = |user: &User| world.is_fan(*user, live);
    Figures {
        viewers: of_live.held().count() as u64,
        fans: of_live.held().filter(is_fan).count() as u64,
        guests: of_live.held().filter(|user| world.is_guest(*user)).count() as u64,
    }
}

fn wrong_figures(world: &World, gateway: usize, live: Live) -> Option<String> {
    let told = world.figures(gateway, live);
    let truth = world.truth();
    let of_live = truth
        .lives
        .get(live)
        .filter(|of_live| of_live.epoch.is_some())?;
    let right = right_figures(world, &truth, live);
    let is_right = match told {
        Some(told) => told == (right, Quality::Exact),
        None => !of_live
            .expectations
            .values()
            .any(|expectation| expectation.gateways().contains(&gateway)),
    };
    if is_right {
        return None;
    }
    let who = who(&truth, live, Instant::now());
    Some(format!(
        "gateway {gateway} says {told:?} of l{live} instead of {right:?}: {who}"
    ))
}

/// What is left when all have gone home and all lives are closed.
pub(crate) fn left_over(world: &World) -> Vec<String> {
    let store = &world.network.truth;
    let mut left = Vec::new();
    for (set, slice) in store.all_slices() {
        let is_open = matches!(slice.fence(), Some(Fence::Open(_))) && set.live().is_some();
        let (members, fans) = (slice.card(Group::All), slice.card(Group::Fans));
        if is_open || members + fans > 0 {
            left.push(format!(
                "a slice of {set} is left with {members} members and {fans} fans, and its fence is {:?}",
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
    left.extend(media_server::wrong(world));
    left.extend(untold_events(world));
    left
}

/// Openings and closings that the stream of events lacks, or has out of order. Where data was lost,
/// events may be lost with it.
fn untold_events(world: &World) -> Vec<String> {
    if world.plan.loses_data() {
        return Vec::new();
    }
    let mut told: BTreeMap<(String, EventKind), Vec<usize>> = BTreeMap::new();
    for (place, event) in world.network.truth.stream().into_iter().enumerate() {
        if matches!(event.kind, EventKind::LiveOpened | EventKind::LiveClosed) {
            let of = event
                .id
                .rsplitn(3, ':')
                .last()
                .unwrap_or_default()
                .to_owned();
            told.entry((of, event.kind)).or_default().push(place);
        }
    }
    let mut wrong = Vec::new();
    let truth = world.truth();
    for (live, of_live) in truth.lives.iter().enumerate() {
        for (epoch, is_closed) in &of_live.epochs {
            let of = format!("{}:{epoch}", world.live_id(live));
            let opened = told
                .get(&(of.clone(), EventKind::LiveOpened))
                .cloned()
                .unwrap_or_default();
            let closed = told
                .get(&(of.clone(), EventKind::LiveClosed))
                .cloned()
                .unwrap_or_default();
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
