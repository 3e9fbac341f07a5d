//! Decides which gateways are heard on which masters. This file is pure: leases, beats and times go
//! in, and the gateways that are not heard come out. [`super::beats`] makes the calls.
//!
//! A gateway sends a *beat* to every master with each renewal of its lease, and the beat has the
//! count of that lease. So a gateway that reads a count in the leases has heard the beat with it,
//! or hears it in a moment. If not, messages of the other gateway do not arrive from that master:
//! the other gateway cannot publish, its messages are lost on the way, or the reader receives
//! nothing. A gateway whose lease stands still is not expected to be heard.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use tokio::time::Instant;

use crate::base::ids::GatewayId;

/// How much later than the count of its lease a gateway's beat may arrive.
pub(super) const GRACE: Duration = Duration::from_secs(1);
/// Maximum time until all gateways know a new master, or one that took slots over.
const NEW_CHANNEL: Duration = Duration::from_secs(10);

/// The number of a channel of beats, and a gateway that is not heard there.
pub(super) type Unheard = (u32, GatewayId);

#[derive(Debug, Default)]
pub(super) struct Hearing {
    gateways: HashMap<GatewayId, Counts>,
    /// The channels of beats, one per master. Each has the time from which a beat that does not come
    /// counts as missing.
    channels: HashMap<u32, Instant>,
    /// The highest count in the beats of a gateway on a channel.
    heard: HashMap<Unheard, u64>,
    missing: HashMap<Unheard, Missing>,
    has_looked: bool,
}

/// The counts of a gateway's lease.
#[derive(Debug)]
struct Counts {
    /// The count in the first look that found the gateway. The beat with this count may have come
    /// before the subscription.
    first: u64,
    newest: u64,
}

/// A beat that did not come.
#[derive(Debug)]
struct Missing {
    count: u64,
    /// When that count was read in the leases.
    since: Instant,
    /// It is missing for longer than [`GRACE`].
    is_overdue: bool,
}

impl Missing {
    fn begin(count: u64, now: Instant) -> Self {
        Self {
            count,
            since: now,
            is_overdue: false,
        }
    }
}

impl Hearing {
    /// Takes in the leases that were just read: each living gateway with its count. `channels` are
    /// the channels that the masters have now.
    pub(super) fn looked(&mut self, living: &[(GatewayId, u64)], channels: &[u32], now: Instant) {
        let mut before = std::mem::take(&mut self.gateways);
        for (gateway, count) in living {
            let first = match before.remove(gateway) {
                Some(known) => known.first,
                None => *count,
            };
            self.gateways.insert(
                gateway.clone(),
                Counts {
                    first,
                    newest: *count,
                },
            );
        }
        let missed_from = if self.has_looked {
            now + NEW_CHANNEL
        } else {
            now
        };
        self.has_looked = true;
        self.channels
            .retain(|channel, _| channels.contains(channel));
        for channel in channels {
            self.channels.entry(*channel).or_insert(missed_from);
        }
        self.heard.retain(|(channel, gateway), _| {
            self.channels.contains_key(channel) && self.gateways.contains_key(gateway)
        });
        self.missing.retain(|(channel, gateway), _| {
            self.channels.contains_key(channel) && self.gateways.contains_key(gateway)
        });
        for channel in self.channels.keys() {
            for (gateway, counts) in &self.gateways {
                let pair = (*channel, gateway.clone());
                let heard = self.heard.get(&pair).copied().unwrap_or_default();
                let last = heard.max(counts.first);
                if last < counts.newest {
                    self.missing
                        .entry(pair)
                        .or_insert_with(|| Missing::begin(counts.newest, now));
                }
            }
        }
    }

    /// Takes in a beat. True if its gateway was not heard there before.
    pub(super) fn heard(
        &mut self,
        channel: u32,
        gateway: GatewayId,
        count: u64,
        now: Instant,
    ) -> bool {
        let Some(counts) = self.gateways.get(&gateway) else {
            // Its first beat came before the first look at its lease. That look does not expect
            // this beat.
            return false;
        };
        let pair = (channel, gateway);
        let last = self.heard.entry(pair.clone()).or_default();
        *last = count.max(*last);
        let Entry::Occupied(mut missing) = self.missing.entry(pair) else {
            return false;
        };
        if *last < missing.get().count {
            return false;
        }
        let was_unheard = missing.get().is_overdue;
        if *last < counts.newest {
            missing.insert(Missing::begin(counts.newest, now));
        } else {
            missing.remove();
        }
        was_unheard
    }

