//! Which connections a port has, to whom they count, and which of them is closed first. State only:
//! `now` comes in.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How long a connection may take to send a request when others wait for its slot. An honest
/// handshake takes milliseconds.
pub(super) const GRACE: Duration = Duration::from_secs(1);

/// How long an answer may be on its way before its connection gives way to one of somebody who
/// holds as many.
const ON_ITS_WAY: Duration = Duration::from_millis(100);

/// How long to wait before looking again when every connection is busy. Requests end soon.
pub(super) const RETRY: Duration = Duration::from_millis(50);

/// To whom connections count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Holder {
    /// Clients on this machine, trusted proxies, and a balancer that has not said yet who its
    /// client is.
    Unbounded,
    /// The clients of one address, or of one IPv6 network of 64 bits.
    Network(u64),
}

/// What a connection does.
#[derive(Debug, Clone, Copy)]
pub(super) enum Stage {
    /// It has sent no whole request since this time.
    Begun(Instant),
    /// A request is being answered.
    Busy,
    /// Its last request was answered at this time.
    Answered(Instant),
}

#[derive(Debug)]
struct Entry {
    holder: Holder,
    stage: Stage,
    evicted: CancellationToken,
}

/// The connections of one holder: those that could be closed, by the time since which they wait.
#[derive(Debug, Default)]
struct Held {
    count: usize,
    begun: BTreeSet<(Instant, u64)>,
    answered: BTreeSet<(Instant, u64)>,
}

#[derive(Debug, Default)]
pub(super) struct Table {
    connections: HashMap<u64, Entry>,
    holders: HashMap<Holder, Held>,
    by_count: BTreeSet<(usize, Holder)>,
    last: u64,
}

impl Held {
    fn waiting(&mut self, stage: Stage) -> Option<(&mut BTreeSet<(Instant, u64)>, Instant)> {
        match stage {
            Stage::Begun(since) => Some((&mut self.begun, since)),
            Stage::Answered(since) => Some((&mut self.answered, since)),
            Stage::Busy => None,
        }
    }

    fn put(&mut self, number: u64, stage: Stage) {
        if let Some((waiting, since)) = self.waiting(stage) {
            waiting.insert((since, number));
        }
    }

    fn take(&mut self, number: u64, stage: Stage) {
        if let Some((waiting, since)) = self.waiting(stage) {
            waiting.remove(&(since, number));
        }
    }
}

impl Table {
    /// Adds a connection that has just begun; answers its number.
    pub(super) fn add(&mut self, holder: Holder, now: Instant, evicted: CancellationToken) -> u64 {
        self.last += 1;
        let number = self.last;
        let stage = Stage::Begun(now);
        self.connections.insert(
            number,
            Entry {
                holder,
                stage,
                evicted,
            },
        );
        self.enter(holder, number, stage);
        number
    }

    pub(super) fn remove(&mut self, number: u64) {
        if let Some(entry) = self.connections.remove(&number) {
            self.leave(entry.holder, number, entry.stage);
        }
        if self.connections.is_empty() {
            // After a herd.
            *self = Self {
                last: self.last,
                ..Self::default()
            };
        }
    }

    /// Tells a connection to end. It counts no more.
    pub(super) fn evict(&mut self, number: u64) {
        if let Some(entry) = self.connections.get(&number) {
            entry.evicted.cancel();
        }
        self.remove(number);
    }

    pub(super) fn note(&mut self, number: u64, stage: Stage) {
        let Some(entry) = self.connections.get_mut(&number) else {
            return;
        };
        let before = std::mem::replace(&mut entry.stage, stage);
        if let Some(held) = self.holders.get_mut(&entry.holder) {
            held.take(number, before);
            held.put(number, stage);
        }
    }

    pub(super) fn give_to(&mut self, number: u64, holder: Holder) {
        let Some(entry) = self.connections.get_mut(&number) else {
            return;
        };
        let before = std::mem::replace(&mut entry.holder, holder);
        let stage = entry.stage;
        self.leave(before, number, stage);
        self.enter(holder, number, stage);
    }

    pub(super) fn holder_of(&self, number: u64) -> Option<Holder> {
        self.connections.get(&number).map(|entry| entry.holder)
    }

    pub(super) fn held_by(&self, holder: Holder) -> usize {
        self.holders.get(&holder).map_or(0, |held| held.count)
    }

    /// Which connection of a holder is closed for another one of the same holder.
    pub(super) fn idlest_of(&self, holder: Holder, now: Instant) -> Option<u64> {
        let held = self.holders.get(&holder)?;
        let is_older =
            |(since, _): &&(Instant, u64), grace| now.saturating_duration_since(*since) >= grace;
        // An answer may still be on its way to the client.
        let answered = held
            .answered
            .first()
            .filter(|entry| is_older(entry, ON_ITS_WAY));
        let begun = held.begun.first().filter(|entry| is_older(entry, GRACE));
        let idlest = answered.or(begun).or_else(|| held.answered.first());
        idlest.map(|(_, number)| *number)
    }

    /// Which connection is closed for one of `newcomer`; if none can be now, when to ask again.
    pub(super) fn victim(&self, newcomer: Holder, now: Instant) -> Result<u64, Duration> {
        let own = self.held_by(newcomer);
        for (_, holder) in self
            .by_count
            .iter()
            .rev()
            .take_while(|(count, _)| *count > own + 1)
        {
            let Some(held) = self.holders.get(holder) else {
                continue;
            };
            // Behind a proxy are many clients, most of which hold one connection.
            let begun = held.begun.first().filter(|_| *holder != Holder::Unbounded);
            if let Some((_, number)) = held.answered.first().or(begun) {
                return Ok(*number);
            }
        }
        let answered = self
            .holders
            .values()
            .filter_map(|held| held.answered.first())
            .min();
        let begun = self
            .holders
            .values()
            .filter_map(|held| held.begun.first())
            .min();
        let mut wait = RETRY;
        for (idlest, grace) in [(answered, ON_ITS_WAY), (begun, GRACE)] {
            let Some((since, number)) = idlest else {
                continue;
            };
            let left = (*since + grace).saturating_duration_since(now);
            if left.is_zero() {
                return Ok(*number);
            }
            wait = wait.min(left);
        }
        Err(wait)
    }

    fn enter(&mut self, holder: Holder, number: u64, stage: Stage) {
        let held = self.holders.entry(holder).or_default();
        self.by_count.remove(&(held.count, holder));
        held.count += 1;
        self.by_count.insert((held.count, holder));
        held.put(number, stage);
    }

    fn leave(&mut self, holder: Holder, number: u64, stage: Stage) {
        let Some(held) = self.holders.get_mut(&holder) else {
            return;
        };
        self.by_count.remove(&(held.count, holder));
        held.count -= 1;
        held.take(number, stage);
        if held.count == 0 {
            self.holders.remove(&holder);
        } else {
            self.by_count.insert((held.count, holder));
        }
    }

    #[cfg(test)]
    pub(super) fn size(&self) -> usize {
        self.connections.len() + self.holders.len() + self.by_count.len()
    }
}
