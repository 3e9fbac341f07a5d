//! What `loadtest fanout` found, and what of it is wrong or too slow.

use std::fmt;

use serde::Serialize;

use super::probes::{Noticed, Times};

/// The longest that the request to open or close may take, in ms.
const ANSWERED: f64 = 50.0;
/// All feeds are done, in s for each 100,000 followers.
const DONE: f64 = 12.0;
/// What a p99 may be at least, in ms, and how many times that of quiet: joins, acks, PINGs.
const JOINS: (f64, f64) = (50.0, 4.0);
const ACKS: (f64, f64) = (10.0, 4.0);
const PINGS: (f64, f64) = (10.0, 4.0);

/// A request that all followers are told of.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(super) struct Reach {
    pub(super) answered_ms: f64,
    /// Until every feed is done, in s.
    pub(super) took: f64,
    /// Cores of Redis meanwhile.
    pub(super) redis: f64,
}

/// A gateway was killed while it told followers.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(super) struct Killed {
    pub(super) followers: usize,
    /// Followers who had been told.
    pub(super) told: usize,
    /// Until everybody was, in s.
    pub(super) after: f64,
    pub(super) once: usize,
    pub(super) all: usize,
    /// After the close.
    pub(super) left: usize,
}

#[derive(Debug, Default, Serialize)]
pub(super) struct FanoutReport {
    pub(super) followers: usize,
    pub(super) quiet: Noticed,
    pub(super) busy: Noticed,
    pub(super) on: Reach,
    pub(super) off: Reach,
    /// Followers who had exactly one live in their feed.
    pub(super) once: usize,
    /// Lives in all feeds.
    pub(super) all: usize,
    /// After the close.
    pub(super) left: usize,
    pub(super) killed: Killed,
    pub(super) failures: Vec<String>,
    pub(super) slow: Vec<String>,
}

impl FanoutReport {
    /// The same, with what is wrong.
    pub(super) fn judged(mut self) -> Self {
        let Killed {
            followers,
            told,
            once,
            all,
            left,
            ..
        } = self.killed;
        let right = [
            (
                self.once == self.followers && self.all == self.followers,
                "not every follower has the live once",
            ),
            (self.left == 0, "feeds have the live after its close"),
            (
                told > 0 && told < followers,
                "the gateway was not killed in the middle",
            ),
            (
                once == followers && all == followers,
                "after the kill, not every follower has the live once",
            ),
            (
                left == 0,
                "feeds have the live of the killed gateway after its close",
            ),
        ];
        self.failures = right
            .iter()
            .filter(|(is_right, _)| !is_right)
            .map(|(_, what)| (*what).to_owned())
            .collect();
        let most = DONE * (self.followers as f64 / 1e5).max(1.0);
        let quiet = &self.quiet;
        let busy = &self.busy;
        let quick = [
            (
                self.on.answered_ms <= ANSWERED,
                "the live opened too slowly",
            ),
            (
                self.off.answered_ms <= ANSWERED,
                "the live closed too slowly",
            ),
            (
                self.on.took <= most && self.off.took <= most,
                "the feeds took too long",
            ),
            (
                within(quiet.joins, busy.joins, JOINS),
                "joins took too long",
            ),
            (within(quiet.acks, busy.acks, ACKS), "acks took too long"),
            (
                within(quiet.pings, busy.pings, PINGS),
                "PINGs took too long",
            ),
        ];
        self.slow = quick
            .iter()
            .filter(|(is_quick, _)| !is_quick)
            .map(|(_, what)| (*what).to_owned())
            .collect();
        self
    }
}

impl fmt::Display for FanoutReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} followers", self.followers)?;
        for (what, reach) in [("on air", self.on), ("off air", self.off)] {
            let Reach {
                answered_ms,
                took,
                redis,
            } = reach;
            writeln!(
                f,
                "  {what:8} answered in {answered_ms:.1} ms, all feeds done in {took:.1} s, Redis {redis:.2} cores"
            )?;
        }
        writeln!(
            f,
            "  {} had it once, {} entries in all; {} after the close",
            self.once, self.all, self.left
        )?;
        writeln!(
            f,
            "  meanwhile, in ms     quiet p50     p99     max      busy p50     p99     max"
        )?;
        let rows = [
            ("joins", self.quiet.joins, self.busy.joins),
            ("acks", self.quiet.acks, self.busy.acks),
            ("PING", self.quiet.pings, self.busy.pings),
        ];
        for (what, quiet, busy) in rows {
            let row = [
                quiet.p50, quiet.p99, quiet.most, busy.p50, busy.p99, busy.most,
            ]
            .map(|ms| format!("{ms:.2}"));
            let [a, b, c, d, e, g] = row;
            writeln!(f, "  {what:16} {a:>13} {b:>7} {c:>7} {d:>13} {e:>7} {g:>7}")?;
        }
        let Killed {
            followers,
            told,
            after,
            once,
            all,
            left,
        } = self.killed;
        writeln!(
            f,
            "a gateway killed after {told} of {followers} followers: {after:.1} s later all were told"
        )?;
        writeln!(
            f,
            "  {once} had it once, {all} entries in all; {left} after the close"
        )?;
        for what in self.failures.iter().chain(&self.slow) {
            writeln!(f, "  FAILED: {what}")?;
        }
        Ok(())
    }
}

/// Whether busy times are within a bound: this least time, or so many times the quiet time.
fn within(quiet: Times, busy: Times, bound: (f64, f64)) -> bool {
    let (least, times) = bound;
    busy.p99 <= least.max(quiet.p99 * times)
}
