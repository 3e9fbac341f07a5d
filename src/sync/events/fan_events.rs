//! Writes `fan.joined` and `fan.left`: the fans that this gateway put into a live's set or took out
//! of it. It writes a batch per second and live, with the fans' sessions if the live has attendance.
//! A fan who leaves and comes back within a second appears in neither event. Unlike the other
//! events, these are noted in no record. So a gateway that dies loses the batch of its last second,
//! and no event tells that its fans left.

use crate::peers::core::Core;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::head;
use super::queue::EventQueue;
use crate::base::clock::UnixMillis;
use crate::base::event_kind::EventKind;
use crate::base::ids::{GatewayId, LiveId, UserId};
use crate::presence::Room;
use crate::presence::desired_state::Draft;
use crate::store::{About, Event, LiveRecord, MAX_BATCH, StoreResult};
use crate::store::{Stay, session_id};

/// How often a live's batch is written.
const EVERY: Duration = Duration::from_secs(1);

/// The most users who wait to be written, in all lives together.
const MOST_WAITING: usize = 100_000;

/// A live's batch, by its users.
struct FanEventBatch {
    record: LiveRecord,
    changes: HashMap<UserId, EventKind>,
    since: UnixMillis,
}

#[derive(Default)]
struct WaitingBatches {
    /// By live and epoch.
    batches: HashMap<(LiveId, u64), FanEventBatch>,
    users: usize,
}

pub struct FanEvents {
    core: Arc<Core>,
    queue: EventQueue,
    waiting: Mutex<WaitingBatches>,
    /// Batches that were taken from [`WaitingBatches`] and are no events in the queue yet. No further batch
    /// is taken before all are written.
    taken: tokio::sync::Mutex<Vec<FanEventBatch>>,
}

impl FanEvents {
    pub fn new(core: Arc<Core>, queue: EventQueue) -> Self {
        Self {
            core,
            queue,
            waiting: Mutex::default(),
            taken: tokio::sync::Mutex::default(),
        }
    }

    /// The store took these changes of a slice.
    pub fn note(&self, room: &Room, changes: &Draft) {
        let mut waiting = self.waiting.lock();
        let mut dropped = 0;
        let joins = changes.fans.iter().map(|user| (user, EventKind::FanJoined));
        let leaves = changes
            .former_fans
            .iter()
            .map(|user| (user, EventKind::FanLeft));
        for (user, kind) in joins.chain(leaves) {
            if waiting.users >= MOST_WAITING {
                dropped += 1;
                continue;
            }
            let key = (room.record.live.clone(), room.record.epoch.0);
            let batch = waiting.batches.entry(key).or_insert_with(|| FanEventBatch {
                record: room.record.clone(),
                changes: HashMap::new(),
                since: self.core.clock.unix(),
            });
            match batch.changes.remove(user) {
                // The two cancel out.
                Some(before) if before != kind => waiting.users -= 1,
                Some(_) => {
                    batch.changes.insert(user.clone(), kind);
                }
                None => {
                    batch.changes.insert(user.clone(), kind);
                    waiting.users += 1;
                }
            }
        }
        if dropped > 0 {
            self.core.metrics.fan_events_dropped.inc_by(dropped);
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

    /// Writes the waiting batches. A batch that could not be written goes before any newer one.
    pub async fn write(&self) {
        let mut taken = self.taken.lock().await;
        let mut written = self.write_all(&mut taken).await;
        if written.is_ok() {
            let waiting = std::mem::take(&mut *self.waiting.lock());
            taken.extend(waiting.batches.into_values());
            written = self.write_all(&mut taken).await;
        }
        if let Err(why) = written {
            tracing::debug!(error = %why, "fans' events were not written, will try again");
        }
    }

    async fn write_all(&self, batches: &mut Vec<FanEventBatch>) -> StoreResult<()> {
        while let Some(batch) = batches.last() {
            let events = self.events_of(batch).await?;
            self.queue.push(events);
            batches.pop();
        }
        self.queue.write().await
    }

    async fn events_of(&self, batch: &FanEventBatch) -> StoreResult<Vec<Event>> {
        let gateway = self.core.gateways.id();
        let mut events = Vec::new();
        for kind in [EventKind::FanJoined, EventKind::FanLeft] {
            let changed = batch.changes.iter().filter(|(_, of)| **of == kind);
            let users: Vec<UserId> = changed.map(|(user, _)| user.clone()).collect();
            for users in users.chunks(MAX_BATCH) {
                let sessions = self.sessions(batch, kind, users).await?;
                events.push(self.event(&batch.record, kind, &gateway, users, sessions));
            }
        }
        Ok(events)
    }

    /// The sessions of users who came or left, `None` for a user without one; `None` if the live
    /// keeps no sessions. A session that ended before the batch began does not belong to a join.
    async fn sessions(
        &self,
        batch: &FanEventBatch,
        kind: EventKind,
        users: &[UserId],
    ) -> StoreResult<Option<Vec<Option<String>>>> {
        let record = &batch.record;
        if !record.terms.attendance {
            return Ok(None);
        }
        let latest = self
            .core
            .store
            .latest_sessions(&record.live_epoch(), record.slices, users)
            .await?;
        let mut sessions = Vec::with_capacity(latest.len());
        for (stay, user) in latest.into_iter().zip(users) {
            sessions.push(match stay {
                Some(stay) if kind == EventKind::FanLeft || !ended_before(&stay, batch.since) => {
                    Some(session_id(user, stay.id))
                }
                _ => None,
            });
        }
        Ok(Some(sessions))
    }

    fn event(
        &self,
        record: &LiveRecord,
        kind: EventKind,
        gateway: &GatewayId,
        users: &[UserId],
        sessions: Option<Vec<Option<String>>>,
    ) -> Event {
        let id = Event::id(&record.live, record.epoch, kind, self.queue.unique());
        let now = self.core.clock.unix();
        let mut data = head(&id, kind, &record.live, record.epoch, now);
        data.insert("streamer_id".to_owned(), json!(record.streamer));
        data.insert("gateway_id".to_owned(), json!(gateway));
        data.insert("user_ids".to_owned(), json!(users));
        if let Some(sessions) = sessions {
            data.insert("session_ids".to_owned(), json!(sessions));
        }
        Event {
            id,
            kind,
            about: About::Live(record.live.clone()),
            data: Value::Object(data).to_string(),
        }
    }
}

fn ended_before(stay: &Stay, time: UnixMillis) -> bool {
    stay.left_at.is_some_and(|left_at| left_at < time)
}
