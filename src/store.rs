//! Owns the boundary to the store: what a gateway may ask of Redis, and what it may hear back.
//!
//! Small traits, one per noun: [`Lives`] (the record of each live), [`Slices`] (the sets of online fans, with leases and
//! fences), [`Viewers`] (how many users each gateway has in a live), [`Renewals`] (all of that where nothing is new),
//! [`Leases`] (what stands for the gateway as a whole then), [`Surveys`] (which lives need somebody), [`Moderation`] (who
//! was sent out of a live), [`Follows`] (the follow graph) and [`Wire`] (words between gateways, which may be lost). Two
//! stores implement them: [`memory`], the embedded default and the model that Redis is checked against, and [`redis`].
//! Nothing outside `store/redis` knows which client library is used. Every call has a deadline inside the store; none
//! retries by itself.

mod doubts;
mod leases;
pub mod memory;
mod parts;
pub mod redis;
mod removals;
mod renewals;
pub mod slice;
mod surveys;
mod viewers;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;

use crate::clock::{UnixMicros, UnixMillis};
use crate::ids::{Epoch, GatewayId, LiveId, SliceId, UserId};

pub use doubts::{Doubt, Doubts};
pub use leases::{COVERED_LEASES, Leases, OwnLease, OwnLeases};
pub use parts::{Parts, Slot};
pub use removals::{
    Ban, Change, ChangeKind, LEAP, LiftReply, MAX_BAN, MAX_BANS, MAX_CHANGES, Moderation, Removals, RemoveReply,
    RemoveUser,
};
pub use renewals::{Found, HeldSlice, MAX_RENEWALS, Renewal, Renewals};
pub use surveys::{MAX_SURVEYED, Survey, Surveys};
pub use viewers::{GatewayViewers, SayViewers, Viewers, ViewersReply};
pub use wire::{Channel, Heard, Hearing, Wire};

/// The most members that one call carries or touches.
pub const MAX_BATCH: usize = 1_000;

/// Everything a gateway needs of its store.
pub trait Store:
    Lives + Slices + Viewers + Renewals + Leases + Surveys + Moderation + Follows + Wire + Send + Sync + 'static
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
    /// Over; kept for 30 days.
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

/// A gateway's word, once per lease refresh, that it holds a live open.
#[derive(Debug, Clone)]
pub struct TouchLive {
    /// What the gateway knows of the live; written as it stands if the store has no record (lost data). Where the gateway
    /// knows of a later removal than the store, the store's numbers go on above it, by [`LEAP`].
    pub record: LiveRecord,
    /// The streamer was heard on this gateway since the last touch.
    pub streamer_heard: bool,
    /// Whether to make sure that `lives` lists it too.
    pub relist: bool,
}

/// How a live stands in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// The epoch is open.
    Open {
        /// For how long no gateway has heard the streamer, by the store's clock.
        streamer_silent: Duration,
        /// The number of the last removal, as in [`LiveRecord::removals`].
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
pub trait Lives {
    /// Opens a new epoch unless one is open. Lists the live before it opens, so that no open live is unlisted.
    async fn open_live(&self, wish: &OpenLive) -> StoreResult<OpenReply>;

    /// Reads a record.
    async fn load_live(&self, live: &LiveId) -> StoreResult<Option<LiveRecord>>;

    /// Refreshes an open live, see [`TouchLive`].
    async fn touch_live(&self, touch: &TouchLive) -> StoreResult<Standing>;

    /// For how long no gateway has heard the streamer of an open live; `None` if the live is not open. Changes nothing.
    async fn streamer_silent(&self, live: &LiveId) -> StoreResult<Option<Duration>>;

    /// open → closing.
    async fn begin_close(&self, wish: &CloseLive) -> StoreResult<CloseReply>;

    /// closing → closed, after every slice of the epoch is closed, and takes the live off the list. A live that is not
    /// closing in this epoch is left alone. Answers the record as it is now.
    async fn finish_close(&self, live: &LiveId, epoch: Epoch) -> StoreResult<Option<LiveRecord>>;

    /// Up to `limit` open lives, oldest first, after the given one.
    async fn lives_page(&self, after: Option<&ListedLive>, limit: usize) -> StoreResult<Vec<ListedLive>>;

    /// Takes a live off the list that has no record or is closed.
    async fn delist(&self, live: &LiveId) -> StoreResult<()>;

    /// Takes or keeps the turn of looking after lives that no gateway holds. One gateway has it at a time.
    async fn take_sweeper_turn(&self, gateway: &GatewayId, ttl: Duration) -> StoreResult<bool>;
}

// --------------------------------------------------------------------------------------------------------- slices

/// What an [`Apply`] does to the gateway's entry, which carries its lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Entry {
    /// The entry must be there already.
    Keep,
    /// Make the entry if it is not there. Only after `live:` was read and the epoch found open.
    Register,
    /// The entry must be there; it is dropped if the gateway holds nobody afterwards.
    Release,
}

