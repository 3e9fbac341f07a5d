//! What was seen while the database was stopped and after it was back, and what of it breaks a
//! promise.

use std::fmt::{self, Display, Formatter};

use serde::Serialize;

use crate::tally::Tally;

#[derive(Debug, Default, Serialize)]
pub(super) struct Report {
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
    pub(super) failures: Vec<String>,
}

impl Report {
    /// Adds what a crowd counted.
    pub(super) fn count(&mut self, tally: &Tally) {
        self.sockets_lost += tally.lost;
        self.heartbeats += tally.sent;
        self.unanswered += tally.sent - tally.acked;
        self.errors += tally.errors.values().sum::<u64>();
    }

    /// Fills in what `--check` fails for.
    pub(super) fn judged(mut self) -> Self {
        let rules = [
            (
                self.sockets_lost > 0,
                format!("{} sockets were lost", self.sockets_lost),
            ),
            (
                self.unanswered > 0,
                format!("{} heartbeats had no answer", self.unanswered),
            ),
            (self.errors > 0, format!("{} errors", self.errors)),
            (self.readings == 0, "the sets were never read".to_owned()),
            (
                self.known_fans_missing > 0,
                format!("{} known fans left the set", self.known_fans_missing),
            ),
            (
                self.strangers > 0,
                format!("{} strangers were in the set", self.strangers),
            ),
            (
                self.newcomers_known > 0,
                format!(
                    "{} newcomers were fans before anybody knew",
                    self.newcomers_known
                ),
            ),
            (!self.breaker_opened, "the breaker never opened".to_owned()),
            (
                self.newcomers_known_after_s.is_none(),
                "newcomers did not become fans".to_owned(),
            ),
            (
                !self.known_fans_at_the_end,
                "the set of the known fans was wrong at the end".to_owned(),
            ),
        ];
        self.failures.extend(
            rules
                .into_iter()
                .filter(|(broken, _)| *broken)
                .map(|(_, why)| why),
        );
        self
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self {
            viewers,
            known_fans,
            newcomers,
            newcomer_fans,
            seconds_down,
            readings,
            ..
        } = self;
        writeln!(
            f,
            "{viewers} viewers with {known_fans} fans; PostgreSQL was stopped for {seconds_down:.1} s"
        )?;
        writeln!(
            f,
            "{newcomers} more with {newcomer_fans} fans joined meanwhile; the sets were read {readings} times"
        )?;
        writeln!(
            f,
            "known fans missing: {}, strangers: {}",
            self.known_fans_missing, self.strangers
        )?;
        let lost = self.sockets_lost;
        let errors = self.errors;
        writeln!(
            f,
            "sockets lost: {lost}, heartbeats: {}, unanswered: {}",
            self.heartbeats, self.unanswered
        )?;
        writeln!(f, "errors: {errors}")?;
        match self.newcomers_known_after_s {
            Some(took) => writeln!(
                f,
                "all newcomers who are fans were in the set {took:.1} s after it was back"
            )?,
            None => writeln!(
                f,
                "newcomers who are fans were not all in the set when the drill ended"
            )?,
        }
        match self.failures.as_slice() {
            [] => write!(f, "nothing that was promised was broken"),
            failures => write!(f, "BROKEN: {}", failures.join("; ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(change: impl FnOnce(&mut Report)) -> Vec<String> {
        let good = Report {
            readings: 9,
            breaker_opened: true,
            newcomers_known_after_s: Some(3.0),
            known_fans_at_the_end: true,
            ..Report::default()
        };
        let mut report = good;
        change(&mut report);
        report.judged().failures
    }

    #[test]
    fn each_broken_promise_is_told() {
        assert!(judged(|_| {}).is_empty());
        let broken: [fn(&mut Report); 10] = [
            |report| report.sockets_lost = 1,
            |report| report.unanswered = 1,
            |report| report.errors = 1,
            |report| report.readings = 0,
            |report| report.known_fans_missing = 1,
            |report| report.strangers = 1,
            |report| report.newcomers_known = 1,
            |report| report.breaker_opened = false,
            |report| report.newcomers_known_after_s = None,
            |report| report.known_fans_at_the_end = false,
        ];
        for change in broken {
            assert_eq!(judged(change).len(), 1);
        }
    }
}
