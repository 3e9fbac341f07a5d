//! What a record adds up of its epoch, for the summary that is left when the epoch is over.

use super::Arrivals;

/// What a record adds up of its epoch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sums {
    /// How many came and left.
    pub arrivals: Arrivals,
    /// The time that all viewers were there together, in ms, by the figures of the record.
    pub watched_ms: u64,
    /// How many different users came; `None` before the close, and if nobody counted them.
    pub uniques: Option<Uniques>,
}

/// How many different users came, within about 1 % of the truth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Uniques {
    /// All of them.
    pub viewers: u64,
    /// The fans among them.
    pub fans: u64,
}