/// One gateway's change to one slice: the only way members get in or out, save sweep and close. With nothing to join or
/// leave it is the lease refresh.
#[derive(Debug, Clone)]
pub struct Apply {
    /// The slice.
    pub slice: SliceId,
    /// The epoch in which the gateway believes.
    pub epoch: Epoch,
    /// Who calls.
    pub gateway: GatewayId,
    /// Grows with every call of this gateway to this slice; a call that is not above the last applied does nothing.
    pub number: u64,
    /// What becomes of the gateway's entry.
    pub entry: Entry,
    /// Users to add, no one twice, none of them in `leaves`; both lists together at most [`MAX_BATCH`].
    pub joins: Vec<UserId>,
    /// Users to take out, unless another gateway holds them too.
    pub leaves: Vec<UserId>,
    /// How old a peer's refresh must be for the peer to be named in [`SliceView::silent`].
    pub lease: Duration,
}

/// A slice as it stands after a call.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SliceView {
    /// Fans in the slice, over all gateways.
    pub card: u64,
    /// Fans that the calling gateway holds in it.
    pub held: u64,
    /// The store's clock. Finer than a call takes, so that two changes of a slice have two times.
    pub at: UnixMicros,
    /// Gateways (not the caller) whose last refresh is older than the call's `lease`. At most 16 are named; an apply
    /// that joins or leaves names none.
    pub silent: Vec<Silent>,
}

/// A gateway that has not refreshed its lease.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Silent {
    /// Which.
    pub gateway: GatewayId,
    /// How long ago its last refresh was, by the store's clock.
    pub quiet: Duration,
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
    /// The number is not above the last applied one. Nothing was done.
    Stale,
    /// The gateway has no entry: it was swept, or the store lost its data. Nothing was done.
    Unknown,
}

/// What a sweep did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Swept {
    /// Members taken out of the swept gateway's held set, at most [`MAX_BATCH`].
    pub released: u64,
    /// Nothing is left to sweep: the entry is gone, or its lease is fresh again.
    pub done: bool,
    /// Fans in the slice now.
    pub card: u64,
    /// The store's clock. Finer than a call takes, so that two changes of a slice have two times.
    pub at: UnixMicros,
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

/// A look through a page of a slice for strays: members whom no gateway holds. No call leaves strays behind, so they are
/// another program's, or those of a node that lost writes.
#[derive(Debug, Clone)]
pub struct CheckSlice {
    /// The slice.
    pub slice: SliceId,
    /// The gateway that asks, which must have an entry: one that was swept does not judge others. `None`: nobody's.
    pub holder: Option<GatewayId>,
    /// Where to go on; 0 to begin.
    pub cursor: u64,
    /// What becomes of strays.
    pub strays: Strays,
}

/// What becomes of strays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strays {
    /// They are only counted.
    Count,
    /// They are taken out, in the same step in which they are found.
    Drop,
}

/// What a [`CheckSlice`] found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedPage {
    /// Members looked at, about [`MAX_BATCH`] at most; 0 if the holder has no entry.
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
    /// The store's clock.
    pub at: UnixMicros,
}

/// The sets of online fans.
#[async_trait]
pub trait Slices {
    /// Changes or refreshes what a gateway holds, see [`Apply`].
    async fn apply(&self, call: &Apply) -> StoreResult<ApplyReply>;

    /// Reads a slice without holding anything in it (`held` is 0), naming gateways whose lease is older than `lease`.
    async fn view_slice(&self, slice: &SliceId, lease: Duration) -> StoreResult<SliceView>;

    /// Takes out up to [`MAX_BATCH`] members of a gateway whose lease is older than `lease`; drops its entry when none
    /// is left. Does nothing to a gateway whose lease is fresh.
    async fn sweep(&self, slice: &SliceId, gateway: &GatewayId, lease: Duration) -> StoreResult<Swept>;

    /// Sets the fence to closed for this epoch and unlinks the slice and its companions. A slice that belongs to a newer
    /// epoch is left alone.
    async fn close_slice(&self, slice: &SliceId, epoch: Epoch) -> StoreResult<()>;

    /// The highest epoch that a slice's fence has seen, if it has a fence.
    async fn fence(&self, slice: &SliceId) -> StoreResult<Option<Epoch>>;

    /// A page of what a gateway holds in a slice, about [`MAX_BATCH`] members, from cursor 0 on.
    async fn held_page(&self, slice: &SliceId, gateway: &GatewayId, cursor: u64) -> StoreResult<HeldPage>;

    /// Looks through a page of a slice for members whom no gateway holds, see [`CheckSlice`].
    async fn check_slice(&self, check: &CheckSlice) -> StoreResult<CheckedPage>;

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
