//! What was measured: by row, measure and contender, one value a round.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::report::plot::{Panel, PlotLine};

/// Who was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
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

/// The values of each contender, one a round, in order.
type Measure = BTreeMap<Who, Vec<f64>>;

/// Everything of one run: measures by row. A measure's name ends with its unit.
#[derive(Debug, Default, Serialize)]
pub(crate) struct RunFigures(BTreeMap<String, BTreeMap<String, Measure>>);

impl RunFigures {
    /// Notes the value of one round.
    pub(crate) fn note(&mut self, row: &str, who: Who, measure: &str, value: f64) {
        let row = self.0.entry(row.to_owned()).or_default();
        let measure = row.entry(measure.to_owned()).or_default();
        measure.entry(who).or_default().push(value);
    }

    pub(crate) fn has_row(&self, row: &str) -> bool {
        self.0.contains_key(row)
    }

    pub(crate) fn rounds(&self, row: &str, measure: &str, who: Who) -> Option<&[f64]> {
        let rounds = self.0.get(row)?.get(measure)?.get(&who)?;
        Some(rounds)
    }

    /// Rollcall's value as a multiple of another's, round by round: what disturbs a round disturbs
    /// both.
    pub(crate) fn ratios(&self, row: &str, measure: &str, of: Who) -> Option<Vec<f64>> {
        let ours = self.rounds(row, measure, Who::Rollcall)?;
        let theirs = self.rounds(row, measure, of)?;
        Some(ours.iter().zip(theirs).map(|(a, b)| a / b).collect())
    }

    /// A panel for each measure, by rounds.
    pub(crate) fn panels(&self) -> Vec<Panel> {
        let mut panels = Vec::new();
        for (row, measures) in &self.0 {
            for (measure, contenders) in measures {
                let lines = contenders.iter().map(|(who, rounds)| PlotLine {
                    name: who.as_str().to_owned(),
                    points: (1..).map(f64::from).zip(rounds.iter().copied()).collect(),
                });
                panels.push(Panel {
                    title: format!("{row}: {measure}"),
                    lines: lines.collect(),
                });
            }
        }
        panels
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_taken_round_by_round() {
        let mut figures = RunFigures::default();
        for (ours, theirs) in [(10.0, 20.0), (30.0, 30.0), (8.0, 10.0)] {
            figures.note("r", Who::Rollcall, "m", ours);
            figures.note("r", Who::Bare, "m", theirs);
        }
        let ratios = figures.ratios("r", "m", Who::Bare);
        assert_eq!(ratios, Some(vec![0.5, 1.0, 0.8]));
        assert_eq!(figures.ratios("r", "m", Who::Naive), None);
        assert_eq!(figures.panels()[0].lines.len(), 2);
    }
}
