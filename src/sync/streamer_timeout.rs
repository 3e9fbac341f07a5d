//! Closes the lives whose streamer has been gone for `streamer-timeout`.
//!
//! The time is counted on this gateway's own clock, from when it saw or heard that the streamer is gone. The task looks
//! a few times before the time is up, to find streamers who came back.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::base::clock::{Clock, millis};
use crate::base::ids::{GatewayId, LiveId};
use crate::presence::gateways::Gateways;
use crate::presence::streamers::Streamers;
use crate::store::{CloseReason, LiveRecord, LiveState, OpenedBy, Store, StoreResult};
use crate::sync::lives::Lives;

pub struct StreamerTimeout {
    pub streamers: Arc<Streamers>,
    pub gateways: Arc<Gateways>,
    pub store: Arc<dyn Store>,
    pub lives: Arc<Lives>,
    pub clock: Clock,
    pub lease: Duration,
    /// `None` if no live is closed for its streamer's absence.
    pub timeout: Option<Duration>,
}

impl StreamerTimeout {
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        loop {
            let next = self.timeout.and_then(|_| self.streamers.next_look());
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.streamers.departures() => {}
                () = self.clock.sleep_until(next.unwrap_or(0)), if next.is_some() => {}
            }
            match self.timeout {
                Some(timeout) => self.judge_all(millis(timeout)).await,
                None => self.streamers.forget_absences(),
            }
        }
    }

    async fn judge_all(&self, timeout: u64) {
        let now = self.clock.now();
        for (live, absence) in self.streamers.looks_due(now) {
            let is_up = absence.since + timeout <= now && !absence.failed;
            let next = match self.settle(&live, is_up).await {
                Ok(true) => None,
                // The store was away: a gateway to which the streamer is connected has a lease's time to say so.
                Ok(false) if absence.failed => Some((now + millis(self.lease), false)),
                Ok(false) => Some(((absence.since + timeout).min(now + timeout.div_ceil(6)), false)),
                Err(why) => {
                    tracing::debug!(live_id = %live, error = %why, "could not look for a streamer, will try again");
                    Some((now + millis(self.lease) / 3, true))
                }
            };
            self.streamers.looked(&live, &absence, next, now);
        }
    }

    /// Looks at one live, and closes it if its streamer is gone and `is_up` says that the time is up. False if the
    /// streamer is still gone and the live still open.
    async fn settle(&self, live: &LiveId, is_up: bool) -> StoreResult<bool> {
        let record = self.store.load_live(live).await?;
        let open = record.filter(|record| record.state == LiveState::Open && record.opened_by == OpenedBy::Streamer);
        let Some(record) = open else { return Ok(true) };
        if self.is_connected(&record).await? {
            return Ok(true);
        }
        if is_up {
            self.lives.close_quietly(&record, CloseReason::StreamerTimeout).await?;
        }
        Ok(is_up)
    }

    /// Whether a live's streamer is connected to a living gateway.
    pub async fn is_connected(&self, record: &LiveRecord) -> StoreResult<bool> {
        if self.streamers.is_here(&record.streamer) {
            return Ok(true);
        }
        let told = self.store.streamer_gateways(&record.streamer).await?;
        let roster = self.gateways.roster();
        // This gateway's field in the streamer's hash is outdated: the streamer has no socket here.
        let counts = |gateway: &&GatewayId| !self.gateways.own.is_own(gateway) && !roster.dead.contains(*gateway);
        for unknown in told.iter().filter(counts).filter(|gateway| roster.is_unknown(gateway)) {
            self.gateways.note_unlisted(unknown, self.clock.now());
        }
        Ok(told.iter().any(|gateway| counts(&gateway)))
    }
}
