//! Changes the follow graph. Every room of the streamer, on every gateway, asks at once whether the user is a fan,
//! sockets of the user that asked for friends look again whom the user follows, and the user's timelines follow.

use std::sync::Arc;

use crate::base::ids::UserId;
use crate::peers::Outbox;
use crate::presence::Rooms;
use crate::store::{Store, StoreResult};
use crate::sync::feeds::Feeds;

pub struct Follows {
    pub store: Arc<dyn Store>,
    pub rooms: Arc<Rooms>,
    pub outbox: Arc<Outbox>,
    pub feeds: Arc<Feeds>,
}

impl Follows {
    /// True if the follow is new.
    pub async fn follow(&self, user: &UserId, streamer: &UserId) -> StoreResult<bool> {
        let changed = self.store.follow(user, streamer).await?;
        self.tell(user, streamer);
        self.feeds.followed(user, streamer).await?;
        Ok(changed)
    }

    /// True if there was a follow.
    pub async fn unfollow(&self, user: &UserId, streamer: &UserId) -> StoreResult<bool> {
        let changed = self.store.unfollow(user, streamer).await?;
        self.tell(user, streamer);
        self.feeds.unfollowed(user, streamer).await?;
        Ok(changed)
    }

    fn tell(&self, user: &UserId, streamer: &UserId) {
        self.rooms.check_fan_again(user, streamer);
        self.rooms.follows_changed(user);
        self.outbox.follow(user, streamer);
    }
}
