//! What a verified token says.

use std::sync::Arc;

use crate::base::clock::UnixMillis;
use crate::base::identity::Role;
use crate::base::ids::{LiveId, UserId};

/// What a verified token says of its bearer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claims {
    pub(crate) user: UserId,
    pub(crate) role: Role,
    /// False with `count: false`: the bearer may keep out of every figure.
    pub(crate) counted: bool,
    /// Kept out of every list of users.
    pub(crate) invisible: bool,
    pub(crate) expires_at: UnixMillis,
    /// The lives that the token is limited to; `None`: all.
    pub(crate) lives: Option<Arc<[LiveId]>>,
    /// The streamers whom the bearer follows; `None` if the token does not say.
    pub(crate) fan_of: Option<Arc<[UserId]>>,
}

impl Claims {
    /// Whether the token is good for this live.
    pub(crate) fn allows(&self, live: &LiveId) -> bool {
        self.lives.as_ref().is_none_or(|lives| lives.contains(live))
    }

    /// Whether the bearer follows this streamer; `None` if the token does not say whom the bearer follows.
    pub(crate) fn follows(&self, streamer: &UserId) -> Option<bool> {
        self.fan_of.as_ref().map(|streamers| streamers.contains(streamer))
    }
}
