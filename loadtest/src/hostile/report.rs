//! The table of a hostile run: what each attack got for an answer, and what honest viewers noticed.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

use serde::Serialize;

use super::honest::Seen;
use crate::report::fail_if;

/// An ack that takes no longer than this is quick, whatever it takes in quiet.
const QUICK_MS: f64 = 5.0;

#[derive(Debug, Serialize)]
pub(super) struct Row {
    pub(super) attack: &'static str,
    pub(super) expected: &'static str,
    /// Each answer, and how many clients got it.
    pub(super) answers: BTreeMap<String, u64>,
    pub(super) quiet_p99_ms: f64,
    pub(super) during_p99_ms: f64,
    pub(super) acks: u64,
    /// How often it was measured; the times are those of the last.
    pub(super) measured: u32,
    #[serde(flatten)]
    pub(super) seen: Seen,
}

#[derive(Debug, Serialize)]
pub(super) struct HostileReport {
    pub(super) viewers: usize,
    pub(super) fans: usize,
    pub(super) rows: Vec<Row>,
    pub(super) sockets_lost: u64,
    pub(super) heartbeats: u64,
    pub(super) unanswered: u64,
    /// Other errors that the crowd met.
    pub(super) errors: BTreeMap<String, u64>,
    /// Wrong answers, and harm to honest clients.
    pub(super) failures: Vec<String>,
    /// Acks that came too late; only a calm machine can judge them.
    pub(super) slow: Vec<String>,
}

impl Row {
    fn is_answered_rightly(&self) -> bool {
        self.answers.len() == 1 && self.answers.contains_key(self.expected)
    }

    pub(super) fn is_quick(&self) -> bool {
        self.during_p99_ms <= self.most_ms()
    }

    /// Adds what an earlier measurement of the same attack saw.
    pub(super) fn after(mut self, earlier: Self) -> Self {
        for (answer, times) in earlier.answers {
            *self.answers.entry(answer).or_default() += times;
        }
        self.seen = self.seen.after(&earlier.seen);
        Self {
            measured: earlier.measured + 1,
            ..self
        }
    }

    fn most_ms(&self) -> f64 {
        QUICK_MS.max(2.0 * self.quiet_p99_ms)
    }
}

impl HostileReport {
    /// Fills in what `--check` fails for.
    pub(super) fn judged(mut self) -> Self {
        let mut failures = Vec::new();
        for row in &self.rows {
            let name = row.attack;
            let seen = &row.seen;
            fail_if(
                &mut failures,
                !row.is_answered_rightly(),
                format!("{name}: {:?}, not {:?}", row.answers, row.expected),
            );
            fail_if(
                &mut failures,
                seen.readings == 0,
                format!("{name}: the sets were never read"),
            );
            fail_if(
                &mut failures,
                seen.unread > 0,
                format!("{name}: Redis did not answer {} times", seen.unread),
            );
            fail_if(
                &mut failures,
                seen.missing_fans > 0,
                format!("{name}: {} fans missing from the set", seen.missing_fans),
            );
            fail_if(
                &mut failures,
                seen.strangers > 0,
                format!("{name}: {} in the set who are no fans", seen.strangers),
            );
            fail_if(
                &mut failures,
                seen.newcomers_kept_out > 0,
                format!("{name}: {} newcomers kept out", seen.newcomers_kept_out),
            );
            fail_if(
                &mut failures,
                row.acks == 0,
                format!("{name}: no heartbeat was answered"),
            );
            if !row.is_quick() {
                let took = row.during_p99_ms;
                let most = row.most_ms();
                let times = row.measured;
                self.slow
                    .push(format!("{name}: acks took {took:.1} ms (p99), not {most:.1} ms (measured {times} times)"));
            }
        }
        fail_if(
            &mut failures,
            self.sockets_lost > 0,
            format!("{} honest sockets lost", self.sockets_lost),
        );
        fail_if(
            &mut failures,
            self.unanswered > 0,
            format!(
                "{} of {} heartbeats unanswered",
                self.unanswered, self.heartbeats
            ),
        );
        for (kind, times) in &self.errors {
            fail_if(&mut failures, true, format!("{times} errors {kind}"));
        }
        self.failures = failures;
        self
    }
}

