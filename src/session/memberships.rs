//! What a socket takes part in: the live that it has joined, and the lives that it watches or opened. When this value
//! is dropped, the socket leaves them all, however the session ended.

use std::sync::Arc;

use tokio_tungstenite::tungstenite::Utf8Bytes;

use crate::auth::claims::Claims;
use crate::auth::permissions::{Action, Caller, permission};
use crate::base::clock::Millis;
use crate::base::ids::{LiveId, UserId};
use crate::base::metrics::Metrics;
use crate::presence::conn::Conn;
use crate::presence::figures::Quality;
use crate::presence::room::{Ended, Interest};
use crate::presence::throttle::Shown;
use crate::presence::whereabouts::Whereabouts;
use crate::presence::{Member, NoSeat, Room};
use crate::session::close_codes::Close;
use crate::session::context::SessionContext;
use crate::session::messages::{CountsMessage, RequestId, ServerMessage};
use crate::store::{LiveRecord, Peaks};

struct Listening {
    room: Arc<Room>,
    interest: Interest,
    /// Whether this socket opened the live.
    opened: bool,
    /// When the counts told last were released.
    told: Option<Millis>,
}

pub(super) struct Memberships {
    context: Arc<SessionContext>,
    pub(super) conn: Arc<Conn>,
    seat: Option<(Arc<Room>, Arc<Member>)>,
    listening: Vec<Listening>,
    /// The `seq` of the last counts message on this socket. All lives share it, so that the `seq` of a live grows even
    /// if the client stops watching and starts again.
    seq: u64,
    /// Why the session ended; `None` if its task panicked or the runtime stopped.
    pub(super) ended: Option<Close>,
}

impl Memberships {
    pub(super) fn new(context: Arc<SessionContext>, conn: Arc<Conn>) -> Self {
        context.streamers.admit(&conn);
        if context.user_sockets.admit(&conn, context.clock.now()) {
            Metrics::count(&context.metrics.limited, "sockets_per_user");
        }
        Self { context, conn, seat: None, listening: Vec::new(), seq: 0, ended: None }
    }

    pub(super) fn seat(&self) -> Option<&(Arc<Room>, Arc<Member>)> {
        self.seat.as_ref()
    }

    /// Whether the joined live has ended and the client was not told yet.
    pub(super) fn seat_has_ended(&self) -> bool {
        self.seat.as_ref().is_some_and(|(room, _)| room.end().is_some())
    }

    /// Joins a live and leaves any other. Joining the same live again changes nothing.
    pub(super) fn join(&mut self, room: &Arc<Room>) -> Result<(), NoSeat> {
        if self.seat.as_ref().is_some_and(|(there, _)| Arc::ptr_eq(there, room) && there.end().is_none()) {
            return Ok(());
        }
        let member = room.join(&self.conn, self.context.limits.joins, self.context.clock.now())?;
        self.leave("switch");
        self.seat = Some((room.clone(), member));
        self.note_whereabouts(room, Whereabouts::joined);
        self.context.metrics.joins.inc();
        self.context.rooms.user_changed(room, &self.conn.identity.user);
        Ok(())
    }

    /// Leaves the joined live.
    pub(super) fn leave(&mut self, why: &'static str) -> Option<Arc<Room>> {
        let room = self.give_up_seat()?;
        if room.end().is_some() {
            return None;
        }
        room.leave(&self.conn, self.context.clock.now());
        self.context.metrics.leaves_by(why, 1);
        self.context.rooms.user_changed(&room, &self.conn.identity.user);
        Some(room)
    }

    fn give_up_seat(&mut self) -> Option<Arc<Room>> {
        let (room, _) = self.seat.take()?;
        self.note_whereabouts(&room, Whereabouts::left);
        Some(room)
    }

    /// A socket that is in no figure is nowhere.
    fn note_whereabouts(&self, room: &Room, change: fn(&Whereabouts, &UserId, &LiveId)) {
        if let Some(whereabouts) = self.context.whereabouts.as_ref().filter(|_| self.conn.identity.counted) {
            change(whereabouts, &self.conn.identity.user, &room.record.live);
        }
    }

    /// Goes on with a new token of the same user.
    pub(super) fn refresh(&mut self, claims: Arc<Claims>) {
        let (context, conn) = (&self.context, &self.conn);
        let (before, role) = (conn.role(), claims.role);
        let end = context.end_of(&claims);
        let allowed = claims.clone();
        conn.hold_token(claims, end);
        if before != role {
            context.streamers.forget(conn);
            context.streamers.admit(conn);
        }
        if let Some((room, _)) = &self.seat {
            room.ask_tokens(&conn.identity.user);
            context.rooms.user_changed(room, &conn.identity.user);
        }
        let user = conn.identity.user.clone();
        let may = permission(Caller::Role(role), Action::Watch);
        let no_more = |room: &Room| !may.covers(&user, &room.record.streamer) || !allowed.allows(&room.record.live);
        let over: Vec<LiveId> = self
            .listening
            .iter()
            .filter(|there| no_more(&there.room))
            .map(|there| there.room.record.live.clone())
            .collect();
        over.iter().for_each(|live| self.unwatch(Some(live)));
    }

    /// How many lives the socket watches, this one aside.
    pub(super) fn watched_besides(&self, live: &LiveId) -> usize {
        self.listening_besides(live).filter(|there| there.interest == Interest::Counts).count()
    }

    /// How many open lives the socket opened, this one aside.
    pub(super) fn opened_besides(&self, live: &LiveId) -> usize {
        self.listening_besides(live).filter(|there| there.opened).count()
    }

    fn listening_besides(&self, live: &LiveId) -> impl Iterator<Item = &Listening> {
        self.listening.iter().filter(move |there| there.room.record.live != *live)
    }

