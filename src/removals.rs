//! Owns removals: a user is sent out of a live, on every gateway, and may be kept out for a time.
//!
//! The store gives each removal a number, and tells the other gateways in the same step that the record changed; a gateway
//! that has not reached the last number reads what happened since and carries that out ([`catch_up`]). A check compares the
//! last number too: so whoever was cut off makes good what it missed.
//!
//! Joins are checked against the room's memory ([`crate::rooms::bans`]). A store that lost its data gets the bans that
//! run back from the gateways. Called by the HTTP API, upkeep, the ear and the loading of rooms.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::{Millis, UnixMillis};
use crate::core::Core;
use crate::ids::{LiveId, UserId};
use crate::lives::LiveError;
use crate::metrics::Metrics;
use crate::rooms::Room;
use crate::rooms::bans::Known;
use crate::store::{
    Ban, Change, ChangeKind, LEAP, LiftBan, LiftReply, LiveRecord, LiveState, MAX_BATCH, MAX_CHANGES, RemoveReply,
    RemoveUser, Store, StoreResult,
};
use crate::upkeep;

/// Why a user is not removed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RemoveError {
    /// The live cannot be had.
    #[error(transparent)]
    Live(#[from] LiveError),
    /// It is the user's own.
    #[error("live {0} is the user's own; close it instead")]
    Streamer(LiveId),
    /// As many are banned as can be.
    #[error("live {0} has as many bans as it can have")]
    Full(LiveId),
}

/// A user was removed.
#[derive(Debug, Clone)]
pub struct Removed {
    /// The live, as it was known when it was asked for.
    pub record: LiveRecord,
    /// When the user's ban ends, by the store's clock; `None` if they may come back.
    pub banned_until: Option<UnixMillis>,
}

/// Sends a user out of an open live, whether or not they are there, and refuses their joins for the time of a ban.
///
/// # Errors
/// See [`RemoveError`]; the store's: then it may be done all the same.
pub async fn remove(core: &Core, live: &LiveId, user: &UserId, ban: Option<Duration>) -> Result<Removed, RemoveError> {
    let record = record_of(core, live).await?;
    if record.streamer == *user {
        return Err(RemoveError::Streamer(live.clone()));
    }
    let message = core.gossip.record_changed();
    let wish = RemoveUser { live: live.clone(), epoch: record.epoch, user: user.clone(), ban, message };
    let mut reply = core.requests.remove_user(&wish).await.map_err(LiveError::from)?;
    if reply == RemoveReply::Absent && write_again(core, live).await.map_err(LiveError::from)? {
        reply = core.requests.remove_user(&wish).await.map_err(LiveError::from)?;
    }
    let (number, banned_until) = match reply {
        RemoveReply::Done { number, until } => (number, until),
        RemoveReply::Full => return Err(RemoveError::Full(live.clone())),
        RemoveReply::Over => return Err(LiveError::NotOpen(live.clone()).into()),
        RemoveReply::Absent => return Err(LiveError::NeverOpened(live.clone()).into()),
    };
    Metrics::count(&core.metrics.removals, if ban.is_some() { "banned" } else { "removed" });
    let ban_s = ban.map_or(0, |ban| ban.as_secs());
    tracing::info!(live_id = %live, epoch = %record.epoch, user_id = %user, number, ban_s, "a user was removed");
    carry_out_here(core, &record, number).await;
    Ok(Removed { record, banned_until })
}

/// Ends a ban ahead of its time. True if there was one.
///
/// # Errors
/// The live's, or the store's.
pub async fn lift(core: &Core, live: &LiveId, user: &UserId) -> Result<bool, LiveError> {
    let record = record_of(core, live).await?;
    let message = core.gossip.record_changed();
    let wish = LiftBan { live: live.clone(), epoch: record.epoch, user: user.clone(), message };
    let mut reply = core.requests.lift_ban(&wish).await?;
    if reply == LiftReply::Absent && write_again(core, live).await? {
        reply = core.requests.lift_ban(&wish).await?;
    }
    let number = match reply {
        LiftReply::Lifted { number } => number,
        LiftReply::NotBanned => return Ok(false),
        LiftReply::Over => return Err(LiveError::NotOpen(live.clone())),
        LiftReply::Absent => return Err(LiveError::NeverOpened(live.clone())),
    };
    Metrics::count(&core.metrics.removals, "lifted");
    tracing::info!(live_id = %live, epoch = %record.epoch, user_id = %user, number, "a ban was lifted");
    carry_out_here(core, &record, number).await;
    Ok(true)
}

/// Up to `limit` bans that run in an open live, soonest end first, after the given one.
///
/// # Errors
/// The live's, or the store's.
pub async fn bans(core: &Core, live: &LiveId, after: Option<&Ban>, limit: usize) -> Result<Vec<Ban>, LiveError> {
    let record = record_of(core, live).await?;
    let Some(now) = core.requests.removals_since(live, record.epoch, record.removals).await? else {
        return Err(LiveError::NotOpen(live.clone()));
    };
    let (mut found, mut after) = (Vec::new(), after.cloned());
    while found.len() < limit {
        let wanted = limit - found.len();
        let page = core.requests.bans_page(live, after.as_ref(), wanted).await?;
        let at_end = page.len() < wanted;
        after = page.last().cloned();
        found.extend(page.into_iter().filter(|ban| ban.until > now.at));
        if at_end {
            break;
        }
    }
    Ok(found)
}

