//! `budgets.toml`: how much each measure may be, as a ratio within the run or as a plain value.

use serde::{Deserialize, Serialize};

use super::figures::{RunFigures, Who};
use crate::report::{RunReport, ValueSpread};

const BUDGETS: &str = include_str!("../../budgets.toml");

/// One line of the file.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Budget {
    pub(crate) row: String,
    pub(crate) measure: String,
    /// Whose value divides Rollcall's; absent: the value itself is bounded.
    pub(crate) of: Option<Who>,
    pub(crate) at_least: Option<f64>,
    pub(crate) at_most: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    budget: Vec<Budget>,
}

/// What became of a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    Kept,
    Broken,
    /// It was not asked for, or could not be measured.
    NotMeasured,
}

/// A budget, and how it fared.
#[derive(Debug, Serialize)]
pub(crate) struct Judged {
    #[serde(flatten)]
    budget: Budget,
    /// What is bounded, by rounds: the ratio, or the value. The median decides.
    found: Option<Vec<f64>>,
    verdict: Verdict,
}

impl Judged {
    pub(crate) fn new(budget: Budget, figures: &RunFigures) -> Self {
        let Budget { row, measure, .. } = &budget;
        let found = match budget.of {
            Some(of) => figures.ratios(row, measure, of),
            None => figures
                .rounds(row, measure, Who::Rollcall)
                .map(<[f64]>::to_vec),
        };
        let verdict = match found.as_deref().and_then(ValueSpread::of) {
            None => Verdict::NotMeasured,
            Some(ValueSpread { median, .. }) => {
                let kept = budget.at_least.is_none_or(|least| median >= least)
                    && budget.at_most.is_none_or(|most| median <= most);
                if kept { Verdict::Kept } else { Verdict::Broken }
            }
        };
        Self {
            budget,
            found,
            verdict,
        }
    }

    pub(crate) fn judge(&self, report: &mut RunReport) {
        let Budget {
            row,
            measure,
            of,
            at_least,
            at_most,
        } = &self.budget;
        let found = match self.found.as_deref().and_then(ValueSpread::of) {
            Some(found) => found.to_string(),
            None => "not measured".to_owned(),
        };
        let bound = match (at_least, at_most) {
            (Some(least), _) => format!("≥ {least}"),
            (None, most) => format!("≤ {}", most.unwrap_or_default()),
        };
        let of = of.map_or_else(String::new, |of| format!(" × {}", of.as_str()));
        report.must(
            self.verdict == Verdict::Kept,
            format!("{row}: {measure}: {found}{of}, must be {bound}{of}"),
        );
    }
}

/// The budgets that come with the program.
pub(crate) fn read() -> anyhow::Result<Vec<Budget>> {
    parse(BUDGETS)
}

fn parse(text: &str) -> anyhow::Result<Vec<Budget>> {
    let File { budget } = toml::from_str(text)?;
    for budget in &budget {
        let bounds = [budget.at_least, budget.at_most]
            .into_iter()
            .flatten()
            .count();
        anyhow::ensure!(
            bounds == 1,
            "{} {}: at_least or at_most, one of them",
            budget.row,
            budget.measure
        );
    }
    Ok(budget)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(of: Option<Who>, at_least: Option<f64>, at_most: Option<f64>) -> Budget {
        Budget {
            row: "r".to_owned(),
            measure: "m".to_owned(),
            of,
            at_least,
            at_most,
        }
    }

    #[test]
    fn the_file_can_be_read_and_names_rows_that_exist() {
        let rows: Vec<&str> = crate::bench::rows::ALL.iter().map(|row| row.name).collect();
        for budget in read().unwrap() {
            assert!(
                rows.contains(&budget.row.as_str()),
                "{} is no row of {rows:?}",
                budget.row
            );
        }
    }

    #[test]
    fn a_line_with_a_typo_or_without_a_bound_is_refused() {
        let line = "[[budget]]\nrow = \"r\"\nmeasure = \"m\"\n";
        assert!(parse(&format!("{line}at_most = 1.0")).is_ok());
        assert!(parse(line).is_err());
        assert!(parse(&format!("{line}at_most = 1.0\nat_least = 1.0")).is_err());
        assert!(parse(&format!("{line}at_mots = 1.0")).is_err());
    }

    #[test]
    fn the_median_is_held_against_the_bound() {
        let mut figures = RunFigures::default();
        let none = Judged::new(budget(None, None, Some(1.0)), &figures);
        assert_eq!(none.verdict, Verdict::NotMeasured);
        for (ours, bare) in [(90.0, 100.0), (99.0, 100.0), (95.0, 100.0)] {
            figures.note("r", Who::Rollcall, "m", ours);
            figures.note("r", Who::Bare, "m", bare);
        }
        for (of, at_least, at_most, expected) in [
            (Some(Who::Bare), Some(0.95), None, Verdict::Kept),
            (Some(Who::Bare), Some(0.96), None, Verdict::Broken),
            (None, None, Some(95.0), Verdict::Kept),
            (None, None, Some(94.0), Verdict::Broken),
            (Some(Who::Naive), Some(1.0), None, Verdict::NotMeasured),
        ] {
            let judged = Judged::new(budget(of, at_least, at_most), &figures);
            assert_eq!(judged.verdict, expected, "{judged:?}");
        }
    }
}
