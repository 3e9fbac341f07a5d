//! The lives whose stream is lost, or may have fallen silent. State only: `sync::streams` notes
//! what records say, and `sync::streams::grace` closes lives.
//!
//! A gateway judges by its own clock, from when it first saw a status that did not change since.
//! Several gateways may watch the same live; each reads the state again before it decides.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::base::clock::{Millis, Moment, millis};
use crate::base::ids::{Epoch, LiveId};
use crate::store::StreamStatus;
use crate::store::{LiveRecord, LiveState, OpenedBy};

#[derive(Debug)]
pub struct WatchedStreams {
    watched: Mutex<HashMap<LiveId, WatchedStatus>>,
    changed: Notify,
    /// How long a live that a stream opened outlives it, in ms.
    grace: Millis,
    /// How long a session with heartbeats may be silent, in ms; `None`: for ever.
    silence: Option<Millis>,
}

/// What is awaited of a live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Awaited {
    /// A stream that comes back.
    Return,
    /// Another heartbeat.
    Heartbeat,
}

/// A status that will mean something if it stays as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WatchedStatus {
    epoch: Epoch,
    status: Option<StreamStatus>,
    pub awaited: Awaited,
    /// Since when, by this gateway's clock.
    since: Moment,
    /// How many signs sessions had given by then, as far as this gateway knew.
    signs: u64,
}

impl WatchedStreams {
    /// Without `silence`, silent sessions stay on air.
    pub fn new(grace: Duration, silence: Option<Duration>) -> Self {
        Self {
            watched: Mutex::default(),
            changed: Notify::new(),
            grace: millis(grace),
            silence: silence.map(millis),
        }
    }

    /// Notes what a record says of its stream, and how many signs its sessions have given; 0 if the
    /// caller has only the record.
    pub fn note(&self, record: &LiveRecord, signs: u64, now: Moment) {
        let mut watched = self.watched.lock();
        let Some(awaited) = awaited(record) else {
            watched.remove(&record.live);
            return;
        };
        let next = WatchedStatus {
            epoch: record.epoch,
            status: record.stream,
            awaited,
            since: now,
            signs,
        };
        let is_sooner = match watched.get_mut(&record.live) {
            Some(known) if known.is_of(record) => return,
            // The time after another heartbeat ends later, and the task looks anyway.
            Some(known) => std::mem::replace(known, next).awaited != awaited,
            None => {
                watched.insert(record.live.clone(), next);
                true
            }
        };
        drop(watched);
        if is_sooner {
            self.changed.notify_one();
        }
    }

    /// A look failed: while the store was away, nothing that servers said could be written. So the
    /// whole time begins again.
    pub fn begin_again(&self, live: &LiveId, now: Moment) {
        if let Some(watched) = self.watched.lock().get_mut(live) {
            watched.since = now;
        }
    }

    /// The live needs no look any more.
    pub fn forget(&self, live: &LiveId, seen: &WatchedStatus) {
        let mut watched = self.watched.lock();
        if watched.get(live) == Some(seen) {
            watched.remove(live);
        }
    }

    pub async fn changes(&self) {
        self.changed.notified().await;
    }

    pub fn next_look(&self) -> Option<Moment> {
        let mut next = None;
        for watched in self.watched.lock().values() {
            if let Some(due) = self.due(watched) {
                next = Some(due.min(next.unwrap_or(due)));
            }
        }
        next
    }

    pub fn looks_due(&self, now: Moment) -> Vec<(LiveId, WatchedStatus)> {
        let mut due = Vec::new();
        for (live, watched) in self.watched.lock().iter() {
            if self.due(watched).is_some_and(|due| due <= now) {
                due.push((live.clone(), *watched));
            }
        }
        due
    }

    /// `None`: never.
    fn due(&self, watched: &WatchedStatus) -> Option<Moment> {
        let wait = match watched.awaited {
            Awaited::Return => self.grace,
            Awaited::Heartbeat => self.silence?,
        };
        Some(watched.since + wait)
    }
}

impl WatchedStatus {
    /// Whether the record still says the same of the stream.
    pub fn is_of(&self, record: &LiveRecord) -> bool {
        self.epoch == record.epoch && self.status == record.stream
    }

    /// The last of the signs that were given before the wait began. The sessions that have given
    /// none since are silent.
    pub fn last_sign(&self) -> u64 {
        let oldest = self.status.map(|status| status.beats);
        self.signs.max(oldest.unwrap_or_default())
    }
}

