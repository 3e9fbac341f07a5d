//! What a hostile run found: what each attack got for an answer, and what honest viewers noticed.

use std::collections::BTreeMap;

use serde::Serialize;

use super::honest::HonestView;
use crate::report::RunReport;

/// An ack that takes no longer than this is quick, whatever it takes in quiet.
const QUICK_MS: f64 = 5.0;

#[derive(Debug, Serialize)]
pub(super) struct AttackRow {
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
    pub(super) seen: HonestView,
}

#[derive(Debug, Serialize)]
pub(super) struct Hostile {
    pub(super) viewers: usize,
    pub(super) fans: usize,
    pub(super) rows: Vec<AttackRow>,
    pub(super) sockets_lost: u64,
    pub(super) heartbeats: u64,
    pub(super) unanswered: u64,
    /// Other errors that the crowd met.
    pub(super) errors: BTreeMap<String, u64>,
}

impl AttackRow {
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

    fn judge(&self, report: &mut RunReport) {
        let name = self.attack;
        let seen = &self.seen;
        report.must(
            self.is_answered_rightly(),
            format!("{name}: {:?}, not {:?}", self.answers, self.expected),
        );
        report.must(
            seen.readings > 0,
            format!("{name}: the sets were never read"),
        );
        for (harm, what) in [
            (seen.unread, "readings that Redis did not answer"),
            (seen.missing_fans as u64, "fans missing from the set"),
            (seen.strangers as u64, "in the set who are no fans"),
            (seen.newcomers_kept_out, "newcomers kept out"),
        ] {
            report.must(harm == 0, format!("{name}: {harm} {what}"));
        }
        report.must(self.acks > 0, format!("{name}: no heartbeat was answered"));
        let took = self.during_p99_ms;
        let most = self.most_ms();
        let times = self.measured;
        report.must_be_quick(
            self.is_quick(),
            format!(
                "{name}: acks took {took:.1} ms (p99), not {most:.1} ms (measured {times} times)"
            ),
        );
    }
}

impl Hostile {
    pub(super) fn report(&self) -> anyhow::Result<RunReport> {
        let mut report = RunReport::of(self)?;
        for row in &self.rows {
            row.judge(&mut report);
        }
        let Self {
            sockets_lost,
            heartbeats,
            unanswered,
            ..
        } = self;
        report.must(
            *sockets_lost == 0,
            format!("{sockets_lost} honest sockets lost"),
        );
        report.must(
            *unanswered == 0,
            format!("{unanswered} of {heartbeats} heartbeats unanswered"),
        );
        report.must_have_no_errors(&self.errors);
        Ok(report)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(change: impl FnOnce(&mut AttackRow)) -> Hostile {
        let mut row = AttackRow {
            attack: "knocks",
            expected: "no",
            answers: BTreeMap::from([("no".to_owned(), 2)]),
            quiet_p99_ms: 1.0,
            during_p99_ms: 4.9,
            acks: 9,
            measured: 1,
            seen: HonestView {
                readings: 3,
                ..HonestView::default()
            },
        };
        change(&mut row);
        Hostile {
            viewers: 9,
            fans: 3,
            rows: vec![row],
            sockets_lost: 0,
            heartbeats: 9,
            unanswered: 0,
            errors: BTreeMap::new(),
        }
    }

    fn judged(change: impl FnOnce(&mut AttackRow)) -> RunReport {
        seen(change).report().unwrap()
    }

    #[test]
    fn wrong_answers_missing_fans_and_late_acks_are_told_apart() {
        let good = judged(|_| {});
        assert!(
            good.failures().is_empty() && good.slow().is_empty(),
            "{good}"
        );
        let late = judged(|row| row.during_p99_ms = 5.1);
        assert!(
            late.failures().is_empty() && late.slow().len() == 1,
            "{late}"
        );
        assert!(
            judged(|row| (row.quiet_p99_ms, row.during_p99_ms) = (4.0, 7.9))
                .slow()
                .is_empty()
        );
        let bad: [fn(&mut AttackRow); 6] = [
            |row| row.answers.clear(),
            |row| row.answers.extend([("yes".to_owned(), 1)]),
            |row| row.seen.missing_fans = 1,
            |row| row.seen.strangers = 1,
            |row| row.seen.readings = 0,
            |row| row.seen.newcomers_kept_out = 1,
        ];
        for change in bad {
            let report = judged(change);
            assert_eq!(report.failures().len(), 1, "{report}");
        }
    }

    #[test]
    fn a_second_measurement_keeps_the_harm_of_the_first() {
        let row = |missing_fans| {
            let seen = seen(|row| row.seen.missing_fans = missing_fans);
            seen.rows.into_iter().next().unwrap()
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
