//! Which of the users that somebody follows were online within a window: one read of the follow
//! graph, and one of what is known of those users. No copy of who is online is made.

use std::cmp::Reverse;

use futures_util::future::try_join_all;

use super::{MAX_BATCH, Store, StoreResult, UserPresence};
use crate::base::clock::UnixMillis;
use crate::base::ids::UserId;

/// So many of the newest follows are looked at.
pub const MAX_FOLLOWED: usize = 5_000;

/// Which follows make a friend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FriendsOf {
    /// Everybody whom the user follows.
    Following,
    /// Those who follow the user, too.
    Mutual,
}

/// A friend who is online, or was within the window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Friend {
    /// Who.
    pub user: UserId,
    /// Online or not, when last seen, and where.
    pub presence: UserPresence,
}

/// The friends of a user who were seen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FriendsSeen {
    /// First those who are online, then the others, the latest first; ties by user id.
    pub friends: Vec<Friend>,
    /// The user follows more than [`MAX_FOLLOWED`]; only the newest follows were looked at.
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
    let friends = followed
        .into_iter()
        .zip(known)
        .map(|(user, presence)| Friend { user, presence });
    let was_seen = |friend: &Friend| {
        friend.presence.online || friend.presence.last_seen.is_some_and(|at| at >= since)
    };
    let mut friends: Vec<Friend> = friends.filter(was_seen).collect();
    friends.sort_by(|a, b| a.place().cmp(&b.place()));
    Ok(FriendsSeen { friends, partial })
}

impl Friend {
    /// When the friend was seen last; who is online comes after any time.
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

/// The newest follows of a user, and whether there are more than are looked at.
pub async fn followed(store: &dyn Store, user: &UserId) -> StoreResult<(Vec<UserId>, bool)> {
    let mut followed = store.newest_followed(user, MAX_FOLLOWED + 1).await?;
    let partial = followed.len() > MAX_FOLLOWED;
    followed.truncate(MAX_FOLLOWED);
    Ok((followed, partial))
}

async fn mutual(
    store: &dyn Store,
    user: &UserId,
    followed: Vec<UserId>,
) -> StoreResult<Vec<UserId>> {
    // Redis takes about 1 µs for each.
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