    /// The gateways that are not heard. Such a gateway counts as unheard until the missing beat
    /// arrives, or a newer one.
    pub(super) fn judge(&mut self, now: Instant) -> BTreeSet<&Unheard> {
        for ((channel, _), missing) in &mut self.missing {
            let is_judged = self
                .channels
                .get(channel)
                .is_some_and(|missed_from| now >= *missed_from);
            if is_judged && now.duration_since(missing.since) >= GRACE {
                missing.is_overdue = true;
            }
        }
        self.missing
            .iter()
            .filter(|(_, missing)| missing.is_overdue)
            .map(|(pair, _)| pair)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(name: &str) -> GatewayId {
        GatewayId::parse(name).unwrap()
    }

    struct Watch {
        hearing: Hearing,
        began: Instant,
    }

    impl Watch {
        fn begin() -> Self {
            Self {
                hearing: Hearing::default(),
                began: Instant::now(),
            }
        }

        fn at(&self, seconds: f64) -> Instant {
            self.began + Duration::from_secs_f64(seconds)
        }

        fn looks(&mut self, seconds: f64, living: &[(&str, u64)], channels: &[u32]) {
            let living: Vec<_> = living
                .iter()
                .map(|(name, count)| (id(name), *count))
                .collect();
            let now = self.at(seconds);
            self.hearing.looked(&living, channels, now);
        }

        fn hears(&mut self, seconds: f64, channel: u32, gateway: &str, count: u64) -> bool {
            let now = self.at(seconds);
            self.hearing.heard(channel, id(gateway), count, now)
        }

        fn misses(&mut self, seconds: f64) -> Vec<Unheard> {
            let now = self.at(seconds);
            self.hearing.judge(now).into_iter().cloned().collect()
        }
    }

    #[test]
    fn a_gateway_that_renews_its_lease_and_says_nothing_is_not_heard_until_it_is() {
        let mut watch = Watch::begin();
        watch.looks(0.0, &[("a", 7)], &[0]);
        assert_eq!(
            watch.misses(1.0),
            [],
            "that beat may have come before the subscription"
        );
        watch.looks(2.0, &[("a", 8)], &[0]);
        assert_eq!(watch.misses(2.5), [], "the beat may be on its way");
        assert_eq!(watch.misses(3.0), [(0, id("a"))]);
        watch.looks(4.0, &[("a", 9)], &[0]);
        assert!(!watch.hears(4.1, 0, "a", 7), "an old one");
        assert_eq!(watch.misses(4.1), [(0, id("a"))], "nothing newer came");
        assert!(watch.hears(4.2, 0, "a", 9));
        assert_eq!(watch.misses(5.0), []);
        watch.looks(6.0, &[("a", 10)], &[0]);
        assert_eq!(watch.misses(7.0), [(0, id("a"))]);
        watch.looks(8.0, &[], &[0]);
        assert_eq!(watch.misses(9.0), [], "it is buried");
    }

    #[test]
    fn a_gateway_that_renews_often_is_missed_as_soon() {
        let mut watch = Watch::begin();
        for count in 0_u32..=15 {
            watch.looks(
                f64::from(count) / 10.0,
                &[("a", 1 + u64::from(count))],
                &[0],
            );
        }
        assert_eq!(watch.misses(1.0), []);
        assert_eq!(watch.misses(1.2), [(0, id("a"))]);
    }

    #[test]
    fn beats_that_come_late_but_within_the_grace_are_no_silence() {
        let mut watch = Watch::begin();
        watch.looks(0.0, &[("a", 1)], &[0]);
        for count in 2..9_u64 {
            let seconds = count as f64 / 2.0;
            watch.looks(seconds, &[("a", count)], &[0]);
            assert!(!watch.hears(seconds + 0.1, 0, "a", count - 1), "{count}");
            assert_eq!(watch.misses(seconds + 0.2), [], "{count}");
        }
    }

    #[test]
    fn a_gateway_whose_lease_stands_still_has_nothing_to_say() {
        let mut watch = Watch::begin();
        for second in 0..20 {
            watch.looks(f64::from(second), &[("a", 7)], &[0]);
            assert_eq!(watch.misses(f64::from(second)), []);
        }
    }

    #[test]
    fn a_gateway_may_be_heard_on_one_master_and_not_on_another() {
        let mut watch = Watch::begin();
        watch.looks(0.0, &[("a", 1)], &[0, 4]);
        watch.hears(2.0, 4, "a", 2);
        watch.looks(2.0, &[("a", 2)], &[0, 4]);
        assert_eq!(watch.misses(3.0), [(0, id("a"))]);
        watch.hears(4.0, 4, "a", 3);
        watch.looks(4.0, &[("a", 3)], &[4]);
        assert_eq!(watch.misses(5.0), [], "the other master is gone");
    }

    #[test]
    fn beats_on_the_channel_of_a_new_master_are_missed_once_all_gateways_must_know_it() {
        let mut watch = Watch::begin();
        watch.looks(0.0, &[("a", 1)], &[0]);
        for count in 2..=5_u64 {
            let seconds = count as f64 * 2.0;
            watch.hears(seconds, 0, "a", count);
            watch.looks(seconds, &[("a", count)], &[0, 4]);
            assert_eq!(watch.misses(seconds + 1.0), [], "{count}");
        }
        watch.hears(14.0, 0, "a", 7);
        watch.looks(14.0, &[("a", 7)], &[0, 4]);
        assert_eq!(watch.misses(15.0), [(4, id("a"))]);
    }
}
