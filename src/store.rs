//! Owns the boundary to the store: what a gateway may ask of Redis, and what it may hear back.
//!
//! Small traits, one per noun: [`LiveStore`] (the record of each live), [`Slices`] (the sets of online fans, with their
//! fences), [`Viewers`] (how many users each gateway has in a live), [`LeaseStore`] (which gateways live), [`Checks`]
//! (whether all that stands as a gateway thinks), [`Streamers`] (where a streamer is connected), [`Moderation`] (who was
//! sent out of a live), [`Follows`] (the follow graph) and [`Wire`] (messages between gateways, which may be lost). Two
//! stores implement them: [`memory`], the embedded default and the model that Redis is checked against, and [`redis`].
//! Nothing outside `store/redis` knows which client library is used. Every call has a deadline inside the store; none
//! retries by itself.

mod checks;
mod doubts;
mod leases;
pub mod memory;
mod parts;
pub mod redis;
mod removals;
pub mod slice;
mod streamers;
mod viewers;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;

use crate::clock::UnixMillis;
use crate::ids::{Epoch, GatewayId, LiveId, SliceId, UserId};

pub use checks::{CheckLive, Checks, ExpectedSlice, Finding, MAX_CHECKED, Said};
pub use doubts::{Doubt, Doubts};
pub use leases::{Burial, DEATH_TTL, Lease, LeaseBook, LeaseReply, LeaseStore, Leases, RenewLease};
pub use parts::{Parts, Slot};
pub use removals::{
    Ban, Change, ChangeKind, LEAP, LiftBan, LiftReply, MAX_BAN, MAX_BANS, MAX_CHANGES, Moderation, Removals,
    RemoveReply, RemoveUser,
};
pub use streamers::{Presence, Streamers};
pub use viewers::{Board, GatewayViewers, SayReply, SayViewers, Viewers};
pub use wire::{Channel, Heard, Hearing, Wire};

/// The most members that one call carries or touches.
pub const MAX_BATCH: usize = 1_000;

/// Everything a gateway needs of its store.
pub trait Store:
    LiveStore + Slices + Viewers + LeaseStore + Checks + Streamers + Moderation + Follows + Wire + Send + Sync + 'static
{
    /// Whether the store answers, or any part of it; changes as the store's own watchdog sees it.
    fn health(&self) -> watch::Receiver<Health>;

    /// Which part of it has which slot, and whether that part answers now: a cluster with a master that does not is
    /// `Up`, but not whole.
    fn parts(&self) -> watch::Receiver<Arc<Parts>>;

    /// From now on, every reason to look once more at what the store has. One event gives one doubt or two; the first
    /// comes as soon as the part that it is about can be asked.
    fn doubts(&self) -> Doubts {
        Doubts::never()
    }

    /// Where the list of open lives lies.
    fn slot_of_list(&self) -> Slot {
        Slot::default()
    }

    /// Where the record of a live lies.
    fn slot_of_live(&self, _live: &LiveId) -> Slot {
        Slot::default()
    }

    /// Where the set of a slice lies, with its companions.
    fn slot_of_slice(&self, _slice: &SliceId) -> Slot {
        Slot::default()
    }

    /// The same store for what clients ask for: over the same connections, with a bound of its own on the calls under way,
    /// so that no number of requests keeps the gateway's own calls from the store.
    fn for_clients(self: Arc<Self>) -> Arc<dyn Store>;

    /// A word for logs and `/healthz`: `memory` or `redis`.
    fn kind(&self) -> &'static str;
}

/// Whether the store can be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// It answered its last probe.
    Up,
    /// It did not.
    Down,
}

/// Why the store did not do what was asked. Whether it did it all the same is not known for [`StoreError::Timeout`] and
/// [`StoreError::Lost`]; the others mean that nothing was done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// No answer before the deadline. The call may still be carried out, at any later time.
    #[error("the store did not answer in time")]
    Timeout,
    /// The connection broke with the call under way.
    #[error("the connection to the store was lost: {0}")]
    Lost(String),
    /// Too many calls are waiting already.
    #[error("too many calls wait for the store")]
    Backpressure,
    /// The store said no: read-only, out of memory, no permission, loading.
    #[error("the store refused: {0}")]
    Refused(String),
    /// An answer that does not have the agreed shape: a key of another program's, or a bug.
    #[error("the store answered nonsense: {0}")]
    Nonsense(String),
}

impl StoreError {
    /// The label under which metrics count this error.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Lost(_) => "lost",
            Self::Backpressure => "backpressure",
            Self::Refused(_) => "refused",
            Self::Nonsense(_) => "nonsense",
        }
    }
}

/// What a store call answers.
pub type StoreResult<T> = Result<T, StoreError>;

// ---------------------------------------------------------------------------------------------------------- lives

