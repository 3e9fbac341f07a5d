//! What a run found: one document, a table for people, and plots.

mod plots;
mod text;

use std::path::Path;

use serde::Serialize;

use super::budgets::{Budget, Verdict};
use super::figures::{Figures, Spread};
use super::rows;
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
    pub(crate) async fn new(run: Figures, budgets: Vec<Budget>, quick: bool, whole: bool) -> anyhow::Result<Self> {
        let touched = |budget: &Budget| {
            whole || run.not_run.contains_key(&budget.row) || run.figures.iter().any(|figure| figure.row == budget.row)
        };
        let judge = |budget: Budget| Judged { found: budget.bounded(&run), verdict: budget.verdict(&run), budget };
        let budgets = budgets.into_iter().filter(touched).map(judge).collect();
        let redis = tokio::process::Command::new("redis-server").arg("--version").output().await;
        let redis = redis.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        let redis = redis.split_whitespace().find_map(|word| word.strip_prefix("v=")).unwrap_or("absent").to_owned();
        Ok(Self { version: env!("CARGO_PKG_VERSION"), machine: Machine::read(), redis, quick, budgets, run })
    }

    /// The budgets that are not kept, each in a line.
    pub(crate) fn broken(&self) -> Vec<String> {
        let broken = self.budgets.iter().filter(|judged| judged.verdict != Verdict::Kept);
        broken.map(text::in_words).collect()
    }

    /// Writes the table and plots, as HTML or, by the file's name, as one SVG.
    pub(crate) fn draw(&self, file: &Path) -> anyhow::Result<()> {
        plots::write(self, file)
    }

    fn what(row: &str) -> &'static str {
        rows::ALL.iter().find(|known| known.name == row).map_or("", |known| known.what)
    }
}
