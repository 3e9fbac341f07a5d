//! Carries out on this gateway what happened to a live's bans, in the order of the store's numbers.
//!
//! The store numbers each removal, and tells the peers in the same step that the record changed. A gateway that has not
//! reached the last number reads what happened since and carries that out. A check compares the last number too, so a
//! gateway that was cut off makes good what it missed. A store that lost its data gets the running bans back.

use std::sync::Arc;
use std::time::Duration;

use crate::base::clock::{Clock, Millis, UnixMillis};
use crate::base::ids::{LiveId, UserId};
use crate::presence::bans::KnownBans;
use crate::presence::checks::Checks;
use crate::presence::{Room, Rooms};
use crate::store::{Ban, Change, ChangeKind, LEAP, LiveRecord, MAX_BATCH, MAX_CHANGES, Store, StoreResult};

pub struct CatchUp {
    pub store: Arc<dyn Store>,
    pub rooms: Arc<Rooms>,
    pub checks: Arc<Checks>,
    pub clock: Clock,
}

impl CatchUp {
    /// Carries out what happened up to this number at least. The next check makes good what fails.
    pub async fn quietly(&self, room: &Arc<Room>, number: u64) {
        if let Err(why) = self.up_to(room, number).await {
            tracing::debug!(live_id = %room.record.live, error = %why, "removals were not read, will try again");
            self.checks.check_soon(vec![room.clone()]);
        }
    }

    /// Reads what happened since the last number that was carried out here, and carries it out; nothing if that is as
    /// high as `number`.
    ///
    /// # Errors
    /// The store's; what was read until then is carried out.
    pub async fn up_to(&self, room: &Arc<Room>, number: u64) -> StoreResult<()> {
        let LiveRecord { live, epoch, .. } = &room.record;
        let _turn = room.bans.lock_catch_up().await;
        while room.bans.last() < number && room.end().is_none() {
            let since = room.bans.last();
            // An epoch that is over ends with the next check.
            let Some(mut read) = self.store.removals_since(live, *epoch, since).await? else { return Ok(()) };
            if read.last.saturating_sub(since) > MAX_CHANGES as u64 {
                if read.last - since >= LEAP {
                    self.give_back(room).await?;
                    let Some(again) = self.store.removals_since(live, *epoch, since).await? else { return Ok(()) };
                    read = again;
                }
                let bans = read_bans(self.store.as_ref(), live, read.at).await?;
                let now = self.clock.now();
                room.bans.replace(KnownBans { last: since, bans: bans.clone() }, now);
                for (user, _) in bans {
                    self.remove_user(room, &user, now);
                }
            }
            let more = read.changes.len() >= MAX_BATCH;
            let now = self.clock.now();
            let reached = read.changes.last().map_or(read.last, |change| change.number);
            for change in read.changes {
                self.carry_out(room, &change, now);
            }
            room.bans.advance(if more { reached } else { read.last });
            if !more {
                break;
            }
        }
        Ok(())
    }

    /// The store lost what it knew: it gets the bans that run here.
    async fn give_back(&self, room: &Room) -> StoreResult<()> {
        let running = room.bans.active(self.clock.now());
        if !running.is_empty() {
            tracing::warn!(live_id = %room.record.live, bans = running.len(), "the store had lost bans; noted them again");
        }
        for some in running.chunks(MAX_BATCH) {
            self.store.restore_bans(&room.record.live, room.record.epoch, some).await?;
        }
        Ok(())
    }

    fn carry_out(&self, room: &Arc<Room>, change: &Change, now: Millis) {
        match change.kind {
            ChangeKind::Lifted => room.bans.set(&change.user, None, now),
            ChangeKind::Removed(left) => {
                // First the ban, then the seats: a join in between is either refused or found.
                room.bans.set(&change.user, left, now);
                self.remove_user(room, &change.user, now);
            }
        }
    }

    /// Takes a user's seat and has their sockets closed.
    fn remove_user(&self, room: &Arc<Room>, user: &UserId, now: Millis) {
        if room.remove_user(user, now) > 0 {
            self.rooms.user_changed(room, user);
        }
    }
}

/// The bans with which a room is made.
///
/// # Errors
/// The store's.
pub async fn load_bans(store: &dyn Store, record: &LiveRecord) -> StoreResult<KnownBans> {
    if record.removals == 0 {
        return Ok(KnownBans::default());
    }
    // The number is read before the bans: what comes in between is read once more.
    let Some(read) = store.removals_since(&record.live, record.epoch, record.removals).await? else {
        return Ok(KnownBans::default());
    };
    Ok(KnownBans { last: record.removals, bans: read_bans(store, &record.live, read.at).await? })
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
