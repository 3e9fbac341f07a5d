//! The slices with users whose fan check is due, by streamer, and the batches that are made of
//! them. One batch has users of one streamer, from as many slices and lives as fit. A user is in
//! one call at a time. A user whose fan check falls due again during the call waits for its end, and
//! is then asked about once more, because an answer may be older than the question.

use std::collections::{HashMap, HashSet, VecDeque};

use crate::base::ids::UserId;
use crate::presence::SliceRef;
use crate::store::MAX_BATCH;

/// A slice that waits.
#[derive(Debug)]
pub struct WaitingSlice {
    pub slice: SliceRef,
    /// How often a call about it has failed.
    pub tries: u32,
}

/// One call.
#[derive(Debug)]
pub struct FanBatch {
    pub streamer: UserId,
    /// Each user once.
    pub users: Vec<UserId>,
    /// The slices, each with its users.
    pub parts: Vec<(WaitingSlice, Vec<UserId>)>,
}

#[derive(Debug, Default)]
struct Streamer {
    waiting: VecDeque<WaitingSlice>,
    /// The users of calls under way.
    asked: HashSet<UserId>,
    /// Slices with such users.
    after_calls: Vec<WaitingSlice>,
}

#[derive(Debug, Default)]
pub struct WaitingViewers {
    streamers: HashMap<UserId, Streamer>,
    /// The streamers with waiting slices, in the order of their turns, so that no streamer waits
    /// behind a larger one.
    turns: VecDeque<UserId>,
}

impl WaitingViewers {
    pub fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// Queues a slice of a room. The caller has noted in the room that it is queued.
    pub fn push(&mut self, waiting: WaitingSlice) {
        let Some(room) = waiting.slice.room() else {
            return;
        };
        let streamer = room.record.streamer.clone();
        let entry = self.streamers.entry(streamer.clone()).or_default();
        if entry.waiting.is_empty() {
            self.turns.push_back(streamer);
        }
        entry.waiting.push_back(waiting);
    }

    /// The next call; `None` if there is nobody to ask about.
    pub fn next(&mut self) -> Option<FanBatch> {
        loop {
            let streamer = self.turns.pop_front()?;
            let entry = self.streamers.get_mut(&streamer)?;
            let batch = entry.batch(&streamer);
            if !entry.waiting.is_empty() {
                self.turns.push_back(streamer.clone());
            }
            if !batch.users.is_empty() {
                entry.asked.extend(batch.users.iter().cloned());
                return Some(batch);
            }
            self.forget_if_idle(&streamer);
        }
    }

    /// Notes that a call about these users has ended.
    pub fn ended(&mut self, batch: &FanBatch) {
        let Some(entry) = self.streamers.get_mut(&batch.streamer) else {
            return;
        };
        for user in &batch.users {
            entry.asked.remove(user);
        }
        let again = std::mem::take(&mut entry.after_calls);
        for waiting in again {
            self.push(waiting);
        }
        self.forget_if_idle(&batch.streamer);
    }

    fn forget_if_idle(&mut self, streamer: &UserId) {
        if self.streamers.get(streamer).is_some_and(Streamer::is_idle) {
            self.streamers.remove(streamer);
        }
    }
}

impl Streamer {
    fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.asked.is_empty() && self.after_calls.is_empty()
    }

    fn batch(&mut self, streamer: &UserId) -> FanBatch {
        let mut users: HashSet<UserId> = HashSet::new();
        let mut parts = Vec::new();
        while users.len() < MAX_BATCH {
            let Some(WaitingSlice { slice, tries }) = self.waiting.pop_front() else {
                break;
            };
            let taken = slice.take_for_asking(MAX_BATCH - users.len());
            let (busy, fresh): (Vec<_>, Vec<_>) = taken
                .into_iter()
                .partition(|user| self.asked.contains(user));
            slice.return_unchecked(&busy);
            // The remaining users have another turn, unless a change has queued the slice already.
            if slice.queue_ask() {
                let again = WaitingSlice {
                    slice: slice.clone(),
                    tries,
                };
                if busy.is_empty() {
                    self.waiting.push_back(again)
                } else {
                    self.after_calls.push(again)
                }
            }
            if !fresh.is_empty() {
                users.extend(fresh.iter().cloned());
                parts.push((WaitingSlice { slice, tries }, fresh));
            }
        }
        FanBatch {
            streamer: streamer.clone(),
            users: users.into_iter().collect(),
            parts,
        }
    }
}
