//! The memberships of a socket: the live that it has joined, and the lives that it watches or
//! opened. When this value is dropped, the socket leaves them all, however the session ended.
//! [`acks`], [`counts`] and `friend_messages` make the messages that a socket is sent
//! about its lives.

mod acks;
mod counts;
mod friend_messages;

use std::sync::Arc;

use tokio_tungstenite::tungstenite::Utf8Bytes;

use crate::auth::claims::TokenClaims;
use crate::auth::permissions::{Action, Caller, Tie, permission};
use crate::base::clock::{Moment, millis};
use crate::base::identity::{Identity, Role};
use crate::base::ids::LiveId;
use crate::base::metrics::Metrics;
use crate::presence::conn::{Conn, Gaze, Signals};
use crate::presence::room::{Ended, Interest};
use crate::presence::{Fan, Member, NoSeat, Room};
use crate::session::close_codes::Close;
use crate::session::context::SessionContext;
use crate::session::messages::{Refusal, ServerMessage, UserRights};
use crate::store::{Figures, LiveRecord};

struct Listening {
    room: Arc<Room>,
    interest: Interest,
    /// Whether this socket opened the live.
    opened: bool,
    /// The release time of the counts that this socket was sent last.
    sent: Option<Moment>,
    /// The revision of the live's information that this socket has.
    info: u32,
}

/// The live that the socket has joined.
pub(super) struct JoinedLive {
    pub(super) room: Arc<Room>,
    pub(super) member: Arc<Member>,
    /// The revision of the live's information that this socket has.
    pub(super) info: u32,
    /// The place of the room's counts that this socket was sent last; [`NO_COUNTS`] if it did not
    /// ask for counts.
    sent: u32,
}

/// A place after which there are no further counts.
const NO_COUNTS: u32 = u32::MAX;

pub(super) struct Memberships {
    context: Arc<SessionContext>,
    pub(super) conn: Arc<Conn>,
    seat: Option<JoinedLive>,
    /// Whether the socket keeps its user online on the platform.
    online: bool,
    /// Whether the socket counts its user among the streamers, who keep lives open.
    streams: bool,
    /// Whether the socket asked for the friends in the joined live.
    asks_friends: bool,
    /// Whether the viewer may be a newcomer of the joined live; see [`Room::is_newcomer`].
    is_new: bool,
    /// Whether the counts of the joined live that were sent last were those for a newcomer.
    told_as_new: bool,
    /// What the client was told that its user may do in the joined live.
    told_rights: UserRights,
    listening: Vec<Listening>,
    /// The `seq` of the last counts message that was made for this socket alone. All lives share
    /// it, so that the `seq` of a live grows even if the client stops watching and starts again.
    seq: u64,
    /// Why the session ended; `None` if its task panicked or the runtime stopped.
    pub(super) ended: Option<Close>,
}

impl Memberships {
    pub(super) fn new(context: Arc<SessionContext>, conn: Arc<Conn>) -> Self {
        let mut memberships = Self {
            context,
            conn,
            seat: None,
            online: false,
            streams: false,
            asks_friends: false,
            is_new: false,
            told_as_new: false,
            told_rights: UserRights::default(),
            listening: Vec::new(),
            seq: 0,
            ended: None,
        };
        memberships.enter_platform();
        memberships
    }

    /// Counts the session among those of its user. If these are too many now, the oldest ends.
    pub(super) fn count_for_user(&self) {
        if self.context.user_sockets.admit(&self.conn) {
            Metrics::count(&self.context.core.metrics.limited, "sockets_per_user");
        }
    }

    /// Makes the user online on the platform, unless the socket is a back end's or is in no figure.
    /// The socket of a streamer or of a host also puts its user among the streamers.
    fn enter_platform(&mut self) {
        let rooms = self.context.core.rooms.clone();
        let conn = self.conn.clone();
        let user = &conn.identity.user;
        let role = conn.role();
        let counts = conn.identity.counted && role != Role::Service && !user.is_guest();
        if let Some(users) = &rooms.users
            && counts
            && !self.online
        {
            rooms.enter(users, user);
            self.online = true;
        }
        self.judge_streaming();
    }