/// Where a live is on its way from open to closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LiveState {
    /// Viewers may join.
    Open,
    /// A close has begun and must be finished by whoever sees it.
    Closing,
    /// Over; kept for a while.
    Closed,
}

/// Over which role a live was opened; decides whether the streamer's silence closes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenedBy {
    /// The streamer's own socket: silence for `streamer_timeout` closes the live.
    Streamer,
    /// A back end: only a back end (or the streamer, by asking) closes it.
    Service,
}

/// Why a live closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseReason {
    /// The streamer or a back end asked.
    Requested,
    /// The streamer was not heard from.
    StreamerTimeout,
    /// A moderator ended it.
    Moderated,
}

macro_rules! words {
    ($type:ident { $($variant:ident = $word:literal),* $(,)? }) => {
        impl $type {
            /// The word that stands for it in keys and messages.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),* }
            }

            /// Reads the word back.
            pub fn from_word(word: &str) -> Option<Self> {
                match word { $($word => Some(Self::$variant),)* _ => None }
            }
        }
    };
}
words!(LiveState { Open = "open", Closing = "closing", Closed = "closed" });
words!(OpenedBy { Streamer = "streamer", Service = "service" });
words!(CloseReason { Requested = "requested", StreamerTimeout = "streamer_timeout", Moderated = "moderated" });

/// The highest counts of one epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Peaks {
    /// Most viewers online at once.
    pub viewers: u64,
    /// Most fans online at once.
    pub fans: u64,
}

impl Peaks {
    /// The higher of each.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self { viewers: self.viewers.max(other.viewers), fans: self.fans.max(other.fans) }
    }
}

/// The end of an epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Closure {
    /// Why.
    pub reason: CloseReason,
    /// When the close began, by the store's clock.
    pub at: UnixMillis,
}

/// What the store remembers of a live: the hash `live:<live_id>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveRecord {
    /// The live.
    pub live: LiveId,
    /// Open, closing or closed.
    pub state: LiveState,
    /// Who owns it.
    pub streamer: UserId,
    /// Which opening this is.
    pub epoch: Epoch,
    /// Over how many slices its fans are spread; fixed for the epoch.
    pub slices: u32,
    /// When it opened, by the store's clock.
    pub opened_at: UnixMillis,
    /// Over which role.
    pub opened_by: OpenedBy,
    /// Highest counts so far.
    pub peaks: Peaks,
    /// Set from `closing` on.
    pub closure: Option<Closure>,
    /// The number of the last removal, or lifting of a ban, of the epoch; 0 if there was none. See [`Moderation`].
    pub removals: u64,
}

impl LiveRecord {
    /// How long the epoch lasted, once a close has begun.
    pub fn duration_ms(&self) -> Option<u64> {
        self.closure.map(|c| c.at.saturating_sub(self.opened_at))
    }
}

/// A wish to open a live.
#[derive(Debug, Clone)]
pub struct OpenLive {
    /// The live.
    pub live: LiveId,
    /// Who will own it.
    pub streamer: UserId,
    /// Slices of the new epoch, 1 to [`crate::ids::MAX_SLICES`]; not looked at when the live is open already.
    pub slices: u32,
    /// Over which role.
    pub by: OpenedBy,
    /// What the live's channel is told in the same step, if a new epoch begins.
    pub message: String,
}

/// What became of a wish to open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpenReply {
    /// A new epoch began.
    Opened(LiveRecord),
    /// The same streamer's live was open already.
    AlreadyOpen(LiveRecord),
    /// Another streamer's live is open (or closing) under this id.
    Owned(LiveRecord),
    /// The last epoch's close is under way: finish it, then ask again.
    Closing(LiveRecord),
    /// The live was opened or closed by another at the same moment: ask again.
    Changed,
}

/// A wish to begin closing a live.
#[derive(Debug, Clone)]
pub struct CloseLive {
    /// The live.
    pub live: LiveId,
    /// Which epoch; no other is touched, however late the call arrives.
    pub epoch: Epoch,
    /// Why.
    pub reason: CloseReason,
    /// Highest counts this gateway saw; kept where they are higher than the record's.
    pub peaks: Peaks,
    /// What the live's channel is told in the same step.
    pub message: String,
}

/// What became of a wish to close.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CloseReply {
    /// The live is closing, by this call or an earlier one: close its slices, then finish.
    Closing(LiveRecord),
    /// It was closed already.
    Closed(LiveRecord),
    /// Another epoch than the wished one is open.
    OtherEpoch(LiveRecord),
    /// Never opened, or forgotten.
    Absent,
}

/// How a live stands in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// The epoch is open; the number of the last removal, as in [`LiveRecord::removals`].
    Open {
        /// See [`LiveRecord::removals`].
        removals: u64,
    },
    /// The record was gone and has been written again.
    Rewritten,
    /// The epoch is closing, closed, or replaced by a newer one: let go of it. The record as it is now.
    Over(LiveRecord),
}

