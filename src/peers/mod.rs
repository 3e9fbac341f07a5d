//! What gateways tell each other over the store's channels: counts, changed records, follows,
//! moves, doubt ([`message`]).
//!
//! No message is repeated once it was published, and a script that changes a record publishes that
//! in the same step. So only a gateway that was cut off misses a message. It knows that it was, and
//! checks everything that it holds. It also asks its peers how many viewers they have, since no
//! check tells that.
//!
//! The [`publisher`] sends, the [`subscriber`] receives. A room's counts go out at most once per
//! flush interval, and only on change. The room is only marked until then; the publisher sends the
//! counts as they are at that moment.

pub mod core;
pub mod message;
pub mod publisher;
pub mod subscriber;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::base::clock::Millis;
use crate::base::ids::{LiveId, UserId};
use crate::base::metrics::Metrics;
use crate::presence::confirmed::SliceConfirmed;
use crate::presence::gateways::Gateways;
use crate::presence::moves::MOST_USERS;
use crate::presence::queue::Queue;
use crate::presence::shape::LiveShape;
use crate::store::{Channel, EndedSession, LiveEpoch};
use message::PeerMessage;

/// About the most messages, besides counts, that may wait; further ones are dropped and counted.
const MAX_MESSAGES: usize = 4_096;

/// Messages that wait for the publisher, besides counts.
pub struct PeerQueue {
    gateways: Arc<Gateways>,
    metrics: Arc<Metrics>,
    /// The number of the last message about counts.
    number: AtomicU64,
    messages: Queue<(Channel, PeerMessage)>,
}

impl PeerQueue {
    pub fn new(gateways: Arc<Gateways>, metrics: Arc<Metrics>) -> Self {
        Self {
            gateways,
            metrics,
            number: AtomicU64::new(0),
            messages: Queue::default(),
        }
    }

    /// Has the peers check a live, because the store lost a part of it.
    pub fn doubt(&self, live: &LiveId) {
        self.post(Channel::Live(live.clone()), PeerMessage::Doubt);
    }

    /// Has the peers look again at what they hold of a set of the platform: another program wrote
    /// there.
    pub fn doubt_platform(&self) {
        self.post(Channel::Gateways, PeerMessage::Doubt);
    }

    /// Tells the peers that the streamer of these lives left this gateway, after being silent for
    /// this long.
    pub fn streamer_gone(&self, lives: &[LiveId], silent: Millis) {
        self.post(
            Channel::Gateways,
            PeerMessage::Gone {
                lives: lives.to_owned(),
                silent,
            },
        );
    }

    /// Tells the gateways whose viewers asked for their friends in a live that users came or left.
    pub fn moved(&self, live: &LiveId, users: &[UserId]) {
        for users in users.chunks(MOST_USERS) {
            let message = PeerMessage::Moved {
                users: users.to_owned(),
                anybody: false,
            };
            self.post(Channel::Moves(live.clone()), message);
        }
    }

    /// Tells the peers how many viewers are confirmed in some slices of a live.
    pub fn confirmed(&self, of: &LiveEpoch, slices: Vec<SliceConfirmed>) {
        let message = PeerMessage::Confirmed {
            epoch: of.epoch,
            slices,
        };
        self.post(Channel::Live(of.live.clone()), message);
    }

    pub fn follow(&self, user: &UserId, streamer: &UserId) {
        let message = PeerMessage::Follow {
            user: user.clone(),
            streamer: streamer.clone(),
        };
        self.post(Channel::Gateways, message);
    }

    /// Tells that the rules of moderation changed.
    pub fn rules_changed(&self) {
        self.post(Channel::Gateways, PeerMessage::Rules);
    }

    /// Asks the other gateways how the viewers of a live spread there.
    pub fn shape_asked(&self, question: u64, of: &LiveEpoch) {
        let message = PeerMessage::ShapeAsked {
            question,
            live: of.live.clone(),
            epoch: of.epoch,
        };
        self.post(Channel::Gateways, message);
    }

    /// Answers such a question.
    pub fn shape(&self, question: u64, shape: LiveShape) {
        self.post(Channel::Gateways, PeerMessage::Shape { question, shape });
    }

    fn post(&self, on: Channel, message: PeerMessage) {
        if self.messages.len() < MAX_MESSAGES {
            self.messages.push((on, message));
        } else {
            Metrics::count(&self.metrics.peer_messages_ignored, "too_many_to_tell");
        }
    }

    // ------------------------------------ the texts that scripts publish when they change a record

    /// "The record of this live changed", from this gateway.
    pub fn record_changed(&self) -> String {
        PeerMessage::Record.text(&self.gateways.id())
    }

    /// "Check this live", from this gateway.
    pub fn live_doubted(&self) -> String {
        PeerMessage::Doubt.text(&self.gateways.id())
    }

    /// "Tell who comes to this live and who leaves it", from this gateway.
    pub fn friends_asked(&self) -> String {
        PeerMessage::FriendsAsked.text(&self.gateways.id())
    }

    /// "These ids of sessions without a socket are over", from this gateway.
    pub fn sessions_ended(&self, sessions: &[EndedSession]) -> String {
        let message = PeerMessage::SessionsEnded {
            sessions: sessions.to_owned(),
        };
        message.text(&self.gateways.id())
    }

    /// The number of a message about counts: above zero, and above those of earlier ones. Taken
    /// before the viewers are counted, so that a later change has a higher number.
    fn next_number(&self) -> u64 {
        self.number.fetch_add(1, Ordering::Relaxed) + 1
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::presence::shape::{MINUTES, MOST_NETWORKS};
    use crate::store::MAX_MESSAGE;

    #[test]
    fn messages_about_many_users_with_the_longest_ids_fit() {
        let gateways = Arc::new(Gateways::new(
            Duration::from_secs(10),
            Duration::from_secs(2),
        ));
        let (queue, own) = (
            PeerQueue::new(gateways.clone(), Arc::default()),
            gateways.id(),
        );
        let users: Vec<UserId> = (0..1_000)
            .map(|n| UserId::parse(&format!("{n:0>64}")).unwrap())
            .collect();
        queue.moved(&LiveId::parse(&"9".repeat(64)).unwrap(), &users);
        let mut told = Vec::new();
        for (_, message) in queue.messages.take() {
            let text = message.text(&own);
            assert!(text.len() <= MAX_MESSAGE, "{} bytes", text.len());
            let PeerMessage::Moved { users, .. } = message else {
                unreachable!()
            };
            told.extend(users);
        }
        assert_eq!(told, users);
        let shape = LiveShape {
            joined: vec![u64::MAX; MINUTES + 1],
            networks: vec![(u64::MAX, u64::MAX); MOST_NETWORKS],
            ..LiveShape::default()
        };
        queue.shape(u64::MAX, shape);
        let (_, message) = queue.messages.take().pop().unwrap();
        assert!(message.text(&own).len() <= MAX_MESSAGE);
    }
}
