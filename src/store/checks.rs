//! The boundary for checks: whether the store holds what a gateway thinks it holds. A check reads and changes nothing;
//! a gateway makes one of each live that it holds once a minute, and at once where there is reason for doubt. Many
//! lives go in one call, and only what is not as expected is answered.

use async_trait::async_trait;

use super::{GatewayViewers, SliceReading, StoreResult};
use crate::base::ids::{Epoch, GatewayId, LiveId, SliceId};

/// The most lives of one call.
pub const MAX_CHECKED: usize = 200;

/// A live as a gateway expects it to stand in the store.
#[derive(Debug, Clone)]
pub struct CheckLive {
    /// The live.
    pub live: LiveId,
    /// The epoch, which is open.
    pub epoch: Epoch,
    /// Whether to look at the list of open lives, too.
    pub listed: bool,
    /// The number of the last removal.
    pub removals: u64,
    /// What the living gateways said of their viewers, the asking gateway among them.
    pub viewers: ViewerTotals,
    /// Every slice.
    pub slices: Vec<ExpectedSlice>,
}

/// What several gateways said of their viewers, added up. Two states that differ have the same sums only by rare
/// chance, as every number is used once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct ViewerTotals {
    /// Viewers.
    pub viewers: u64,
    /// Numbers under which it was said.
    pub numbers: u64,
}

impl ViewerTotals {
    /// What the asking gateway and the `living` ones said, added up.
    pub(super) fn sum(said: Vec<GatewayViewers>, gateway: &GatewayId, living: &[GatewayId]) -> Self {
        let counted = said.into_iter().filter(|said| said.gateway == *gateway || living.contains(&said.gateway));
        counted.fold(Self::default(), |sum, said| Self {
            viewers: sum.viewers.saturating_add(said.viewers),
            numbers: sum.numbers.saturating_add(said.number),
        })
    }
}

/// A slice as a gateway expects it.
#[derive(Debug, Clone)]
pub struct ExpectedSlice {
    /// Which.
    pub slice: SliceId,
    /// The number in the gateway's entry; `None` if it has none there.
    pub entry: Option<u64>,
    /// How many members the gateway holds.
    pub held: u64,
    /// How many members it has, over all gateways.
    pub card: u64,
}

/// What is not as expected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// The record is gone, or says something else of the epoch, its state or its removals.
    Record,
    /// The list of open lives does not have it.
    Unlisted,
    /// Some living gateway said something else of its viewers.
    Viewers,
    /// A slice, by its place among the expected ones; as it is.
    Slice(usize, SliceReading),
}

/// Checks of many lives.
#[async_trait]
pub trait Checks {
    /// What is not as `gateway` expects, live by live, for up to [`MAX_CHECKED`] lives. Of what gateways said of their
    /// viewers the words of the `living` count. Not read in one step: what was changed at the same moment may be told
    /// as not being as expected. A live some of whose keys are another program's is an error.
    async fn check(
        &self,
        gateway: &GatewayId,
        living: &[GatewayId],
        lives: &[CheckLive],
    ) -> Vec<StoreResult<Vec<Finding>>>;
}

impl ExpectedSlice {
    /// Whether the gateway's entry, the members it holds and those of all gateways are as expected. A set that lacks
    /// somebody whom the gateway holds is not, though its size was told so.
    pub(super) fn is_met(&self, entry: Option<u64>, held: u64, card: u64) -> bool {
        (entry, held, card) == (self.entry, self.held, self.card) && card >= held
    }
}
