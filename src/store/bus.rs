//! The boundary for messages between gateways: the channels, their events, and the subscriptions of
//! this gateway.
//!
//! The bus may lose a message, deliver it late or deliver it twice. A gateway that may have missed
//! messages gets [`BusEvent::Ready`], [`BusEvent::Deaf`] or [`BusEvent::Lost`], and reads the
//! store. Queues are bounded: a receiver that does not keep up gets [`BusEvent::Lost`] instead of
//! the messages that it missed. Only `crate::peers` knows what the messages mean.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::{broadcast, watch};

use super::{Doubt, StoreResult};
use crate::base::ids::{GatewayId, LiveId};

/// Events that wait for a receiver; a receiver that is further behind loses the oldest.
const BACKLOG: usize = 4_096;

/// Where messages are published.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Channel {
    /// Every gateway listens, always.
    Gateways,
    /// Only gateways with a room of the live listen.
    Live(LiveId),
    /// Messages about users who came to the live or left it. Only gateways with viewers who asked
    /// for their friends there listen.
    Moves(LiveId),
    /// Words that gateways send to themselves, in the part of the store with this number: see
    /// [`Bus::echo`]. The store itself sends and reads them.
    Echo(u32),
}

impl fmt::Display for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gateways => f.write_str("all gateways"),
            Self::Live(live) => write!(f, "live {live}"),
            Self::Moves(live) => write!(f, "moves of live {live}"),
            Self::Echo(number) => write!(f, "echo {number}"),
        }
    }
}

/// An event that a receiver gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BusEvent {
    /// A message. A gateway receives its own messages, too.
    Message {
        /// The channel on which it was published.
        channel: Channel,
        /// As it was published.
        text: Arc<str>,
    },
    /// The subscription to this channel works from now on; earlier messages may have been missed.
    Ready(Channel),
    /// No messages come from channels in these slots until a channel is [`BusEvent::Ready`] again.
    Deaf(Doubt),
    /// Messages on unknown channels were lost, and other events with them: the receiver must read
    /// the store. If a [`BusEvent::Ready`] is missing after all others, the receiver asks for
    /// another one by [`Bus::ask_ready`]. If some channels are silent, [`BusEvent::Deaf`] comes
    /// again with the next failed attempt to subscribe.
    Lost,
}

/// Messages between gateways.
#[async_trait]
pub trait Bus {
    /// Publishes a message, in one attempt. Returns how many gateways were subscribed; not all of
    /// them may receive it.
    async fn publish(&self, channel: &Channel, message: String) -> StoreResult<u64>;

    /// Subscribes to a live's channel until [`Bus::unsubscribe`]. A second call changes nothing.
    fn subscribe(&self, live: &LiveId);

    /// Ends the subscription to a live's channel.
    fn unsubscribe(&self, live: &LiveId);

    /// As [`Bus::subscribe`], to the channel of a live's [`Channel::Moves`].
    fn hear_moves(&self, live: &LiveId);

    /// Ends that subscription.
    fn ignore_moves(&self, live: &LiveId);

    /// Asks for another [`BusEvent::Ready`] of a channel, once its subscription works. Does nothing
    /// without one.
    fn ask_ready(&self, channel: &Channel);

    /// A receiver of every event from now on.
    fn events(&self) -> BusEvents;

    /// Publishes a word of this gateway on every [`Channel::Echo`], in the background, and returns
    /// the numbers of the channels on which earlier words did not come back. They belong into the
    /// lease ([`crate::store::RenewLease::unheard`]); `renewal` is the number of its renewal.
    fn echo(&self, _gateway: &GatewayId, _renewal: u64) -> BTreeSet<u32> {
        BTreeSet::new()
    }

    /// The slots in which messages of some living gateway, maybe this one, do not arrive, as the
    /// leases say; `None` if all arrive. Every gateway knows within about three renewals, whatever
    /// the reason.
    fn unheard(&self) -> watch::Receiver<Option<Doubt>> {
        watch::channel(None).1
    }
}

/// A receiver of every event.
#[derive(Debug)]
pub struct BusEvents(broadcast::Receiver<BusEvent>);

