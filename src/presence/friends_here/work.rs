//! What the loop that serves a room's viewers does next.

use std::sync::Arc;

use super::asker::Asker;
use crate::base::clock::Millis;
use crate::base::ids::UserId;

/// So many viewers' follows are read at a time.
pub(super) const LOADED_AT_ONCE: usize = 16;

/// So long the first answer of a room waits until the gateway hears of moves, in ms.
pub(super) const HEARS_WITHIN: Millis = 1_000;

/// What to do next for a room.
#[derive(Debug)]
pub enum Work {
    /// Ask the other gateways to tell who moves.
    Ask,
    /// Read whom these viewers follow.
    Load(Vec<Arc<Asker>>),
    /// Read whether these users are here.
    Look(Vec<UserId>),
    /// Nothing before this time.
    Wait(Millis),
    Nothing,
}

/// Whether work that has time may be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    Free,
    /// From this time on.
    From(Millis),
}