    /// Listens to a live.
    pub(super) fn listen(&mut self, room: &Arc<Room>, interest: Interest) -> Result<(), Ended> {
        let opened = interest == Interest::End;
        let Some(there) = self.listening.iter_mut().find(|there| Arc::ptr_eq(&there.room, room)) else {
            room.listen(&self.conn, interest)?;
            self.listening.push(Listening { room: room.clone(), interest, opened, told: None });
            return Ok(());
        };
        // A socket that watches goes on watching when it opens the live once more.
        if interest == Interest::Counts {
            room.listen(&self.conn, interest)?;
            there.interest = interest;
        }
        there.opened |= opened;
        Ok(())
    }

    /// Stops watching this live, or all.
    pub(super) fn unwatch(&mut self, live: Option<&LiveId>) {
        let conn = &self.conn;
        self.listening.retain_mut(|there| {
            let meant = live.is_none_or(|live| there.room.record.live == *live);
            if there.interest == Interest::End || !meant {
                return true;
            }
            // A socket that opened the live goes on listening for its end.
            if there.opened && there.room.listen(conn, Interest::End).is_ok() {
                there.interest = Interest::End;
                return true;
            }
            there.room.unlisten(conn);
            false
        });
        self.shrink();
    }

    /// Drops a live that has ended, without telling the client.
    pub(super) fn forget(&mut self, live: &LiveId) {
        if self.seat.as_ref().is_some_and(|(room, _)| room.record.live == *live && room.end().is_some()) {
            self.give_up_seat();
        }
        self.listening.retain(|there| there.room.record.live != *live || there.room.end().is_none());
        self.shrink();
    }

    /// A dashboard that no longer watches many lives keeps no memory for them.
    fn shrink(&mut self) {
        let needed = 2 * self.listening.len();
        if self.listening.capacity() > 2 * needed {
            self.listening.shrink_to(needed);
        }
    }

    /// Drops the lives that have closed; answers each record once.
    pub(super) fn take_closed(&mut self) -> Vec<Arc<LiveRecord>> {
        let mut closed: Vec<Arc<LiveRecord>> = Vec::new();
        if let Some(record) = self.seat.as_ref().and_then(|(room, _)| room.closed()) {
            closed.push(record.clone());
            self.give_up_seat();
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
        self.shrink();
        closed
    }

    /// The counts of every watched live that were released since this socket was last told of them.
    pub(super) fn new_counts(&mut self) -> Vec<Utf8Bytes> {
        let (context, seq) = (&self.context, &mut self.seq);
        let watched = self.listening.iter_mut().filter(|there| there.interest == Interest::Counts);
        watched
            .filter_map(|there| {
                let shown = there.room.throttle.lock().shown().filter(|shown| there.told != Some(shown.at))?;
                there.told = Some(shown.at);
                Some(counts(context, &there.room, shown, seq, None))
            })
            .collect()
    }

    /// The counts of a watched live at this moment.
    pub(super) fn counts_of(&mut self, room: &Arc<Room>, id: Option<&RequestId>) -> Option<Utf8Bytes> {
        let there = self.listening.iter_mut().find(|there| Arc::ptr_eq(&there.room, room))?;
        let now = self.context.clock.now();
        let shown = Shown { at: now, figures: room.figures(), quality: self.context.trust.quality(room) };
        let owed = {
            let mut throttle = room.throttle.lock();
            let owed = throttle.told(now, shown.figures, shown.quality);
            there.told = throttle.shown().map(|shown| shown.at);
            owed
        };
        if owed {
            self.context.rooms.count(room);
        }
        Some(counts(&self.context, room, shown, &mut self.seq, id))
    }

    /// Stops watching, and being one of the user's sockets; the seat stays.
    pub(super) fn keep_seat_only(&mut self) {
        self.context.user_sockets.forget(&self.conn);
        for there in std::mem::take(&mut self.listening) {
            there.room.unlisten(&self.conn);
        }
    }

    /// Keeps the seat of a client that was sent to another gateway, and counts it as moving.
    pub(super) fn hold_seat(&mut self) {
        self.keep_seat_only();
        if let Some((room, _)) = &self.seat {
            room.hold(&self.conn, self.context.clock.now());
            self.context.rooms.publish(room);
        }
    }
}

fn counts(context: &SessionContext, room: &Room, shown: Shown, seq: &mut u64, id: Option<&RequestId>) -> Utf8Bytes {
    context.metrics.counts_sent.inc();
    *seq += 1;
    // A peak is noted just after the figure that makes it, and no message may show a peak below its figure.
    let peaks = room.peaks().max(Peaks { viewers: shown.figures.viewers, fans: shown.figures.fans });
    // Exact figures are correct now; the others were correct when the store last answered.
    let age = match shown.quality {
        Quality::Exact => 0,
        Quality::Partial | Quality::Stale => context.clock.now().saturating_sub(context.trust.sure_at(room)),
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
        as_of: context.clock.unix().saturating_sub(age),
        quality: shown.quality,
    };
    ServerMessage::Counts(message).text(id)
}

impl Drop for Memberships {
    fn drop(&mut self) {
        self.leave(Close::label_of(self.ended));
        self.keep_seat_only();
        self.context.streamers.forget(&self.conn);
        self.conn.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[tokio::test]
    async fn a_socket_that_watches_nothing_any_more_keeps_no_memory_for_it() {
        let context = testing::sessions();
        let mut memberships = Memberships::new(context.clone(), testing::conn("dashboard"));
        for i in 0..100 {
            let room = testing::open_live(&context, &i.to_string()).await;
            memberships.listen(&room, Interest::Counts).unwrap();
        }
        memberships.unwatch(None);
        assert_eq!((memberships.listening.len(), memberships.listening.capacity()), (0, 0));
    }
}