    /// Counts the user among the streamers if the socket is a streamer's, or takes part in a live
    /// that its user hosts; otherwise not.
    pub(super) fn judge_streaming(&mut self) {
        if !self.may_stream() {
            self.stop_streaming();
        } else if !self.streams {
            let rooms = &self.context.core.rooms;
            rooms.enter(&rooms.streamers, &self.conn.identity.user);
            self.streams = true;
        }
    }

    fn may_stream(&self) -> bool {
        let joined = self.seat.iter().map(|seat| &seat.room);
        let mut rooms = joined.chain(self.listening.iter().map(|there| &there.room));
        self.conn.role() == Role::Streamer || rooms.any(|room| self.hosts(room))
    }

    /// Whether the user hosts the live of this room.
    fn hosts(&self, room: &Room) -> bool {
        room.is_host(&self.conn.identity.user, self.context.core.clock.now())
    }

    /// Takes the user from the streamers if the socket was the one of a host and is in no such live
    /// any more.
    fn end_hosting(&mut self) {
        if self.streams && !self.may_stream() {
            self.stop_streaming();
        }
    }

    /// This socket no longer counts its user among the streamers.
    pub(super) fn stop_streaming(&mut self) {
        if std::mem::take(&mut self.streams) {
            let rooms = &self.context.core.rooms;
            rooms.leave(
                &rooms.streamers,
                &self.conn.identity.user,
                self.conn.last_heard(),
            );
        }
    }

    /// Whether the gateway must keep the user for a while if the connection breaks.
    pub(super) fn is_present(&self) -> bool {
        self.seat.is_some() || self.online
    }

    pub(super) fn seat(&self) -> Option<&JoinedLive> {
        self.seat.as_ref()
    }

    /// The figures of the joined live, which count its viewer even before the store does.
    pub(super) fn figures(&mut self) -> Option<Figures> {
        let is_new = self.look_whether_new();
        let room = &self.seat.as_ref()?.room;
        Some(if is_new {
            room.figures.for_newcomer(&self.conn.identity.user)
        } else {
            room.figures()
        })
    }

    /// Says that the viewer goes on here with a session of another gateway, for which the store
    /// counts the viewer.
    pub(super) fn goes_on(&mut self) {
        self.is_new = false;
    }

    /// Whether the viewer is a newcomer of the joined live. Nobody becomes one again, so later
    /// calls take no lock.
    fn look_whether_new(&mut self) -> bool {
        self.is_new = self.is_new
            && self
                .seat
                .as_ref()
                .is_some_and(|seat| seat.room.is_newcomer(&self.conn.identity.user));
        self.is_new
    }

    /// What the user may do in the joined live, which the client is told now; `None` if nothing but
    /// watch it.
    pub(super) fn you_now(&mut self) -> Option<UserRights> {
        self.told_rights = self.rights();
        (self.told_rights != UserRights::default()).then_some(self.told_rights)
    }

    /// The message that tells the client what its user may do, if that changed.
    pub(super) fn new_you(&mut self) -> Option<Utf8Bytes> {
        let rights = self.rights();
        if rights == self.told_rights {
            return None;
        }
        self.told_rights = rights;
        let UserRights { moderator, host } = rights;
        let message = ServerMessage::You {
            live_id: &self.seat.as_ref()?.room.record.live,
            moderator,
            host,
        };
        Some(message.text(None))
    }

    fn rights(&self) -> UserRights {
        let Some(JoinedLive { room, .. }) = &self.seat else {
            return UserRights::default();
        };
        let user = &self.conn.identity.user;
        UserRights {
            moderator: room.rules.is_moderator(&room.record.streamer, user),
            host: self.hosts(room),
        }
    }

    /// Whether the socket may watch the live of this room.
    pub(super) fn may_watch(&self, room: &Room) -> bool {
        self.may_watch_as(self.conn.role(), room)
    }

    /// Whether the user may watch all that the socket watches, with a token of this role.
    pub(super) fn may_all_be_watched_by(&self, role: Role) -> bool {
        let mut watched = self.watched().into_iter();
        watched.all(|room| self.may_watch_as(role, &room))
    }

