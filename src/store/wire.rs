//! Owns the boundary for words between gateways: channels, what is heard on them, and who wants to hear.
//!
//! Lossy by contract: a word may be lost, come late or come twice; but whoever may have missed one is told so, by
//! [`Heard::Ready`], [`Heard::Deaf`] or [`Heard::Lost`], and reads the store. Bounded: who does not keep up is told [`Heard::Lost`] instead
//! of what it missed. What the words mean is [`crate::gossip`]'s business.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::{broadcast, watch};

use super::{Doubt, StoreResult};
use crate::ids::LiveId;

/// Words that wait to be heard; beyond that the oldest are lost.
const BACKLOG: usize = 4_096;

/// Where words are told.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Channel {
    /// Every gateway listens, always.
    Gateways,
    /// Only those listen that have a room of the live.
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

/// What is heard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    /// A word, this gateway's own among them.
    Word {
        /// Where.
        on: Channel,
        /// What, as it was told.
        text: Arc<str>,
    },
    /// From here on words on this channel are heard; earlier ones may have been missed.
    Ready(Channel),
    /// Nothing is heard of what lies in these slots, until a channel is [`Heard::Ready`] anew.
    Deaf(Doubt),
    /// Words were lost, on whichever channels: read again what matters.
    Lost,
}

/// Words between gateways.
#[async_trait]
pub trait Wire {
    /// Tells all who listen. One attempt; `Ok` does not mean that anybody heard it.
    async fn tell(&self, on: &Channel, word: String) -> StoreResult<()>;

    /// Wants to hear the words on a live's channel, now and until [`Wire::unlisten`]. Said again, it changes nothing.
    fn listen(&self, live: &LiveId);

    /// Wants them no more.
    fn unlisten(&self, live: &LiveId);

    /// What is heard from now on.
    fn hear(&self) -> Hearing;
}

/// One receiver of all that is heard.
#[derive(Debug)]
pub struct Hearing(broadcast::Receiver<Heard>);

impl Hearing {
    /// The next thing heard; `None` when the store is gone. May be dropped while it waits.
    pub async fn next(&mut self) -> Option<Heard> {
        match self.0.recv().await {
            Ok(heard) => Some(heard),
            Err(broadcast::error::RecvError::Lagged(_)) => Some(Heard::Lost),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }
}

/// The set of channels that are wanted, and the way to those who hear; what every store's wire is made of.
#[derive(Debug)]
pub(super) struct Switchboard {
    /// Each with the ticket of its wish: wanted anew, a channel is ready anew.
    wanted: Mutex<HashMap<LiveId, u64>>,
    tickets: AtomicU64,
    changed: watch::Sender<()>,
    out: broadcast::Sender<Heard>,
}

impl Default for Switchboard {
    fn default() -> Self {
        let (out, _) = broadcast::channel(BACKLOG);
        Self { wanted: Mutex::default(), tickets: AtomicU64::new(1), changed: watch::Sender::new(()), out }
    }
}

impl Switchboard {
    /// True if it was not wanted before.
    pub(super) fn want(&self, live: &LiveId) -> bool {
        let news = {
            let mut wanted = self.wanted.lock();
            let known = wanted.contains_key(live);
            if !known {
                wanted.insert(live.clone(), self.tickets.fetch_add(1, Ordering::Relaxed));
            }
            !known
        };
        if news {
            self.changed.send_replace(());
        }
        news
    }

    pub(super) fn unwant(&self, live: &LiveId) {
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

    /// Tells when the wanted set changes.
    pub(super) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Hands on what was heard, to nobody if nobody hears.
    pub(super) fn cry(&self, heard: Heard) {
        let _ = self.out.send(heard);
    }

    pub(super) fn hear(&self) -> Hearing {
        Hearing(self.out.subscribe())
    }
}
