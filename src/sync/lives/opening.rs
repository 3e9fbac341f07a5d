//! Opens lives and makes their rooms.

use std::sync::Arc;

use super::parts::LivesParts;
use super::types::{LiveError, OpenRequest, OpenedLive};
use crate::base::clock::{Millis, UnixMillis};
use crate::base::ids::{LiveId, MAX_SLICES};
use crate::base::metrics::Metrics;
use crate::presence::bans::KnownBans;
use crate::presence::{Installed, Room};
use crate::store::{
    ClaimLimits, Claimed, Fence, LiveRecord, LiveState, OpenLive, OpenReply, OpenedBy, StoreResult,
};
use crate::sync::catch_up::load_bans;
use crate::sync::events::announce_or_leave;
use crate::sync::features::HowOpened;

/// Followers that one slice is meant for.
const FOLLOWERS_PER_SLICE: u64 = 50_000;

/// How many slices a live gets, by the followers of its streamer: a power of two, one slice per
/// 50,000.
fn slices_for(followers: u64) -> u32 {
    let wanted = followers.div_ceil(FOLLOWERS_PER_SLICE).max(1);
    wanted.next_power_of_two().min(u64::from(MAX_SLICES)) as u32
}

/// How long an opening may take. A claim of a live that is not open is left over only if it is older
/// than this.
const IN_PROGRESS: Millis = 60_000;

impl LivesParts {
    pub(super) async fn open(&self, wish: &OpenRequest) -> Result<OpenedLive, LiveError> {
        if self.core.erasing.contains(&wish.streamer) {
            return Err(LiveError::Erased(wish.streamer.clone()));
        }
        let now = self.core.clock.now();
        if let Some(ban) = self.core.rules.ban(&wish.streamer, now) {
            return Err(LiveError::Banned(ban));
        }
        // The limits are for what a streamer's own client opens. A media server that the settings
        // name is trusted as a back end is.
        if wish.by != OpenedBy::Streamer {
            return self.open_claimed(wish).await;
        }
        // An open live is answered as it is, even if it closes meanwhile: only a claimed live is
        // ever opened.
        if let Some(record) = self.own_open_live(wish).await? {
            return self.finish_opening(record, false, None).await;
        }
        let limits = self.claim_limits.ok_or(LiveError::NotByStreamers)?;
        self.claim(wish, limits).await.inspect_err(|why| {
            if matches!(why, LiveError::TooMany(_) | LiveError::TooFast(_)) {
                Metrics::count(&self.core.metrics.limited, "opens");
            }
        })?;
        let opened = self.open_claimed(wish).await;
        if let Err(LiveError::Owned(_)) = opened {
            self.core
                .store_for_clients
                .release_live(&wish.streamer, &wish.live, UnixMillis::MAX)
                .await?;
        }
        opened
    }

    /// The record of the live if it is open and the streamer's. The store is asked: the room here
    /// may not know of a close yet.
    async fn own_open_live(&self, wish: &OpenRequest) -> StoreResult<Option<LiveRecord>> {
        let record = self.core.store_for_clients.load_live(&wish.live).await?;
        Ok(record
            .filter(|record| record.state == LiveState::Open && record.streamer == wish.streamer))
    }

    /// Counts one more live that the streamer opens.
    async fn claim(&self, wish: &OpenRequest, limits: ClaimLimits) -> Result<(), LiveError> {
        let OpenRequest { live, streamer, .. } = wish;
        let full = match self
            .core
            .store_for_clients
            .claim_live(streamer, live, limits)
            .await?
        {
            Claimed::Full(lives) => lives,
            done => return claimed(&done, limits),
        };
        // A gateway that died while it closed a live left the claim.
        let records = self.core.store_for_clients.load_lives(&full).await;
        let until = self.core.clock.unix().saturating_sub(IN_PROGRESS);
        for (claimed, record) in full.iter().zip(records) {
            let is_open = match record? {
                Some(record) => record.state != LiveState::Closed && record.streamer == *streamer,
                None => false,
            };
            if !is_open {
                self.core
                    .store_for_clients
                    .release_live(streamer, claimed, until)
                    .await?;
            }
        }
        claimed(
            &self
                .core
                .store_for_clients
                .claim_live(streamer, live, limits)
                .await?,
            limits,
        )
    }