/// What is awaited of the stream of a live; `None` if nothing is.
fn awaited(record: &LiveRecord) -> Option<Awaited> {
    if record.state != LiveState::Open {
        return None;
    }
    match record.stream {
        Some(status) if !status.is_on => Some(Awaited::Return),
        Some(status) if status.beats > 0 => Some(Awaited::Heartbeat),
        Some(_) => None,
        // Its gateway died before it wrote, or its stream is over and the live is being closed.
        None if record.opened_by == OpenedBy::Media => Some(Awaited::Return),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;
    use crate::base::clock::{Clock, moment};
    use crate::base::ids::UserId;
    use crate::store::LiveStore;
    use crate::store::memory::MemoryStore;
    use crate::store::{OpenLive, OpenReply, Terms};

    const GRACE: Millis = 20_000;
    const SILENCE: Millis = 60_000;

    fn watched() -> WatchedStreams {
        let silence = Some(Duration::from_millis(SILENCE));
        WatchedStreams::new(Duration::from_millis(GRACE), silence)
    }

    /// The record of a live that a stream opened.
    fn record(stream: Option<StreamStatus>) -> LiveRecord {
        let wish = OpenLive {
            live: LiveId::parse("42").unwrap(),
            streamer: UserId::parse("s1").unwrap(),
            slices: 1,
            by: OpenedBy::Media,
            terms: Terms::default(),
            message: String::new(),
        };
        let store = MemoryStore::new(Clock::start());
        let opened = store.open_live(&wish).now_or_never().unwrap().unwrap();
        let OpenReply::Opened(record) = opened else {
            panic!("{opened:?}")
        };
        LiveRecord { stream, ..record }
    }

    fn status(is_on: bool, beats: u64) -> Option<StreamStatus> {
        Some(StreamStatus {
            is_on,
            since: 7,
            beats,
        })
    }

    #[test]
    fn a_lost_stream_is_looked_at_after_the_grace_and_a_silent_one_after_its_time() {
        let record = record(status(false, 0));
        let watched = watched();
        watched.note(&record, 0, moment(1_000));
        watched.note(&record, 0, moment(2_000));
        assert_eq!(watched.next_look(), Some(moment(1_000 + GRACE)));
        assert!(watched.looks_due(moment(1_000 + GRACE - 1)).is_empty());
        assert_eq!(watched.looks_due(moment(1_000 + GRACE)).len(), 1);

        for (beats, now) in [(1, 3_000), (2, 9_000)] {
            let stream = status(true, beats);
            watched.note(
                &LiveRecord {
                    stream,
                    ..record.clone()
                },
                0,
                moment(now),
            );
            assert_eq!(watched.next_look(), Some(moment(now + SILENCE)));
        }
        // A session without heartbeats may be silent.
        let stream = status(true, 0);
        watched.note(
            &LiveRecord {
                stream,
                ..record.clone()
            },
            0,
            moment(9_500),
        );
        assert_eq!(watched.next_look(), None);
    }

    #[test]
    fn a_live_that_a_stream_opened_and_that_has_none_is_looked_at() {
        let record = record(None);
        let watched = watched();
        watched.note(&record, 0, moment(0));
        assert_eq!(watched.next_look(), Some(moment(GRACE)));
        watched.begin_again(&record.live, moment(5_000));
        assert_eq!(watched.next_look(), Some(moment(5_000 + GRACE)));
        let by_service = LiveRecord {
            opened_by: OpenedBy::Service,
            ..record.clone()
        };
        watched.note(&by_service, 0, moment(0));
        assert_eq!(watched.next_look(), None);
        watched.note(&record, 0, moment(0));
        let closed = LiveRecord {
            state: LiveState::Closed,
            ..record
        };
        watched.note(&closed, 0, moment(0));
        assert_eq!(watched.next_look(), None);
    }

    #[test]
    fn what_changed_since_the_look_is_not_forgotten() {
        let record = record(status(false, 0));
        let watched = watched();
        watched.note(&record, 0, moment(0));
        let (live, seen) = watched.looks_due(moment(GRACE)).remove(0);
        watched.begin_again(&live, moment(GRACE));
        watched.forget(&live, &seen);
        assert_eq!(watched.next_look(), Some(moment(2 * GRACE)));
        let (live, seen) = watched.looks_due(moment(2 * GRACE)).remove(0);
        watched.forget(&live, &seen);
        assert_eq!(watched.next_look(), None);
    }
}
