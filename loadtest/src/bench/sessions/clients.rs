//! What the kinds of clients of a generator of sessions share: their orders, what they have seen, and
//! when they ask for an answer.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::tally::Latencies;

/// How many connections begin the sessions that beat by datagram.
pub(super) const TO_BEGIN: usize = 8;

/// How the sessions beat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum By {
    Http,
    Datagram,
    /// By datagram, and the server is the bare echo, which knows no sessions.
    Echo,
}

/// The viewers of a generator.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Viewers {
    pub(crate) server: SocketAddr,
    pub(crate) by: By,
    pub(crate) count: usize,
    /// User n watches live n mod `lives`.
    pub(crate) lives: usize,
}

/// What the clients of a generator have seen since the last order.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Beats sent.
    pub(crate) beats: u64,
    pub(crate) answered: u64,
    pub(crate) latency: Latencies,
    /// The first refusal.
    pub(crate) trouble: Option<String>,
}

/// Whether a client asks for an answer to its next beat, if it asks for one in every `ack_every`.
/// The clients do not ask at the same time.
pub(super) fn wants_answer(beats: &mut u32, position: usize, ack_every: u32) -> bool {
    let turn = beats.wrapping_add(position as u32);
    *beats = beats.wrapping_add(1);
    turn.is_multiple_of(ack_every)
}
