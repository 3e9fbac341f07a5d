//! The boundary for the follow graph. The platform may write the same keys itself.

use super::calls::{calls, plain_arguments};
use super::{StoreError, StoreResult};
use crate::base::clock::UnixMillis;
use crate::base::ids::UserId;

/// One edge of the follow graph, seen from one end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Followed {
    /// The user at the other end.
    pub user: UserId,
    /// When the follow happened.
    pub at: UnixMillis,
}

/// The end from which to read the follow graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edge {
    /// The users whom a user follows.
    Following,
    /// The users who follow a user.
    Followers,
}

plain_arguments!(Edge);

calls! {
    /// The follow graph.
    pub trait Follows {
        /// Adds the edge, and keeps the time of an earlier follow. Returns true if the edge is new.
        async fn follow(&self, user: &UserId, streamer: &UserId) -> StoreResult<bool>, writes at User(user);

        /// Removes the edge. Returns true if the edge existed.
        async fn unfollow(&self, user: &UserId, streamer: &UserId) -> StoreResult<bool>, writes at User(user);

        /// For each of up to [`super::MAX_BATCH`] users, whether they follow the streamer; in the same
        /// order.
        async fn follows(&self, streamer: &UserId, users: &[UserId]) -> StoreResult<Vec<bool>>,
            reads at User(streamer);

        /// How many users a user follows, or is followed by. The call counts in the graph itself, so
        /// the number cannot drift from it.
        async fn follow_count(&self, user: &UserId, edge: Edge) -> StoreResult<u64>, reads at User(user);

        /// The users whom a user follows, newest first, each once, `most` of them at most. While the
        /// user follows and unfollows, one may be missing.
        async fn newest_followed(&self, user: &UserId, most: usize) -> StoreResult<Vec<UserId>>,
            reads at User(user);

        /// Up to `limit` edges, newest first (ties by user id, descending), after the given one.
        async fn follow_page(
            &self,
            user: &UserId,
            edge: Edge,
            after: Option<&Followed>,
            limit: usize,
        ) -> StoreResult<Vec<Followed>>, reads at User(user);

        in_parts:

        /// Finishes changes of several keys, such as a follow, whose gateway died half way or could not
        /// reach a key. Returns the changes that it finished.
        async fn finish_changes(&self) -> StoreResult<FinishedChanges>, writes;

        each:

        /// As [`Follows::follows`], for several streamers in one call, with up to [`super::MAX_BATCH`]
        /// users altogether. An error for one streamer is no error for another.
        async fn follows_each(&self, asked: &[(UserId, Vec<UserId>)]) -> Vec<StoreResult<Vec<bool>>>,
            reads at |(streamer, _)| User(streamer);

        /// For each of up to [`super::MAX_BATCH`] pairs of a user and a streamer, whether the user
        /// follows the streamer, as the user's own end of the edge says; in the same order. An error
        /// for one pair is no error for another.
        async fn are_following(&self, pairs: &[(UserId, UserId)]) -> Vec<StoreResult<bool>>,
            reads at |(_, streamer)| User(streamer);

        provided:

        /// How many follow a streamer.
        async fn follower_count(&self, streamer: &UserId) -> StoreResult<u64> {
            self.follow_count(streamer, Edge::Followers).await
        }
    }
}

/// Changes of several keys that [`Follows::finish_changes`] finished.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FinishedChanges {
    /// The number of changes.
    pub count: u64,
    /// The follows and unfollows among them: the user who followed or unfollowed, and the streamer.
    pub follows: Vec<(UserId, UserId)>,
    /// Why a change is left that could not be finished.
    pub failed: Option<StoreError>,
}

/// Maximum follows that are looked at, the newest.
pub const MAX_FOLLOWED: usize = 5_000;

/// The newest [`MAX_FOLLOWED`] follows of a user, and whether the user has more.
pub async fn followed(store: &dyn Follows, user: &UserId) -> StoreResult<(Vec<UserId>, bool)> {
    let mut followed = store.newest_followed(user, MAX_FOLLOWED + 1).await?;
    let partial = followed.len() > MAX_FOLLOWED;
    followed.truncate(MAX_FOLLOWED);
    Ok((followed, partial))
}
