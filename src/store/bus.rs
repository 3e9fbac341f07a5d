//! The boundary for messages between gateways: channels, what is heard on them, and which channels are wanted.
//!
//! The bus may lose a message, deliver it late or deliver it twice. A gateway that may have missed messages is told so,
//! by [`BusEvent::Ready`], [`BusEvent::Deaf`] or [`BusEvent::Lost`], and reads the store. Queues are bounded: a
//! receiver that does not keep up gets [`BusEvent::Lost`] instead of what it missed. What the messages mean is
//! `crate::peers`'s business.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::{broadcast, watch};

use super::{Doubt, StoreResult};
use crate::base::ids::LiveId;

/// Events that wait for a receiver; beyond that it loses the oldest.
const BACKLOG: usize = 4_096;

/// Where messages are published.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Channel {
    /// Every gateway listens, always.
    Gateways,
    /// Only gateways with a room of the live listen.
    Live(LiveId),
}

impl fmt::Display for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gateways => f.write_str("all gateways"),
            Self::Live(live) => write!(f, "live {live}"),
        }
    }
}

/// What a receiver hears.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BusEvent {
    /// A message, this gateway's own among them.
    Message {
        /// Where it was published.
        channel: Channel,
        /// As it was published.
        text: Arc<str>,
    },
    /// From here on messages on this channel are heard; earlier ones may have been missed.
    Ready(Channel),
    /// Nothing is heard of what lies in these slots, until a channel is [`BusEvent::Ready`] anew.
    Deaf(Doubt),
    /// Messages were lost, on whichever channels: read again what matters.
    Lost,
}

/// Messages between gateways.
#[async_trait]
pub trait Bus {
    /// Publishes a message. One attempt; `Ok` does not mean that anybody heard it.
    async fn publish(&self, channel: &Channel, message: String) -> StoreResult<()>;

    /// Wants the messages on a live's channel, until [`Bus::unsubscribe`]. A second call changes nothing.
    fn subscribe(&self, live: &LiveId);

    /// Wants no more messages on a live's channel.
    fn unsubscribe(&self, live: &LiveId);

    /// What is heard from now on.
    fn events(&self) -> BusEvents;
}

/// One receiver of everything that is heard.
#[derive(Debug)]
pub struct BusEvents(broadcast::Receiver<BusEvent>);

impl BusEvents {
    /// The next event; `None` when the store is gone. May be dropped while it waits.
    pub async fn next(&mut self) -> Option<BusEvent> {
        match self.0.recv().await {
            Ok(event) => Some(event),
            Err(broadcast::error::RecvError::Lagged(_)) => Some(BusEvent::Lost),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }
}

/// The channels that are wanted, and the way to the receivers: what the bus of every store is made of.
#[derive(Debug)]
pub(super) struct Subscriptions {
    /// Each with the ticket of its subscription: wanted anew, a channel is ready anew.
    wanted: Mutex<HashMap<LiveId, u64>>,
    tickets: AtomicU64,
    changed: watch::Sender<()>,
    out: broadcast::Sender<BusEvent>,
}

impl Default for Subscriptions {
    fn default() -> Self {
        let (out, _) = broadcast::channel(BACKLOG);
        Self { wanted: Mutex::default(), tickets: AtomicU64::new(1), changed: watch::Sender::new(()), out }
    }
}

impl Subscriptions {
    /// True if the channel was not wanted before.
    pub(super) fn add(&self, live: &LiveId) -> bool {
        let is_new = {
            let mut wanted = self.wanted.lock();
            let is_new = !wanted.contains_key(live);
            if is_new {
                wanted.insert(live.clone(), self.tickets.fetch_add(1, Ordering::Relaxed));
            }
            is_new
        };
        if is_new {
            self.changed.send_replace(());
        }
        is_new
    }

    pub(super) fn remove(&self, live: &LiveId) {
        if self.wanted.lock().remove(live).is_some() {
            self.changed.send_replace(());
        }
    }

    pub(super) fn wants(&self, channel: &Channel) -> bool {
        match channel {
            Channel::Gateways => true,
            Channel::Live(live) => self.wanted.lock().contains_key(live),
        }
    }

    /// Every channel that is wanted, each with its ticket.
    pub(super) fn wanted(&self) -> Vec<(Channel, u64)> {
        let lives = self.wanted.lock();
        let lives = lives.iter().map(|(live, ticket)| (Channel::Live(live.clone()), *ticket));
        std::iter::once((Channel::Gateways, 0)).chain(lives).collect()
    }

    /// Tells when the set of wanted channels changes.
    pub(super) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Hands an event to every receiver, of which there may be none.
    pub(super) fn send(&self, event: BusEvent) {
        let _ = self.out.send(event);
    }

    pub(super) fn events(&self) -> BusEvents {
        BusEvents(self.out.subscribe())
    }
}