    fn may_watch_as(&self, role: Role, room: &Room) -> bool {
        let may = permission(Caller::Role(role), Action::Watch);
        may.covers(&self.conn.identity.user, &room.record.streamer)
            || may.is_for(Tie::Host) && self.hosts(room)
    }

    /// Stops watching the lives that the socket may not watch any more. Answers which.
    pub(super) fn unwatch_forbidden(&mut self) -> Vec<LiveId> {
        let mut forbidden = Vec::new();
        for room in self.watched() {
            if !self.may_watch(&room) {
                forbidden.push(room.record.live.clone());
            }
        }
        for live in &forbidden {
            self.unwatch(Some(live));
        }
        forbidden
    }

    /// Whether the session takes part in no live at all.
    pub(super) fn is_in_no_live(&self) -> bool {
        self.seat.is_none() && self.listening.is_empty()
    }

    /// The lives whose counts are sent.
    fn watched(&self) -> Vec<Arc<Room>> {
        self.listening
            .iter()
            .filter(|there| there.interest == Interest::Counts)
            .map(|there| there.room.clone())
            .collect()
    }

    /// Whether the joined live has ended and the client was not told yet.
    pub(super) fn seat_has_ended(&self) -> bool {
        match &self.seat {
            Some(seat) => seat.room.end().is_some(),
            None => false,
        }
    }

    /// Whether the socket is in this live, which goes on.
    pub(super) fn has_joined(&self, live: &LiveId) -> bool {
        match &self.seat {
            Some(seat) => seat.room.record.live == *live && seat.room.end().is_none(),
            None => false,
        }
    }

    /// Joins a live and leaves any other. A second join of the same live changes no membership: the
    /// caller sets anew what is pushed, and the viewer counts as looking.
    pub(super) fn join(&mut self, room: &Arc<Room>) -> Result<(), NoSeat> {
        if let Some(seat) = &self.seat
            && Arc::ptr_eq(&seat.room, room)
            && room.end().is_none()
        {
            self.look_again();
            return Ok(());
        }
        let clock = &self.context.core.clock;
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
        Metrics::count_result(&self.context.core.metrics.fan_cache, hit);
        self.leave("switch");
        self.seat = Some(JoinedLive {
            room: room.clone(),
            member,
            info: 0,
            sent: NO_COUNTS,
        });
        self.is_new = true;
        self.told_as_new = false;
        self.told_rights = UserRights::default();
        // After `leave`, which must still find the old seat as it was: away or not.
        self.look(Gaze::Here);
        self.judge_streaming();
        if self.conn.identity.counted {
            self.context
                .core
                .rooms
                .join_live(&self.conn.identity.user, &room.record.live);
        }
        tracing::debug!(live_id = %room.record.live, epoch = %room.record.epoch, "joined");
        self.context.core.metrics.joins.inc();
        self.context
            .core
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
        room.leave(&self.conn, self.context.core.clock.now());
        self.context.core.metrics.leaves_by(why, 1);
        self.context
            .core
            .rooms
            .user_changed(&room, &self.conn.identity.user);
        Some(room)
    }

    fn give_up_seat(&mut self) -> Option<Arc<Room>> {
        self.end_friends();
        let room = self.seat.take()?.room;
        self.end_hosting();
        if self.conn.identity.counted {
            self.context
                .core
                .rooms
                .leave_live(&self.conn.identity.user, &room.record.live);
        }
        Some(room)
    }

    /// Notes what a heartbeat says of watching.
    pub(super) fn note_watching(&self, said: Option<bool>) {
        let is_watching = self.conn.gaze() == Gaze::Watching;
        match said {
            Some(true) => {
                let now = self.context.core.clock.now();
                self.conn
                    .believe_until(now + millis(self.context.core.config.timeout));
                if !is_watching {
                    self.look(Gaze::Watching);
                }
            }
            Some(false) if is_watching => self.look(Gaze::Here),
            Some(false) | None => {}
        }
    }

