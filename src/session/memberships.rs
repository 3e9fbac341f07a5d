//! What a socket takes part in: the live that it has joined, and the lives that it watches or opened. When this value
//! is dropped, the socket leaves them all, however the session ended.

use std::sync::Arc;

use tokio_tungstenite::tungstenite::Utf8Bytes;

use crate::auth::claims::Claims;
use crate::auth::permissions::{Action, Caller, permission};
use crate::base::clock::Millis;
use crate::base::identity::Role;
use crate::base::ids::LiveId;
use crate::base::metrics::Metrics;
use crate::presence::conn::Conn;
use crate::presence::figures::Quality;
use crate::presence::room::{Ended, Interest};
use crate::presence::throttle::Shown;
use crate::presence::{Member, NoSeat, Room};
use crate::session::close_codes::Close;
use crate::session::context::SessionContext;
use crate::session::messages::{CountsMessage, InfoTold, RequestId, ServerMessage};
use crate::store::{Info, LiveRecord, Peaks};

struct Listening {
    room: Arc<Room>,
    interest: Interest,
    /// Whether this socket opened the live.
    opened: bool,
    /// When the counts told last were released.
    told: Option<Millis>,
    /// The revision of the live's information that this socket has.
    info: u32,
}

/// The live that the socket has joined.
pub(super) struct Seat {
    pub(super) room: Arc<Room>,
    pub(super) member: Arc<Member>,
    /// The revision of the live's information that this socket has.
    pub(super) info: u32,
    /// The place of the room's counts that this socket was told last; [`NO_COUNTS`] if it did not ask for counts.
    told: u32,
}

/// No counts come after these.
const NO_COUNTS: u32 = u32::MAX;

pub(super) struct Memberships {
    context: Arc<SessionContext>,
    pub(super) conn: Arc<Conn>,
    seat: Option<Seat>,
    listening: Vec<Listening>,
    /// The `seq` of the last counts message that was made for this socket alone. All lives share it, so that the `seq`
    /// of a live grows even if the client stops watching and starts again.
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

    pub(super) fn seat(&self) -> Option<&Seat> {
        self.seat.as_ref()
    }

    /// Whether the joined live has ended and the client was not told yet.
    pub(super) fn seat_has_ended(&self) -> bool {
        self.seat.as_ref().is_some_and(|seat| seat.room.end().is_some())
    }

    /// Joins a live and leaves any other. Joining the same live again changes nothing but whether counts are pushed.
    pub(super) fn join(&mut self, room: &Arc<Room>) -> Result<(), NoSeat> {
        if self.seat.as_ref().is_some_and(|seat| Arc::ptr_eq(&seat.room, room) && room.end().is_none()) {
            return Ok(());
        }
        let member = room.join(&self.conn, self.context.limits.joins, self.context.clock.now())?;
        self.leave("switch");
        self.seat = Some(Seat { room: room.clone(), member, info: 0, told: NO_COUNTS });
        self.context.metrics.joins.inc();
        self.context.rooms.user_changed(room, &self.conn.identity.user);
        Ok(())
    }

