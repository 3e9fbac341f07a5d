//! `rollcall explain LIVE [USER]`: how a live stands, which gateways hold which slice of it, and whether a user is
//! counted in it, with the reason in a sentence.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::leases::{LeaseSnapshot, LeaseStatus};
use super::{AuditError, fence_name, gateways, open, print};
use crate::base::clock::UnixMillis;
use crate::base::exit;
use crate::base::ids::{Epoch, GatewayId, LiveId, SliceId, UserId};
use crate::config::{Config, ExplainArgs};
use crate::edge::http::gateway::ViewerKnown;
use crate::store::redis::inspect::LeaseInside;
use crate::store::redis::{RedisStore, keys};
use crate::store::{LiveRecord, LiveState, LiveStore, Slices, StoreResult};

#[derive(Debug, Serialize)]
struct Explanation {
    live_id: LiveId,
    /// `open`, `closing`, `closed`, or null: the store has no record of it.
    state: Option<&'static str>,
    streamer_id: Option<UserId>,
    epoch: Option<Epoch>,
    /// Whether `lives` lists it.
    listed: bool,
    /// Its slices, if it is open or closing: all of them, or the user's alone.
    slices: Vec<SliceStatus>,
    user: Option<UserStatus>,
    /// The explanation, in sentences.
    because: Vec<String>,
}

#[derive(Debug, Serialize)]
struct SliceStatus {
    slice: u32,
    key: String,
    fans: u64,
    /// `open:<epoch>`, `closed:<epoch>`, or null.
    fence: Option<String>,
    gateways: Vec<EntryStatus>,
}

/// A gateway that has an entry in a slice.
#[derive(Debug, Serialize)]
struct EntryStatus {
    gateway_id: GatewayId,
    #[serde(flatten)]
    lease: LeaseStatus,
    /// Whether it has not renewed its lease for longer than a lease lasts, and was not buried either.
    expired: bool,
    /// The number of its last call.
    number: u64,
    /// How many members it holds; none if it has let go of the slice.
    members: u64,
    /// Whether it holds the user who was asked about.
    holds_user: Option<bool>,
}

#[derive(Debug, Serialize)]
struct UserStatus {
    user_id: UserId,
    /// Whether they are in the slice, and so among the fans.
    counted: bool,
    /// Null: they do not follow the streamer.
    follows_since: Option<UnixMillis>,
    /// When their ban from the live ends or ended; null: they were not banned.
    banned_until: Option<UnixMillis>,
    gateways: Vec<GatewayAnswer>,
}

/// What a gateway that was asked knows of the user, or why it did not answer.
#[derive(Debug, Serialize)]
struct GatewayAnswer {
    url: String,
    knows: Option<ViewerKnown>,
    error: Option<String>,
}

/// Explains a live, writes that to standard output and answers the exit code.
pub async fn run(config: &Config, args: &ExplainArgs) -> u8 {
    match explain(config, args).await {
        Ok(explanation) => {
            print(&explanation, args.format);
            exit::STOPPED
        }
        Err(why) => exit::say(exit::UNAVAILABLE, why),
    }
}

async fn explain(config: &Config, args: &ExplainArgs) -> Result<Explanation, AuditError> {
    let store = open(config).await?;
    let record = store.load_live(&args.live).await?;
    let listed = store.listed_at(&args.live).await?.is_some();
    let mut explanation = Explanation {
        live_id: args.live.clone(),
        state: record.as_ref().map(|record| record.state.as_str()),
        streamer_id: record.as_ref().map(|record| record.streamer.clone()),
        epoch: record.as_ref().map(|record| record.epoch),
        listed,
        slices: Vec::new(),
        user: None,
        because: Vec::new(),
    };
    let Some(record) = record else {
        explanation.because.push(format!("Nobody is counted: the store has no record of live {}.", args.live));
        return Ok(explanation);
    };
    explanation.because.push(about(&record, listed));
    let leases = LeaseSnapshot::read(&store).await?;
    let explainer = Explainer { store: &store, leases, lease: config.lease, args };
    if record.state != LiveState::Closed {
        for slice in SliceId::all(&args.live, record.slices) {
            if args.user.as_ref().is_none_or(|user| user.slice_index(record.slices) == slice.index) {
                explanation.slices.push(explainer.slice(&slice).await?);
            }
        }
    }
    if let Some(user) = &args.user {
        explanation.user = Some(explainer.user(&record, user, &mut explanation).await?);
    }
    Ok(explanation)
}

struct Explainer<'a> {
    store: &'a RedisStore,
    leases: LeaseSnapshot,
    lease: Duration,
    args: &'a ExplainArgs,
}

