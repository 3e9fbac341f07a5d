//! Events that no record notes, on their way into the stream: they wait in memory, in their order,
//! until the stream has them. A gateway that dies loses those that wait.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::presence::gateways::Gateways;
use crate::store::{Event, Store, StoreResult, one_append};

pub struct EventQueue {
    store: Arc<dyn Store>,
    gateways: Arc<Gateways>,
    kept: u64,
    number: AtomicU64,
    waiting: Mutex<VecDeque<Event>>,
    /// Held by the one task that writes.
    writing: tokio::sync::Mutex<()>,
}

impl EventQueue {
    /// An empty one. The stream keeps about the newest `kept` events.
    pub fn new(store: Arc<dyn Store>, gateways: Arc<Gateways>, kept: u64) -> Self {
        Self {
            store,
            gateways,
            kept,
            number: AtomicU64::new(0),
            waiting: Mutex::default(),
            writing: tokio::sync::Mutex::default(),
        }
    }

    /// The end of an event's id: no other event of this queue, on any gateway, has the same.
    pub(super) fn unique(&self) -> impl fmt::Display {
        let gateway = self.gateways.id();
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        format!("{gateway}.{number}")
    }

    /// How many events wait.
    pub(super) fn len(&self) -> usize {
        self.waiting.lock().len()
    }

    /// Adds events behind those that wait.
    pub(super) fn push(&self, events: impl IntoIterator<Item = Event>) {
        self.waiting.lock().extend(events);
    }

    /// Writes the events that wait, in their order. After an error the rest waits for the next call.
    pub(super) async fn write(&self) -> StoreResult<()> {
        let _writing = self.writing.lock().await;
        loop {
            let some = self.first();
            if some.is_empty() {
                return Ok(());
            }
            self.store.append_events(&some, self.kept).await?;
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
