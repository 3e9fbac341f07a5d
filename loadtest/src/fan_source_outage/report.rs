//! What was seen while the database was stopped and after it was back, and what of it breaks a
//! promise.

use serde::Serialize;

use crate::report::RunReport;
use crate::tally::Tally;

#[derive(Debug, Default, Serialize)]
pub(super) struct Outage {
    pub(super) viewers: usize,
    pub(super) known_fans: usize,
    pub(super) newcomers: usize,
    pub(super) newcomer_fans: usize,
    pub(super) seconds_down: f64,
    /// How often the sets were read meanwhile.
    pub(super) readings: u64,
    /// Maximum known fans that were missing at the same time.
    pub(super) known_fans_missing: usize,
    /// The most members that are no known fans.
    pub(super) strangers: usize,
    /// The most newcomers that were in the set before the database was back.
    pub(super) newcomers_known: usize,
    pub(super) breaker_opened: bool,
    /// How long it took, from the first answer of the database, until every newcomer who is a fan
    /// was in the set.
    pub(super) newcomers_known_after_s: Option<f64>,
    pub(super) known_fans_at_the_end: bool,
    pub(super) sockets_lost: u64,
    pub(super) heartbeats: u64,
    pub(super) unanswered: u64,
    pub(super) errors: u64,
}

impl Outage {
    /// Adds what a crowd counted.
    pub(super) fn count(&mut self, tally: &Tally) {
        self.sockets_lost += tally.lost;
        self.heartbeats += tally.sent;
        self.unanswered += tally.sent - tally.acked;
        self.errors += tally.errors.values().sum::<u64>();
    }

    pub(super) fn report(&self) -> anyhow::Result<RunReport> {
        let mut report = RunReport::of(self)?;
        for (harm, what) in [
            (self.sockets_lost, "sockets were lost"),
            (self.unanswered, "heartbeats had no answer"),
            (self.errors, "errors"),
            (self.known_fans_missing as u64, "known fans left the set"),
            (self.strangers as u64, "strangers were in the set"),
            (
                self.newcomers_known as u64,
                "newcomers were fans before anybody knew",
            ),
        ] {
            report.must(harm == 0, format!("{harm} {what}"));
        }
        report.must(self.readings > 0, "the sets were never read");
        report.must(self.breaker_opened, "the breaker never opened");
        report.must(
            self.newcomers_known_after_s.is_some(),
            "newcomers did not become fans",
        );
        report.must(
            self.known_fans_at_the_end,
            "the set of the known fans was wrong at the end",
        );
        Ok(report)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failures(change: impl FnOnce(&mut Outage)) -> usize {
        let mut seen = Outage {
            readings: 9,
            breaker_opened: true,
            newcomers_known_after_s: Some(3.0),
            known_fans_at_the_end: true,
            ..Outage::default()
        };
        change(&mut seen);
        seen.report().unwrap().failures().len()
    }

    #[test]
    fn each_broken_promise_is_told() {
        assert_eq!(failures(|_| {}), 0);
        let broken: [fn(&mut Outage); 10] = [
            |seen| seen.sockets_lost = 1,
            |seen| seen.unanswered = 1,
            |seen| seen.errors = 1,
            |seen| seen.readings = 0,
            |seen| seen.known_fans_missing = 1,
            |seen| seen.strangers = 1,
            |seen| seen.newcomers_known = 1,
            |seen| seen.breaker_opened = false,
            |seen| seen.newcomers_known_after_s = None,
            |seen| seen.known_fans_at_the_end = false,
        ];
        for change in broken {
            assert_eq!(failures(change), 1);
        }
    }
}
