//! The lives whose stream is lost, or may have fallen silent. State only: `sync::streams` notes
//! what records say, and `sync::streams::grace` closes lives.
//!
//! A gateway judges by its own clock, from when it first saw a status that did not change since.
//! Several gateways may watch the same live; each reads the state again before it decides.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::base::clock::{Millis, millis};
use crate::base::ids::{Epoch, LiveId};
use crate::store::{LiveRecord, LiveState, OpenedBy, StreamStatus};

#[derive(Debug)]
pub struct WatchedStreams {
    watched: Mutex<HashMap<LiveId, Watched>>,
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
pub struct Watched {
    epoch: Epoch,
    status: Option<StreamStatus>,
    pub awaited: Awaited,
    /// Since when, by this gateway's clock.
    since: Millis,
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

    /// Notes what a record says of its stream.
    pub fn note(&self, record: &LiveRecord, now: Millis) {
        let mut watched = self.watched.lock();
        let Some(awaited) = awaited(record) else {
            watched.remove(&record.live);
            return;
        };
        let next = Watched {
            epoch: record.epoch,
            status: record.stream,
            awaited,
            since: now,
        };
        let known = watched.entry(record.live.clone()).or_insert(next);
        if !known.is_of(record) {
            *known = next;
        }
        drop(watched);
        self.changed.notify_one();
    }

    /// A look failed: while the store was away, nothing that servers said could be written. So the
    /// whole time begins again.
    pub fn begin_again(&self, live: &LiveId, now: Millis) {
        if let Some(watched) = self.watched.lock().get_mut(live) {
            watched.since = now;
        }
    }

    /// The live needs no look any more.
    pub fn forget(&self, live: &LiveId, seen: &Watched) {
        let mut watched = self.watched.lock();
        if watched.get(live) == Some(seen) {
            watched.remove(live);
        }
    }

    pub async fn changes(&self) {
        self.changed.notified().await;
    }

    pub fn next_look(&self) -> Option<Millis> {
        let mut next = None;
        for watched in self.watched.lock().values() {
            if let Some(due) = self.due(watched) {
                next = Some(due.min(next.unwrap_or(due)));
            }
        }
        next
    }

    pub fn looks_due(&self, now: Millis) -> Vec<(LiveId, Watched)> {
        let mut due = Vec::new();
        for (live, watched) in self.watched.lock().iter() {
            if self.due(watched).is_some_and(|due| due <= now) {
                due.push((live.clone(), *watched));
            }
        }
        due
    }

    /// `None`: never.
    fn due(&self, watched: &Watched) -> Option<Millis> {
        let wait = match watched.awaited {
            Awaited::Return => self.grace,
            Awaited::Heartbeat => self.silence?,
        };
        Some(watched.since + wait)
    }
}

impl Watched {
    /// Whether the record still says the same of the stream.
    pub fn is_of(&self, record: &LiveRecord) -> bool {
        self.epoch == record.epoch && self.status == record.stream
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
