//! The boundary for timelines: lists of statuses by time, of which the store keeps the newest. A
//! timeline is a copy that may have too many entries. Code that shows it checks for each status
//! whether it still stands, see [`crate::features::feeds::store::feeds::status_page`].

use tokio::time::Instant;

use crate::base::ids::UserId;
use crate::features::feeds::store::statuses::{StatusId, TimelineEntry};
use crate::store::StoreResult;
use crate::store::calls::calls;

/// Maximum entries of a timeline; the newest are kept.
pub const MAX_TIMELINE: usize = 1_000;

/// A list of statuses.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Timeline {
    /// The announcements of the authors whom a user follows.
    Home(UserId),
    /// The lives of the authors whom a user follows.
    Feed(UserId),
    /// A user's own announcements.
    Profile(UserId),
    /// A user's own lives that are on air.
    OnAir(UserId),
}

impl Timeline {
    /// Maximum entries; the newest are kept. The streamer's own list of lives never drops an open
    /// live, because that list is authoritative.
    pub(crate) fn most(&self) -> usize {
        match self {
            Self::Home(_) | Self::Feed(_) | Self::Profile(_) => MAX_TIMELINE,
            Self::OnAir(_) => usize::MAX >> 1,
        }
    }

    /// Whose timeline it is.
    pub(crate) fn owner(&self) -> &UserId {
        match self {
            Self::Home(user) | Self::Feed(user) | Self::Profile(user) | Self::OnAir(user) => user,
        }
    }

    /// The timeline of a follower of the author in which such a status belongs.
    pub fn of_follower(follower: UserId, status: &StatusId) -> Self {
        match status.live() {
            Some(_) => Self::Feed(follower),
            None => Self::Home(follower),
        }
    }
}

calls! {
    /// Timelines of statuses. Every write may be repeated.
    pub trait Timelines {
        /// How many entries a timeline has.
        async fn timeline_len(&self, timeline: &Timeline) -> StoreResult<u64>, reads;

        /// Puts a status into up to 250 timelines. `looked` is when the caller began to check whether
        /// the status stands. The store refuses a write that arrives 5 s after that, or later.
        async fn add_to_timelines(
            &self,
            entry: &TimelineEntry,
            to: &[Timeline],
            looked: Instant,
        ) -> StoreResult<()>, writes;

        /// Puts up to [`MAX_TIMELINE`] statuses into one timeline.
        async fn add_entries(&self, timeline: &Timeline, entries: &[TimelineEntry]) -> StoreResult<()>, writes;

        /// Takes a status out of up to 250 timelines.
        async fn remove_from_timelines(&self, status: &StatusId, from: &[Timeline]) -> StoreResult<()>,
            writes;

        /// Takes up to [`MAX_TIMELINE`] statuses out of one timeline.
        async fn remove_entries(&self, timeline: &Timeline, statuses: &[StatusId]) -> StoreResult<()>, writes;

        each:

        /// Up to `limit` entries of each timeline, newest first, older than the given one. An error for
        /// one is no error for another.
        async fn read_timelines(
            &self,
            asked: &[(Timeline, Option<TimelineEntry>)],
            limit: usize,
        ) -> Vec<StoreResult<Vec<TimelineEntry>>>, reads;

        /// For each, whether the timeline has the status.
        async fn are_on_timelines(&self, asked: &[(Timeline, StatusId)]) -> Vec<StoreResult<bool>>, reads;
    }
}
