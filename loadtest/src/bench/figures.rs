//! What was measured: by row, measure and contender, one value a round.

use std::collections::BTreeMap;

use serde::Serialize;

/// Who was measured.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, serde::Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Who {
    Rollcall,
    Bare,
    Naive,
}

impl Who {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Rollcall => "rollcall",
            Self::Bare => "bare",
            Self::Naive => "naive",
        }
    }
}

/// A value that was measured once a round.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Figure {
    pub(crate) row: String,
    pub(crate) measure: String,
    pub(crate) unit: String,
    pub(crate) who: Who,
    /// One per round, in order.
    pub(crate) rounds: Vec<f64>,
}

/// The middle of some values, and how far they reach.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Spread {
    /// `None` of nothing.
    pub(crate) fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let min = *sorted.first()?;
        let max = *sorted.last()?;
        let middle = sorted.len() / 2;
        let median = if sorted.len() % 2 == 1 {
            sorted[middle]
        } else {
            sorted[middle - 1].midpoint(sorted[middle])
        };
        Some(Self { median, min, max })
    }
}

/// Everything of one run.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Figures {
    pub(crate) figures: Vec<Figure>,
    /// Rows that did not run to their end, and why.
    pub(crate) not_run: BTreeMap<String, String>,
}

impl Figures {
    /// Notes the value of one round.
    pub(crate) fn note(&mut self, row: &str, who: Who, (measure, unit): (&str, &str), value: f64) {
        let found = self
            .figures
            .iter_mut()
            .find(|f| f.row == row && f.measure == measure && f.who == who);
        match found {
            Some(figure) => figure.rounds.push(value),
            None => self.figures.push(Figure {
                row: row.to_owned(),
                measure: measure.to_owned(),
                unit: unit.to_owned(),
                who,
                rounds: vec![value],
            }),
        }
    }

    pub(crate) fn find(&self, row: &str, measure: &str, who: Who) -> Option<&Figure> {
        self.figures
            .iter()
            .find(|f| f.row == row && f.measure == measure && f.who == who)
    }

    /// One contender's value as a multiple of another's, round by round: what disturbs a round
    /// disturbs both.
    pub(crate) fn ratio(&self, row: &str, measure: &str, who: Who, of: Who) -> Option<Spread> {
        let ours = self.find(row, measure, who)?;
        let theirs = self.find(row, measure, of)?;
        let ratios: Vec<f64> = ours
            .rounds
            .iter()
            .zip(&theirs.rounds)
            .map(|(a, b)| a / b)
            .collect();
        Spread::of(&ratios)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_or_between_the_two() {
        assert_eq!(Spread::of(&[]), None);
        assert_eq!(
            Spread::of(&[3.0, 1.0, 2.0]),
            Some(Spread {
                median: 2.0,
                min: 1.0,
                max: 3.0
            })
        );
        assert_eq!(
            Spread::of(&[4.0, 1.0]),
            Some(Spread {
                median: 2.5,
                min: 1.0,
                max: 4.0
            })
        );
        assert_eq!(
            Spread::of(&[f64::MAX; 2]).map(|spread| spread.median),
            Some(f64::MAX)
        );
    }

    #[test]
    fn ratios_are_taken_round_by_round() {
        let mut figures = Figures::default();
        for (ours, theirs) in [(10.0, 20.0), (30.0, 30.0), (8.0, 10.0)] {
            figures.note("r", Who::Rollcall, ("m", "1/s"), ours);
            figures.note("r", Who::Bare, ("m", "1/s"), theirs);
        }
        let ratio = figures.ratio("r", "m", Who::Rollcall, Who::Bare);
        assert_eq!(
            ratio,
            Some(Spread {
                median: 0.8,
                min: 0.5,
                max: 1.0
            })
        );
        assert_eq!(figures.ratio("r", "m", Who::Rollcall, Who::Naive), None);
    }
}
