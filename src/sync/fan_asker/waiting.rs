//! The slices with users whose fan check is due, by streamer, and the batches that are made of
//! them. One batch has users of one streamer, from as many slices and lives as fit. A user is in
//! one call at a time. A user whose fan check falls due again during the call waits for its end, and
//! is then asked about once more, because an answer may be older than the question.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use crate::base::ids::UserId;
use crate::presence::Room;
use crate::store::MAX_BATCH;

/// A slice that waits.
#[derive(Debug)]
pub struct Place {
    pub room: Arc<Room>,
    pub place: usize,
    /// How often a call about it has failed.
    pub tries: u32,
}

/// One call.
#[derive(Debug)]
pub struct Batch {
    pub streamer: UserId,
    /// Each user once.
    pub users: Vec<UserId>,
    /// The slices, each with its users.
    pub parts: Vec<(Place, Vec<UserId>)>,
}

#[derive(Debug, Default)]
struct Streamer {
    waiting: VecDeque<Place>,
    /// The users of calls under way.
    asked: HashSet<UserId>,
    /// Slices with such users.
    after_calls: Vec<Place>,
}

#[derive(Debug, Default)]
pub struct Waiting {
    streamers: HashMap<UserId, Streamer>,
    /// The streamers with waiting slices, in the order of their turns, so that no streamer waits
    /// behind a larger one.
    turns: VecDeque<UserId>,
}

impl Waiting {
    pub fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// Queues a slice. The caller has noted in the room that it is queued.
    pub fn push(&mut self, place: Place) {
        let streamer = place.room.record.streamer.clone();
        let entry = self.streamers.entry(streamer.clone()).or_default();
        if entry.waiting.is_empty() {
            self.turns.push_back(streamer);
        }
        entry.waiting.push_back(place);
    }

    /// The next call; `None` if there is nobody to ask about.
    pub fn next(&mut self) -> Option<Batch> {
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
    pub fn ended(&mut self, batch: &Batch) {
        let Some(entry) = self.streamers.get_mut(&batch.streamer) else {
            return;
        };
        for user in &batch.users {
            entry.asked.remove(user);
        }
        let again = std::mem::take(&mut entry.after_calls);
        for place in again {
            self.push(place);
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

    fn batch(&mut self, streamer: &UserId) -> Batch {
        let mut users: HashSet<UserId> = HashSet::new();
        let mut parts = Vec::new();
        while users.len() < MAX_BATCH {
            let Some(place) = self.waiting.pop_front() else {
                break;
            };
            let taken = place
                .room
                .take_for_asking(place.place, MAX_BATCH - users.len());
            let (busy, fresh): (Vec<_>, Vec<_>) = taken
                .into_iter()
                .partition(|user| self.asked.contains(user));
            place.room.return_unchecked(place.place, &busy);
            // The remaining users have another turn, unless a change has queued the slice already.
            if place.room.queue_ask(place.place) {
                let again = Place {
                    room: place.room.clone(),
                    ..place
                };
                if busy.is_empty() {
                    self.waiting.push_back(again)
                } else {
                    self.after_calls.push(again)
                }
            }
            if !fresh.is_empty() {
                users.extend(fresh.iter().cloned());
                parts.push((place, fresh));
            }
        }
        Batch {
            streamer: streamer.clone(),
            users: users.into_iter().collect(),
            parts,
        }
    }
}
