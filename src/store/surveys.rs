//! Owns the boundary for a look over many open lives at a time, most of which need nobody: another gateway looks after
//! them, or nobody is in them.

use std::time::Duration;

use async_trait::async_trait;

use super::StoreResult;
use crate::ids::LiveId;

/// The most lives of one call.
pub const MAX_SURVEYED: usize = 200;

/// For so long after its own lease ran out a gateway is looked for in every live: it is swept within seconds, unless the
/// store was away.
pub(super) const LOOKED_FOR: Duration = Duration::from_secs(600);

/// What is looked for.
#[derive(Debug, Clone, Copy)]
pub struct Survey {
    /// Gateways that have been quiet in a slice for so long. They are looked for only if any gateway's own lease has run
    /// out: otherwise none is silent, but in what it forgot.
    pub lease: Duration,
    /// Streamers who opened the live and have not been heard for so long.
    pub streamer: Duration,
}

/// A look over many lives.
#[async_trait]
pub trait Surveys {
    /// For each of up to [`MAX_SURVEYED`] lives whether somebody has to look at it by itself: all but those that are open,
    /// of one slice and on a few gateways, with no gateway and no streamer that is silent. True for every live where the
    /// store cannot look at many at a time. What another program garbled is to be looked at too.
    async fn survey(&self, lives: &[LiveId], survey: Survey) -> StoreResult<Vec<bool>>;
}