/// One entry of a listing of open lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedLive {
    /// The live.
    pub live: LiveId,
    /// When it opened.
    pub opened_at: UnixMillis,
}

/// The record of each live, and the list of the open ones.
#[async_trait]
pub trait LiveStore {
    /// Opens a new epoch unless one is open. Lists the live before it opens, so that no open live is unlisted.
    async fn open_live(&self, wish: &OpenLive) -> StoreResult<OpenReply>;

    /// Reads a record.
    async fn load_live(&self, live: &LiveId) -> StoreResult<Option<LiveRecord>>;

    /// A gateway says that it holds a live open, and hears how the live stands. Raises the record's peaks to those that are
    /// told. A record that is gone (lost data) is written again as it is told, and listed, and the live's channel is told the
    /// message. Where the gateway knows of a
    /// later removal than the store, the store's numbers go on above it, by [`LEAP`].
    async fn keep_live(&self, told: &LiveRecord, message: &str) -> StoreResult<Standing>;

    /// Puts an open live on the list, unless it is there.
    async fn list_live(&self, live: &LiveId, opened_at: UnixMillis) -> StoreResult<()>;

    /// open → closing, and tells the live's channel.
    async fn begin_close(&self, wish: &CloseLive) -> StoreResult<CloseReply>;

    /// closing → closed, after every slice of the epoch is closed, and takes the live off the list. A live that is not
    /// closing in this epoch is left alone. The record stays for `keep`. Answers the record as it is now.
    async fn finish_close(&self, live: &LiveId, epoch: Epoch, keep: Duration) -> StoreResult<Option<LiveRecord>>;

    /// Up to `limit` open lives, oldest first, after the given one.
    async fn lives_page(&self, after: Option<&ListedLive>, limit: usize) -> StoreResult<Vec<ListedLive>>;

    /// Takes a live off the list that has no record or is closed.
    async fn delist(&self, live: &LiveId) -> StoreResult<()>;

    /// Takes or keeps the turn of looking after lives that no gateway holds. One gateway has it at a time.
    async fn take_sweeper_turn(&self, gateway: &GatewayId, ttl: Duration) -> StoreResult<bool>;
}

// --------------------------------------------------------------------------------------------------------- slices

/// One gateway's change to one slice: the only way members get in or out, save sweep, strays and close.
#[derive(Debug, Clone)]
pub struct Apply {
    /// The slice.
    pub slice: SliceId,
    /// The epoch in which the gateway believes.
    pub epoch: Epoch,
    /// Who calls.
    pub gateway: GatewayId,
    /// Grows with every call of this gateway to this slice; becomes the number of its entry.
    pub number: u64,
    /// The number of the gateway's entry that this call follows; on any other the call does nothing. `None`: it makes the
    /// entry. Only after `live:` was read and the epoch found open.
    pub follows: Option<u64>,
    /// Users to add, no one twice, none of them in `leaves`; both lists together at most [`MAX_BATCH`].
    pub joins: Vec<UserId>,
    /// Users to take out, unless another gateway holds them too.
    pub leaves: Vec<UserId>,
}

/// A slice as it stands after a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SliceView {
    /// Fans in the slice, over all gateways.
    pub card: u64,
    /// Fans that the calling gateway holds in it.
    pub held: u64,
    /// Grows with every change of the slice: of two sizes, the one with the higher version is the later.
    pub version: u64,
}

/// What became of an [`Apply`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ApplyReply {
    /// Done.
    Done(SliceView),
    /// The fence says that this epoch is closed. Nothing was done.
    Closed,
    /// The fence belongs to a newer epoch. Nothing was done.
    Newer(Epoch),
    /// The gateway's entry has another number than the one that the call follows, or is there although the call would make
    /// it. Nothing was done.
    Old,
    /// The gateway has no entry although the call follows one: the store lost its data, or the gateway was swept. Nothing
    /// was done.
    Unknown,
    /// The call would make the entry and came too late for that. Nothing was done. The store's time.
    Late(UnixMillis),
}

/// A slice as a gateway reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SliceReading {
    /// Fans in the slice, over all gateways.
    pub card: u64,
    /// See [`SliceView::version`].
    pub version: u64,
    /// To which epoch it belongs.
    pub fence: Option<slice::Fence>,
    /// The number of the reading gateway's entry.
    pub entry: Option<u64>,
    /// Fans that the reading gateway holds.
    pub held: u64,
    /// The other gateways with an entry.
    pub gateways: Vec<GatewayId>,
}

/// What a sweep did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Swept {
    /// Members taken out of the swept gateway's held set.
    pub released: u64,
    /// Nothing is left to sweep: the entry is gone.
    pub done: bool,
    /// Fans in the slice now.
    pub card: u64,
    /// See [`SliceView::version`].
    pub version: u64,
}

