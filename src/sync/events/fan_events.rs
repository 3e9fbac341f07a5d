//! Writes `fan.joined` and `fan.left`: the fans whom this gateway put into a live's set or took out, a batch per second
//! and live. Who leaves and comes back within a second is told neither. Unlike the other events, these are noted in no
//! record: a gateway that dies loses the batch of its last second, and nobody tells that its fans left.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::head;
use crate::base::clock::Clock;
use crate::base::event_kind::EventKind;
use crate::base::ids::{GatewayId, LiveId, OnlineSet, UserId};
use crate::base::metrics::Metrics;
use crate::presence::Room;
use crate::presence::gateways::Gateways;
use crate::store::{Event, LiveRecord, MAX_BATCH, Store, StoreResult, one_append};

/// How often a live's batch is written.
const EVERY: Duration = Duration::from_secs(1);

/// The most users who wait to be written, in all lives together.
const MOST_WAITING: usize = 100_000;

/// A live's batch, by its users.
struct Batch {
    record: LiveRecord,
    changes: HashMap<UserId, EventKind>,
}

#[derive(Default)]
struct Waiting {
    /// By live and epoch.
    batches: HashMap<(LiveId, u64), Batch>,
    users: usize,
}

pub struct FanEvents {
    store: Arc<dyn Store>,
    gateways: Arc<Gateways>,
    metrics: Arc<Metrics>,
    clock: Clock,
    kept: u64,
    number: AtomicU64,
    waiting: Mutex<Waiting>,
    /// Made from batches and not written yet.
    unwritten: tokio::sync::Mutex<Vec<Event>>,
}

impl FanEvents {
    pub fn new(
        store: Arc<dyn Store>,
        gateways: Arc<Gateways>,
        metrics: Arc<Metrics>,
        (clock, kept): (Clock, u64),
    ) -> Self {
        let (number, waiting, unwritten) = (AtomicU64::new(0), Mutex::default(), tokio::sync::Mutex::default());
        Self { store, gateways, metrics, clock, kept, number, waiting, unwritten }
    }

    /// The store took these changes of a slice. Invisible users must not be among them.
    pub fn note(&self, room: &Room, set: &OnlineSet, (joins, leaves): (&[UserId], &[UserId])) {
        if !matches!(set, OnlineSet::Fans(_)) {
            return;
        }
        let mut waiting = self.waiting.lock();
        let mut dropped = 0;
        let changes = joins.iter().map(|user| (user, EventKind::FanJoined));
        for (user, kind) in changes.chain(leaves.iter().map(|user| (user, EventKind::FanLeft))) {
            if waiting.users >= MOST_WAITING {
                dropped += 1;
                continue;
            }
            let key = (room.record.live.clone(), room.record.epoch.0);
            let batch = waiting.batches.entry(key);
            let batch = batch.or_insert_with(|| Batch { record: room.record.clone(), changes: HashMap::new() });
            match batch.changes.remove(user) {
                // The two cancel out.
                Some(before) if before != kind => waiting.users -= 1,
                before => {
                    batch.changes.insert(user.clone(), kind);
                    waiting.users += usize::from(before.is_none());
                }
            }
        }
        if dropped > 0 {
            self.metrics.fan_events_dropped.inc_by(dropped);
        }
    }

    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(EVERY) => self.write().await,
            }
        }
    }

    /// Writes what waits. What cannot be written is tried again, before anything newer.
    pub async fn write(&self) {
        let mut unwritten = self.unwritten.lock().await;
        let mut written = self.append(&mut unwritten).await;
        if written.is_ok() {
            let batches = std::mem::take(&mut *self.waiting.lock()).batches;
            *unwritten = batches.into_values().flat_map(|batch| self.events_of(batch)).collect();
            written = self.append(&mut unwritten).await;
        }
        if let Err(why) = written {
            tracing::debug!(error = %why, "fans' events were not written, will try again");
        }
    }

    async fn append(&self, events: &mut Vec<Event>) -> StoreResult<()> {
        while !events.is_empty() {
            let some = one_append(events);
            self.store.append_events(&events[..some], self.kept).await?;
            events.drain(..some);
        }
        Ok(())
    }

    fn events_of(&self, Batch { record, changes }: Batch) -> Vec<Event> {
        let gateway = self.gateways.id();
        let mut events = Vec::new();
        for kind in [EventKind::FanJoined, EventKind::FanLeft] {
            let users: Vec<&UserId> = changes.iter().filter(|(_, of)| **of == kind).map(|(user, _)| user).collect();
            events.extend(users.chunks(MAX_BATCH).map(|users| self.event(&record, (kind, &gateway), users)));
        }
        events
    }

    fn event(&self, record: &LiveRecord, (kind, gateway): (EventKind, &GatewayId), users: &[&UserId]) -> Event {
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        let id = Event::id(&record.live, record.epoch, kind, format_args!("{gateway}.{number}"));
        let mut data = head(&id, (kind.as_str(), &record.live), (record.epoch.0, self.clock.unix()));
        data.extend([
            ("streamer_id".to_owned(), json!(record.streamer)),
            ("gateway_id".to_owned(), json!(gateway)),
            ("user_ids".to_owned(), json!(users)),
        ]);
        Event { id, kind, live: record.live.clone(), data: Value::Object(data).to_string() }
    }
}
