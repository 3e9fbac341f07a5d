//! What the embedded store keeps of the streams of lives: plain data, under the lock of the records.

use std::collections::HashMap;

use crate::base::clock::UnixMillis;
use crate::base::ids::LiveId;
use crate::features::media::store::{KnownStreams, Publishing};
use crate::store::PersonalData;
use crate::store::memory::expiring::ExpiringValue;
use crate::store::memory::states::{State, StateErasure};

/// How many entries may be there before those that are due are looked for.
const FEW: usize = 1_024;

/// What is kept of the streams of all lives.
#[derive(Debug, Clone, Default)]
pub(crate) struct StreamRecords {
    pub(crate) streams: HashMap<LiveId, ExpiringValue<KnownStreams>>,
    pub(crate) keys: HashMap<String, ExpiringValue<Publishing>>,
    /// How many entries there were after the last search for those that are due.
    left: usize,
}

impl StreamRecords {
    pub(crate) fn known(&self, live: &LiveId, now: UnixMillis) -> KnownStreams {
        match self.streams.get(live) {
            Some(kept) if kept.until > now => kept.value.clone(),
            _ => KnownStreams::default(),
        }
    }

    /// Forgets what is due, once in a while.
    pub(crate) fn forget(&mut self, now: UnixMillis) {
        let entries = self.streams.len() + self.keys.len();
        if entries < FEW.max(2 * self.left) {
            return;
        }
        self.streams.retain(|_, kept| kept.until > now);
        self.keys.retain(|_, kept| kept.until > now);
        self.left = self.streams.len() + self.keys.len();
    }
}

impl State for StreamRecords {
    fn erase(&mut self, erasure: &mut StateErasure<'_>) {
        let before = self.keys.len();
        self.keys.retain(|_, kept| {
            let publisher = kept.value.publisher.as_ref();
            let is_granted = publisher.is_some_and(|granted| granted.streamer == *erasure.user);
            !is_granted && !erasure.lives.contains(&kept.value.live)
        });
        let gone = before - self.keys.len();
        erasure.step.add(PersonalData::StreamKeys, gone as u64);
        for live in &erasure.closed {
            self.streams.remove(live);
        }
    }
}