    async fn open_claimed(&self, wish: &OpenRequest) -> Result<OpenedLive, LiveError> {
        let mut followers = None;
        let slices = match wish.slices {
            Some(slices) => slices.clamp(1, MAX_SLICES),
            None => {
                let count = self
                    .core
                    .store_for_clients
                    .follower_count(&wish.streamer)
                    .await?;
                followers = Some(count);
                slices_for(count)
            }
        };
        let message = self.core.to_peers.record_changed();
        let OpenRequest {
            live,
            streamer,
            by,
            terms,
            ..
        } = wish.clone();
        let wish = OpenLive {
            live,
            streamer,
            slices,
            by,
            terms,
            message,
        };
        loop {
            let (record, created) = match self.core.store_for_clients.open_live(&wish).await? {
                OpenReply::Opened(record) => (record, true),
                OpenReply::AlreadyOpen(record) => (record, false),
                OpenReply::Owned(record) if record.state == LiveState::Open => {
                    return Err(LiveError::Owned(wish.live));
                }
                // Each round finishes a close or fails, so this ends.
                OpenReply::Changed => continue,
                OpenReply::Owned(record) | OpenReply::Closing(record) => {
                    self.finish(record).await?;
                    continue;
                }
            };
            return self.finish_opening(record, created, followers).await;
        }
    }

    /// Does what belongs to an opening after its record was written, by this request or an earlier
    /// one.
    async fn finish_opening(
        &self,
        record: LiveRecord,
        created: bool,
        followers: Option<u64>,
    ) -> Result<OpenedLive, LiveError> {
        // None of these needs the others, and each takes several round trips.
        let told = announce_or_leave(
            self.core.store_for_clients.as_ref(),
            &record,
            self.core.config.events_kept,
        );
        let how = HowOpened { created, followers };
        let of_features = self.features.opened(&record, how);
        let installed = self.install(record.clone(), created);
        let ((), installed, of_features) = tokio::join!(told, installed, of_features);
        installed?;
        of_features?;
        if created
            && record.terms.streamer_timeout.is_some()
            && !self.core.rooms.streamers.is_here(&record.streamer)
        {
            // The time begins now, and not when the next walk finds the streamer gone.
            self.core
                .absent_streamers
                .found_absent(&record.live, self.core.clock.now());
        }
        Ok(OpenedLive { record, created })
    }

    /// The room of a live that the store says is open.
    pub(super) async fn load(&self, live: &LiveId) -> Result<Arc<Room>, LiveError> {
        match self.core.store_for_clients.load_live(live).await? {
            Some(record) if record.state == LiveState::Open => {
                Ok(self.install(record, false).await?)
            }
            _ => Err(LiveError::NotOpen(live.clone())),
        }
    }

    /// Makes the room of an open live, with what the store already holds: other gateways' fans, or
    /// a dead gateway's.
    async fn install(&self, record: LiveRecord, created: bool) -> StoreResult<Arc<Room>> {
        if let Some(room) = self.core.rooms.of_epoch(&record) {
            return Ok(room);
        }
        let (slices, bans) = if created {
            (Vec::new(), KnownBans::default())
        } else {
            tokio::try_join!(
                self.look_at_slices(&record),
                load_bans(self.core.store_for_clients.as_ref(), &record)
            )?
        };
        let now = self.core.clock.now();
        let room = self.core.rooms.prepare(record, bans, now);
        let mut holders = Vec::new();
        for (place, found) in slices.into_iter().enumerate() {
            holders.extend(found.entries.into_iter().map(|(gateway, _)| gateway));
            if found.fence == Some(Fence::Open(room.record.epoch)) {
                room.note_size(place, found.size, now);
            }
        }
        let (room, old) = match self.core.rooms.install(room) {
            Installed::Known(room) => return Ok(room),
            Installed::New(room, old) => (room, old),
        };
        if let Some(old) = old {
            self.end_superseded(&old);
        }
        // After the room can be found, so that it misses no change of the roster.
        room.figures
            .note_peers(|peers| peers.holds(&holders, &self.core.gateways.roster()));
        self.features.record_read(&room, &room.record).await?;
        // The check that follows the subscription finds what changed between the reading and the
        // subscription.
        self.core.store_for_clients.subscribe(&room.record.live);
        self.core.checks.admit(&room);
        Ok(room)
    }
}

fn claimed(done: &Claimed, limits: ClaimLimits) -> Result<(), LiveError> {
    match done {
        Claimed::Yes => Ok(()),
        Claimed::Full(_) => Err(LiveError::TooMany(limits.open)),
        Claimed::TooFast(wait) => Err(LiveError::TooFast(*wait)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_follow_the_follower_count() {
        for (followers, slices) in [
            (0, 1),
            (50_000, 1),
            (50_001, 2),
            (150_000, 4),
            (1_000_000, 32),
            (100_000_000, 256),
            (u64::MAX / 2, 256),
        ] {
            assert_eq!(slices_for(followers), slices, "{followers}");
        }
    }
}