    /// A viewer whose client has not said for long that the user watches is only there. Any sign of
    /// life looks whether it is so; a client without one loses its seat.
    pub(super) fn check_watching(&self, now: Moment) {
        if self.conn.gaze() == Gaze::Watching && self.conn.has_stopped_saying(now) {
            self.look(Gaze::Here);
        }
    }

    /// The viewer is no longer away.
    pub(super) fn look_again(&self) {
        if self.conn.gaze() == Gaze::Away {
            self.look(Gaze::Here);
        }
    }

    /// Notes how the viewer looks; without a joined live, it does nothing.
    pub(super) fn look(&self, gaze: Gaze) {
        let Some(JoinedLive { room, .. }) = &self.seat else {
            return;
        };
        if room.look(&self.conn, gaze, self.context.core.clock.now()) {
            self.context.core.rooms.show(room);
            self.context.core.rooms.publish(room);
        }
    }

    /// Goes on with a new token of the same user.
    pub(super) fn refresh(&mut self, claims: &Arc<TokenClaims>) {
        let end = self.context.end_of(claims);
        self.conn.hold_token(claims.clone(), end);
        self.enter_platform();
        let user = &self.conn.identity.user;
        if let Some(JoinedLive { room, .. }) = &self.seat {
            room.ask_tokens(user);
            self.context.core.rooms.user_changed(room, user);
        }
        for room in self.watched() {
            if !claims.allows(&room.record.live) {
                self.unwatch(Some(&room.record.live));
            }
        }
        self.unwatch_forbidden();
    }

    /// Goes on as the user whom the guest became. The user takes over the guest's seat, and is there
    /// since the guest was. The guest's part of the socket ends without a word to anybody.
    ///
    /// # Errors
    /// If the user is banned from the platform, or from this live, which the guest joined. Nothing
    /// has changed then.
    pub(super) fn sign_in(&mut self, claims: &Arc<TokenClaims>) -> Result<(), Refusal> {
        let context = self.context.clone();
        let guest = self.conn.clone();
        let now = context.core.clock.now();
        if let Some(ban) = context.core.rules.ban(&claims.user, now) {
            return Err(Refusal::kept_out(&ban));
        }
        let identity = Identity {
            user: claims.user.clone(),
            ..guest.identity.clone()
        };
        let conn = Arc::new(guest.signed_in(identity, now));
        conn.hold_token(claims.clone(), context.end_of(claims));
        if let Some(JoinedLive { room, .. }) = &self.seat {
            match room.sign_in(&guest, &conn, now) {
                Ok(member) => self.moved(&guest, &conn, member),
                Err(NoSeat::Banned(left)) => {
                    return Err(Refusal::removed(&room.record.live, left));
                }
                Err(NoSeat::KeptOut(ban)) => return Err(Refusal::kept_out(&ban)),
                // The signal that tells of the end, or of the removal, is on its way.
                Err(NoSeat::Ended | NoSeat::Crowded) => {}
            }
        }
        context.user_sockets.forget(&guest);
        self.conn = conn;
        self.count_for_user();
        context.reaper.admit(&self.conn);
        // A rule may have been made just before the reaper knew the user's part of the socket.
        context.refuse_unwelcome(&self.conn);
        // The user may moderate, which a guest never does.
        self.conn.signal(Signals::YOU);
        self.enter_platform();
        guest.close();
        guest.pass_signals_on(&self.conn);
        if context.is_draining() {
            // The drain may have chosen the guest's part of the socket.
            self.conn.signal(Signals::MOVE);
        }
        Ok(())
    }

    /// Notes that the guest's seat has become the user's.
    fn moved(&mut self, guest: &Arc<Conn>, user: &Arc<Conn>, member: Arc<Member>) {
        let Some(seat) = &mut self.seat else {
            return;
        };
        let rooms = &self.context.core.rooms;
        let room = &seat.room;
        if seat.sent != NO_COUNTS {
            room.pushed.add(user, self.context.core.clock.now());
            room.pushed.remove(guest);
        }
        seat.member = member;
        // The store counts the guest until it counts the user.
        self.is_new = false;
        if user.identity.counted {
            rooms.join_live(&user.identity.user, &room.record.live);
        }
        rooms.replaced(room, &guest.identity.user, &user.identity.user);
        tracing::debug!(live_id = %room.record.live, "a guest signed in");
    }

