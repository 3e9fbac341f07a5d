//! Owns `rollcall explain LIVE [USER]`: how a live stands, who holds which slice of it, and whether a user is counted in
//! it, with the reason in a sentence.

use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;

use super::leases::{LeaseTold, Leases};
use super::{AuditError, GatewayUrl, open, report};
use crate::api::gateway::ViewerKnown;
use crate::clock::UnixMillis;
use crate::config::{Config, ExplainWish, Form};
use crate::exit;
use crate::ids::{Epoch, GatewayId, LiveId, SliceId, UserId};
use crate::store::redis::inspect::LeaseInside;
use crate::store::redis::{RedisStore, keys};
use crate::store::slice::Fence;
use crate::store::{LiveRecord, LiveState, LiveStore, Slices, StoreResult};

/// What is told of a live, and of a user in it.
#[derive(Debug, Serialize)]
pub struct Explained {
    /// The live.
    pub live_id: LiveId,
    /// `open`, `closing`, `closed`, or null: the store has no record of it.
    pub state: Option<&'static str>,
    /// Who owns it.
    pub streamer_id: Option<UserId>,
    /// Which opening of it.
    pub epoch: Option<Epoch>,
    /// Whether `lives` lists it.
    pub listed: bool,
    /// Its slices, if it is open or closing: all of them, or the user's alone.
    pub slices: Vec<SliceTold>,
    /// The user who was asked about.
    pub user: Option<UserTold>,
    /// What it comes to, in sentences.
    pub because: Vec<String>,
}

/// A slice.
#[derive(Debug, Serialize)]
pub struct SliceTold {
    /// Which one, from 1.
    pub slice: u32,
    /// The key of its members.
    pub key: String,
    /// Fans in it.
    pub fans: u64,
    /// `open:<epoch>`, `closed:<epoch>`, or null.
    pub fence: Option<String>,
    /// Who has an entry in it.
    pub gateways: Vec<HolderTold>,
}

/// A gateway that has an entry in a slice.
#[derive(Debug, Serialize)]
pub struct HolderTold {
    /// Which.
    pub gateway_id: GatewayId,
    /// Whether it lives.
    #[serde(flatten)]
    pub lease: LeaseTold,
    /// Whether it has not renewed its lease for longer than a lease lasts, and was not buried either.
    pub expired: bool,
    /// The number of its last call.
    pub number: u64,
    /// How many it holds; none if it has let go of the slice.
    pub members: u64,
    /// Whether it holds the user who was asked about.
    pub holds_user: Option<bool>,
}

/// A user in a live.
#[derive(Debug, Serialize)]
pub struct UserTold {
    /// Who.
    pub user_id: UserId,
    /// Whether they are in the slice, and so among the fans.
    pub counted: bool,
    /// Since when they follow the streamer, in Unix milliseconds; null: they do not.
    pub follows_since: Option<UnixMillis>,
    /// When their ban from the live ends or ended, in Unix milliseconds; null: they were not banned.
    pub banned_until: Option<UnixMillis>,
    /// What the gateways that were asked know of them.
    pub gateways: Vec<GatewayTold>,
}

/// What a gateway knows of a user.
#[derive(Debug, Serialize)]
pub struct GatewayTold {
    /// Where it was asked.
    pub url: String,
    /// What it answered; null if it did not.
    pub knows: Option<ViewerKnown>,
    /// Why it did not.
    pub error: Option<String>,
}

/// Explains a live, writes that to standard output and answers the exit code.
pub async fn run(config: &Config, wish: &ExplainWish) -> u8 {
    match explain(config, wish).await {
        Ok(explained) => {
            report::print(&match wish.form {
                Form::Json => serde_json::to_string(&explained).unwrap_or_default(),
                Form::Text => explained.text(),
            });
            exit::STOPPED
        }
        Err(why) => exit::say(exit::UNAVAILABLE, why),
    }
}

