//! The figures of a run with the machine and the judged budgets. `--json` writes the document as it
//! stands here.

use serde::Serialize;

use crate::bench::budgets::{Budget, Verdict};
use crate::bench::figures::{Figures, Spread};
use crate::proc_stats::Machine;

/// A budget, and how it fared.
#[derive(Debug, Serialize)]
pub(crate) struct Judged {
    #[serde(flatten)]
    pub(crate) budget: Budget,
    pub(crate) found: Option<Spread>,
    pub(crate) verdict: Verdict,
}

/// The whole document.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) version: &'static str,
    pub(crate) machine: Machine,
    pub(crate) redis: String,
    /// Numbers too small to say anything about speed.
    pub(crate) quick: bool,
    pub(crate) budgets: Vec<Judged>,
    #[serde(flatten)]
    pub(crate) run: Figures,
}

impl Report {
    /// Judges the figures; with `whole`, budgets of rows that were not asked for are listed too.
    pub(crate) async fn new(
        run: Figures,
        budgets: Vec<Budget>,
        quick: bool,
        whole: bool,
    ) -> anyhow::Result<Self> {
        let mut judged = Vec::new();
        for budget in budgets {
            let touched = whole
                || run.not_run.contains_key(&budget.row)
                || run.figures.iter().any(|figure| figure.row == budget.row);
            if touched {
                judged.push(Judged {
                    found: budget.bounded(&run),
                    verdict: budget.verdict(&run),
                    budget,
                });
            }
        }
        let budgets = judged;
        let redis = tokio::process::Command::new("redis-server")
            .arg("--version")
            .output()
            .await;
        let redis = redis
            .map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
            .unwrap_or_default();
        let redis = redis
            .split_whitespace()
            .find_map(|word| word.strip_prefix("v="))
            .unwrap_or("absent")
            .to_owned();
        Ok(Self {
            version: env!("CARGO_PKG_VERSION"),
            machine: Machine::read(),
            redis,
            quick,
            budgets,
            run,
        })
    }
}