    /// Whether the socket watches any live.
    pub(super) fn watches_any(&self) -> bool {
        !self.watched().is_empty()
    }

    /// How many lives the socket watches, not counting this one.
    pub(super) fn watched_besides(&self, live: &LiveId) -> usize {
        self.listening_besides(live)
            .filter(|there| there.interest == Interest::Counts)
            .count()
    }

    /// How many open lives the socket opened, not counting this one.
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
                sent: None,
                info: 0,
            });
            self.judge_streaming();
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
            let is_meant = match live {
                Some(live) => there.room.record.live == *live,
                None => true,
            };
            if there.interest == Interest::End || !is_meant {
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
        if let Some(JoinedLive { room, .. }) = &self.seat
            && room.record.live == *live
            && room.end().is_some()
        {
            self.give_up_seat();
        }
        self.listening
            .retain(|there| there.room.record.live != *live || there.room.end().is_none());
        self.shrink();
    }

    /// A dashboard that no longer watches many lives keeps no memory for them, and does not keep them
    /// open.
    fn shrink(&mut self) {
        self.end_hosting();
        let needed = 2 * self.listening.len();
        if self.listening.capacity() > 2 * needed {
            self.listening.shrink_to(needed);
        }
    }

    /// Drops the lives that have closed; returns each record once.
    pub(super) fn take_closed(&mut self) -> Vec<Arc<LiveRecord>> {
        let mut closed: Vec<Arc<LiveRecord>> = Vec::new();
        if let Some(seat) = &self.seat
            && let Some(record) = seat.room.closed()
        {
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

    /// Gives up everything but the seat: the watched lives, the pushes, and the place among the
    /// user's sockets.
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
        let rooms = &self.context.core.rooms;
        if let Some(users) = &rooms.users
            && self.online
        {
            rooms.leave(users, &self.conn.identity.user, self.conn.last_heard());
        }
        self.conn.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ids::UserId;
    use crate::testing;

    fn guest(context: &Arc<SessionContext>) -> Memberships {
        let identity = Identity {
            user: UserId::guest("abc").unwrap(),
            ..testing::viewer("nobody")
        };
        let conn = Conn::new(identity, context.core.clock.now());
        Memberships::new(context.clone(), Arc::new(conn))
    }

    fn token_of(user: &str) -> Arc<TokenClaims> {
        Arc::new(TokenClaims {
            user: UserId::parse(user).unwrap(),
            role: Role::Viewer,
            counted: true,
            expires_at: u64::MAX / 2,
            issued_at: None,
            user_since: None,
            lives: None,
            fan_of: None,
        })
    }

    fn rule(context: &SessionContext, name: &str) {
        let says = "0 1 -".to_owned();
        context.core.rules.change(&[(name.to_owned(), Some(says))]);
    }

    #[tokio::test]
    async fn a_guest_becomes_nobody_who_is_banned_from_the_platform() {
        let context = testing::sessions();
        let mut memberships = guest(&context);
        rule(&context, "b u1");
        assert!(memberships.sign_in(&token_of("u1")).is_err(), "in no live");
        assert!(memberships.conn.identity.user.is_guest());
        memberships.sign_in(&token_of("u2")).unwrap();
        assert_eq!(memberships.conn.identity.user.as_str(), "u2");
    }

    #[tokio::test]
    async fn a_guest_who_becomes_a_moderator_is_told_so() {
        let context = testing::sessions();
        let room = testing::open_live(&context, "42").await;
        let mut memberships = guest(&context);
        memberships.join(&room).unwrap();
        assert!(memberships.you_now().is_none());
        rule(&context, "m s1 u1");
        memberships.sign_in(&token_of("u1")).unwrap();
        assert!(!memberships.conn.take(Signals::YOU).is_empty());
        assert!(memberships.new_you().is_some());
    }

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
