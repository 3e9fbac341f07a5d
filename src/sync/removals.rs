//! Removes a user from a live on every gateway, and bans the user for a time if asked to. The HTTP
//! API calls it.
//!
//! Joins are checked against the room's memory ([`crate::presence::bans`]); [`super::catch_up`]
//! keeps that up to date.

use std::sync::Arc;
use std::time::Duration;

use crate::base::actor::Actor;
use crate::base::clock::UnixMillis;
use crate::base::ids::{Epoch, LiveId, UserId};
use crate::base::metrics::Metrics;
use crate::peers::core::Core;
use crate::store::{
    Ban, LiftBan, LiftReply, LiveRecord, LiveState, RemoveReply, RemoveUser, StoreError,
    StoreResult,
};
use crate::sync::catch_up::{CatchUp, active_bans};
use crate::sync::events::announcer::Announcer;
use crate::sync::keep::Keeper;
use crate::sync::lives::{LiveError, known_record};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RemoveError {
    #[error(transparent)]
    Live(#[from] LiveError),
    #[error("live {0} is the user's own; close it instead")]
    Streamer(LiveId),
    #[error("the user hosts live {0}; change its hosts first")]
    Host(LiveId),
    #[error("live {0} has as many bans as it can have")]
    Full(LiveId),
}

#[derive(Debug, Clone)]
pub struct Removed {
    pub epoch: Epoch,
    /// When the user's ban ends, by the store's clock; `None` if the user may come back at once.
    pub ban_ends_at: Option<UnixMillis>,
}

pub struct Remover {
    pub core: Arc<Core>,
    pub keeper: Arc<Keeper>,
    pub catch_up: Arc<CatchUp>,
    pub announcer: Announcer,
}

/// Why the store did nothing, if that can be mended.
enum Obstacle {
    /// The store has lost the record of the live.
    Absent,
    /// The record has no place for an event.
    Crowded,
}

/// A change without an event needs no place.
fn crowded() -> StoreError {
    StoreError::Nonsense("a change without an event found no place for one".to_owned())
}

/// How often a change waits until the record has a place for its event. Each time, the events of all
/// who wait are written.
const MOST_WAITS: u32 = 50;

impl Remover {
    /// Removes a user from an open live, whether or not the user is there, and refuses the user's
    /// joins while a ban lasts. After an error of the store's the user may have been removed all
    /// the same.
    pub async fn remove(
        &self,
        record: LiveRecord,
        user: &UserId,
        ban: Option<Duration>,
        by: Option<Actor>,
    ) -> Result<Removed, RemoveError> {
        let live = &record.live;
        if record.streamer == *user {
            return Err(RemoveError::Streamer(live.clone()));
        }
        let message = self.core.to_peers.record_changed();
        let wish = RemoveUser {
            live: live.clone(),
            epoch: record.epoch,
            user: user.clone(),
            ban,
            by,
            is_told: true,
            message,
        };
        let ask = |is_told| {
            let wish = RemoveUser {
                is_told,
                ..wish.clone()
            };
            async move { self.core.store_for_clients.remove_user(&wish).await }
        };
        let (reply, is_told) = self
            .ask_store(live, ask, |reply| match reply {
                RemoveReply::Absent => Some(Obstacle::Absent),
                RemoveReply::Crowded => Some(Obstacle::Crowded),
                _ => None,
            })
            .await
            .map_err(LiveError::from)?;
        let (number, ban_ends_at) = match reply {
            RemoveReply::Done { number, until } => (number, until),
            RemoveReply::Full => return Err(RemoveError::Full(live.clone())),
            RemoveReply::Host => return Err(RemoveError::Host(live.clone())),
            RemoveReply::Crowded => return Err(LiveError::from(crowded()).into()),
            RemoveReply::Over => return Err(LiveError::NotOpen(live.clone()).into()),
            RemoveReply::Absent => return Err(LiveError::NeverOpened(live.clone()).into()),
        };
        Metrics::count(
            &self.core.metrics.removals,
            if ban.is_some() { "banned" } else { "removed" },
        );
        let ban_s = ban.unwrap_or_default().as_secs();
        tracing::info!(
            live_id = %live, epoch = %record.epoch, user_id = %user, number, ban_s,
            "a user was removed"
        );
        self.note_untold(live, user, is_told);
        self.carry_out_here(&record, number).await;
        self.announce(live).await;
        Ok(Removed {
            epoch: record.epoch,
            ban_ends_at,
        })
    }

    /// Counts and logs a change that no event tells.
    fn note_untold(&self, live: &LiveId, user: &UserId, is_told: bool) {
        if is_told {
            return;
        }
        self.core.metrics.removal_events_dropped.inc();
        tracing::warn!(
            live_id = %live, user_id = %user,
            "no event tells of a removal: too many wait"
        );
    }

    /// Ends a ban ahead of its time. True if there was one.
    pub async fn lift(
        &self,
        record: &LiveRecord,
        user: &UserId,
        by: Option<Actor>,
    ) -> Result<bool, LiveError> {
        let live = &record.live;
        let message = self.core.to_peers.record_changed();
        let wish = LiftBan {
            live: live.clone(),
            epoch: record.epoch,
            user: user.clone(),
            by,
            is_told: true,
            message,
        };
        let ask = |is_told| {
            let wish = LiftBan {
                is_told,
                ..wish.clone()
            };
            async move { self.core.store_for_clients.lift_ban(&wish).await }
        };
        let (reply, is_told) = self
            .ask_store(live, ask, |reply| match reply {
                LiftReply::Absent => Some(Obstacle::Absent),
                LiftReply::Crowded => Some(Obstacle::Crowded),
                _ => None,
            })
            .await?;
        let number = match reply {
            LiftReply::Lifted { number } => number,
            LiftReply::NotBanned => return Ok(false),
            LiftReply::Crowded => return Err(crowded().into()),
            LiftReply::Over => return Err(LiveError::NotOpen(live.clone())),
            LiftReply::Absent => return Err(LiveError::NeverOpened(live.clone())),
        };
        Metrics::count(&self.core.metrics.removals, "lifted");
        tracing::info!(
            live_id = %live, epoch = %record.epoch, user_id = %user, number,
            "a ban was lifted"
        );
        self.note_untold(live, user, is_told);
        self.carry_out_here(record, number).await;
        self.announce(live).await;
        Ok(true)
    }

    /// Up to `limit` active bans of an open live, soonest end first, after the given one.
    pub async fn bans(
        &self,
        record: &LiveRecord,
        after: Option<&Ban>,
        limit: usize,
    ) -> Result<Vec<Ban>, LiveError> {
        let live = &record.live;
        let Some(now) = self
            .core
            .store_for_clients
            .removals_since(live, record.epoch, record.removals)
            .await?
        else {
            return Err(LiveError::NotOpen(live.clone()));
        };
        Ok(active_bans(
            self.core.store_for_clients.as_ref(),
            live,
            now.at,
            after.cloned(),
            limit,
        )
        .await?)
    }

    /// The record of the open epoch that a removal is for: `judged`, which the caller was found to
    /// own, or else the present one.
    pub async fn open_record(
        &self,
        live: &LiveId,
        judged: Option<LiveRecord>,
    ) -> Result<LiveRecord, LiveError> {
        let record = match judged {
            Some(record) => record,
            None => {
                known_record(self.core.store_for_clients.as_ref(), &self.core.rooms, live).await?
            }
        };
        if record.state == LiveState::Open {
            Ok(record)
        } else {
            Err(LiveError::NotOpen(live.clone()))
        }
    }

    /// Asks the store for a change, and returns whether an event tells of it. If the store has lost
    /// the record of a live that is open here, the record is written again and the store asked once
    /// more. If the record is full of events, these are written first; if that fails, the change is
    /// made without an event.
    async fn ask_store<R, F: Future<Output = StoreResult<R>>>(
        &self,
        live: &LiveId,
        ask: impl Fn(bool) -> F,
        obstacle: impl Fn(&R) -> Option<Obstacle>,
    ) -> StoreResult<(R, bool)> {
        let mut is_told = true;
        let mut was_kept = false;
        let mut waits = 0;
        loop {
            let reply = ask(is_told).await?;
            match obstacle(&reply) {
                Some(Obstacle::Absent) if !was_kept => {
                    let Some(room) = self.core.rooms.get(live) else {
                        return Ok((reply, is_told));
                    };
                    self.keeper.keep(&room).await?;
                    was_kept = true;
                }
                Some(Obstacle::Crowded) if is_told => {
                    waits += 1;
                    let written = self.announcer.announce(live).await;
                    is_told = written.is_ok() && waits < MOST_WAITS;
                }
                _ => return Ok((reply, is_told)),
            }
        }
    }

    /// Writes the events of the live. If the gateway dies first, or the store fails, the walk does.
    async fn announce(&self, live: &LiveId) {
        if let Err(why) = self.announcer.announce(live).await {
            tracing::warn!(
                live_id = %live, error = %why,
                "events were not written; the walk will write them"
            );
        }
    }

    async fn carry_out_here(&self, record: &LiveRecord, number: u64) {
        if let Some(room) = self.core.rooms.of_epoch(record) {
            self.catch_up.quietly(&room, number).await;
        }
    }
}
