//! What gateways tell each other over the store's channels: counts, changed records, follows, moves, doubt
//! ([`message`]).
//!
//! No message is repeated. One call writes a gateway's viewers to the store and publishes them; a script that changes a
//! record publishes that in the same step. So only a gateway that was cut off misses a message. It knows that it was
//! cut off, and checks everything that it holds.
//!
//! The [`publisher`] sends, the [`subscriber`] receives. A room's counts go out at most once per flush interval, and
//! only on change. The room is only marked until then; the publisher sends the counts as they are at that moment.

pub mod message;
pub mod publisher;
pub mod subscriber;
pub mod survey;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::base::clock::Millis;
use crate::base::ids::{LiveId, UserId};
use crate::base::metrics::Metrics;
use crate::presence::gateways::Gateways;
use crate::presence::queue::Queue;
use crate::store::Channel;
use message::PeerMessage;
use survey::Surveys;

/// About the most messages, besides counts, that may wait; further ones are dropped and counted.
const MAX_MESSAGES: usize = 4_096;

/// Each gateway numbers its announcements of viewers from a random number below this one. Checks compare the sum of
/// several gateways' numbers, so numbers of different announcements must not coincide. A script can still hold the sum
/// of the numbers of 1,024 gateways.
const FIRST_NUMBER: u64 = 1 << 40;

/// Messages that wait for the publisher, besides counts.
pub struct Outbox {
    gateways: Arc<Gateways>,
    metrics: Arc<Metrics>,
    number: AtomicU64,
    messages: Queue<(Channel, PeerMessage)>,
}

impl Outbox {
    pub fn new(gateways: Arc<Gateways>, metrics: Arc<Metrics>) -> Self {
        Self {
            gateways,
            metrics,
            number: AtomicU64::new(rand::random_range(1..FIRST_NUMBER)),
            messages: Queue::default(),
        }
    }

    /// Has the peers check a live of which the store lost something.
    pub fn doubt(&self, live: &LiveId) {
        self.post(Channel::Live(live.clone()), PeerMessage::Doubt);
    }

    /// Tells the peers that the streamer of these lives left this gateway, after being silent for this long.
    pub fn streamer_gone(&self, lives: &[LiveId], silent: Millis) {
        self.post(Channel::Gateways, PeerMessage::Gone { lives: lives.to_owned(), silent });
    }

    /// Tells whoever asked for their friends in a live that users came to it or left it.
    pub fn moved(&self, live: LiveId, users: Vec<UserId>) {
        self.post(Channel::Moves(live), PeerMessage::Moved { users, anybody: false });
    }

    /// Tells all gateways, this one too, that these users are in no list from now on.
    pub fn hidden(&self, users: &[UserId]) {
        self.post(Channel::Gateways, PeerMessage::Hidden { users: users.to_owned() });
    }

    pub fn follow(&self, user: &UserId, streamer: &UserId) {
        let message = PeerMessage::Follow { user: user.clone(), streamer: streamer.clone() };
        self.post(Channel::Gateways, message);
    }

    /// Tells all gateways, this one too, what the walk found.
    pub fn surveyed(&self, surveys: Surveys) {
        for message in surveys.finish() {
            self.post(Channel::Gateways, message);
        }
    }

    fn post(&self, on: Channel, message: PeerMessage) {
        if self.messages.len() < MAX_MESSAGES {
            self.messages.push((on, message));
        } else {
            Metrics::count(&self.metrics.words_ignored, "too_many_to_tell");
        }
    }

    // ---------------------------------------------------- the texts that scripts publish when they change a record

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

    // ------------------------------------------------------------------------- the numbers of viewers' announcements

    /// Makes the next announcement of viewers have a higher number than this.
    pub fn outnumber(&self, number: u64) {
        self.number.fetch_max(number + 1, Ordering::Relaxed);
    }

    /// Taken before the viewers are counted, so that a later change is announced with a higher number.
    fn next_number(&self) -> u64 {
        self.number.fetch_add(1, Ordering::Relaxed)
    }
}
