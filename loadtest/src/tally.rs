//! What one process's viewers saw, as counters and histograms that merge across processes.
//!
//! Times within a process are monotonic; the few that must be compared across processes are Unix
//! microseconds.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::error_kind::ErrorName;

/// Ten minutes: longer than any deadline here.
const LONGEST_MICROS: u64 = 600_000_000;

/// Latencies in microseconds, three significant digits; travels as its filled buckets.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(from = "Vec<(u64, u64)>", into = "Vec<(u64, u64)>")]
pub(crate) struct Latencies(Histogram<u64>);

impl Default for Latencies {
    fn default() -> Self {
        Self(Histogram::new_with_bounds(1, LONGEST_MICROS, 3).expect("constant bounds are valid"))
    }
}

impl Latencies {
    pub(crate) fn record(&mut self, latency: Duration) {
        self.0
            .saturating_record((latency.as_micros() as u64).max(1));
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.0 += &other.0;
    }

    pub(crate) fn at(&self, quantile: f64) -> u64 {
        self.0.value_at_quantile(quantile)
    }

    pub(crate) fn max(&self) -> u64 {
        self.0.max()
    }

    /// In milliseconds; the share 1 is the longest.
    pub(crate) fn ms_at(&self, quantile: f64) -> f64 {
        self.at(quantile) as f64 / 1e3
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.len()
    }
}

impl From<Latencies> for Vec<(u64, u64)> {
    fn from(latencies: Latencies) -> Self {
        latencies
            .0
            .iter_recorded()
            .map(|bucket| (bucket.value_iterated_to(), bucket.count_at_value()))
            .collect()
    }
}

impl From<Vec<(u64, u64)>> for Latencies {
    fn from(buckets: Vec<(u64, u64)>) -> Self {
        let mut latencies = Self::default();
        for (value, count) in buckets {
            latencies.0.saturating_record_n(value, count);
        }
        latencies
    }
}

/// The first and last time of something, in Unix microseconds.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct TimeSpan(Option<(u64, u64)>);

impl TimeSpan {
    fn makes_sense(&self) -> bool {
        self.0.is_none_or(|(first, last)| first <= last)
    }

    pub(crate) fn mark(&mut self) {
        let now = unix_micros();
        self.merge(Self(Some((now, now))));
    }

    pub(crate) fn merge(&mut self, other: Self) {
        self.0 = match (self.0, other.0) {
            (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
            (a, b) => a.or(b),
        };
    }

    pub(crate) fn last(&self) -> Option<u64> {
        self.0.map(|(_, last)| last)
    }

    pub(crate) fn seconds(&self) -> f64 {
        self.0
            .map_or(0.0, |(first, last)| (last - first) as f64 / 1e6)
    }
}

/// What the gateway said about being a fan, against what the plan says.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct FanFlags {
    pub(crate) told_true: u64,
    pub(crate) told_false: u64,
    pub(crate) told_null: u64,
    pub(crate) wrong: u64,
}

/// Everything that one worker counted.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Tally {
    pub(crate) connected: u64,
    pub(crate) joined: u64,
    /// Viewers that never got in.
    pub(crate) failed: u64,
    /// Sockets that ended, once joined, without our asking.
    pub(crate) lost: u64,
    pub(crate) left: u64,
    pub(crate) sent: u64,
    pub(crate) acked: u64,
    /// Heartbeats whose socket ended, or that were given up at the end.
    pub(crate) abandoned: u64,
    pub(crate) steady_sent: u64,
    pub(crate) steady_acked: u64,
    pub(crate) steady_seconds: f64,
    /// This process's own CPU time over the steady phase.
    pub(crate) steady_cpu_seconds: f64,
    pub(crate) connects: TimeSpan,
    pub(crate) joins: TimeSpan,
    pub(crate) leaves: TimeSpan,
    pub(crate) fan_flags: FanFlags,
    pub(crate) connect: Latencies,
    pub(crate) join: Latencies,
    /// Of heartbeats sent in the steady phase.
    pub(crate) ack: Latencies,
    /// How late this process was in sending heartbeats: large means that it was the bottleneck.
    pub(crate) lag: Latencies,
    pub(crate) errors: BTreeMap<String, u64>,
    pub(crate) storm: StormTally,
}

/// No run counts further. Sums of such numbers do not overflow.
const MOST: u64 = 1 << 48;
const MOST_KINDS: usize = 1_000;
const LONGEST_KIND: usize = 100;

/// Whether a run can have counted this: a number from another process may be anything.
pub(crate) fn is_count(number: u64) -> bool {
    number <= MOST
}

