//! The boundary for checks: whether the store holds the data that a gateway expects. A check only
//! reads. A gateway checks each of its lives once a minute, and at once if there is reason for
//! doubt. One call checks many lives and returns only the differences.

use async_trait::async_trait;

use super::{Fence, Figures, SliceEntry, SliceLook, SliceSize, StoreResult, both};
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
    /// The epoch to which it should belong.
    pub epoch: Epoch,
    /// The number in the gateway's entry; `None` if it has none there.
    pub entry: Option<u64>,
    /// The newest size that the gateway knows.
    pub size: SliceSize,
}

impl ExpectedSlice {
    /// Whether the slice is open, whole and of this size, and the gateway has its entry. A slice in
    /// a rebuild never is.
    pub fn is_met(&self, found: &SliceLook) -> bool {
        let entry = self.entry.map(|number| SliceEntry::At {
            number,
            is_complete: true,
        });
        if found.entry != entry || !found.is_intact {
            return false;
        }
        match found.fence {
            Some(fence) => fence == Fence::Open(self.epoch) && self.is_size(found.size),
            None => !found.has_keys && self.size == SliceSize::default(),
        }
    }

    fn is_size(&self, found: SliceSize) -> bool {
        found.version >= self.size.version
            && found.incarnation == self.size.incarnation
            && found.arrived() == self.size.arrived()
            && found.fans == self.size.fans
            && !found.rebuild
            && !found.differs
    }
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
    Slice(usize, SliceLook),
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
}
