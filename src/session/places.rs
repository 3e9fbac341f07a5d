//! Owns where a socket is in the rooms: the live it sits in and the lives it listens to. Ends with the socket, however
//! that ends.

use std::sync::Arc;

use tokio_tungstenite::tungstenite::Utf8Bytes;

use crate::clock::Millis;
use crate::conn::Conn;
use crate::core::Core;
use crate::ids::LiveId;
use crate::presence::room::{Ended, Interest};
use crate::presence::throttle::{Quality, Shown};
use crate::presence::{Member, NoSeat, Room};
use crate::protocol::{CountsMessage, RequestId, Say};
use crate::store::{LiveRecord, Peaks};

/// A live that the socket listens to.
struct Listening {
    room: Arc<Room>,
    interest: Interest,
    /// Whether this socket opened the live.
    opened: bool,
    /// When the counts told last were released.
    told: Option<Millis>,
}

/// Where a socket is.
pub(super) struct Places {
    core: Arc<Core>,
    conn: Arc<Conn>,
    seat: Option<(Arc<Room>, Arc<Member>)>,
    listening: Vec<Listening>,
    /// Of the last counts message on this socket. One for all lives: watched again, a live's `seq` grows on.
    seq: u64,
}

impl Places {
    pub(super) fn new(core: Arc<Core>, conn: Arc<Conn>) -> Self {
        Self { core, conn, seat: None, listening: Vec::new(), seq: 0 }
    }

    /// The live in which the socket sits.
    pub(super) fn seat(&self) -> Option<&(Arc<Room>, Arc<Member>)> {
        self.seat.as_ref()
    }

    /// Whether the live in which the socket sits has ended, and it was not told yet.
    pub(super) fn sits_in_ended(&self) -> bool {
        self.seat.as_ref().is_some_and(|(room, _)| room.end().is_some())
    }

    /// Sits down in a live, leaving any other. Sitting down where one sits changes nothing.
    pub(super) fn sit(&mut self, room: &Arc<Room>) -> Result<(), NoSeat> {
        if self.seat.as_ref().is_some_and(|(there, _)| Arc::ptr_eq(there, room) && there.end().is_none()) {
            return Ok(());
        }
        let member = room.join(&self.conn, self.core.clock.now())?;
        self.stand("switch");
        self.seat = Some((room.clone(), member));
        self.core.metrics.joins.inc();
        self.core.rooms.user_changed(room, &self.conn.identity.user);
        Ok(())
    }

    /// Leaves the live in which the socket sits.
    pub(super) fn stand(&mut self, why: &'static str) -> Option<Arc<Room>> {
        let (room, _) = self.seat.take()?;
        if room.end().is_some() {
            return None;
        }
        room.leave(&self.conn, self.core.clock.now());
        self.core.metrics.leaves_by(why, 1);
        self.core.rooms.user_changed(&room, &self.conn.identity.user);
        Some(room)
    }

    /// Listens to a live.
    pub(super) fn listen(&mut self, room: &Arc<Room>, interest: Interest) -> Result<(), Ended> {
        let opened = interest == Interest::End;
        match self.listening.iter_mut().find(|there| Arc::ptr_eq(&there.room, room)) {
            Some(there) => {
                // Who watches goes on watching when the live is opened once more over the same socket.
                if interest == Interest::Counts {
                    room.listen(&self.conn, interest)?;
                    there.interest = interest;
                }
                there.opened |= opened;
            }
            None => {
                room.listen(&self.conn, interest)?;
                self.listening.push(Listening { room: room.clone(), interest, opened, told: None });
            }
        }
        Ok(())
    }

    /// Wants no more counts of this live, or of any.
    pub(super) fn unwatch(&mut self, live: Option<&LiveId>) {
        let conn = &self.conn;
        self.listening.retain_mut(|there| {
            let meant = live.is_none_or(|live| there.room.record.live == *live);
            if there.interest == Interest::End || !meant {
                return true;
            }
            // Who opened the live goes on listening for its end.
            if there.opened && there.room.listen(conn, Interest::End).is_ok() {
                there.interest = Interest::End;
                return true;
            }
            there.room.unlisten(conn);
            false
        });
        self.give_back();
    }

    /// Lets go of a live that has ended, without a word.
    pub(super) fn forget(&mut self, live: &LiveId) {
        if self.seat.as_ref().is_some_and(|(room, _)| room.record.live == *live && room.end().is_some()) {
            self.seat = None;
        }
        self.listening.retain(|there| there.room.record.live != *live || there.room.end().is_none());
        self.give_back();
    }

    /// A dashboard that watched many lives keeps no memory for them.
    fn give_back(&mut self) {
        let needed = 2 * self.listening.len();
        if self.listening.capacity() > 2 * needed {
            self.listening.shrink_to(needed);
        }
    }