impl Display for HostileReport {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        writeln!(
            out,
            "{:<26} {:<32} {:<44} {:>8} {:>8} {:>6} {:>8} {:>9}",
            "attack", "answer expected", "answers", "p99", "during", "ratio", "missing", "newcomer"
        )?;
        for row in &self.rows {
            let answers: Vec<String> = row
                .answers
                .iter()
                .map(|(answer, times)| format!("{times} × {answer}"))
                .collect();
            let quiet = row.quiet_p99_ms;
            let during = row.during_p99_ms;
            let ratio = if quiet > 0.0 { during / quiet } else { 0.0 };
            writeln!(
                out,
                "{:<26} {:<32} {:<44} {quiet:>5.1} ms {during:>5.1} ms {ratio:>6.1} {:>8} {:>6} ms",
                row.attack,
                row.expected,
                answers.join("; "),
                row.seen.missing_fans,
                row.seen.slowest_newcomer_ms
            )?;
        }
        let Self {
            viewers,
            fans,
            heartbeats,
            unanswered,
            sockets_lost,
            ..
        } = self;
        writeln!(
            out,
            "honest     {viewers} viewers, {fans} of them fans; {heartbeats} heartbeats, {unanswered} unanswered; \
             {sockets_lost} sockets lost"
        )?;
        let all: Vec<&String> = self.failures.iter().chain(&self.slow).collect();
        write!(
            out,
            "check      {}",
            if all.is_empty() { "passed" } else { "failed" }
        )?;
        all.iter()
            .try_for_each(|failure| write!(out, "\n           {failure}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(change: impl FnOnce(&mut Row)) -> HostileReport {
        let mut row = Row {
            attack: "knocks",
            expected: "no",
            answers: BTreeMap::from([("no".to_owned(), 2)]),
            quiet_p99_ms: 1.0,
            during_p99_ms: 4.9,
            acks: 9,
            measured: 1,
            seen: Seen {
                readings: 3,
                ..Seen::default()
            },
        };
        change(&mut row);
        let report = HostileReport {
            viewers: 9,
            fans: 3,
            rows: vec![row],
            sockets_lost: 0,
            heartbeats: 9,
            unanswered: 0,
            errors: BTreeMap::new(),
            failures: Vec::new(),
            slow: Vec::new(),
        };
        report.judged()
    }

    #[test]
    fn wrong_answers_missing_fans_and_late_acks_are_told_apart() {
        let good = judged(|_| {});
        assert!(good.failures.is_empty() && good.slow.is_empty(), "{good}");
        let late = judged(|row| row.during_p99_ms = 5.1);
        assert!(late.failures.is_empty() && late.slow.len() == 1, "{late}");
        assert!(
            judged(|row| (row.quiet_p99_ms, row.during_p99_ms) = (4.0, 7.9))
                .slow
                .is_empty()
        );
        let bad: [fn(&mut Row); 6] = [
            |row| row.answers.clear(),
            |row| row.answers.extend([("yes".to_owned(), 1)]),
            |row| row.seen.missing_fans = 1,
            |row| row.seen.strangers = 1,
            |row| row.seen.readings = 0,
            |row| row.seen.newcomers_kept_out = 1,
        ];
        for change in bad {
            let report = judged(change);
            assert_eq!(report.failures.len(), 1, "{report}");
        }
    }

    #[test]
    fn a_second_measurement_keeps_the_harm_of_the_first() {
        let row = |missing_fans| {
            let report = judged(|row| row.seen.missing_fans = missing_fans);
            report.rows.into_iter().next().unwrap()
        };
        let both = row(0).after(row(7));
        assert_eq!(
            (
                both.seen.missing_fans,
                both.seen.readings,
                both.measured,
                both.answers["no"]
            ),
            (7, 6, 2, 4)
        );
    }
}
