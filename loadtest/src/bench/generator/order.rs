//! The orders to a generator and their outcomes, each a line of JSON.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU8, Ordering};

use serde::{Deserialize, Serialize};

use crate::bench::figures::Who;
use crate::tally::Latencies;

/// The viewers whose sockets a generator opens.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Crowd {
    pub(crate) server: SocketAddr,
    /// The number of the first user; the others follow it.
    pub(crate) first: usize,
    pub(crate) count: usize,
    /// User n watches live n mod `lives`.
    pub(crate) lives: usize,
    pub(crate) enter: Enter,
    /// New connections per second; `None` for as fast as the server answers.
    pub(crate) per_second: Option<f64>,
    /// Most handshakes at one time.
    pub(crate) in_flight: usize,
    /// The block of loopback addresses to connect from. Crowds use different ones, so that none waits
    /// for the ports of an earlier one.
    pub(crate) block: u8,
    /// The secret of the tokens that the server wants; `None`: it wants none.
    pub(crate) secret: Option<PathBuf>,
}

impl Crowd {
    /// `count` viewers of one live, who connect to `server` as fast as it answers, each crowd from
    /// another block of addresses.
    pub(crate) fn new(server: SocketAddr, count: usize, enter: Enter) -> Self {
        static BLOCKS: AtomicU8 = AtomicU8::new(0);
        Self {
            server,
            first: 0,
            count,
            lives: 1,
            enter,
            per_second: None,
            in_flight: 64,
            block: BLOCKS.fetch_add(1, Ordering::Relaxed),
            secret: None,
        }
    }
}

/// How sessions without a WebSocket beat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum BeatsBy {
    Http,
    Datagram,
    /// By datagram, and the server is the bare echo, which knows no sessions.
    Echo,
}

/// The viewers whose sessions a generator begins.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Viewers {
    pub(crate) server: SocketAddr,
    pub(crate) by: BeatsBy,
    pub(crate) count: usize,
    /// User n watches live n mod `lives`.
    pub(crate) lives: usize,
}

/// When a socket counts as in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Enter {
    /// After the 101; the viewer joins no live.
    Upgraded,
    /// After `joined`; the URL names the live.
    Joined,
}

impl Enter {
    /// The bare server knows no lives.
    pub(crate) fn of(who: Who) -> Self {
        if who == Who::Bare {
            Self::Upgraded
        } else {
            Self::Joined
        }
    }
}

/// What a generator is to do next.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Open sockets.
    Connect(Crowd),
    /// Begin sessions without a WebSocket. Afterwards there is no connection.
    Begin(Viewers),
    /// Have this many connections from now on, which the sessions share. Each sends one beat.
    Share { connections: usize },
    /// Join the lives, at this rate.
    Join { per_second: f64 },
    /// Each socket sends its next heartbeat when the last is answered.
    Loop { seconds: f64 },
    /// Each client sends a beat at this interval, spread evenly. Of a session by datagram, every
    /// n-th one is to be answered.
    Pace {
        every_s: f64,
        seconds: f64,
        ack_every: u32,
    },
    /// Each socket sends one message of nearly 4 KiB, whose answer is as long.
    Large { per_second: f64 },
    /// Answer pings, send nothing.
    Rest { seconds: f64 },
    /// Close all sockets, or end all sessions.
    Leave,
}

impl Order {
    /// Beats that are all answered.
    pub(crate) fn pace(every_s: f64, seconds: f64) -> Self {
        Self::Pace {
            every_s,
            seconds,
            ack_every: 1,
        }
    }
}

/// The result of an order.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct OrderOutcome {
    /// Clients that are in.
    pub(crate) sockets: usize,
    pub(crate) sent: u64,
    pub(crate) answered: u64,
    /// When each asked to join, in Unix microseconds.
    pub(crate) asked_at: Vec<u64>,
    pub(crate) seconds: f64,
    /// CPU time of the generator.
    pub(crate) cpu_seconds: f64,
    pub(crate) latency: Latencies,
    /// Why the generator gave the order up, if it did.
    pub(crate) gave_up: Option<String>,
}

impl OrderOutcome {
    /// Adds what another generator did at the same time.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.sockets += other.sockets;
        self.sent += other.sent;
        self.answered += other.answered;
        self.seconds = self.seconds.max(other.seconds);
        self.cpu_seconds += other.cpu_seconds;
        self.latency.merge(&other.latency);
        self.gave_up = self.gave_up.take().or_else(|| other.gave_up.clone());
    }
}

pub(crate) fn user(number: usize) -> String {
    format!("u{number}")
}

pub(crate) fn live(number: usize) -> String {
    format!("l{number}")
}

pub(crate) fn streamer(number: usize) -> String {
    format!("s{number}")
}
