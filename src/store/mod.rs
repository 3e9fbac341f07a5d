//! The boundary to the store: the calls that a gateway may make, and the answers that it may get.
//!
//! There is one trait per noun, each in a file of its own with the types that belong to it;
//! [`Store`] is all of them together. Two stores implement them: [`memory`], the embedded default
//! and the model that Redis is checked against, and [`redis`]. Nothing outside `store/redis` knows
//! the client library. Every call has a deadline inside the store; no store retries a call by
//! itself.

use std::sync::Arc;

mod answers;
mod attendance;
mod attendees;
mod bus;
mod counts;
mod deliveries;
mod doubts;
mod erasures;
mod errors;
mod events;
pub mod fans;
mod follows;
mod friends_online;
mod history;
mod last_seen;
mod leases;
mod limits;
mod lives;
pub mod memory;
mod online_users;
mod parts;
mod record_events;
pub mod redis;
mod removals;
mod session_ends;
mod sessions;
mod shared_secrets;
pub mod slice;
mod slices;
mod social;
mod status;
mod streamers;
mod streams;
mod sums;

pub use answers::{AnswerName, Answers, ERASED_ANSWER};
pub use attendance::{
    ATTENDANCE_KEPT, ATTENDANCE_PARTS, ATTENDANCE_RENEWED, Attendance, Attended, Attendees,
    Attending, BITS_A_PART, LiveEpoch, MAX_ATTENDED,
};
pub use attendees::{AttendancePage, AttendancePlace, AttendanceQuestion, find_attendees};
pub use bus::{Bus, BusEvent, BusEvents, Channel};
pub use counts::{
    COUNT_EVERY, CountLive, CountReply, Counted, Counts, Figures, Peaks, Rank, RankedLive,
};
pub use deliveries::{
    DELIVERIES_KEPT, DELIVERIES_TTL, Deliveries, Delivery, MAX_DELIVERIES, WebhookStatus,
};
pub use doubts::{Doubt, Doubts};
pub(crate) use erasures::json_names;
pub use erasures::{
    ERASED_KEPT, EndedErasure, ErasedSome, Erasure, ErasureNews, ErasureProgress, Erasures, Found,
    PersonalData, REPORT_KEPT, TakenErasure,
};
pub use errors::{StoreError, StoreResult, both};
pub use events::{
    APPENDED_KNOWN, About, BuryReply, COUNTS_EVENT_EVERY, DeadEvent, EntryId, Event, EventAges,
    Events, MAX_EVENTS, NO_CAP, NotedCounts, QueueKind, ReadEvents, ReadFrom, SenderTurn,
    StreamEvent, UNDELIVERED_TTL, WebhookQueue, one_append,
};
pub use follows::{Edge, Followed, Follows};
pub use friends_online::{Friend, FriendsOf, FriendsSeen, MAX_FOLLOWED, followed, friends_seen};
pub use history::{HISTORY_STEP, History, MAX_PAST_LIVES, MAX_POINTS, PastLive, Point, Summary};
pub use last_seen::{LastSeen, Seen, Span};
pub use leases::{
    Burial, DEATH_TTL, Lease, LeaseReply, LeaseStore, LeaseTable, Leases, LivingGateway, RenewLease,
};
pub use limits::{MAX_BATCH, MAX_MESSAGE};
pub use lives::{
    ChangeLive, ChangeReply, CloseLive, CloseReason, CloseReply, Closure, FinishClose, Info,
    ListedLive, LiveChange, LiveRecord, LiveState, LiveStore, OpenLive, OpenReply, OpenedBy,
    Standing, Terms,
};
pub use online_users::{OnlineCount, OnlineUsers, UserPresence, Whereabouts};
pub use parts::{Health, Parts, Slot};
pub use record_events::{Happened, MAX_RECORD_FIELDS, PendingEvent, RecordEvents};
pub use removals::{
    Ban, Change, ChangeKind, LEAP, LiftBan, LiftReply, MAX_BAN, MAX_BANS, MAX_CHANGES, Moderation,
    Removals, RemoveReply, RemoveUser,
};
pub use session_ends::{EndedSession, Over, SessionEnds};
pub use sessions::{
    MANY_SESSIONS, MOST_SESSIONS, SESSIONS_A_CALL, SHORT_BREAK, Session, SessionPlace, Sessions,
    Stay, Stays, Watched, session_id,
};
pub use shared_secrets::{MAX_SECRETS, SharedSecrets};
pub use slices::{
    Apply, ApplyReply, CALL_DEADLINE, Claim, ClaimedUser, ClaimsPage, Drift, Entries, Fence,
    LATEST_ENTRY, MAX_LIVES, MemberPage, Pass, PassCursor, PassPhase, Passed, REBUILD, Refusal,
    SliceEntry, SliceLook, SliceSize, SliceTotals, Slices,
};
pub use social::fanout_jobs::{
    CLAIM_AFTER, FanoutJobs, FanoutTask, Job, MAX_PULLED, TakenJob, TakenJobs,
};
pub use social::feeds::{
    Content, MIN_TIMELINE, ShownStatus, StatusPage, StatusState, View, forget_author, merge_author,
    refill, states_of, status_page, take_back, withdraw, withdraw_live,
};
pub use social::lists::{MAX_LIST, PutInList, UserLists};
pub use social::profiles::{FinishedChanges, Profile, Profiles, PutProfile};
pub use social::statuses::{Entry, Post, StatusId, Statuses, Subject};
pub use social::timelines::{MAX_TIMELINE, Timeline, Timelines};
pub use status::Status;
pub use streamers::{ClaimLimits, Claimed, Streamers};
pub use streams::{
    ENDED_STREAMS_TTL, End, Heard, HoldingSession, KnownStreams, OpenEpoch, Publisher, Publishing,
    STREAMS_TTL, Step, StreamChange, StreamStatus, StreamStore, Streams, StreamsReply,
    WriteStreams,
};
pub use sums::{Arrived, Sums, Uniques};

/// Everything a gateway needs of its store.
pub trait Store:
    LiveStore
    + Slices
    + LeaseStore
    + Counts
    + History
    + Streamers
    + StreamStore
    + Moderation
    + Events
    + Deliveries
    + Follows
    + Profiles
    + Statuses
    + Timelines
    + UserLists
    + Answers
    + FanoutJobs
    + Erasures
    + LastSeen
    + OnlineUsers
    + Attendance
    + Sessions
    + SessionEnds
    + SharedSecrets
    + Bus
    + Status
    + Send
    + Sync
    + 'static
{
    /// The same store for the requests of clients. It shares the connections, but has its own bound
    /// on the calls under way, so that clients' requests, however many, never keep the gateway's
    /// own calls from the store.
    fn for_clients(self: Arc<Self>) -> Arc<dyn Store>;
}