impl Explainer<'_> {
    async fn slice(&self, slice: &SliceId) -> StoreResult<SliceStatus> {
        let inside = self.store.inspect_slice(slice).await?;
        let mut gateways = Vec::new();
        for (gateway, number) in inside.entries {
            let holds_user = match &self.args.user {
                Some(user) => Some(self.store.holds(slice, &gateway, user).await?),
                None => None,
            };
            let lease = self.leases.get(&gateway);
            gateways.push(EntryStatus {
                expired: matches!(lease, Some(LeaseInside::Living { age, .. }) if age >= self.lease),
                lease: lease.into(),
                number,
                members: self.store.held_card(slice, &gateway).await?,
                holds_user,
                gateway_id: gateway,
            });
        }
        let fence = inside.fence.map(fence_name);
        Ok(SliceStatus { slice: slice.index, key: keys::slice(slice), fans: inside.card, fence, gateways })
    }

    async fn user(&self, record: &LiveRecord, user: &UserId, explanation: &mut Explanation) -> StoreResult<UserStatus> {
        let (because, streamer) = (&mut explanation.because, &record.streamer);
        let mut counted = false;
        if record.state == LiveState::Closed {
            because.push(format!("{user} is not counted: the live is closed."));
        } else {
            let index = user.slice_index(record.slices);
            let slice = SliceId { live: record.live.clone(), index, of: record.slices };
            counted = self.store.is_fan_online(&slice, user).await?;
            because.push(verdict(user, index, counted, explanation.slices.first()));
        }
        let follows_since = self.store.follows_since(user, streamer).await?;
        because.push(match follows_since {
            Some(at) => format!("{user} follows {streamer}, since {}.", time(at)),
            None => format!("{user} does not follow {streamer}: gateways that ask Redis do not take them for a fan."),
        });
        let banned_until = self.store.banned_until(&record.live, user).await?;
        if let Some(until) = banned_until {
            because.push(format!("{user} was removed, and may not join until {}.", time(until)));
        }
        let mut gateways = Vec::new();
        for url in &self.args.gateways {
            let (said, knows, error) = match gateways::viewer(url, &record.live, user).await {
                Ok(knows) => (known(user, &knows), Some(knows), None),
                Err(why) => (format!("{url} cannot be asked: {why:#}."), None, Some(format!("{why:#}"))),
            };
            because.push(said);
            gateways.push(GatewayAnswer { url: url.to_string(), knows, error });
        }
        Ok(UserStatus { user_id: user.clone(), counted, follows_since, banned_until, gateways })
    }
}

fn about(record: &LiveRecord, listed: bool) -> String {
    let LiveRecord { live, streamer, epoch, slices, opened_at, .. } = record;
    let mut said = match record.state {
        LiveState::Open => format!(
            "Live {live} of {streamer} is open, epoch {epoch}, over {slices} slices, since {}",
            time(*opened_at)
        ),
        LiveState::Closing => {
            format!("Live {live} of {streamer} is closing, epoch {epoch}: a close has begun and is to be finished")
        }
        LiveState::Closed => {
            let at = record.closure.map_or(0, |closure| closure.at);
            format!("Live {live} of {streamer} is closed, epoch {epoch}, since {}", time(at))
        }
    };
    match (record.state, listed) {
        (LiveState::Open, false) => said.push_str("; lives does not list it, which is wrong"),
        (LiveState::Closed, true) => said.push_str("; lives lists it still, which is wrong"),
        _ => {}
    }
    said + "."
}

/// Why a user is in the slice or not, by what the store holds.
fn verdict(user: &UserId, index: u32, counted: bool, slice: Option<&SliceStatus>) -> String {
    let holders: Vec<&EntryStatus> = slice
        .into_iter()
        .flat_map(|slice| &slice.gateways)
        .filter(|gateway| gateway.holds_user == Some(true))
        .collect();
    let names = holders.iter().map(|holder| format!("{} ({})", holder.gateway_id, holder.standing()));
    let names = names.collect::<Vec<_>>().join(" and ");
    match (counted, holders.is_empty()) {
        (true, false) => format!("{user} is counted as a fan, in slice {index}: held by {names}."),
        (true, true) => format!(
            "{user} is in slice {index} and no gateway holds them: a ghost, which gateways that hold the slice take out."
        ),
        (false, false) => format!(
            "{user} is not in slice {index}, though held by {names}: missing, until that gateway reads back what it holds."
        ),
        (false, true) => format!("{user} is not counted: not in slice {index}, and no gateway holds them."),
    }
}

/// What a gateway knows of a user, and what follows.
fn known(user: &UserId, knows: &ViewerKnown) -> String {
    let ViewerKnown { gateway_id, sockets, .. } = knows;
    if !knows.joined {
        let here = if knows.live_here { "nobody of that name has joined there" } else { "it has nobody in this live" };
        return format!("{gateway_id} does not know {user}: {here}.");
    }
    let heard = knows.heard_ms_ago.unwrap_or(0) as f64 / 1_000.0;
    let fan = match (knows.wanted, knows.counted, knows.fan) {
        (true, ..) => "a fan, whom the store shall hold",
        (false, false, _) => "not to be counted (count=false)",
        (false, true, None) => "a viewer whose fan check has not been answered yet",
        (false, true, Some(_)) => "a viewer, and no fan by its last fan check",
    };
    format!("{gateway_id} has {user} with {sockets} sockets, last heard {heard:.1} s ago: {fan}.")
}

fn time(at: UnixMillis) -> String {
    humantime::format_rfc3339_seconds(std::time::UNIX_EPOCH + Duration::from_millis(at)).to_string()
}

impl EntryStatus {
    /// Whether the gateway lives, and what will be done about it if not.
    fn standing(&self) -> String {
        let follows = match (self.lease.lease, self.expired) {
            (Some("living"), false) => "",
            (Some("living"), true) => ": it is to be buried",
            (Some(_), _) => ": it is to be swept",
            (None, _) => ": it is to be buried unless it renews one",
        };
        format!("{}{follows}", self.lease)
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.because.join("\n"))?;
        for SliceStatus { slice, key, fans, fence, gateways } in &self.slices {
            let fence = fence.as_deref().unwrap_or("none");
            write!(f, "\nslice {slice} ({key}): {fans} fans, fence {fence}")?;
            for entry in gateways {
                let EntryStatus { gateway_id, members, number, .. } = entry;
                write!(f, "\n  {gateway_id} holds {members}, {}, call {number}", entry.standing())?;
            }
        }
        Ok(())
    }
}