    /// Leaves the joined live.
    pub(super) fn leave(&mut self, why: &'static str) -> Option<Arc<Room>> {
        self.end_counts();
        let room = self.seat.take()?.room;
        if room.end().is_some() {
            return None;
        }
        room.leave(&self.conn, self.context.clock.now());
        self.context.metrics.leaves_by(why, 1);
        self.context.rooms.user_changed(&room, &self.conn.identity.user);
        Some(room)
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
        if let Some(Seat { room, .. }) = &self.seat {
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
            self.listening.push(Listening { room: room.clone(), interest, opened, told: None, info: 0 });
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
        if self.seat.as_ref().is_some_and(|Seat { room, .. }| room.record.live == *live && room.end().is_some()) {
            self.seat = None;
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
        if let Some(record) = self.seat.as_ref().and_then(|seat| seat.room.closed()) {
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
        self.shrink();
        closed
    }

    /// The information about a live, if this socket does not have its newest version; it is told next.
    pub(super) fn info_to_tell(&mut self, room: &Arc<Room>) -> Option<Info> {
        let newest = room.info.revision();
        let of_seat = self.seat.as_ref().filter(|seat| Arc::ptr_eq(&seat.room, room)).map(|seat| seat.info);
        let listening = || self.listening.iter().find(|there| Arc::ptr_eq(&there.room, room)).map(|there| there.info);
        if newest == 0 || of_seat.or_else(listening)? >= newest {
            return None;
        }
        let known = room.info.newest();
        self.note_info_told(room, known.revision);
        Some(known.info.clone())
    }

    /// Notes the revision of a live's information that the client is told.
    pub(super) fn note_info_told(&mut self, room: &Arc<Room>, revision: u32) {
        if let Some(seat) = self.seat.as_mut().filter(|seat| Arc::ptr_eq(&seat.room, room)) {
            seat.info = revision;
        }
        if let Some(there) = self.listening.iter_mut().find(|there| Arc::ptr_eq(&there.room, room)) {
            there.info = revision;
        }
    }

    /// Has the counts of the joined live pushed.
    pub(super) fn begin_counts(&mut self) {
        if let Some(seat) = self.seat.as_mut().filter(|seat| seat.told == NO_COUNTS) {
            seat.room.audience.add(&self.conn, self.context.clock.now());
            seat.told = 0;
        }
    }

    /// Has them pushed no longer.
    pub(super) fn end_counts(&mut self) {
        if let Some(seat) = self.seat.as_mut().filter(|seat| seat.told != NO_COUNTS) {
            seat.room.audience.remove(&self.conn);
            seat.told = NO_COUNTS;
        }
    }

    /// The counts of the joined live at this moment, for a viewer who has just asked for them.
    pub(super) fn first_counts(&mut self) -> Option<Utf8Bytes> {
        let seat = self.seat.as_mut().filter(|seat| seat.told != NO_COUNTS)?;
        let (room, context) = (seat.room.clone(), self.context.clone());
        let (shown, number) = room.audience.first(|| (show(&context, &room), room.info.revision()))?;
        seat.told = number.place;
        let seq = self.own_seq().unwrap_or(number.seq);
        let info = self.info_to_tell(&room);
        context.metrics.counts_sent.inc();
        Some(counts(&context, &room, shown, seq, info.as_ref()).text(None))
    }

    /// The counts of every watched live, and of the joined one if it was asked for, that were released since this
    /// socket was last told of them.
    pub(super) fn new_counts(&mut self) -> Vec<Utf8Bytes> {
        let context = self.context.clone();
        let mut released: Vec<(Arc<Room>, Shown)> = Vec::new();
        for there in self.listening.iter_mut().filter(|there| there.interest == Interest::Counts) {
            let shown = there.room.throttle.lock().shown().filter(|shown| there.told != Some(shown.at));
            if let Some(shown) = shown {
                there.told = Some(shown.at);
                released.push((there.room.clone(), shown));
            }
        }
        let mut texts = Vec::with_capacity(released.len() + 1);
        for (room, shown) in released {
            self.seq += 1;
            let info = self.info_to_tell(&room);
            texts.push(counts(&context, &room, shown, self.seq, info.as_ref()).text(None));
        }
        texts.extend(self.shared_counts());
        context.metrics.counts_sent.inc_by(texts.len() as u64);
        texts
    }

    /// The newest counts that all viewers of the joined live share, if this socket asked for them and was not told yet.
    fn shared_counts(&mut self) -> Option<Utf8Bytes> {
        let seat = self.seat.as_mut()?;
        let (room, told) = (seat.room.clone(), seat.told);
        let frame = room.audience.frame().filter(|frame| frame.number.place > told)?;
        seat.told = frame.number.place;
        let is_new = seat.info != room.info.revision();
        if let Some(seq) = self.own_seq() {
            let info = self.info_to_tell(&room);
            return Some(counts(&self.context, &room, frame.shown, seq, info.as_ref()).text(None));
        }
        let text = |info: Option<&Info>| counts(&self.context, &room, frame.shown, frame.number.seq, info).text(None);
        if !is_new {
            return Some(frame.plain.get_or_init(|| text(None)).clone());
        }
        let (revision, text) = frame.with_info.get_or_init(|| {
            let known = room.info.newest();
            (known.revision, text(Some(&known.info)))
        });
        self.note_info_told(&room, *revision);
        Some(text.clone())
    }

    /// The next number of this socket's own counts, if it may also watch lives: the numbers of a live must grow
    /// whichever way its counts come. A viewer's socket, which never watches, gets the numbers of the room.
    fn own_seq(&mut self) -> Option<u64> {
        if self.conn.identity.role == Role::Viewer {
            return None;
        }
        self.seq += 1;
        Some(self.seq)
    }

    /// The counts of a watched live at this moment.
    pub(super) fn counts_of(&mut self, room: &Arc<Room>, id: Option<&RequestId>) -> Option<Utf8Bytes> {
        let there = self.listening.iter_mut().find(|there| Arc::ptr_eq(&there.room, room))?;
        let shown = show(&self.context, room);
        let owed = {
            let mut throttle = room.throttle.lock();
            let owed = throttle.told(shown.at, shown.figures, shown.quality);
            there.told = throttle.shown().map(|shown| shown.at);
            owed
        };
        if owed {
            self.context.rooms.show(room);
        }
        self.seq += 1;
        let info = self.info_to_tell(room);
        self.context.metrics.counts_sent.inc();
        Some(counts(&self.context, room, shown, self.seq, info.as_ref()).text(id))
    }

    /// Stops watching, and being one of the user's sockets; the seat stays.
    pub(super) fn keep_seat_only(&mut self) {
        self.end_counts();
        self.context.user_sockets.forget(&self.conn);
        for there in std::mem::take(&mut self.listening) {
            there.room.unlisten(&self.conn);
        }
    }

    /// Keeps the seat of a client that was sent to another gateway, and counts it as moving.
    pub(super) fn hold_seat(&mut self) {
        self.keep_seat_only();
        if let Some(Seat { room, .. }) = &self.seat {
            room.hold(&self.conn, self.context.clock.now());
            self.context.rooms.publish(room);
        }
    }
}

/// The figures of a room at this moment.
fn show(context: &SessionContext, room: &Room) -> Shown {
    Shown { at: context.clock.now(), figures: room.figures(), quality: context.trust.quality(room) }
}

fn counts<'a>(
    context: &SessionContext,
    room: &'a Room,
    shown: Shown,
    seq: u64,
    info: Option<&'a Info>,
) -> ServerMessage<'a> {
    // A peak is noted just after the figure that makes it, and no message may show a peak below its figure.
    let peaks = room.peaks().max(Peaks { viewers: shown.figures.viewers, fans: shown.figures.fans });
    // Exact figures are correct now; the others were correct when the store last answered.
    let age = match shown.quality {
        Quality::Exact => 0,
        Quality::Partial | Quality::Stale => context.clock.now().saturating_sub(context.trust.sure_at(room)),
    };
    ServerMessage::Counts(CountsMessage {
        live_id: &room.record.live,
        epoch: room.record.epoch,
        seq,
        viewers: shown.figures.viewers,
        fans: shown.figures.fans,
        peak_viewers: peaks.viewers,
        peak_fans: peaks.fans,
        opened_at: room.record.opened_at,
        as_of: context.clock.unix().saturating_sub(age),
        quality: shown.quality,
        told: info.map(InfoTold::of),
    })
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