/// A page of members; `next` is `None` at the end. A member may come twice, as in SSCAN.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberPage {
    /// Members.
    pub users: Vec<UserId>,
    /// Where to go on.
    pub next: Option<u64>,
}

/// A page of what a gateway holds; `next` is `None` at the end. A user may come twice, as in SSCAN.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldPage {
    /// Whom it holds.
    pub users: Vec<UserId>,
    /// Those of them that the slice lacks. No call leaves such users behind: something else than a gateway wrote there.
    pub missing: Vec<UserId>,
    /// Where to go on.
    pub next: Option<u64>,
}

/// What becomes of strays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strays {
    /// They are only counted.
    Count,
    /// They are taken out, in the same step in which they are found.
    Drop,
}

/// What a look through a page of a slice for strays found: members whom no gateway holds. No call leaves strays behind, so
/// they are another program's, or those of a node that lost writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StraysPage {
    /// Members looked at.
    pub looked: u64,
    /// Strays among them.
    pub strays: u64,
    /// Up to ten of the strays.
    pub names: Vec<UserId>,
    /// Where to go on; `None` at the end.
    pub next: Option<u64>,
    /// Members of the slice after the call.
    pub card: u64,
    /// Members of all held sets together. Fewer than `card`: there are more strays.
    pub held: u64,
    /// See [`SliceView::version`].
    pub version: u64,
}

/// The sets of online fans.
#[async_trait]
pub trait Slices {
    /// Changes what a gateway holds, see [`Apply`].
    async fn apply(&self, call: &Apply) -> StoreResult<ApplyReply>;

    /// Reads a slice, as a gateway sees it.
    async fn read_slice(&self, slice: &SliceId, gateway: &GatewayId) -> StoreResult<SliceReading>;

    /// Takes out up to `most` members of a gateway that was buried; drops its entry when none is left. Costs as many steps
    /// as `most` times the gateways in the slice.
    async fn sweep(&self, slice: &SliceId, gateway: &GatewayId, most: usize) -> StoreResult<Swept>;

    /// Looks through a page of about `most` members of a slice, from cursor 0 on, for those whom no gateway holds.
    async fn strays(&self, slice: &SliceId, cursor: u64, most: usize, strays: Strays) -> StoreResult<StraysPage>;

    /// Sets the fence to closed for this epoch and unlinks the slice and its companions. A slice that belongs to a newer
    /// epoch is left alone.
    async fn close_slice(&self, slice: &SliceId, epoch: Epoch) -> StoreResult<()>;

    /// The highest epoch that a slice's fence has seen, if it has a fence.
    async fn fence(&self, slice: &SliceId) -> StoreResult<Option<Epoch>>;

    /// A page of what a gateway holds in a slice, about [`MAX_BATCH`] members, from cursor 0 on.
    async fn held_page(&self, slice: &SliceId, gateway: &GatewayId, cursor: u64) -> StoreResult<HeldPage>;

    /// A page of a slice's fans, about [`MAX_BATCH`] members, from cursor 0 on.
    async fn fans_page(&self, slice: &SliceId, cursor: u64) -> StoreResult<MemberPage>;

    /// Whether a user is in the slice.
    async fn is_fan_online(&self, slice: &SliceId, user: &UserId) -> StoreResult<bool>;
}

// -------------------------------------------------------------------------------------------------------- follows

/// One edge of the follow graph, seen from one end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Followed {
    /// The user at the other end.
    pub user: UserId,
    /// When the follow happened.
    pub at: UnixMillis,
}

/// From which end to read the follow graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edge {
    /// Whom a user follows.
    Following,
    /// Who follows a user.
    Followers,
}

/// The follow graph. The platform may write the same keys itself.
#[async_trait]
pub trait Follows {
    /// Adds the edge, keeping the time of an earlier follow. True if it is new.
    async fn follow(&self, user: &UserId, streamer: &UserId) -> StoreResult<bool>;

    /// Takes the edge out. True if it was there.
    async fn unfollow(&self, user: &UserId, streamer: &UserId) -> StoreResult<bool>;

    /// For each of up to [`MAX_BATCH`] users, whether they follow the streamer; in the same order.
    async fn follows(&self, streamer: &UserId, users: &[UserId]) -> StoreResult<Vec<bool>>;

    /// How many follow a streamer.
    async fn follower_count(&self, streamer: &UserId) -> StoreResult<u64>;

    /// Up to `limit` edges, newest first (ties by user id, descending), after the given one.
    async fn follow_page(
        &self,
        user: &UserId,
        edge: Edge,
        after: Option<&Followed>,
        limit: usize,
    ) -> StoreResult<Vec<Followed>>;
}
