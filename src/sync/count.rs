//! Writes the figures of rooms into the records of their lives, for other services, and ranks the
//! lives by them. Of the gateways that hold a live, one writes ([`Room::is_counted_here`]). While
//! the gateways disagree on which one, the store refuses the second write, and a check finds figures
//! that nobody wrote. The recorder retries a failed write.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use tokio_util::sync::CancellationToken;

use crate::base::backoff::RETRY_DELAY_MS;
use crate::base::clock::{Millis, Moment, millis};
use crate::base::ids::{Epoch, GatewayId, LiveId};
use crate::base::metrics::Metrics;
use crate::base::timer_wheel::TimerWheel;
use crate::peers::core::Core;
use crate::presence::Room;
use crate::presence::figures::Quality;
use crate::presence::gateways::Roster;
use crate::presence::trust::Trust;
use crate::store::{
    Arrived, COUNT_EVERY, CountLive, CountReply, Figures, Peaks, Store, StoreResult,
};
use crate::sync::events::count_events::CountEvents;

/// How often the recorder takes the rooms that are due.
const TICK: Duration = Duration::from_millis(100);

const MAX_CONCURRENT_WRITES: usize = 64;

/// The wait before a new peak is written, in ms: a little more than the time between two renewals
/// of a lease.
const SURE_PEAK_DELAY_MS: Millis = 2_500;

pub struct CountsRecorder {
    pub core: Arc<Core>,
    pub trust: Arc<Trust>,
    /// `None` if counts are no events.
    pub events: Option<Arc<CountEvents>>,
}

impl CountsRecorder {
    pub async fn run(self, stop: CancellationToken) {
        let mut wheel = TimerWheel::new(millis(TICK), millis(COUNT_EVERY), self.core.clock.now());
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = tick.tick() => {}
            }
            let now = self.core.clock.now();
            for room in self.core.rooms.to_record.take() {
                wheel.file(room.schedule.counting.due(now), room);
            }
            let due = wheel.due(now);
            if !due.is_empty() {
                self.record(due, now).await;
            }
        }
    }

    /// Writes the figures of the rooms that this gateway counts, and passes over the others.
    async fn record(&self, rooms: Vec<Arc<Room>>, now: Moment) {
        let own = self.core.gateways.id();
        let roster = self.core.gateways.roster();
        let due = rooms
            .into_iter()
            .filter(|room| take_due(room, &own, &roster, now));
        let written: Vec<Option<_>> = stream::iter(due)
            .map(|room| async move { self.write(&room).await })
            .buffer_unordered(MAX_CONCURRENT_WRITES)
            .collect()
            .await;
        let written: Vec<(LiveId, Figures)> = written.into_iter().flatten().collect();
        if !written.is_empty()
            && let Err(why) = self.core.store.rank_lives(&written).await
        {
            tracing::debug!(error = %why, "lives were not ranked; the walk will");
        }
    }

    /// Writes the figures of one room. Answers them if they were written.
    async fn write(&self, room: &Arc<Room>) -> Option<(LiveId, Figures)> {
        if self.trust.quality(room) != Quality::Exact {
            // Written figures stay in the history, so inexact ones are not written.
            self.try_again(room, RETRY_DELAY_MS);
            return None;
        }
        let live = room.record.live.clone();
        let (figures, arrived) = room.totals();
        room.figures.note_peaks();
        let peaks = room.figures.sure_peaks();
        let wish = CountLive {
            live: live.clone(),
            epoch: room.record.epoch,
            figures,
            peaks,
            arrived,
        };
        let reply = self.core.store.count_live(&wish).await;
        let why = match &reply {
            Ok(CountReply::Counted) => "written",
            Ok(CountReply::Same) => "same",
            Ok(CountReply::Early(_)) => "early",
            Ok(CountReply::NotOpen) => "not_open",
            Err(_) => "failed",
        };
        Metrics::count_result(&self.core.metrics.figures_written, why);
        if room.figures.peaks() != peaks && reply.is_ok() {
            // The lease is renewed by then, which makes a new peak sure.
            self.try_again(room, SURE_PEAK_DELAY_MS);
        }
        match reply {
            Ok(CountReply::Counted) => {
                room.figures.note_peaks_written(peaks);
                if let Some(events) = &self.events {
                    events.changed(&live, room.record.epoch);
                }
                return Some((live, figures));
            }
            Ok(CountReply::Same) => {}
            Ok(CountReply::Early(left)) => self.try_again(room, millis(left)),
            // The check reads the record: it ends the room, or writes the record again.
            Ok(CountReply::NotOpen) => self.core.checks.check_soon(vec![room.clone()]),
            Err(why) => {
                tracing::debug!(
                    live_id = %live, error = %why,
                    "counts were not written, will try again"
                );
                self.try_again(room, RETRY_DELAY_MS);
            }
        }
        None
    }

    fn try_again(&self, room: &Arc<Room>, after: Millis) {
        room.schedule
            .counting
            .require(self.core.clock.now() + after);
        self.core.rooms.record(room);
    }
}

/// Takes a room off the queue. True if this gateway has to write its figures now.
fn take_due(room: &Room, own: &GatewayId, roster: &Roster, now: Moment) -> bool {
    room.schedule.counting.queued.clear();
    let is_due = room.schedule.counting.take_required() || room.is_counted_here(own, roster);
    room.schedule.counting.settled(now);
    is_due && room.end().is_none()
}

/// Writes that a live has no viewers, after a dead gateway was the last one with viewers there. If
/// the last write was a moment ago, answers after which time the figures may be written.
pub(super) async fn count_nobody(
    store: &dyn Store,
    live: &LiveId,
    epoch: Epoch,
) -> StoreResult<Option<Duration>> {
    let figures = Figures::default();
    let nobody = CountLive {
        live: live.clone(),
        epoch,
        figures,
        peaks: Peaks::default(),
        arrived: Arrived::default(),
    };
    match store.count_live(&nobody).await? {
        CountReply::Counted => {
            store.rank_lives(&[(live.clone(), figures)]).await?;
            Ok(None)
        }
        CountReply::Early(left) => Ok(Some(left)),
        _ => Ok(None),
    }
}
