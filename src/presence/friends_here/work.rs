//! The work for the loop that serves the askers of a room.

use std::sync::Arc;

use super::asker::Asker;
use crate::base::clock::{Millis, Moment};
use crate::base::ids::UserId;

/// The most askers whose follows one read loads.
pub(super) const MAX_ASKERS_PER_LOAD: usize = 16;

/// How long the first answer of a room waits for the gateway to get messages about moves, in ms.
pub(super) const HEARS_WITHIN: Millis = 1_000;

/// The next work for a room.
#[derive(Debug)]
pub enum Work {
    /// Ask the other gateways for messages about moves.
    Ask,
    /// Read the follows of these askers.
    Load(Vec<Arc<Asker>>),
    /// Read whether these users are here.
    Look(Vec<UserId>),
    /// Nothing before this time.
    Wait(Moment),
    Nothing,
}

/// When work without haste may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkPace {
    Free,
    /// From this time on.
    From(Moment),
}
