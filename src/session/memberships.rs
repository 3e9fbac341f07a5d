//! What a socket takes part in: the live that it has joined, and the lives that it watches or
//! opened. When this value is dropped, the socket leaves them all, however the session ended.
//! [`counts`] and [`friends`] have what it is told of them.

mod counts;
mod friends;

use std::sync::Arc;

use crate::auth::claims::Claims;
use crate::auth::permissions::{Action, Caller, permission};
use crate::base::clock::Millis;
use crate::base::identity::Role;
use crate::base::ids::LiveId;
use crate::base::metrics::Metrics;
use crate::presence::conn::Conn;
use crate::presence::room::{Ended, Interest};
use crate::presence::{Away, Fan, Member, NoSeat, Room};
use crate::session::close_codes::Close;
use crate::session::context::SessionContext;
use crate::store::LiveRecord;

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
    /// The place of the room's counts that this socket was told last; [`NO_COUNTS`] if it did not
    /// ask for counts.
    told: u32,
}

/// No counts come after these.
const NO_COUNTS: u32 = u32::MAX;

pub(super) struct Memberships {
    context: Arc<SessionContext>,
    pub(super) conn: Arc<Conn>,
    seat: Option<Seat>,
    /// Whether the socket makes its user online on the platform.
    online: bool,
    /// Whether the socket is one of a streamer.
    streams: bool,
    /// Whether the socket asked for the friends in the joined live.
    asks_friends: bool,
    listening: Vec<Listening>,
    /// The `seq` of the last counts message that was made for this socket alone. All lives share
    /// it, so that the `seq` of a live grows even if the client stops watching and starts again.
    seq: u64,
    /// Why the session ended; `None` if its task panicked or the runtime stopped.
    pub(super) ended: Option<Close>,
}

impl Memberships {
    pub(super) fn new(context: Arc<SessionContext>, conn: Arc<Conn>) -> Self {
        if context.user_sockets.admit(&conn) {
            Metrics::count(&context.metrics.limited, "sockets_per_user");
        }
        let mut memberships = Self {
            context,
            conn,
            seat: None,
            online: false,
            streams: false,
            asks_friends: false,
            listening: Vec::new(),
            seq: 0,
            ended: None,
        };
        memberships.enter_platform();
        memberships
    }

    /// Makes the user online on the platform, unless the socket is a back end's or is in no figure;
    /// and a streamer, if the socket is a streamer's.
    fn enter_platform(&mut self) {
        let (rooms, conn) = (self.context.rooms.clone(), self.conn.clone());
        let (user, role) = (&conn.identity.user, conn.role());
        let counts = conn.identity.counted && role != Role::Service;
        if let Some(users) = rooms.users.as_ref().filter(|_| counts && !self.online) {
            rooms.enter(users, user);
            self.online = true;
        }
        if role != Role::Streamer {
            self.stop_streaming();
        } else if !self.streams {
            rooms.enter(&rooms.streamers, user);
            self.streams = true;
        }
    }

    /// The user is no streamer any more through this socket.
    pub(super) fn stop_streaming(&mut self) {
        if std::mem::take(&mut self.streams) {
            let (rooms, conn) = (&self.context.rooms, &self.conn);
            rooms.leave(&rooms.streamers, &conn.identity.user, conn.last_heard());
        }
    }

    /// Whether the gateway must keep the user for a while if the connection breaks.
    pub(super) fn is_present(&self) -> bool {
        self.seat.is_some() || self.online
    }

    pub(super) fn seat(&self) -> Option<&Seat> {
        self.seat.as_ref()
    }

    /// Whether the joined live has ended and the client was not told yet.
    pub(super) fn seat_has_ended(&self) -> bool {
        self.seat
            .as_ref()
            .is_some_and(|seat| seat.room.end().is_some())
    }

    /// Whether the socket is in this live, which goes on.
    pub(super) fn has_joined(&self, live: &LiveId) -> bool {
        self.seat
            .as_ref()
            .is_some_and(|seat| seat.room.record.live == *live && seat.room.end().is_none())
    }

    /// Joins a live and leaves any other. Joining the same live again changes nothing but what is
    /// pushed, and says that somebody looks.
    pub(super) fn join(&mut self, room: &Arc<Room>) -> Result<(), NoSeat> {
        if self
            .seat
            .as_ref()
            .is_some_and(|seat| Arc::ptr_eq(&seat.room, room) && room.end().is_none())
        {
            self.look_away(Away::Back);
            return Ok(());
        }
        let clock = &self.context.clock;
        let member = room.join(
            &self.conn,
            self.context.limits.joins,
            clock.now(),
            clock.unix(),
        )?;
        let hit = if member.fan() == Fan::Unknown {
            "miss"
        } else {
            "hit"
        };
        Metrics::count_result(&self.context.metrics.fan_cache, hit);
        self.leave("switch");
        self.seat = Some(Seat {
            room: room.clone(),
            member,
            info: 0,
            told: NO_COUNTS,
        });
        // Only now: the seat that was left counted as away.
        self.look_away(Away::Back);
        if self.conn.identity.counted {
            self.context
                .rooms
                .join_live(&self.conn.identity.user, &room.record.live);
        }
        tracing::debug!(live_id = %room.record.live, epoch = %room.record.epoch, "joined");
        self.context.metrics.joins.inc();
        self.context
            .rooms
            .user_changed(room, &self.conn.identity.user);
        Ok(())
    }

