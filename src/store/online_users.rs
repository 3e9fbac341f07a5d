//! The boundary for who is online on the platform: how many, and what is known of some users. Only
//! reads: the flusher writes who is online, with the code that writes the viewers of lives.

use async_trait::async_trait;

use super::{Span, StoreResult};
use crate::base::clock::UnixMillis;
use crate::base::ids::{GatewayId, LiveId, UserId};

/// How many users are online, and how many of the others were last seen in a span.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OnlineCount {
    /// Users with a socket.
    pub online: u64,
    /// Users without a socket.
    pub seen: u64,
}

/// What is known of a user.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UserPresence {
    /// Whether the user has a socket.
    pub online: bool,
    /// When the user was seen last; `None` for a user who is online, or was forgotten.
    pub last_seen: Option<UnixMillis>,
    /// In which live a user who is online is, as each gateway said. Callers ignore gateways that do
    /// not live.
    pub lives: Whereabouts,
}

/// In which live a user is, as each gateway said: the live joined last comes last of a gateway.
pub type Whereabouts = Vec<(GatewayId, LiveId)>;

impl UserPresence {
    /// The live that the user joined last, as the last of the living gateways said that told of the
    /// user.
    pub fn live(&self, is_living: impl Fn(&GatewayId) -> bool) -> Option<&LiveId> {
        self.lives
            .iter()
            .rev()
            .find(|(gateway, _)| is_living(gateway))
            .map(|(_, live)| live)
    }
}

/// Who is online.
#[async_trait]
pub trait OnlineUsers: Sync {
    /// Counts everybody who is online, and the others who were last seen in `span`.
    async fn count_online(&self, span: Span) -> StoreResult<OnlineCount>;

    /// What is known of each of some users, in the same order.
    async fn presence_of(&self, users: &[UserId]) -> StoreResult<Vec<UserPresence>>;

    /// In which live each of some users is, as each gateway said, in the same order.
    async fn whereabouts_of(&self, users: &[UserId]) -> StoreResult<Vec<Whereabouts>>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gateway_that_does_not_live_is_not_believed() {
        let said = |gateway: &str, live: &str| {
            (
                GatewayId::parse(gateway).unwrap(),
                LiveId::parse(live).unwrap(),
            )
        };
        let lives = vec![said("a", "1"), said("b", "2"), said("c", "3")];
        let user = UserPresence {
            online: true,
            last_seen: None,
            lives,
        };
        let live = |dead: &str| {
            user.live(|gateway| !dead.contains(gateway.as_str()))
                .map(LiveId::as_str)
        };
        assert_eq!(
            [live(""), live("c"), live("b c"), live("a b c")],
            [Some("3"), Some("2"), Some("1"), None]
        );
    }
}
