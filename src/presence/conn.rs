//! The shared part of a socket: its user and token, the time when it was last heard, the phase of
//! its life, and the signals to its task.
//!
//! The session's task owns the socket; the reaper, the rooms and the drain share its [`Conn`].
//! Signals to a socket are bits, not messages: a bit set twice is set once, so nothing queues up
//! for a slow client, and the task reads the newest state when it runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU16, Ordering};
use std::task::Waker;

use arc_swap::ArcSwapOption;
use futures_util::task::AtomicWaker;

use crate::auth::claims::TokenClaims;
use crate::base::clock::{AtomicMoment, Moment};
use crate::base::identity::{Identity, Role};
use crate::base::socket_id::SocketId;

/// Signals to a socket's task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Signals(u16);

impl Signals {
    /// Send a Ping.
    pub(crate) const PING: Self = Self(1);
    /// Read what has arrived, then close if still silent for too long.
    pub(crate) const JUDGE: Self = Self(1 << 1);
    /// A live that this socket joined or watches has ended.
    pub(crate) const ENDED: Self = Self(1 << 2);
    /// A watched live has new counts.
    pub(crate) const COUNTS: Self = Self(1 << 3);
    /// The gateway is going away.
    pub(crate) const STOP: Self = Self(1 << 4);
    /// The gateway drains: reconnect elsewhere.
    pub(crate) const MOVE: Self = Self(1 << 5);
    /// A moderator removed the user from the live that this socket joined.
    pub(crate) const REMOVED: Self = Self(1 << 6);
    /// Read what has arrived, then close unless a refresh has extended the token.
    pub(crate) const EXPIRED: Self = Self(1 << 7);
    /// The user has opened too many sockets since.
    pub(crate) const CROWDED_OUT: Self = Self(1 << 8);
    /// There is news of the friends in the live that this socket joined.
    pub(crate) const FRIENDS: Self = Self(1 << 9);
    /// Whether the user moderates in the joined live may have changed.
    pub(crate) const YOU: Self = Self(1 << 10);

    #[must_use]
    pub(crate) const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

/// The phase of a socket's life. It only ever advances, and may skip phases.
#[derive(Debug, Clone, Copy)]
#[repr(u8)]
enum ConnPhase {
    Open,
    /// The gateway told the client to reconnect elsewhere, and keeps the seat until the client had
    /// time to arrive there.
    Moving,
    /// The connection broke; only the seat is left.
    Away,
    /// The session has ended.
    Closed,
}

/// How the user of a socket looks at the joined live, as the client says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Gaze {
    /// The user is there; the client says no more.
    Here = 0,
    /// Nobody looks: the page is hidden, say.
    Away = 1,
    /// The picture plays and can be seen.
    Watching = 2,
}

/// How a client keeps its seat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum SeatWay {
    /// By an open WebSocket.
    Websocket,
    /// By requests, or an open stream of events.
    Http,
    /// By datagrams.
    Datagram,
}

#[derive(Debug)]
pub struct Conn {
    /// As of the handshake; [`Self::role`] is the present role.
    pub(crate) identity: Identity,
    /// The claims of the newest token; `None` with `--auth off`.
    claims: ArcSwapOption<TokenClaims>,
    /// When the token expires, by the gateway's clock, so that a step of the wall clock ends no
    /// socket.
    expires_at: AtomicMoment,
    last_heard: AtomicMoment,
    socket_id: SocketId,
    signals: AtomicU16,
    phase: AtomicU8,
    /// How the user looks at the live, as the client says.
    gaze: AtomicU8,
    /// Until when a client that said `watching` is believed.
    watches_until: AtomicMoment,
    /// The [`SeatWay`].
    way: AtomicU8,
    waker: AtomicWaker,
}

impl Conn {
    pub(crate) fn new(identity: Identity, now: Moment) -> Self {
        Self {
            identity,
            claims: ArcSwapOption::empty(),
            expires_at: AtomicMoment::new(Moment::NEVER),
            last_heard: AtomicMoment::new(now),
            socket_id: SocketId::next(),
            signals: AtomicU16::new(0),
            phase: AtomicU8::new(ConnPhase::Open as u8),
            gaze: AtomicU8::new(Gaze::Here as u8),
            watches_until: AtomicMoment::new(Moment::START),
            way: AtomicU8::new(SeatWay::Websocket as u8),
            waker: AtomicWaker::new(),
        }
    }

    /// The shared part of the same socket for the user whom a guest became. The caller passes on the
    /// signals to the guest's part afterwards.
    pub(crate) fn signed_in(&self, identity: Identity, now: Moment) -> Self {
        Self {
            socket_id: self.socket_id,
            gaze: AtomicU8::new(self.gaze() as u8),
            watches_until: AtomicMoment::new(self.watches_until.load()),
            way: AtomicU8::new(self.way() as u8),
            ..Self::new(identity, now)
        }
    }

    /// Passes on the signals that the task has not taken yet.
    pub(crate) fn pass_signals_on(&self, to: &Self) {
        let waiting = Signals(self.signals.swap(0, Ordering::AcqRel));
        if !waiting.is_empty() {
            to.signal(waiting);
        }
    }

