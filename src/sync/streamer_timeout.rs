//! Closes the lives whose streamer, and all their hosts, have been gone for too long: for the time that the live was
//! opened with, or, if its streamer opened it, for `streamer-timeout`.
//!
//! The time is counted on this gateway's own clock, from when it saw or heard that the streamer is
//! gone. The task looks a few times before the time is up, to find streamers who came back.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::base::clock::{Millis, Moment, millis};
use crate::base::ids::{Group, LiveId, OnlineSet, STREAMERS_SLICES, SliceId, UserId};
use crate::peers::core::Core;
use crate::presence::absent_streamers::Absence;
use crate::store::{CloseReason, LiveRecord, LiveState, StoreResult};
use crate::sync::lives::Lives;

pub struct StreamerTimeout {
    pub core: Arc<Core>,
    pub lives: Arc<Lives>,
}

impl StreamerTimeout {
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        loop {
            let next = self.core.absent_streamers.next_look();
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.core.absent_streamers.departures() => {}
                () = self.core.clock.sleep_until(next.unwrap_or_default()), if next.is_some() => {}
            }
            self.judge_all().await;
        }
    }

    async fn judge_all(&self) {
        let now = self.core.clock.now();
        for (live, absence) in self.core.absent_streamers.looks_due(now) {
            let next = match self.settle(&live, &absence, now).await {
                Ok(None) => None,
                // The store was away: a gateway to which the streamer is connected has a lease's
                // time to say so.
                Ok(Some(_)) if absence.failed => {
                    Some((now + millis(self.core.config.lease), false))
                }
                Ok(Some(timeout)) => Some((
                    (absence.since + timeout).min(now + timeout.div_ceil(6)),
                    false,
                )),
                Err(why) => {
                    tracing::debug!(
                        live_id = %live, error = %why,
                        "could not look for a streamer, will try again"
                    );
                    Some((now + millis(self.core.config.lease) / 3, true))
                }
            };
            self.core
                .absent_streamers
                .looked(&live, &absence, next, now);
        }
    }

    /// Looks at one live, and closes it if its streamer has been gone for too long. Answers the
    /// live's timeout, in ms, if the streamer is still gone and the live still open.
    async fn settle(
        &self,
        live: &LiveId,
        absence: &Absence,
        now: Moment,
    ) -> StoreResult<Option<Millis>> {
        let Some(record) = self.core.store.load_live(live).await? else {
            return Ok(None);
        };
        if record.state != LiveState::Open {
            return Ok(None);
        }
        let Some(timeout) = self.timeout_of(&record) else {
            return Ok(None);
        };
        if self.is_connected(&record).await? {
            return Ok(None);
        }
        if absence.since + timeout <= now && !absence.failed {
            self.lives
                .close_quietly(&record, CloseReason::StreamerTimeout)
                .await?;
            return Ok(None);
        }
        Ok(Some(timeout))
    }

    /// How long a live's streamer may be gone, in ms; `None`: for ever.
    pub fn timeout_of(&self, record: &LiveRecord) -> Option<Millis> {
        record
            .streamer_timeout(self.core.config.streamer_timeout)
            .map(millis)
    }

    /// Whether a live's streamer or a host is connected to any gateway that was not swept, or to a
    /// media server: a streamer whose stream is on air may have closed the page that opened the
    /// live.
    pub async fn is_connected(&self, record: &LiveRecord) -> StoreResult<bool> {
        if record.stream.is_some_and(|stream| stream.is_on) {
            return Ok(true);
        }
        let streamers = &self.core.rooms.streamers;
        if record
            .streamer_and_hosts()
            .any(|user| streamers.is_here(user))
        {
            return Ok(true);
        }
        for user in record.streamer_and_hosts() {
            let slice = SliceId::of_user(OnlineSet::Streamers, user, STREAMERS_SLICES);
            if self.core.store.is_member(&slice, Group::All, user).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Starts the timeouts of the lives of a streamer, or of a host, here and on the gateway that
    /// walks: the user left this gateway, and the store knows. Without a time at which the user was
    /// last heard, the whole timeout begins now.
    pub fn left(&self, user: &UserId, heard: Option<Moment>) {
        let mut lives: Vec<LiveId> = Vec::new();
        for room in self.core.rooms.kept_by(user) {
            if self.timeout_of(&room.record_now()).is_some() {
                lives.push(room.record.live.clone());
            }
        }
        if lives.is_empty() {
            return;
        }
        let now = self.core.clock.now();
        let silent = match heard {
            Some(heard) => now.since(heard).min(millis(self.core.config.timeout)),
            None => 0,
        };
        self.core.absent_streamers.left(&lives, now - silent);
        self.core.to_peers.streamer_gone(&lives, silent);
    }
}