    /// Lets go of the lives that have closed; each is answered once.
    pub(super) fn take_closed(&mut self) -> Vec<Arc<LiveRecord>> {
        let mut closed: Vec<Arc<LiveRecord>> = Vec::new();
        if let Some(record) = self.seat.as_ref().and_then(|(room, _)| room.closed()) {
            closed.push(record.clone());
            self.seat = None;
        }
        self.listening.retain(|there| match there.room.closed() {
            Some(record) => {
                if !closed.iter().any(|known| Arc::ptr_eq(known, record)) {
                    closed.push(record.clone());
                }
                false
            }
            None => true,
        });
        self.give_back();
        closed
    }

    /// Counts of every watched live that were released since this socket was last told of it.
    pub(super) fn new_counts(&mut self) -> Vec<Utf8Bytes> {
        let (core, seq) = (&self.core, &mut self.seq);
        let watched = self.listening.iter_mut().filter(|there| there.interest == Interest::Counts);
        watched
            .filter_map(|there| {
                let shown = there.room.throttle.lock().shown().filter(|shown| there.told != Some(shown.at))?;
                there.told = Some(shown.at);
                Some(counts(core, &there.room, shown, seq, None))
            })
            .collect()
    }

    /// The counts of a live that the socket watches, as they are at this moment.
    pub(super) fn counts_of(&mut self, room: &Arc<Room>, id: Option<&RequestId>) -> Option<Utf8Bytes> {
        let there = self.listening.iter_mut().find(|there| Arc::ptr_eq(&there.room, room))?;
        let now = self.core.clock.now();
        let shown = Shown { at: now, figures: room.figures(), quality: self.core.trust.quality(room) };
        let owed = {
            let mut throttle = room.throttle.lock();
            let owed = throttle.told(now, shown.figures, shown.quality);
            there.told = throttle.shown().map(|shown| shown.at);
            owed
        };
        if owed {
            self.core.rooms.count(room);
        }
        Some(counts(&self.core, room, shown, &mut self.seq, id))
    }

    /// Listens to nothing any more; whoever sits goes on sitting.
    pub(super) fn keep_seat_only(&mut self) {
        for there in std::mem::take(&mut self.listening) {
            there.room.unlisten(&self.conn);
        }
    }

    /// The user was sent to another gateway: the seat is kept until there was time to arrive, and marked as kept.
    pub(super) fn hold_seat(&mut self) {
        self.keep_seat_only();
        if let Some((room, _)) = &self.seat {
            room.hold(&self.conn, self.core.clock.now());
            self.core.rooms.publish(room);
        }
    }

    /// Leaves every place.
    pub(super) fn leave_all(&mut self, why: &'static str) {
        self.stand(why);
        self.keep_seat_only();
    }
}

fn counts(core: &Core, room: &Room, shown: Shown, seq: &mut u64, id: Option<&RequestId>) -> Utf8Bytes {
    core.metrics.counts_sent.inc();
    *seq += 1;
    // A peak is noted right after the figure that makes it: never show one below the other.
    let peaks = room.peaks().max(Peaks { viewers: shown.figures.viewers, fans: shown.figures.fans });
    // Figures that the store has confirmed are true now; others were when the store was last heard of.
    let age = match shown.quality {
        Quality::Exact => 0,
        Quality::Partial | Quality::Stale => core.clock.now().saturating_sub(core.trust.sure_at(room)),
    };
    let message = CountsMessage {
        live_id: &room.record.live,
        epoch: room.record.epoch,
        seq: *seq,
        viewers: shown.figures.viewers,
        fans: shown.figures.fans,
        peak_viewers: peaks.viewers,
        peak_fans: peaks.fans,
        opened_at: room.record.opened_at,
        as_of: core.clock.unix().saturating_sub(age),
        quality: shown.quality,
    };
    Say::Counts(message).text(id)
}

impl Drop for Places {
    /// The task ended without a goodbye: it panicked, or the runtime stops.
    fn drop(&mut self) {
        self.leave_all("lost");
        self.core.streamers.forget(&self.conn);
        self.conn.close();
    }
}

#[cfg(test)]
mod tests {
    use tokio_util::task::TaskTracker;

    use super::*;
    use crate::auth::{Identity, Role};
    use crate::clock::Clock;
    use crate::config::Config;
    use crate::ids::UserId;
    use crate::store::OpenedBy;
    use crate::store::memory::MemoryStore;
    use crate::sync::lives::OpenWish;

    #[tokio::test]
    async fn who_watches_nothing_any_more_keeps_no_memory_for_it() {
        let store = Arc::new(MemoryStore::new(Clock::start()));
        let core = Core::new(Config::default(), store, Arc::default(), TaskTracker::new());
        let user = UserId::parse("service").unwrap();
        let identity = Identity { user: user.clone(), role: Role::Service, counted: true };
        let mut places = Places::new(core.clone(), Arc::new(Conn::new(identity, 0)));
        for i in 0..100 {
            let live = LiveId::parse(&i.to_string()).unwrap();
            let wish = OpenWish { live: live.clone(), streamer: user.clone(), slices: Some(1), by: OpenedBy::Service };
            core.lives.open(wish).await.unwrap();
            let room = core.rooms.get(&live).unwrap();
            places.listen(&room, Interest::Counts).unwrap();
        }
        places.unwatch(None);
        assert_eq!((places.listening.len(), places.listening.capacity()), (0, 0));
    }
}
