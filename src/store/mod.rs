//! The boundary to the store: the calls that a gateway may make, and the answers that it may get.
//!
//! There is one trait per noun, each in a file of its own with the types that belong to it, declared
//! as `calls.rs` says; [`Store`] is all of them together. Two stores implement them: [`memory`], the
//! embedded default and the model that Redis is checked against, and [`redis`]. Nothing outside
//! `store/redis` knows the client library. Every call has a deadline inside the store; no store
//! retries a call by itself.

pub(crate) mod answers;
pub(crate) mod arguments;
pub(crate) mod bus;
pub mod calls;
pub(crate) mod counts;
pub(crate) mod doubts;
pub(crate) mod erased;
pub(crate) mod errors;
pub(crate) mod events;
pub mod fans;
pub(crate) mod follows;
pub(crate) mod jobs;
pub(crate) mod last_seen;
pub(crate) mod leases;
pub(crate) mod limits;
pub(crate) mod live_stream;
pub(crate) mod lives;
pub mod memory;
pub(crate) mod online_users;
pub(crate) mod parts;
pub(crate) mod record_events;
pub mod redis;
pub(crate) mod removals;
pub(crate) mod session_ends;
pub(crate) mod shared_secrets;
pub mod slice;
pub(crate) mod slices;
pub(crate) mod status;
pub(crate) mod stays;
pub(crate) mod streamers;
pub(crate) mod summary;
pub(crate) mod sums;

pub use answers::{AnswerName, Answers, ERASED_ANSWER};
pub use bus::{Bus, BusEvent, BusEvents, Channel};
pub use counts::{
    COUNT_EVERY, CountLive, CountReply, Counted, Counts, Figures, HISTORY_STEP, MAX_POINTS, Peaks,
    Point, Rank, RankedLive,
};
pub use doubts::{Doubt, Doubts};
pub use erased::{ErasedSome, Found, PersonalData};
pub use errors::{StoreError, StoreResult, both};
pub use events::{
    APPENDED_KNOWN, About, BuryReply, COUNTS_EVENT_EVERY, DeadEvent, EntryId, Event, EventAges,
    Events, MAX_EVENTS, NO_CAP, NotedCounts, QueueKind, ReadEvents, ReadFrom, SenderTurn,
    StreamEvent, UNDELIVERED_TTL, WebhookQueue, one_append,
};
pub use follows::{Edge, FinishedChanges, Followed, Follows, MAX_FOLLOWED, followed};
pub use jobs::CLAIM_AFTER;
pub(crate) use jobs::JOB_GROUP;
pub use last_seen::{LastSeen, Seen, Span};
pub use leases::{
    Burial, DEATH_TTL, Lease, LeaseReply, LeaseStore, LeaseTable, Leases, LivingGateway, RenewLease,
};
pub use limits::{ERASED_KEPT, MAX_BATCH, MAX_MESSAGE};
pub use live_stream::{StreamChange, StreamStatus};
pub use lives::{
    ChangeLive, ChangeReply, CloseLive, CloseReason, CloseReply, Closure, FinishClose, Info,
    ListedLive, LiveChange, LiveEpoch, LiveRecord, LiveState, LiveStore, MAX_HOSTS, OpenLive,
    OpenReply, OpenedBy, RecordStanding, Terms,
};
pub use online_users::{OnlineCount, OnlineUsers, UserPresence, Whereabouts};
pub use parts::{Health, Parts, Slot};
pub use record_events::{Happened, MAX_RECORD_FIELDS, PendingEvent, RecordEvents};
pub use removals::{
    Ban, ChangeKind, LEAP, LiftBan, LiftReply, MAX_BAN, MAX_BANS, MAX_CHANGES, Moderation,
    RemovalChange, Removals, RemoveReply, RemoveUser,
};
pub use session_ends::{EndedSession, Over, SessionEnds};
pub use shared_secrets::{MAX_SECRETS, SharedSecrets};
pub use slices::{
    Apply, ApplyRefusal, ApplyReply, CALL_DEADLINE, Claim, ClaimedUser, ClaimsPage, Drift, Entries,
    Fence, LATEST_ENTRY, MAX_LIVES, MemberPage, Pass, PassCursor, PassPhase, Passed, REBUILD,
    SliceEntry, SliceLook, SliceSize, SliceTotals, Slices, SlicesDoor,
};
pub use status::Status;
pub use stays::{
    ATTENDANCE_KEPT, AttendedSession, LatestStays, MANY_SESSIONS, MOST_SESSIONS, SESSIONS_A_CALL,
    SHORT_BREAK, SessionPlace, Stay, Stays, WatchedTime, session_id,
};
pub use streamers::{ClaimLimits, Claimed, Streamers};
pub use summary::Summary;
pub use sums::{Arrived, Sums, Uniques};

/// Everything a gateway needs of its store.
pub trait Store:
    LiveStore
    + Slices
    + LeaseStore
    + Counts
    + Streamers
    + Moderation
    + Events
    + Follows
    + LatestStays
    + Answers
    + LastSeen
    + OnlineUsers
    + SessionEnds
    + SharedSecrets
    + Bus
    + Status
    + Send
    + Sync
    + 'static
{
}
