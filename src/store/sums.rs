//! The sums that a record keeps of its epoch, for the summary that is left when the epoch is over.

use serde::{Deserialize, Serialize};

/// How many users came and left, over all gateways. A user comes with the first gateway that holds
/// them, and leaves with the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Arrived {
    /// Users who became viewers.
    pub joins: u64,
    /// Viewers who left.
    pub leaves: u64,
}

impl Arrived {
    /// The higher of each.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            joins: self.joins.max(other.joins),
            leaves: self.leaves.max(other.leaves),
        }
    }

    /// The sum of both.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            joins: self.joins.saturating_add(other.joins),
            leaves: self.leaves.saturating_add(other.leaves),
        }
    }
}

/// The sums that a record keeps of its epoch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sums {
    /// How many came and left, as of a few seconds ago.
    pub arrived: Arrived,
    /// The sum of the times that the viewers were there, in ms, by the figures of the record.
    pub watched_ms: u64,
    /// How many different users came; `None` before the close, and if they are not counted. Zeros
    /// until the close ends.
    pub uniques: Option<Uniques>,
}

/// How many different users came, within about 1 % of the truth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Uniques {
    /// All of them.
    pub viewers: u64,
    /// The fans among them.
    pub fans: u64,
}
