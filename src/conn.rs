//! Owns what the rest of the gateway knows of a socket: who it is, when it was last heard, and what it is asked to do.
//!
//! A socket's task owns the socket; everybody else has a [`Conn`]. Wishes to a socket are bits, not messages: set twice
//! is set once, so nothing queues up behind a slow client, and the newest state is read when the task gets to it.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::task::Waker;

use futures_util::task::AtomicWaker;

use crate::auth::Identity;
use crate::clock::Millis;

/// Wishes to a socket's task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signals(u32);

impl Signals {
    /// Send a Ping.
    pub const PING: Self = Self(1);
    /// Read what waits, then close if still silent for too long.
    pub const JUDGE: Self = Self(1 << 1);
    /// A live that this socket sits in or listens to has ended.
    pub const ENDED: Self = Self(1 << 2);
    /// A watched live has new counts.
    pub const COUNTS: Self = Self(1 << 3);
    /// The gateway is going away.
    pub const STOP: Self = Self(1 << 4);
    /// The gateway drains: reconnect elsewhere.
    pub const MOVE: Self = Self(1 << 5);
    /// The user was removed from the live in which this socket sat.
    pub const REMOVED: Self = Self(1 << 6);

    /// Both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether nothing is wished.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether one of `other` is wished.
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

/// A socket as others see it.
#[derive(Debug)]
pub struct Conn {
    /// Who it is.
    pub identity: Identity,
    last_heard: AtomicU64,
    signals: AtomicU32,
    waker: AtomicWaker,
    closed: AtomicBool,
    moving: AtomicBool,
    away: AtomicBool,
    held: AtomicBool,
}

impl Conn {
    /// A socket that was just opened.
    pub fn new(identity: Identity, now: Millis) -> Self {
        Self {
            identity,
            last_heard: AtomicU64::new(now),
            signals: AtomicU32::new(0),
            waker: AtomicWaker::new(),
            closed: AtomicBool::new(false),
            moving: AtomicBool::new(false),
            away: AtomicBool::new(false),
            held: AtomicBool::new(false),
        }
    }

    /// A frame came: the whole cost of a heartbeat.
    pub fn heard(&self, now: Millis) {
        self.last_heard.store(now, Ordering::Relaxed);
    }

    /// When the last frame came.
    pub fn last_heard(&self) -> Millis {
        self.last_heard.load(Ordering::Relaxed)
    }

    /// Asks the socket's task for something.
    pub fn signal(&self, wish: Signals) {
        let before = self.signals.fetch_or(wish.0, Ordering::Release);
        if before & wish.0 != wish.0 {
            self.waker.wake();
        }
    }

    /// Takes those wishes among `which` that are set. Before it waits, the task registers its waker, then looks once more.
    pub fn take(&self, which: Signals) -> Signals {
        if self.signals.load(Ordering::Acquire) & which.0 == 0 {
            return Signals(0);
        }
        Signals(self.signals.fetch_and(!which.0, Ordering::AcqRel) & which.0)
    }

    /// Names the task to wake on a wish.
    pub fn register(&self, waker: &Waker) {
        self.waker.register(waker);
    }

    /// The socket's task has ended.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// The socket is told to reconnect elsewhere.
    pub fn set_moving(&self) {
        self.moving.store(true, Ordering::Relaxed);
    }

    /// The connection broke; only the seat is kept.
    pub fn set_away(&self) {
        self.away.store(true, Ordering::Relaxed);
    }

    /// Whether only the seat is left.
    pub fn is_away(&self) -> bool {
        self.away.load(Ordering::Relaxed)
    }

    /// Its user was sent to another gateway; the seat here is kept until there was time to arrive.
    pub fn set_held(&self) {
        self.held.store(true, Ordering::Relaxed);
    }

    /// Whether the seat is kept for one who moves.
    pub fn is_held(&self) -> bool {
        self.held.load(Ordering::Relaxed)
    }

    /// Whether it was told.
    pub fn is_moving(&self) -> bool {
        self.moving.load(Ordering::Relaxed)
    }

    /// Whether the socket's task has ended.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }
}
