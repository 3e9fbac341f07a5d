//! The connections of a port: to whom they count, and which of them is closed first. The table is
//! only state: the caller passes `now`.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How long a connection may take to send a request when others wait for its slot. An honest
/// handshake takes milliseconds.
pub(super) const GRACE: Duration = Duration::from_secs(1);

/// How long an answer may be on its way before its connection gives way to one of a holder with as
/// many connections.
const ON_ITS_WAY: Duration = Duration::from_millis(100);

/// How long to wait before the next look when every connection is busy. Requests end soon.
pub(super) const RETRY_DELAY: Duration = Duration::from_millis(50);

/// The holder of connections, to whom they count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Holder {
    /// Clients on this machine, trusted proxies, and a balancer that has not said yet who its
    /// client is.
    Unbounded,
    /// The clients of one address, or of one IPv6 network of 64 bits.
    Network(u64),
}

/// The stage of a connection.
#[derive(Debug, Clone, Copy)]
pub(super) enum ConnectionStage {
    /// It has sent no whole request since this time.
    Begun(Instant),
    /// A request is being answered.
    Busy,
    /// Its last request was answered at this time.
    Answered(Instant),
}

#[derive(Debug)]
struct PendingEntry {
    holder: Holder,
    stage: ConnectionStage,
    evicted: CancellationToken,
}

/// The connections of one holder. The sets have those that could be closed, ordered by the time
/// since which they wait.
#[derive(Debug, Default)]
struct HeldConnections {
    count: usize,
    begun: BTreeSet<(Instant, u64)>,
    answered: BTreeSet<(Instant, u64)>,
}

#[derive(Debug, Default)]
pub(super) struct ConnectionTable {
    connections: HashMap<u64, PendingEntry>,
    holders: HashMap<Holder, HeldConnections>,
    by_count: BTreeSet<(usize, Holder)>,
    last: u64,
}

impl HeldConnections {
    fn put(&mut self, number: u64, stage: ConnectionStage) {
        match stage {
            ConnectionStage::Begun(since) => {
                self.begun.insert((since, number));
            }
            ConnectionStage::Answered(since) => {
                self.answered.insert((since, number));
            }
            ConnectionStage::Busy => {}
        }
    }

    fn take(&mut self, number: u64, stage: ConnectionStage) {
        match stage {
            ConnectionStage::Begun(since) => {
                self.begun.remove(&(since, number));
            }
            ConnectionStage::Answered(since) => {
                self.answered.remove(&(since, number));
            }
            ConnectionStage::Busy => {}
        }
    }
}

/// The connection that has waited longer, of up to two.
fn earlier<'a>(
    one: Option<&'a (Instant, u64)>,
    other: Option<&'a (Instant, u64)>,
) -> Option<&'a (Instant, u64)> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (Some(only), None) | (None, Some(only)) => Some(only),
        (None, None) => None,
    }
}

impl ConnectionTable {
    /// Adds a connection that has just begun; returns its number.
    pub(super) fn add(&mut self, holder: Holder, now: Instant, evicted: CancellationToken) -> u64 {
        self.last += 1;
        let number = self.last;
        let stage = ConnectionStage::Begun(now);
        self.connections.insert(
            number,
            PendingEntry {
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
            // Gives back the memory that a herd took.
            *self = Self {
                last: self.last,
                ..Self::default()
            };
        }
    }

    /// Tells a connection to end, and removes it.
    pub(super) fn evict(&mut self, number: u64) {
        if let Some(entry) = self.connections.get(&number) {
            entry.evicted.cancel();
        }
        self.remove(number);
    }

    pub(super) fn note(&mut self, number: u64, stage: ConnectionStage) {
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
        match self.holders.get(&holder) {
            Some(held) => held.count,
            None => 0,
        }
    }

    /// The connection of a holder to close for another one of the same holder.
    pub(super) fn idlest_of(&self, holder: Holder, now: Instant) -> Option<u64> {
        let held = self.holders.get(&holder)?;
        let answered = held.answered.first();
        if let Some((since, number)) = answered
            && now.saturating_duration_since(*since) >= ON_ITS_WAY
        {
            return Some(*number);
        }
        if let Some((since, number)) = held.begun.first()
            && now.saturating_duration_since(*since) >= GRACE
        {
            return Some(*number);
        }
        // Its answer may still be on its way to the client.
        answered.map(|(_, number)| *number)
    }

    /// The connection to close for one of `newcomer`.
    ///
    /// # Errors
    /// How long to wait before the next call, if no connection can be closed now.
    pub(super) fn victim(&self, newcomer: Holder, now: Instant) -> Result<u64, Duration> {
        let own = self.held_by(newcomer);
        for (count, holder) in self.by_count.iter().rev() {
            if *count <= own + 1 {
                break;
            }
            let Some(held) = self.holders.get(holder) else {
                continue;
            };
            if let Some((_, number)) = held.answered.first() {
                return Ok(*number);
            }
            // Behind a proxy are many clients, most of which hold one connection.
            if *holder != Holder::Unbounded
                && let Some((_, number)) = held.begun.first()
            {
                return Ok(*number);
            }
        }
        let mut answered = None;
        let mut begun = None;
        for held in self.holders.values() {
            answered = earlier(answered, held.answered.first());
            begun = earlier(begun, held.begun.first());
        }
        let mut wait = RETRY_DELAY;
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

    fn enter(&mut self, holder: Holder, number: u64, stage: ConnectionStage) {
        let held = self.holders.entry(holder).or_default();
        self.by_count.remove(&(held.count, holder));
        held.count += 1;
        self.by_count.insert((held.count, holder));
        held.put(number, stage);
    }

    fn leave(&mut self, holder: Holder, number: u64, stage: ConnectionStage) {
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
