//! The counts of a live, and how far to trust them.

use serde::Serialize;

pub use crate::store::Figures;

/// How far to trust figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Quality {
    /// The store answers, and every gateway with viewers renews its lease, this one among them.
    Exact,
    /// A part of the store that has something of the live does not answer, a gateway with viewers
    /// is late with its lease, messages of some gateway do not arrive and the last check is old,
    /// another program wrote to the live's sets, or the store lost data and not everything was
    /// written again.
    Partial,
    /// The store is away: the last known figures.
    Stale,
}
