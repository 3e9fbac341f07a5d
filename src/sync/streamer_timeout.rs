//! Closes the lives whose streamer has been gone for too long: for the time that the live was
//! opened with, or, if its streamer opened it, for `streamer-timeout`.
//!
//! The time is counted on this gateway's own clock, from when it saw or heard that the streamer is
//! gone. The task looks a few times before the time is up, to find streamers who came back.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::base::clock::{Clock, Millis, Moment, millis};
use crate::base::ids::{Group, LiveId, OnlineSet, STREAMERS_SLICES, SliceId, UserId};
use crate::peers::Outbox;
use crate::presence::Rooms;
use crate::presence::absent_streamers::{Absence, AbsentStreamers};
use crate::store::{CloseReason, LiveRecord, LiveState, Store, StoreResult};
use crate::sync::lives::Lives;

pub struct StreamerTimeout {
    pub absent_streamers: Arc<AbsentStreamers>,
    pub rooms: Arc<Rooms>,
    pub store: Arc<dyn Store>,
    pub lives: Arc<Lives>,
    pub outbox: Arc<Outbox>,
    pub clock: Clock,
    pub lease: Duration,
    /// A socket that is silent for this long is closed.
    pub silence: Duration,
    /// How long the streamer may be gone of a live that its streamer opened; `None`: for ever.
    pub timeout: Option<Duration>,
}

impl StreamerTimeout {
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        loop {
            let next = self.absent_streamers.next_look();
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.absent_streamers.departures() => {}
                () = self.clock.sleep_until(next.unwrap_or_default()), if next.is_some() => {}
            }
            self.judge_all().await;
        }
    }

    async fn judge_all(&self) {
        let now = self.clock.now();
        for (live, absence) in self.absent_streamers.looks_due(now) {
            let next = match self.settle(&live, &absence, now).await {
                Ok(None) => None,
                // The store was away: a gateway to which the streamer is connected has a lease's
                // time to say so.
                Ok(Some(_)) if absence.failed => Some((now + millis(self.lease), false)),
                Ok(Some(timeout)) => Some((
                    (absence.since + timeout).min(now + timeout.div_ceil(6)),
                    false,
                )),
                Err(why) => {
                    tracing::debug!(
                        live_id = %live, error = %why,
                        "could not look for a streamer, will try again"
                    );
                    Some((now + millis(self.lease) / 3, true))
                }
            };
            self.absent_streamers.looked(&live, &absence, next, now);
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
        let Some(record) = self.store.load_live(live).await? else {
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
        record.streamer_timeout(self.timeout).map(millis)
    }

    /// Whether a live's streamer is connected to any gateway that was not swept, or to a media
    /// server: a streamer whose stream is on air may have closed the page that opened the live.
    pub async fn is_connected(&self, record: &LiveRecord) -> StoreResult<bool> {
        if record.stream.is_some_and(|stream| stream.is_on) {
            return Ok(true);
        }
        let streamer = &record.streamer;
        if self.rooms.streamers.is_here(streamer) {
            return Ok(true);
        }
        let slice = SliceId::of_user(OnlineSet::Streamers, streamer, STREAMERS_SLICES);
        self.store.is_member(&slice, Group::All, streamer).await
    }

    /// Starts the timeouts of a streamer's lives, here and on the gateway that walks: the streamer
    /// left this gateway, and the store knows. Without a time at which the streamer was last heard,
    /// the whole timeout begins now.
    pub fn left(&self, streamer: &UserId, heard: Option<Moment>) {
        let mut lives: Vec<LiveId> = Vec::new();
        for room in self.rooms.of_streamer(streamer) {
            if self.timeout_of(&room.record_now()).is_some() {
                lives.push(room.record.live.clone());
            }
        }
        if lives.is_empty() {
            return;
        }
        let now = self.clock.now();
        let silent = match heard {
            Some(heard) => now.since(heard).min(millis(self.silence)),
            None => 0,
        };
        self.absent_streamers.left(&lives, now - silent);
        self.outbox.streamer_gone(&lives, silent);
    }
}
