//! What `loadtest fanout` found, and what of it is wrong or too slow.

use serde::Serialize;

use super::probes::Noticed;
use crate::report::{Quantiles, RunReport};

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
pub(super) struct FanoutReach {
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
    pub(super) on: FanoutReach,
    pub(super) off: FanoutReach,
    /// Followers who had exactly one live in their feed.
    pub(super) once: usize,
    /// Lives in all feeds.
    pub(super) all: usize,
    /// After the close.
    pub(super) left: usize,
    pub(super) killed: Killed,
}

impl FanoutReport {
    pub(super) fn report(&self) -> anyhow::Result<RunReport> {
        let mut report = RunReport::of(self)?;
        let Killed {
            followers,
            told,
            once,
            all,
            left,
            ..
        } = self.killed;
        report.must(
            self.once == self.followers && self.all == self.followers,
            "not every follower has the live once",
        );
        report.must(self.left == 0, "feeds have the live after its close");
        report.must(
            told > 0 && told < followers,
            "the gateway was not killed in the middle",
        );
        report.must(
            once == followers && all == followers,
            "after the kill, not every follower has the live once",
        );
        report.must(
            left == 0,
            "feeds have the live of the killed gateway after its close",
        );
        let most = DONE * (self.followers as f64 / 1e5).max(1.0);
        let Self { quiet, busy, .. } = self;
        for (is_quick, else_why) in [
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
        ] {
            report.must_be_quick(is_quick, else_why);
        }
        Ok(report)
    }
}

/// Whether busy times are within a bound: this least time, or so many times the quiet time.
fn within(quiet: Quantiles, busy: Quantiles, bound: (f64, f64)) -> bool {
    let (least_ms, times) = bound;
    busy.p99 as f64 <= (least_ms * 1e3).max(quiet.p99 as f64 * times)
}