impl Tally {
    /// Whether a run can have counted this. What comes from another process may be anything, and is
    /// added up.
    pub(crate) fn makes_sense(&self) -> bool {
        let counts = [
            self.connected,
            self.joined,
            self.failed,
            self.lost,
            self.left,
            self.sent,
            self.steady_sent,
            self.steady_acked,
            self.storm.returned,
            self.storm.stranded,
            self.storm.untimed,
        ];
        let FanFlags {
            told_true,
            told_false,
            told_null,
            wrong,
        } = self.fan_flags;
        let flags = [told_true, told_false, told_null, wrong];
        let seconds = [self.steady_seconds, self.steady_cpu_seconds];
        counts
            .iter()
            .chain(&flags)
            .chain(self.errors.values())
            .all(|count| is_count(*count))
            && self
                .acked
                .checked_add(self.abandoned)
                .is_some_and(|ended| ended <= self.sent)
            && seconds
                .iter()
                .all(|seconds| seconds.is_finite() && *seconds >= 0.0 && *seconds < MOST as f64)
            && [self.connects, self.joins, self.leaves, self.storm.returns]
                .iter()
                .all(TimeSpan::makes_sense)
            && self.errors.len() <= MOST_KINDS
            && self
                .errors
                .keys()
                .all(|kind| kind.len() <= LONGEST_KIND && !kind.chars().any(char::is_control))
    }

    pub(crate) fn error(&mut self, kind: ErrorName, times: u64) {
        if times > 0 {
            *self.errors.entry(kind.into_owned()).or_default() += times;
        }
    }

    /// Heartbeats that may still be answered.
    pub(crate) fn pending(&self) -> u64 {
        self.sent - self.acked - self.abandoned
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.connected += other.connected;
        self.joined += other.joined;
        self.failed += other.failed;
        self.lost += other.lost;
        self.left += other.left;
        self.sent += other.sent;
        self.acked += other.acked;
        self.abandoned += other.abandoned;
        self.steady_sent += other.steady_sent;
        self.steady_acked += other.steady_acked;
        // Workers run side by side: the phase is as long as its longest, the CPU time adds up.
        self.steady_seconds = self.steady_seconds.max(other.steady_seconds);
        self.steady_cpu_seconds += other.steady_cpu_seconds;
        self.connects.merge(other.connects);
        self.joins.merge(other.joins);
        self.leaves.merge(other.leaves);
        self.fan_flags.told_true += other.fan_flags.told_true;
        self.fan_flags.told_false += other.fan_flags.told_false;
        self.fan_flags.told_null += other.fan_flags.told_null;
        self.fan_flags.wrong += other.fan_flags.wrong;
        self.connect.merge(&other.connect);
        self.join.merge(&other.join);
        self.ack.merge(&other.ack);
        self.lag.merge(&other.lag);
        self.storm.merge(&other.storm);
        for (kind, times) in &other.errors {
            *self.errors.entry(kind.clone()).or_default() += times;
        }
    }
}

/// What the viewers that were cut off saw, and what the bystanders saw.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct StormTally {
    /// Back in their live.
    pub(crate) returned: u64,
    /// Gave up.
    pub(crate) stranded: u64,
    pub(crate) returns: TimeSpan,
    /// From the cut to `joined`.
    pub(crate) back: Latencies,
    /// The delays after which refused viewers were told to retry.
    pub(crate) told: Latencies,
    /// 503 without a time to come back.
    pub(crate) untimed: u64,
    /// Ack latencies of the bystanders, from the cut on.
    pub(crate) stayed_ack: Latencies,
}

impl StormTally {
    fn merge(&mut self, other: &Self) {
        self.returned += other.returned;
        self.stranded += other.stranded;
        self.returns.merge(other.returns);
        self.back.merge(&other.back);
        self.told.merge(&other.told);
        self.untimed += other.untimed;
        self.stayed_ack.merge(&other.stayed_ack);
    }
}

/// Now, comparable between processes of one machine.
pub(crate) fn unix_micros() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_micros() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tally_survives_the_pipe_between_processes() {
        let mut tally = Tally {
            sent: 3,
            acked: 2,
            ..Tally::default()
        };
        for micros in [1, 90, 1_234, 5_000_000] {
            tally.ack.record(Duration::from_micros(micros));
        }
        tally.error(crate::error_kind::MISSING_ACK, 1);
        let text = serde_json::to_string(&tally).unwrap();
        let copy: Tally = serde_json::from_str(&text).unwrap();
        assert_eq!(copy.ack.count(), 4);
        assert_eq!(copy.ack.at(0.5), tally.ack.at(0.5));
        assert_eq!(copy.ack.max(), tally.ack.max());

        let mut both = tally.clone();
        both.merge(&copy);
        assert_eq!((both.sent, both.pending(), both.ack.count()), (6, 2, 8));
        assert_eq!(both.errors["missing_ack"], 2);
    }

    #[test]
    fn impossible_numbers_are_noticed() {
        let good = Tally {
            sent: 3,
            acked: 2,
            abandoned: 1,
            ..Tally::default()
        };
        assert!(good.makes_sense() && Tally::default().makes_sense());
        let bad: [fn(&mut Tally); 7] = [
            |tally| tally.acked = 3,
            |tally| (tally.acked, tally.abandoned) = (u64::MAX, 2),
            |tally| tally.joined = u64::MAX,
            |tally| tally.steady_seconds = f64::INFINITY,
            |tally| tally.joins = TimeSpan(Some((2, 1))),
            |tally| tally.error("\u{1b}[2J".into(), 1),
            |tally| (0..2_000).for_each(|number| tally.error(number.to_string().into(), 1)),
        ];
        for change in bad {
            let mut tally = good.clone();
            change(&mut tally);
            assert!(!tally.makes_sense(), "{tally:?}");
        }
    }
}
