//! Writes events about calls of the HTTP API that no record notes: who follows whom, and what was
//! changed. They wait in memory for a moment. So a gateway that dies loses those of its last moment.

use crate::peers::core::Core;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use super::queue::EventQueue;
use crate::base::event_kind::EventKind;
use crate::store::{About, Event};

/// How often the events are written.
const EVERY: Duration = Duration::from_millis(200);

/// The most events that wait to be written.
const MOST_WAITING: usize = 20_000;

pub struct ApiEvents {
    core: Arc<Core>,
    queue: EventQueue,
}

impl ApiEvents {
    pub fn new(core: Arc<Core>, queue: EventQueue) -> Self {
        Self { core, queue }
    }

    /// Makes an event with these fields. If too many wait, the event is dropped and counted.
    pub fn add(&self, kind: EventKind, about: About, fields: Map<String, Value>) {
        if self.queue.len() >= MOST_WAITING {
            self.core.metrics.api_events_dropped.inc();
            return;
        }
        // The log of deliveries shows ids, so none names a user.
        let id = format!("{kind}:{}", self.queue.unique());
        let mut data = fields;
        data.insert("id".to_owned(), json!(id));
        data.insert("type".to_owned(), json!(kind.as_str()));
        data.insert("at".to_owned(), json!(self.core.clock.unix()));
        self.queue.push([Event {
            id,
            kind,
            about,
            data: Value::Object(data).to_string(),
        }]);
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
        if let Err(why) = self.queue.write().await {
            tracing::debug!(error = %why, "events were not written, will try again");
        }
    }
}

#[cfg(test)]
mod tests;