    /// Leaves the joined live.
    pub(super) fn leave(&mut self, why: &'static str) -> Option<Arc<Room>> {
        self.end_counts();
        let room = self.give_up_seat()?;
        if room.end().is_some() {
            return None;
        }
        room.leave(&self.conn, self.context.clock.now());
        self.context.metrics.leaves_by(why, 1);
        self.context
            .rooms
            .user_changed(&room, &self.conn.identity.user);
        Some(room)
    }

    fn give_up_seat(&mut self) -> Option<Arc<Room>> {
        self.end_friends();
        let room = self.seat.take()?.room;
        if self.conn.identity.counted {
            self.context
                .rooms
                .leave_live(&self.conn.identity.user, &room.record.live);
        }
        Some(room)
    }

    /// Notes whether anybody looks; nothing comes of it while no live is joined.
    pub(super) fn look_away(&self, away: Away) {
        let Some(Seat { room, .. }) = &self.seat else {
            return;
        };
        if room.look_away(&self.conn, away, self.context.clock.now()) {
            self.context.rooms.show(room);
            self.context.rooms.publish(room);
        }
    }

    /// Goes on with a new token of the same user.
    pub(super) fn refresh(&mut self, claims: Arc<Claims>) {
        let (context, conn) = (&self.context, &self.conn);
        let role = claims.role;
        let end = context.end_of(&claims);
        let allowed = claims.clone();
        conn.hold_token(claims, end);
        self.enter_platform();
        let (context, conn) = (&self.context, &self.conn);
        if let Some(Seat { room, .. }) = &self.seat {
            room.ask_tokens(&conn.identity.user);
            context.rooms.user_changed(room, &conn.identity.user);
        }
        let user = conn.identity.user.clone();
        let may = permission(Caller::Role(role), Action::Watch);
        let no_more = |room: &Room| {
            !may.covers(&user, &room.record.streamer) || !allowed.allows(&room.record.live)
        };
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
        self.listening_besides(live)
            .filter(|there| there.interest == Interest::Counts)
            .count()
    }

    /// How many open lives the socket opened, this one aside.
    pub(super) fn opened_besides(&self, live: &LiveId) -> usize {
        self.listening_besides(live)
            .filter(|there| there.opened)
            .count()
    }

    fn listening_besides(&self, live: &LiveId) -> impl Iterator<Item = &Listening> {
        self.listening
            .iter()
            .filter(move |there| there.room.record.live != *live)
    }

    /// Listens to a live.
    pub(super) fn listen(&mut self, room: &Arc<Room>, interest: Interest) -> Result<(), Ended> {
        let opened = interest == Interest::End;
        let Some(there) = self
            .listening
            .iter_mut()
            .find(|there| Arc::ptr_eq(&there.room, room))
        else {
            room.listen(&self.conn, interest)?;
            self.listening.push(Listening {
                room: room.clone(),
                interest,
                opened,
                told: None,
                info: 0,
            });
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
        if self
            .seat
            .as_ref()
            .is_some_and(|Seat { room, .. }| room.record.live == *live && room.end().is_some())
        {
            self.give_up_seat();
        }
        self.listening
            .retain(|there| there.room.record.live != *live || there.room.end().is_none());
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

    /// Stops watching, and being one of the user's sockets; the seat stays.
    pub(super) fn keep_seat_only(&mut self) {
        self.end_counts();
        self.end_friends();
        self.context.user_sockets.forget(&self.conn);
        for there in std::mem::take(&mut self.listening) {
            there.room.unlisten(&self.conn);
        }
    }
}

impl Drop for Memberships {
    fn drop(&mut self) {
        self.leave(Close::label_of(self.ended));
        self.keep_seat_only();
        self.stop_streaming();
        let (rooms, conn) = (&self.context.rooms, &self.conn);
        if let Some(users) = rooms.users.as_ref().filter(|_| self.online) {
            rooms.leave(users, &conn.identity.user, conn.last_heard());
        }
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
        assert_eq!(
            (
                memberships.listening.len(),
                memberships.listening.capacity()
            ),
            (0, 0)
        );
    }
}
