//! `budgets.toml`: how much each measure may be, as a ratio within the run or as a plain value.

use serde::{Deserialize, Serialize};

use super::figures::{Figures, Spread, Who};

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

impl Budget {
    /// What is bounded: the ratio, or the value.
    pub(crate) fn bounded(&self, figures: &Figures) -> Option<Spread> {
        match self.of {
            Some(of) => figures.ratio(&self.row, &self.measure, Who::Rollcall, of),
            None => Spread::of(
                &figures
                    .find(&self.row, &self.measure, Who::Rollcall)?
                    .rounds,
            ),
        }
    }

    /// The median decides.
    pub(crate) fn verdict(&self, figures: &Figures) -> Verdict {
        match self.bounded(figures) {
            None => Verdict::NotMeasured,
            Some(Spread { median, .. }) => {
                let kept = self.at_least.is_none_or(|least| median >= least)
                    && self.at_most.is_none_or(|most| median <= most);
                if kept { Verdict::Kept } else { Verdict::Broken }
            }
        }
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
        let mut figures = Figures::default();
        assert_eq!(
            budget(None, None, Some(1.0)).verdict(&figures),
            Verdict::NotMeasured
        );
        for (ours, bare) in [(90.0, 100.0), (99.0, 100.0), (95.0, 100.0)] {
            figures.note("r", Who::Rollcall, ("m", ""), ours);
            figures.note("r", Who::Bare, ("m", ""), bare);
        }
        assert_eq!(
            budget(Some(Who::Bare), Some(0.95), None).verdict(&figures),
            Verdict::Kept
        );
        assert_eq!(
            budget(Some(Who::Bare), Some(0.96), None).verdict(&figures),
            Verdict::Broken
        );
        assert_eq!(
            budget(None, None, Some(95.0)).verdict(&figures),
            Verdict::Kept
        );
        assert_eq!(
            budget(None, None, Some(94.0)).verdict(&figures),
            Verdict::Broken
        );
        assert_eq!(
            budget(Some(Who::Naive), Some(1.0), None).verdict(&figures),
            Verdict::NotMeasured
        );
    }
}
