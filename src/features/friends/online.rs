//! Which of the users whom a user follows were online within a window. This takes one read of the
//! follow graph, and one of the presence of the followed users. It keeps no copy of who is online.

use crate::store::followed;
use std::cmp::Reverse;

use futures_util::future::try_join_all;
use serde::Deserialize;
use utoipa::ToSchema;

use crate::base::clock::UnixMillis;
use crate::base::ids::UserId;
use crate::store::{MAX_BATCH, Store, StoreResult, UserPresence};

/// Which follows make a friend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FriendsOf {
    /// Every follow of the user makes a friend.
    #[default]
    Following,
    /// Only mutual follows make friends.
    Mutual,
}

/// A friend who is online, or was within the window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Friend {
    /// The friend.
    pub user: UserId,
    /// Whether the friend is online, when the friend was last seen, and where.
    pub presence: UserPresence,
}

/// The friends of a user who were seen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FriendsSeen {
    /// First the friends who are online, then the others, the latest first; ties by user id.
    pub friends: Vec<Friend>,
    /// The user follows more than [`crate::store::MAX_FOLLOWED`]; only the newest follows were looked at.
    pub partial: bool,
}

/// Finds the friends of a user who are online now, or were seen at `since` or later.
pub async fn friends_seen(
    store: &dyn Store,
    user: &UserId,
    of: FriendsOf,
    since: UnixMillis,
) -> StoreResult<FriendsSeen> {
    let (mut followed, partial) = followed(store, user).await?;
    if of == FriendsOf::Mutual {
        followed = mutual(store, user, followed).await?;
    }
    let known = store.presence_of(&followed).await?;
    let mut friends = Vec::new();
    for (user, presence) in followed.into_iter().zip(known) {
        if presence.online || presence.last_seen.is_some_and(|at| at >= since) {
            friends.push(Friend { user, presence });
        }
    }
    friends.sort_by(|a, b| a.place().cmp(&b.place()));
    Ok(FriendsSeen { friends, partial })
}

impl Friend {
    /// When the friend was seen last. For a friend who is online, this is later than any time.
    pub fn seen_at(&self) -> UnixMillis {
        if self.presence.online {
            i64::MAX as UnixMillis
        } else {
            self.presence.last_seen.unwrap_or(0)
        }
    }

    /// Where the friend stands in the list.
    pub fn place(&self) -> (Reverse<UnixMillis>, &UserId) {
        (Reverse(self.seen_at()), &self.user)
    }
}

async fn mutual(
    store: &dyn Store,
    user: &UserId,
    followed: Vec<UserId>,
) -> StoreResult<Vec<UserId>> {
    // Redis takes about 1 µs per user.
    let back = try_join_all(
        followed
            .chunks(MAX_BATCH / 2)
            .map(|some| store.follows(user, some)),
    )
    .await?
    .concat();
    Ok(followed
        .into_iter()
        .zip(back)
        .filter(|(_, back)| *back)
        .map(|(user, _)| user)
        .collect())
}
