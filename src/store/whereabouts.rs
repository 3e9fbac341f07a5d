//! The boundary for whereabouts: in which lives each user is, as each gateway says. A gateway says where a user is now,
//! or that the user is in no live of its own; it says so again after a call that failed.
//!
//! What a gateway said counts while it lives. The words of dead gateways are dropped page by page; nobody reads them
//! meanwhile.

use std::collections::BTreeSet;

use async_trait::async_trait;

use super::StoreResult;
use crate::base::ids::{GatewayId, LiveId, UserId};

/// So many words are kept about one user, each a gateway and a live. The oldest word goes first.
pub const MAX_WHEREABOUTS: usize = 32;

/// Where a gateway says that users of one slice are. At most [`super::MAX_BATCH`] users.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TellWhereabouts {
    /// The slice of all these users.
    pub slice: u32,
    /// Who says so.
    pub gateway: GatewayId,
    /// Higher than that of the gateway's earlier calls about this slice. A call that comes late does nothing.
    pub number: u64,
    /// The number of the gateway's last call about this slice that was answered; 0 if none was.
    pub known: u64,
    /// The users, each with the lives on this gateway, the one joined last at the end.
    pub users: Vec<(UserId, Vec<LiveId>)>,
}

/// The answer to a [`TellWhereabouts`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToldWhereabouts {
    /// It is noted.
    Noted(Chain),
    /// A later call came before this one.
    Old,
}

/// Whether the store still has what it was told up to the last call that was answered. Calls without an answer do not
/// break the chain, whether they were carried out or not: their gateway says all of it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chain {
    /// The store has that. A gateway that knows of no answer has nothing to lose.
    Unbroken,
    /// The store lost some of it, or came back with something older.
    Broken,
}

/// A page of whereabouts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WhereaboutsPage {
    /// The users of the page, each with the words about the user.
    pub said: Vec<(UserId, Vec<(GatewayId, LiveId)>)>,
    /// The gateways that said something about any of them, or anything at all.
    pub gateways: BTreeSet<GatewayId>,
    /// Where to go on; `None` at the end.
    pub next: Option<u64>,
}

impl WhereaboutsPage {
    /// The users of the page.
    pub fn users(&self) -> Vec<UserId> {
        self.said.iter().map(|(user, _)| user.clone()).collect()
    }
}

/// In which lives users are.
#[async_trait]
pub trait Whereabouts: Sync {
    /// Notes where users are.
    async fn tell_whereabouts(&self, call: &TellWhereabouts) -> StoreResult<ToldWhereabouts>;

    /// A page of what is noted in a slice, from cursor 0 on.
    async fn whereabouts_page(&self, slice: u32, cursor: u64) -> StoreResult<WhereaboutsPage>;

    /// Drops what these gateways said of these users of a slice, and their numbers.
    async fn forget_whereabouts(&self, slice: u32, gateways: &[GatewayId], users: &[UserId]) -> StoreResult<()>;
}
