//! Changes the follow graph. Every room of the streamer, on every gateway, then asks at once whether
//! the user is a fan. Sockets of the user that asked for friends read the user's follows again, and
//! the features are told. The walk tells the gateways, too, after it has finished a change
//! that a gateway left half done.

use std::sync::Arc;

use serde_json::{Map, json};

use crate::base::event_kind::EventKind;
use crate::base::ids::UserId;
use crate::peers::core::Core;
use crate::store::{About, StoreError, StoreResult};
use crate::sync::events::api_events::ApiEvents;
use crate::sync::features::Features;

pub struct FollowGraph {
    pub core: Arc<Core>,
    pub features: Features,
    /// `None` if follows are no events.
    pub events: Option<Arc<ApiEvents>>,
}

impl FollowGraph {
    /// True if the follow is new.
    pub async fn follow(&self, user: &UserId, streamer: &UserId) -> StoreResult<bool> {
        let changed = self.core.store_for_clients.follow(user, streamer).await;
        let changed = self.tell_of(changed, EventKind::UserFollowed, user, streamer)?;
        self.features.followed(user, streamer).await?;
        Ok(changed)
    }

    /// True if there was a follow.
    pub async fn unfollow(&self, user: &UserId, streamer: &UserId) -> StoreResult<bool> {
        let changed = self.core.store_for_clients.unfollow(user, streamer).await;
        let changed = self.tell_of(changed, EventKind::UserUnfollowed, user, streamer)?;
        self.features.unfollowed(user, streamer).await?;
        Ok(changed)
    }

    fn note(&self, kind: EventKind, user: &UserId, streamer: &UserId) {
        let Some(events) = &self.events else {
            return;
        };
        let mut fields = Map::new();
        fields.insert("user_id".to_owned(), json!(user));
        fields.insert("streamer_id".to_owned(), json!(streamer));
        events.add(kind, About::User(user.clone()), fields);
    }

    /// Tells of a change that the store made, or may have made: a repeated call finds it made, and
    /// tells nothing. The walk tells the gateways of a change that the store makes later.
    fn tell_of(
        &self,
        changed: StoreResult<bool>,
        kind: EventKind,
        user: &UserId,
        streamer: &UserId,
    ) -> StoreResult<bool> {
        if changed.as_ref().is_err_and(StoreError::did_nothing) {
            return changed;
        }
        self.tell(user, streamer);
        if *changed.as_ref().unwrap_or(&true) {
            self.note(kind, user, streamer);
        }
        changed
    }

    /// Has all gateways look again whether a user follows a streamer.
    pub fn tell(&self, user: &UserId, streamer: &UserId) {
        self.core.rooms.check_fan_again(user, streamer);
        self.core.rooms.follows_changed(user);
        self.core.to_peers.follow(user, streamer);
    }
}
