//! Owns who is in which live on this gateway. Sync all through: no map guard leaves this file, nothing here awaits.
//!
//! A [`Room`] is one epoch of one live. It ends once: closed (its sockets are told) or evicted (nobody needed it). A
//! join that comes between finding a room and its end is refused by the room itself, so a closed live never gets a
//! member. Called by sessions (join, leave), the flusher and upkeep.

pub mod bans;
pub mod ledger;
pub mod peers;
pub mod room;
pub mod slice;
pub mod tally;
pub mod unconfirmed;

use std::sync::Arc;

use dashmap::{DashMap, DashSet};

pub use room::{End, NoSeat, Room};
pub use slice::{Fan, Member, Slice};

use crate::clock::Millis;
use crate::ids::{LiveId, UserId};
use crate::store::LiveRecord;
use bans::Known;

/// Every room of this gateway.
#[derive(Debug, Default)]
pub struct Rooms {
    by_live: DashMap<LiveId, Arc<Room>>,
    by_streamer: DashMap<UserId, DashSet<LiveId>>,
}

/// What became of an [`Rooms::install`].
#[derive(Debug)]
pub enum Installed {
    /// A new room; the room of an older epoch that it replaced must be ended by the caller.
    New(Arc<Room>, Option<Arc<Room>>),
    /// There was one of this epoch, or of a newer one.
    Known(Arc<Room>),
}

impl Rooms {
    /// The room of a live, if this gateway has one that has not ended.
    pub fn get(&self, live: &LiveId) -> Option<Arc<Room>> {
        self.by_live.get(live).map(|room| room.clone()).filter(|room| room.end().is_none())
    }

    /// Makes the room of an open live with the bans that run, unless there is one.
    pub fn install(&self, record: LiveRecord, bans: Known, now: Millis) -> Installed {
        let (live, streamer) = (record.live.clone(), record.streamer.clone());
        let installed = match self.by_live.entry(live.clone()) {
            dashmap::Entry::Occupied(there)
                if there.get().record.epoch >= record.epoch && there.get().end().is_none() =>
            {
                return Installed::Known(there.get().clone());
            }
            dashmap::Entry::Occupied(mut there) => {
                let room = Arc::new(Room::new(record, bans, now));
                let old = there.insert(room.clone());
                Installed::New(room, Some(old))
            }
            dashmap::Entry::Vacant(place) => {
                let room = Arc::new(Room::new(record, bans, now));
                place.insert(room.clone());
                Installed::New(room, None)
            }
        };
        self.by_streamer.entry(streamer).or_default().insert(live);
        installed
    }

    /// Takes a room out that has ended; a newer one under the same id stays.
    pub fn remove(&self, room: &Arc<Room>) {
        self.by_live.remove_if(&room.record.live, |_, there| Arc::ptr_eq(there, room));
        self.forget_streamer(room);
    }

    /// The live stays listed under its streamer if it has a room again by now.
    fn forget_streamer(&self, room: &Arc<Room>) {
        if let Some(lives) = self.by_streamer.get(&room.record.streamer) {
            lives.remove_if(&room.record.live, |live| {
                self.by_live.get(live).is_none_or(|there| there.record.streamer != room.record.streamer)
            });
        }
        self.by_streamer.remove_if(&room.record.streamer, |_, lives| lives.is_empty());
    }

    /// Evicts a room if nobody needs it; a join that comes at the same moment either keeps it or finds it ended.
    pub fn evict_if_idle(&self, room: &Arc<Room>) -> bool {
        let gone = self.by_live.remove_if(&room.record.live, |_, there| Arc::ptr_eq(there, room) && room.end_if_idle());
        if gone.is_some() {
            self.forget_streamer(room);
        }
        gone.is_some()
    }

    /// The rooms of a streamer's lives.
    pub fn of_streamer(&self, streamer: &UserId) -> Vec<Arc<Room>> {
        let lives: Vec<LiveId> = match self.by_streamer.get(streamer) {
            Some(lives) => lives.iter().map(|live| live.clone()).collect(),
            None => Vec::new(),
        };
        lives.iter().filter_map(|live| self.get(live)).collect()
    }

    /// Every room there is.
    pub fn all(&self) -> Vec<Arc<Room>> {
        self.by_live.iter().map(|room| room.value().clone()).collect()
    }

    /// How many rooms there are.
    pub fn len(&self) -> usize {
        self.by_live.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.by_live.is_empty()
    }
}
