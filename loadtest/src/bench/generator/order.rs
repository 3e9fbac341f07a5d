//! The orders to a generator and their outcomes, each a line of JSON.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::tally::Latencies;

/// Whose sockets a generator opens.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Crowd {
    pub(crate) server: SocketAddr,
    /// The number of the first user; users count on from there.
    pub(crate) first: usize,
    pub(crate) count: usize,
    /// User n watches live n mod `lives`.
    pub(crate) lives: usize,
    pub(crate) enter: Enter,
    /// New connections per second; `None`: as fast as they are answered.
    pub(crate) per_second: Option<f64>,
    /// At most so many on their way.
    pub(crate) in_flight: usize,
    /// Which block of loopback addresses to come from, so that rounds do not wait for each other's ports.
    pub(crate) block: u8,
}

/// When a socket counts as in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Enter {
    /// With the 101; it joins nothing yet.
    Upgraded,
    /// With `joined`; the live is named in the URL.
    Joined,
}

/// What to do next.
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

/// What came of an order.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Outcome {
    /// Sockets that are in.
    pub(crate) sockets: usize,
    /// Sockets that did not get in, or that were lost.
    pub(crate) lost: usize,
    pub(crate) sent: u64,
    pub(crate) answered: u64,
    pub(crate) seconds: f64,
    /// The generator's own.
    pub(crate) cpu_seconds: f64,
    pub(crate) latency: Latencies,
    /// Why the order was given up, if it was.
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

/// The user with this number.
pub(crate) fn user(number: usize) -> String {
    format!("u{number}")
}

/// The live with this number.
pub(crate) fn live(number: usize) -> String {
    format!("l{number}")
}

/// The streamer of the live with this number.
pub(crate) fn streamer(number: usize) -> String {
    format!("s{number}")
}
