//! The boundary for the users who are online on the platform: how many there are, and the presence
//! of some users. These calls only read: the flusher writes the users who are online, with the code
//! that writes the viewers of lives.

use super::calls::calls;
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

/// The presence of a user.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UserPresence {
    /// Whether the user has a socket.
    pub online: bool,
    /// When the user was seen last; `None` for a user who is online, or was forgotten.
    pub last_seen: Option<UnixMillis>,
    /// The lives of a user who is online, by the word of each gateway. Callers ignore the words of
    /// dead gateways.
    pub lives: Whereabouts,
}

/// The lives in which a user is, by the word of each gateway. Among the lives of one gateway, the
/// live joined last comes last.
pub type Whereabouts = Vec<(GatewayId, LiveId)>;

impl UserPresence {
    /// The live that the user joined last, by the last word of a living gateway.
    pub fn live(&self, is_living: impl Fn(&GatewayId) -> bool) -> Option<&LiveId> {
        self.lives
            .iter()
            .rev()
            .find(|(gateway, _)| is_living(gateway))
            .map(|(_, live)| live)
    }
}

calls! {
    /// The users who are online.
    pub trait OnlineUsers {
        /// Counts all users who are online, and the others who were last seen in `span`.
        async fn count_online(&self, span: Span) -> StoreResult<OnlineCount>, reads;

        /// The presence of each user, in the same order.
        async fn presence_of(&self, users: &[UserId]) -> StoreResult<Vec<UserPresence>>,
            reads at UserSlices(users);

        /// The lives of each user, by the word of each gateway, in the same order.
        async fn whereabouts_of(&self, users: &[UserId]) -> StoreResult<Vec<Whereabouts>>,
            reads at UserSlices(users);
    }
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
