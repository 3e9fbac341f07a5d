//! Collects the reasons for doubt that watchdogs, the subscriber and the topology find. One event
//! causes several reasons: a new connection, then its subscriptions, then an empty server. The
//! collector joins them into one [`Doubt`] or two.

use std::ops::RangeInclusive;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, broadcast};
use tokio::time::sleep;

use crate::base::redis_address::Host;
use crate::store::{Doubt, Doubts};

/// Minimum time between two doubts. All reasons in between become one doubt.
const GAP: Duration = Duration::from_millis(500);
/// Maximum doubts that a receiver may leave unread. A receiver that is further behind gets
/// [`Doubt::All`].
const BACKLOG: usize = 64;

#[derive(Debug)]
pub(crate) struct DoubtCollector {
    found: Mutex<Reasons>,
    wake: Notify,
    out: broadcast::Sender<Doubt>,
}

#[derive(Debug, Default)]
struct Reasons {
    all: bool,
    /// Servers whose slots are in doubt: those that they have when the collector sends the doubt.
    hosts: Vec<Host>,
    slots: Vec<RangeInclusive<u16>>,
}

impl Default for DoubtCollector {
    fn default() -> Self {
        Self {
            found: Mutex::default(),
            wake: Notify::new(),
            out: broadcast::channel(BACKLOG).0,
        }
    }
}

impl DoubtCollector {
    pub(crate) fn of_all(&self) {
        self.add(|reasons| reasons.all = true);
    }

    pub(crate) fn of_node(&self, host: &Host) {
        self.add(|reasons| {
            if !reasons.hosts.contains(host) {
                reasons.hosts.push(host.clone());
            }
        });
    }

    pub(crate) fn of_slots(&self, slots: Vec<RangeInclusive<u16>>) {
        self.add(|reasons| reasons.slots.extend(slots));
    }

    pub(crate) fn subscribe(&self) -> Doubts {
        Doubts::from(self.out.subscribe())
    }

    /// Sends doubts to the receivers, for ever. `slots_if_up` answers the slots of a server, or
    /// none while it is down: the data of such a server is in doubt anyway once it is up.
    pub(crate) async fn send_doubts(
        &self,
        slots_if_up: impl Fn(&Host) -> Vec<RangeInclusive<u16>>,
    ) {
        loop {
            self.wake.notified().await;
            let doubt = self.take(&slots_if_up);
            if let Some(doubt) = doubt {
                tracing::debug!(?doubt, "data in redis must be checked");
                let _ = self.out.send(doubt);
            }
            sleep(GAP).await;
        }
    }

    fn add(&self, change: impl FnOnce(&mut Reasons)) {
        change(&mut self.found.lock());
        self.wake.notify_one();
    }

    fn take(&self, slots_if_up: impl Fn(&Host) -> Vec<RangeInclusive<u16>>) -> Option<Doubt> {
        let Reasons {
            all,
            hosts,
            mut slots,
        } = std::mem::take(&mut *self.found.lock());
        if all {
            return Some(Doubt::All);
        }
        slots.extend(hosts.iter().flat_map(slots_if_up));
        Doubt::of_slots(slots)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::store::Slot;

    #[tokio::test(start_paused = true)]
    async fn the_first_reason_is_sent_at_once_and_later_ones_together() {
        let collector = Arc::new(DoubtCollector::default());
        let mut doubts = collector.subscribe();
        tokio::spawn({
            let collector = Arc::clone(&collector);
            async move { collector.send_doubts(|_| Vec::new()).await }
        });
        collector.of_slots(vec![1..=1]);
        let first = doubts.next().await.unwrap();
        assert!(first.covers(Slot(1)) && !first.covers(Slot(2)));
        for slot in 2..100 {
            collector.of_slots(vec![slot..=slot]);
        }
        assert_eq!(doubts.next().await.unwrap(), Doubt::Slots([2..=99].into()));
        collector.of_slots(vec![1..=1]);
        collector.of_all();
        assert_eq!(doubts.next().await, Some(Doubt::All));
    }
}
