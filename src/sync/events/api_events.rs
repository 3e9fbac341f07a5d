//! Writes events that no record notes: who follows whom, and what was changed over the HTTP API. They
//! wait in memory for a moment. So a gateway that dies loses those of its last moment.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use crate::base::clock::Clock;
use crate::base::event_kind::EventKind;
use crate::base::metrics::Metrics;
use crate::presence::gateways::Gateways;
use crate::store::{About, Event, Store, one_append};

/// How often the events are written.
const EVERY: Duration = Duration::from_millis(200);

/// The most events that wait to be written.
const MOST_WAITING: usize = 20_000;

pub struct DirectEvents {
    store: Arc<dyn Store>,
    gateways: Arc<Gateways>,
    metrics: Arc<Metrics>,
    clock: Clock,
    kept: u64,
    number: AtomicU64,
    waiting: Mutex<VecDeque<Event>>,
    /// Held by the one task that writes.
    writing: tokio::sync::Mutex<()>,
}

impl DirectEvents {
    pub fn new(
        store: Arc<dyn Store>,
        gateways: Arc<Gateways>,
        metrics: Arc<Metrics>,
        clock: Clock,
        kept: u64,
    ) -> Self {
        Self {
            store,
            gateways,
            metrics,
            clock,
            kept,
            number: AtomicU64::new(0),
            waiting: Mutex::default(),
            writing: tokio::sync::Mutex::default(),
        }
    }

    /// Makes an event with these fields. If too many wait, the event is dropped and counted.
    pub fn add(&self, kind: EventKind, about: About, fields: Map<String, Value>) {
        let (_, subject) = about.field();
        let gateway = self.gateways.id();
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        let id = format!("{subject}:{kind}:{gateway}.{number}");
        let mut data = fields;
        data.insert("id".to_owned(), json!(id));
        data.insert("type".to_owned(), json!(kind.as_str()));
        data.insert("at".to_owned(), json!(self.clock.unix()));
        let event = Event {
            id,
            kind,
            about,
            data: Value::Object(data).to_string(),
        };
        let mut waiting = self.waiting.lock();
        if waiting.len() < MOST_WAITING {
            waiting.push_back(event);
        } else {
            self.metrics.direct_events_dropped.inc();
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

    /// Writes the events that wait, in their order. After an error the rest waits for the next call.
    pub async fn write(&self) {
        let _writing = self.writing.lock().await;
        loop {
            let some = self.first();
            if some.is_empty() {
                return;
            }
            if let Err(why) = self.store.append_events(&some, self.kept).await {
                tracing::debug!(error = %why, "events were not written, will try again");
                return;
            }
            self.waiting.lock().drain(..some.len());
        }
    }

    /// As many of the oldest events as one call appends.
    fn first(&self) -> Vec<Event> {
        let mut waiting = self.waiting.lock();
        let all = waiting.make_contiguous();
        all[..one_append(all)].to_vec()
    }
}
