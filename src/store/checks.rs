//! The boundary for checks: whether the store holds the data that a gateway expects. A check only
//! reads. A gateway checks each of its lives once a minute, and at once if there is reason for
//! doubt. One call checks many lives and returns only the differences.

use async_trait::async_trait;

use super::{Figures, SliceReading, SliceSize, StoreResult, both};
use crate::base::ids::{Epoch, GatewayId, LiveId, SliceId};

/// Maximum lives that one call checks.
pub const MAX_CHECKED: usize = 200;

/// A live as a gateway expects to find it in the store.
#[derive(Debug, Clone)]
pub struct CheckLive {
    /// The live.
    pub live: LiveId,
    /// The epoch, which should be open.
    pub epoch: Epoch,
    /// Whether the list of open lives should have it; false leaves the list unread.
    pub listed: bool,
    /// The number of the last removal.
    pub removals: u64,
    /// The version of its record.
    pub version: u64,
    /// The figures in the record, zero if there are none; `None` leaves them unread, because they
    /// are about to be written.
    pub counted: Option<Figures>,
    /// Every slice.
    pub slices: Vec<ExpectedSlice>,
}

/// A slice as a gateway expects it.
#[derive(Debug, Clone)]
pub struct ExpectedSlice {
    /// The slice.
    pub slice: SliceId,
    /// The number in the gateway's entry; `None` if it has none there.
    pub entry: Option<u64>,
    /// How many members the gateway holds.
    pub held: u64,
    /// How many fans are among them.
    pub held_fans: u64,
    /// How many members the slice has, over all gateways, and the newest version of it that the
    /// gateway knows.
    pub size: SliceSize,
}

/// A difference from the expected data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// The record is gone, or has another epoch, state, number of the last removal or version of
    /// the information.
    Record,
    /// The record has other figures.
    Counted,
    /// The list of open lives does not have it.
    Unlisted,
    /// The check should have read the list and could not. The list may lie on a node that is away
    /// for long, so the check counts as complete nevertheless.
    ListUnread,
    /// A slice differs. The fields are its place among the expected slices, and its content now.
    Slice(usize, SliceReading),
}

/// The result of a check of one live. The keys of a live may lie on several nodes, of which one may
/// be away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// The differences, among the data that could be read.
    pub findings: Vec<Finding>,
    /// An error, if something could not be read. If there are several, this is one that is worth a
    /// retry, if possible.
    pub complete: StoreResult<()>,
}

impl Default for Checked {
    fn default() -> Self {
        Self {
            findings: Vec::new(),
            complete: Ok(()),
        }
    }
}

impl Checked {
    /// Adds the result for one part of the live.
    pub fn take(&mut self, part: StoreResult<Vec<Finding>>) {
        match part {
            Ok(findings) => self.findings.extend(findings),
            Err(why) => self.complete = both(self.complete.clone(), Err(why)),
        }
    }
}

/// Checks of many lives.
#[async_trait]
pub trait Checks {
    /// The differences from the data that `gateway` expects, live by live, for up to
    /// [`MAX_CHECKED`] lives. The call does not read everything in one step, so it may report a
    /// change at the same moment as a difference. If another program uses a key of a live, that is
    /// an error.
    async fn check(&self, gateway: &GatewayId, lives: &[CheckLive]) -> Vec<Checked>;

    /// The same for slices that belong to no live: the content of each slice that differs.
    async fn check_slices(
        &self,
        gateway: &GatewayId,
        slices: &[ExpectedSlice],
    ) -> Vec<StoreResult<Option<SliceReading>>>;
}

/// A slice as it was found, for [`ExpectedSlice::is_met`].
#[derive(Debug, Clone, Copy)]
pub struct FoundSlice {
    /// The number in the gateway's entry.
    pub entry: Option<u64>,
    /// How many members the gateway holds.
    pub held: u64,
    /// How many fans are among them.
    pub held_fans: u64,
    /// The size over all gateways.
    pub size: SliceSize,
    /// As in a [`SliceReading`].
    pub noted: Option<u64>,
}

impl From<&SliceReading> for FoundSlice {
    fn from(reading: &SliceReading) -> Self {
        let SliceReading {
            size,
            entry,
            held,
            held_fans,
            noted,
            ..
        } = *reading;
        Self {
            entry,
            held,
            held_fans,
            size,
            noted,
        }
    }
}

impl ExpectedSlice {
    /// Whether the gateway's entry, the members it holds and the size over all gateways are as
    /// expected. A slice that is in doubt, has an older version, or has notes on other users than
    /// its members is never as expected.
    pub fn is_met(&self, found: &FoundSlice) -> bool {
        let FoundSlice { size, noted, .. } = found;
        found.entry == self.entry
            && found.held == self.held
            && found.held_fans == self.held_fans
            && size.arrived() == self.size.arrived()
            && size.fans == self.size.fans
            && !size.in_doubt
            && size.version >= self.size.version
            && noted.is_none_or(|noted| noted == size.card)
    }
}