impl BusEvents {
    /// Receives from this channel.
    pub fn from(events: broadcast::Receiver<BusEvent>) -> Self {
        Self(events)
    }

    /// The next event; `None` when the store is gone. May be dropped while it waits.
    pub async fn next(&mut self) -> Option<BusEvent> {
        match self.0.recv().await {
            Ok(event) => Some(event),
            Err(broadcast::error::RecvError::Lagged(_)) => Some(BusEvent::Lost),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }

    /// Whether no event waits.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The wanted channels and the receivers. Both stores build their bus on this.
#[derive(Debug)]
pub(super) struct Subscriptions {
    /// Each wanted channel, except the gateways' channel, with the ticket of its subscription. A
    /// new subscription to a channel, or [`Bus::ask_ready`], gives the channel a new ticket, so it
    /// becomes [`BusEvent::Ready`] again.
    wanted: Mutex<HashMap<Channel, u64>>,
    tickets: AtomicU64,
    changed: watch::Sender<()>,
    out: broadcast::Sender<BusEvent>,
}

impl Default for Subscriptions {
    fn default() -> Self {
        let (out, _) = broadcast::channel(BACKLOG);
        Self {
            wanted: Mutex::default(),
            tickets: AtomicU64::new(1),
            changed: watch::Sender::new(()),
            out,
        }
    }
}

impl Subscriptions {
    /// Returns true if the channel was not wanted before.
    pub(super) fn add(&self, channel: Channel) -> bool {
        let is_new = {
            let mut wanted = self.wanted.lock();
            let is_new = !wanted.contains_key(&channel);
            if is_new {
                wanted.insert(channel, self.tickets.fetch_add(1, Ordering::Relaxed));
            }
            is_new
        };
        if is_new {
            self.changed.send_replace(());
        }
        is_new
    }

    pub(super) fn remove(&self, channel: &Channel) {
        if self.wanted.lock().remove(channel).is_some() {
            self.changed.send_replace(());
        }
    }

    /// Gives a wanted channel a new ticket. Returns false if the channel is not wanted.
    pub(super) fn renew(&self, channel: &Channel) -> bool {
        let is_wanted = {
            let mut wanted = self.wanted.lock();
            match wanted.get_mut(channel) {
                Some(ticket) => {
                    *ticket = self.tickets.fetch_add(1, Ordering::Relaxed);
                    true
                }
                None => false,
            }
        };
        if is_wanted {
            self.changed.send_replace(());
        }
        is_wanted
    }

    /// The ticket of a channel; 0 for the channel of the gateways and those of echoes, `None` if the
    /// channel is not wanted.
    pub(super) fn ticket(&self, channel: &Channel) -> Option<u64> {
        match channel {
            Channel::Gateways | Channel::Echo(_) => Some(0),
            Channel::Live(_) | Channel::Moves(_) => self.wanted.lock().get(channel).copied(),
        }
    }

    pub(super) fn wants(&self, channel: &Channel) -> bool {
        self.ticket(channel).is_some()
    }

    /// The wanted channels with tickets above `seen`, which becomes the newest ticket. This is
    /// cheap if there are none. The gateways' channel and those of echoes are always wanted and have
    /// no ticket.
    pub(super) fn wanted_after(&self, seen: &mut u64) -> Vec<(Channel, u64)> {
        if self.newest_ticket() <= *seen {
            return Vec::new();
        }
        let wanted = self.wanted.lock();
        let newer = wanted.iter().filter(|(_, ticket)| **ticket > *seen);
        let newer = newer
            .map(|(channel, ticket)| (channel.clone(), *ticket))
            .collect();
        *seen = self.newest_ticket();
        newer
    }

    fn newest_ticket(&self) -> u64 {
        self.tickets.load(Ordering::Relaxed) - 1
    }

    /// Notifies when the set of wanted channels changes.
    pub(super) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Sends an event to every receiver. There may be none.
    pub(super) fn send(&self, event: BusEvent) {
        let _ = self.out.send(event);
    }

    pub(super) fn events(&self) -> BusEvents {
        BusEvents::from(self.out.subscribe())
    }
}