/// The record of an open live: the store's; if the store has lost it, the room's.
async fn record_of(core: &Core, live: &LiveId) -> Result<LiveRecord, LiveError> {
    let record = match core.requests.load_live(live).await? {
        Some(record) => record,
        None => core.rooms.get(live).ok_or_else(|| LiveError::NeverOpened(live.clone()))?.record.clone(),
    };
    if record.state == LiveState::Open { Ok(record) } else { Err(LiveError::NotOpen(live.clone())) }
}

/// The store has no record of the live. If it is open here, it is written again. True if it was.
async fn write_again(core: &Core, live: &LiveId) -> StoreResult<bool> {
    let Some(room) = core.rooms.get(live) else { return Ok(false) };
    upkeep::touch(core, &room).await?;
    Ok(true)
}

async fn carry_out_here(core: &Core, record: &LiveRecord, number: u64) {
    if let Some(room) = core.rooms.get(&record.live)
        && room.record.epoch == record.epoch
    {
        catch_up_quietly(core, &room, number).await;
    }
}

/// Carries out what happened up to this number at least. What fails is made good by the next check.
pub async fn catch_up_quietly(core: &Core, room: &Arc<Room>, number: u64) {
    if let Err(why) = catch_up(core, room, number).await {
        tracing::debug!(live_id = %room.record.live, error = %why, "removals were not read, will try again");
        core.upkeep.check_soon(vec![room.clone()]);
    }
}

/// Reads what happened since the last number that was carried out here, and carries it out; nothing if that is as high
/// as `number`.
///
/// # Errors
/// The store's; what was read until then is carried out.
pub async fn catch_up(core: &Core, room: &Arc<Room>, number: u64) -> StoreResult<()> {
    let LiveRecord { live, epoch, .. } = &room.record;
    let _turn = room.bans.reading().await;
    while room.bans.last() < number && room.end().is_none() {
        let since = room.bans.last();
        // An epoch that is over ends with the next check.
        let Some(mut read) = core.store.removals_since(live, *epoch, since).await? else { return Ok(()) };
        if read.last.saturating_sub(since) > MAX_CHANGES as u64 {
            if read.last - since >= LEAP {
                give_back(core, room).await?;
                let Some(again) = core.store.removals_since(live, *epoch, since).await? else { return Ok(()) };
                read = again;
            }
            let bans = read_bans(core.store.as_ref(), live, read.at).await?;
            let now = core.clock.now();
            room.bans.replace(Known { last: since, bans: bans.clone() }, now);
            for (user, _) in bans {
                send_out(core, room, &user, now);
            }
        }
        let more = read.changes.len() >= MAX_BATCH;
        let now = core.clock.now();
        let reached = read.changes.last().map_or(read.last, |change| change.number);
        for change in read.changes {
            carry_out(core, room, &change, now);
        }
        room.bans.advance(if more { reached } else { read.last });
        if !more {
            break;
        }
    }
    Ok(())
}

/// The store lost what it knew: it gets the bans that run here.
async fn give_back(core: &Core, room: &Room) -> StoreResult<()> {
    let running = room.bans.running(core.clock.now());
    if !running.is_empty() {
        tracing::warn!(live_id = %room.record.live, bans = running.len(), "the store had lost bans; noted them again");
    }
    for some in running.chunks(MAX_BATCH) {
        core.store.restore_bans(&room.record.live, room.record.epoch, some).await?;
    }
    Ok(())
}

/// The bans with which a room is made.
///
/// # Errors
/// The store's.
pub async fn load(store: &dyn Store, record: &LiveRecord) -> StoreResult<Known> {
    if record.removals == 0 {
        return Ok(Known::default());
    }
    // The number is read before the bans: what comes in between is read once more.
    let Some(read) = store.removals_since(&record.live, record.epoch, record.removals).await? else {
        return Ok(Known::default());
    };
    Ok(Known { last: record.removals, bans: read_bans(store, &record.live, read.at).await? })
}

/// Every ban that runs at `at`, with what is left of it then.
async fn read_bans(store: &dyn Store, live: &LiveId, at: UnixMillis) -> StoreResult<Vec<(UserId, Duration)>> {
    let mut all = Vec::new();
    let mut after: Option<Ban> = None;
    loop {
        let page = store.bans_page(live, after.as_ref(), MAX_BATCH).await?;
        let running = page.iter().filter(|ban| ban.until > at);
        all.extend(running.map(|ban| (ban.user.clone(), Duration::from_millis(ban.until - at))));
        if page.len() < MAX_BATCH {
            return Ok(all);
        }
        after = page.into_iter().next_back();
    }
}

fn carry_out(core: &Core, room: &Arc<Room>, change: &Change, now: Millis) {
    match change.kind {
        ChangeKind::Lifted => room.bans.set(&change.user, None, now),
        ChangeKind::Removed(left) => {
            // First the ban, then the seats: who joins in between is either refused or found.
            room.bans.set(&change.user, left, now);
            send_out(core, room, &change.user, now);
        }
    }
}

/// Takes a user's seat and has their sockets closed.
fn send_out(core: &Core, room: &Arc<Room>, user: &UserId, now: Millis) {
    if room.send_out(user, now) == 0 {
        return;
    }
    let (place, slice) = room.slice_of(user);
    if slice.lock().is_dirty() {
        core.flush.mark(room, place);
    }
    core.changed.mark(room);
    core.gossip.mark(room);
}
