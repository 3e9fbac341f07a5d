//! Carries out removals, bans and lifted bans on this gateway, in the order of the store's numbers.
//!
//! The store numbers each removal, and publishes in the same step that the record changed. A
//! gateway that has not reached the last number reads what happened since and carries it out. A
//! check compares the last number too, so a gateway that was cut off catches up. A store that lost
//! its data gets the active bans back.

use std::sync::Arc;
use std::time::Duration;

use crate::base::clock::{Moment, UnixMillis};
use crate::base::ids::{LiveId, UserId};
use crate::peers::core::Core;
use crate::presence::Room;
use crate::presence::bans::KnownBans;
use crate::store::{
    Ban, ChangeKind, LEAP, LiveRecord, MAX_BATCH, MAX_CHANGES, RemovalChange, Store, StoreResult,
};

pub struct CatchUp {
    pub core: Arc<Core>,
}

impl CatchUp {
    /// Does the same as [`CatchUp::up_to`]. After a failure a check is due soon, which tries again.
    pub async fn quietly(&self, room: &Arc<Room>, number: u64) {
        if let Err(why) = self.up_to(room, number).await {
            tracing::debug!(
                live_id = %room.record.live, error = %why,
                "removals were not read, will try again"
            );
            self.core.checks.check_soon(vec![room.clone()]);
        }
    }

    /// Reads and carries out the changes since the last number that was carried out here. Does
    /// nothing if that number is as high as `number`. If the store fails, the changes that were
    /// read until then have been carried out.
    pub async fn up_to(&self, room: &Arc<Room>, number: u64) -> StoreResult<()> {
        let LiveRecord { live, epoch, .. } = &room.record;
        let _guard = room.seats.bans.lock_catch_up().await;
        while room.seats.bans.last() < number && room.end().is_none() {
            let since = room.seats.bans.last();
            // If the epoch is over, the next check ends the room.
            let Some(mut read) = self.core.store.removals_since(live, *epoch, since).await? else {
                return Ok(());
            };
            if read.last.saturating_sub(since) > MAX_CHANGES as u64 {
                if read.last - since >= LEAP {
                    self.give_back(room).await?;
                    let Some(again) = self.core.store.removals_since(live, *epoch, since).await?
                    else {
                        return Ok(());
                    };
                    read = again;
                }
                let bans = read_bans(self.core.store.as_ref(), live, read.at).await?;
                let now = self.core.clock.now();
                room.seats.bans.replace(
                    KnownBans {
                        last: since,
                        bans: bans.clone(),
                    },
                    now,
                );
                for (user, _) in bans {
                    self.remove_user(room, &user, now);
                }
            }
            let more = read.changes.len() >= MAX_BATCH;
            let now = self.core.clock.now();
            let reached = match read.changes.last() {
                Some(change) => change.number,
                None => read.last,
            };
            for change in read.changes {
                self.carry_out(room, &change, now);
            }
            room.seats
                .bans
                .advance(if more { reached } else { read.last });
            if !more {
                break;
            }
        }
        Ok(())
    }

    /// Gives the active bans back to a store that lost them.
    async fn give_back(&self, room: &Room) -> StoreResult<()> {
        let active = room.seats.bans.active(self.core.clock.now());
        if !active.is_empty() {
            tracing::warn!(
                live_id = %room.record.live, bans = active.len(),
                "the store had lost bans; wrote them again"
            );
        }
        for some in active.chunks(MAX_BATCH) {
            self.core
                .store
                .restore_bans(&room.record.live, room.record.epoch, some)
                .await?;
        }
        Ok(())
    }

    fn carry_out(&self, room: &Arc<Room>, change: &RemovalChange, now: Moment) {
        match change.kind {
            ChangeKind::Lifted => room.seats.bans.set(&change.user, None, now),
            ChangeKind::Removed(left) => {
                // The ban comes before the seats: a join in between is either refused or found.
                room.seats.bans.set(&change.user, left, now);
                self.remove_user(room, &change.user, now);
            }
        }
    }

    /// Removes a user's seat and has its sockets closed.
    fn remove_user(&self, room: &Arc<Room>, user: &UserId, now: Moment) {
        if room.remove_user(user, now) > 0 {
            self.core.rooms.user_changed(room, user);
        }
    }
}

/// The bans with which a room is made.
pub async fn load_bans(store: &dyn Store, record: &LiveRecord) -> StoreResult<KnownBans> {
    if record.removals == 0 {
        return Ok(KnownBans::default());
    }
    // The number is read before the bans: a removal between the two is read once more.
    let Some(read) = store
        .removals_since(&record.live, record.epoch, record.removals)
        .await?
    else {
        return Ok(KnownBans::default());
    };
    Ok(KnownBans {
        last: record.removals,
        bans: read_bans(store, &record.live, read.at).await?,
    })
}

/// Every ban that is active at `at`, with the time that it still lasts.
async fn read_bans(
    store: &dyn Store,
    live: &LiveId,
    at: UnixMillis,
) -> StoreResult<Vec<(UserId, Duration)>> {
    let active = active_bans(store, live, at, None, usize::MAX).await?;
    Ok(active
        .into_iter()
        .map(|ban| (ban.user, Duration::from_millis(ban.until - at)))
        .collect())
}

/// Up to `limit` bans that are active at `at`, soonest end first, after the given one.
pub async fn active_bans(
    store: &dyn Store,
    live: &LiveId,
    at: UnixMillis,
    mut after: Option<Ban>,
    limit: usize,
) -> StoreResult<Vec<Ban>> {
    let mut active = Vec::new();
    while active.len() < limit {
        let wanted = (limit - active.len()).min(MAX_BATCH);
        let page = store.bans_page(live, after.as_ref(), wanted).await?;
        let at_end = page.len() < wanted;
        after = page.last().cloned();
        active.extend(page.into_iter().filter(|ban| ban.until > at));
        if at_end {
            break;
        }
    }
    Ok(active)
}
