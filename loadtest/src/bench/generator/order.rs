//! The orders to a generator and their outcomes, each a line of JSON.

use std::net::SocketAddr;
use std::path::PathBuf;

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
    /// The block of loopback addresses to connect from. Rounds use different ones, so that no round
    /// waits for the ports of an earlier one.
    pub(crate) block: u8,
    /// The secret of the tokens that the server wants; `None`: it wants none.
    pub(crate) secret: Option<PathBuf>,
}

impl Crowd {
    /// `count` viewers of one live, who connect to `server` as fast as it answers.
    pub(crate) fn new(server: SocketAddr, count: usize, enter: Enter, block: u8) -> Self {
        Self {
            server,
            first: 0,
            count,
            lives: 1,
            enter,
            per_second: None,
            in_flight: 64,
            block,
            secret: None,
        }
    }
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
    /// Join the lives, at this rate.
    Join { per_second: f64 },
    /// Each socket sends its next heartbeat when the last is answered.
    Loop { seconds: f64 },
    /// Each socket sends a heartbeat at this interval, spread evenly.
    Pace { every_s: f64, seconds: f64 },
    /// Each socket sends one message of nearly 4 KiB, whose answer is as long.
    Large { per_second: f64 },
    /// Answer pings, send nothing.
    Rest { seconds: f64 },
    /// Close all sockets.
    Leave,
}

/// The result of an order.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Outcome {
    /// Sockets that are in.
    pub(crate) sockets: usize,
    /// Sockets that were refused or lost.
    pub(crate) lost: usize,
    pub(crate) sent: u64,
    pub(crate) answered: u64,
    pub(crate) seconds: f64,
    /// CPU time of the generator.
    pub(crate) cpu_seconds: f64,
    pub(crate) latency: Latencies,
    /// Why the generator gave the order up, if it did.
    pub(crate) gave_up: Option<String>,
}

impl Outcome {
    /// Adds what another generator did at the same time.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.sockets += other.sockets;
        self.lost += other.lost;
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
