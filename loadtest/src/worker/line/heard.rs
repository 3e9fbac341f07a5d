//! What a viewer hears over its line.

use crate::error_kind::ErrorName;

/// What a viewer hears.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::worker) enum Hearing {
    /// Of the heartbeat with this id.
    Ack {
        id: Option<u64>,
        fan: Option<bool>,
    },
    /// What the gateway should not have said.
    Trouble(ErrorName),
    Nothing,
}