    #[cfg(test)]
    pub(crate) fn numbered(self, socket_id: SocketId) -> Self {
        Self { socket_id, ..self }
    }

    /// Stores the claims of a verified token, and the time when the token expires.
    pub(crate) fn hold_token(&self, claims: Arc<TokenClaims>, expires_at: Moment) {
        self.claims.store(Some(claims));
        self.expires_at.store(expires_at);
    }

    /// Ends the token at once: it was revoked.
    pub(crate) fn expire(&self, now: Moment) {
        self.expires_at.store(now);
        self.signal(Signals::EXPIRED);
    }

    /// The claims of the newest token; `None` with `--auth off`.
    pub(crate) fn claims(&self) -> Option<Arc<TokenClaims>> {
        self.claims.load_full()
    }

    /// The present role of the socket: a refresh may have lowered it.
    pub(crate) fn role(&self) -> Role {
        match &*self.claims.load() {
            Some(claims) => claims.role,
            None => self.identity.role,
        }
    }

    /// When the token expires.
    pub(crate) fn expires_at(&self) -> Moment {
        self.expires_at.load()
    }

    /// Names this socket. Later sockets have later ids.
    pub(crate) fn socket_id(&self) -> SocketId {
        self.socket_id
    }

    /// Notes that a frame arrived. A heartbeat costs only this atomic write outside the session.
    pub(crate) fn heard(&self, now: Moment) {
        self.last_heard.store(now);
    }

    pub(crate) fn last_heard(&self) -> Moment {
        self.last_heard.load()
    }

    pub(crate) fn signal(&self, signals: Signals) {
        let before = self.signals.fetch_or(signals.0, Ordering::Release);
        if before & signals.0 != signals.0 {
            self.waker.wake();
        }
    }

    /// Takes the signals of `which` that are set. Before it waits, the task registers its waker,
    /// then looks once more.
    pub(crate) fn take(&self, which: Signals) -> Signals {
        if self.signals.load(Ordering::Acquire) & which.0 == 0 {
            return Signals(0);
        }
        Signals(self.signals.fetch_and(!which.0, Ordering::AcqRel) & which.0)
    }

    /// Names the task that [`Self::signal`] wakes.
    pub(crate) fn register(&self, waker: &Waker) {
        self.waker.register(waker);
    }

    /// Drops what [`Self::register`] registered.
    pub(crate) fn forget_waker(&self) {
        self.waker.take();
    }

    pub(crate) fn set_moving(&self) {
        self.advance(ConnPhase::Moving);
    }

    pub(crate) fn set_away(&self) {
        self.advance(ConnPhase::Away);
    }

    pub(crate) fn close(&self) {
        self.advance(ConnPhase::Closed);
    }

    /// Notes how the user looks at the live. The room holds the lock of the seat.
    pub(super) fn set_gaze(&self, gaze: Gaze) {
        self.gaze.store(gaze as u8, Ordering::Relaxed);
    }

    pub(crate) fn gaze(&self) -> Gaze {
        let gaze = self.gaze.load(Ordering::Relaxed);
        match gaze {
            1 => Gaze::Away,
            2 => Gaze::Watching,
            _ => Gaze::Here,
        }
    }

    /// Notes until when the client is believed that the user watches.
    pub(crate) fn believe_until(&self, until: Moment) {
        self.watches_until.store(until);
    }

    /// Whether it is too long ago that the client said that the user watches.
    pub(crate) fn has_stopped_saying(&self, now: Moment) -> bool {
        now > self.watches_until.load()
    }

    /// Notes how the client was heard.
    pub(crate) fn note_way(&self, way: SeatWay) {
        self.way.store(way as u8, Ordering::Relaxed);
    }

    /// How the client keeps its seat.
    pub(super) fn way(&self) -> SeatWay {
        match self.way.load(Ordering::Relaxed) {
            0 => SeatWay::Websocket,
            1 => SeatWay::Http,
            _ => SeatWay::Datagram,
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.is(ConnPhase::Open)
    }

    pub(crate) fn is_away(&self) -> bool {
        self.is(ConnPhase::Away)
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is(ConnPhase::Closed)
    }

    fn advance(&self, to: ConnPhase) {
        self.phase.fetch_max(to as u8, Ordering::AcqRel);
    }

    fn is(&self, phase: ConnPhase) -> bool {
        self.phase.load(Ordering::Acquire) == phase as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    /// Pinned so that a growth is noticed: every viewer has one, in an allocation of 112 bytes.
    #[test]
    fn the_shared_part_of_a_socket_stays_small() {
        assert_eq!(size_of::<Conn>(), 96);
    }

    #[test]
    fn a_socket_never_goes_back_to_an_earlier_phase() {
        let conn = testing::conn("u1");
        assert!(conn.is_open());
        conn.set_away();
        // The drain may have chosen the socket before its connection broke.
        conn.set_moving();
        assert!(conn.is_away() && !conn.is_open());
        conn.close();
        conn.set_moving();
        assert!(conn.is_closed());
    }
}
