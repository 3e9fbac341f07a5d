//! Writes the events that wait in the record of a live. On a gateway, one caller at a time does so
//! for a live, and those who ask meanwhile share the next turn: a herd of callers, each of whom
//! wrote the events of all, would do the square of the work.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::announce;
use crate::base::ids::LiveId;
use crate::store::{Store, StoreResult};

pub struct Announcer {
    store: Arc<dyn Store>,
    /// About how many events the stream keeps.
    kept: u64,
    /// The lives for which somebody writes or waits.
    turns: Mutex<HashMap<LiveId, Arc<Turns>>>,
}

/// The turns to write the events of a live.
struct Turns {
    /// How many callers have asked.
    asked: AtomicU64,
    last: tokio::sync::Mutex<AnnouncerTurn>,
}

/// A turn that is over.
struct AnnouncerTurn {
    /// The callers it was for: the first so many.
    served: u64,
    outcome: StoreResult<()>,
}

impl Default for Turns {
    fn default() -> Self {
        Self {
            asked: AtomicU64::new(0),
            last: tokio::sync::Mutex::new(AnnouncerTurn {
                served: 0,
                outcome: Ok(()),
            }),
        }
    }
}

impl Announcer {
    pub fn new(store: Arc<dyn Store>, kept: u64) -> Self {
        Self {
            store,
            kept,
            turns: Mutex::default(),
        }
    }

    /// Writes the events that the record of the live notes by now.
    pub async fn announce(&self, live: &LiveId) -> StoreResult<()> {
        let turns = self.turns.lock().entry(live.clone()).or_default().clone();
        let mine = turns.asked.fetch_add(1, Ordering::SeqCst) + 1;
        let mut last = turns.last.lock().await;
        if last.served < mine {
            // Whoever asks from here on may have noted an event that this turn does not read.
            let served = turns.asked.load(Ordering::SeqCst);
            let outcome = self.write(live).await;
            *last = AnnouncerTurn { served, outcome };
        }
        let outcome = last.outcome.clone();
        drop(last);
        let mut all = self.turns.lock();
        drop(turns);
        if all
            .get(live)
            .is_some_and(|turns| Arc::strong_count(turns) == 1)
        {
            all.remove(live);
        }
        outcome
    }

    async fn write(&self, live: &LiveId) -> StoreResult<()> {
        let record = self.store.load_live(live).await?;
        announce(self.store.as_ref(), &record, self.kept).await
    }
}