/// Reads what the store knows of a live, and of a user in it.
///
/// # Errors
/// The store cannot be had, or stopped answering, or what it holds cannot be read.
pub async fn explain(config: &Config, wish: &ExplainWish) -> Result<Explained, AuditError> {
    let store = open(config).await?;
    let record = store.load_live(&wish.live).await?;
    let listed = store.listed_at(&wish.live).await?.is_some();
    let mut told = Explained {
        live_id: wish.live.clone(),
        state: record.as_ref().map(|record| record.state.as_str()),
        streamer_id: record.as_ref().map(|record| record.streamer.clone()),
        epoch: record.as_ref().map(|record| record.epoch),
        listed,
        slices: Vec::new(),
        user: None,
        because: Vec::new(),
    };
    let Some(record) = record else {
        told.because.push(format!("Nobody is counted: the store has no record of live {}.", wish.live));
        return Ok(told);
    };
    told.because.push(about(&record, listed));
    let leases = Leases::read(&store).await?;
    let explainer =
        Explainer { store: &store, leases, lease: config.lease, user: wish.user.as_ref(), gateways: &wish.gateways };
    if record.state != LiveState::Closed {
        for slice in SliceId::all(&wish.live, record.slices) {
            if wish.user.as_ref().is_none_or(|user| user.slice_index(record.slices) == slice.index) {
                told.slices.push(explainer.slice(&slice).await?);
            }
        }
    }
    if let Some(user) = &wish.user {
        explainer.user(&record, user, &mut told).await?;
    }
    Ok(told)
}

struct Explainer<'a> {
    store: &'a RedisStore,
    leases: Leases,
    lease: Duration,
    user: Option<&'a UserId>,
    gateways: &'a [GatewayUrl],
}

impl Explainer<'_> {
    async fn slice(&self, slice: &SliceId) -> StoreResult<SliceTold> {
        let inside = self.store.inspect_slice(slice).await?;
        let mut gateways = Vec::new();
        for (gateway, number) in inside.entries {
            let holds_user = match self.user {
                Some(user) => Some(self.store.holds(slice, &gateway, user).await?),
                None => None,
            };
            let lease = self.leases.get(&gateway);
            gateways.push(HolderTold {
                expired: matches!(lease, Some(LeaseInside::Living { age, .. }) if age >= self.lease),
                lease: lease.into(),
                number,
                members: self.store.held_card(slice, &gateway).await?,
                holds_user,
                gateway_id: gateway,
            });
        }
        let fence = inside.fence.map(|fence| match fence {
            Fence::Open(epoch) => format!("open:{epoch}"),
            Fence::Closed(epoch) => format!("closed:{epoch}"),
        });
        Ok(SliceTold { slice: slice.index, key: keys::slice(slice), fans: inside.card, fence, gateways })
    }

    async fn user(&self, record: &LiveRecord, user: &UserId, told: &mut Explained) -> StoreResult<()> {
        let follows_since = self.store.follows_since(user, &record.streamer).await?;
        let mut counted = false;
        if record.state != LiveState::Closed {
            let index = user.slice_index(record.slices);
            let slice = SliceId { live: record.live.clone(), index, of: record.slices };
            counted = self.store.is_fan_online(&slice, user).await?;
            told.because.push(verdict(user, index, counted, told.slices.first()));
        } else {
            told.because.push(format!("{user} is not counted: the live is closed."));
        }
        let streamer = &record.streamer;
        told.because.push(match follows_since {
            Some(at) => format!("{user} follows {streamer}, since {}.", time(at)),
            None => format!("{user} does not follow {streamer}: gateways that ask Redis do not take them for a fan."),
        });
        let banned_until = self.store.banned_until(&record.live, user).await?;
        if let Some(until) = banned_until {
            told.because.push(format!("{user} was removed, and may not join until {}.", time(until)));
        }
        let mut gateways = Vec::new();
        for url in self.gateways {
            let (knows, error) = match url.viewer(&record.live, user).await {
                Ok(knows) => (Some(knows), None),
                Err(why) => (None, Some(format!("{why:#}"))),
            };
            let place = format!("{url}");
            told.because.push(match (&knows, &error) {
                (Some(knows), _) => known(user, knows),
                (None, why) => format!("{place} cannot be asked: {}.", why.as_deref().unwrap_or("no answer")),
            });
            gateways.push(GatewayTold { url: place, knows, error });
        }
        told.user = Some(UserTold { user_id: user.clone(), counted, follows_since, banned_until, gateways });
        Ok(())
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
fn verdict(user: &UserId, index: u32, counted: bool, slice: Option<&SliceTold>) -> String {
    let holders: Vec<&HolderTold> = slice
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

impl HolderTold {
    /// Whether the gateway lives, and what follows for its members.
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

impl Explained {
    fn text(&self) -> String {
        let mut text = self.because.join("\n");
        for slice in &self.slices {
            let fence = slice.fence.as_deref().unwrap_or("none");
            let _ = write!(text, "\nslice {} ({}): {} fans, fence {fence}", slice.slice, slice.key, slice.fans);
            for holder in &slice.gateways {
                let HolderTold { gateway_id, members, number, .. } = holder;
                let _ = write!(text, "\n  {gateway_id} holds {members}, {}, call {number}", holder.standing());
            }
        }
        text
    }
}
