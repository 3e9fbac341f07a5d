//! The report of a run: the document, its text for people, and its plots.

mod document;
mod plots;
mod text;

pub(crate) use document::Report;
pub(crate) use plots::write as write_plots;
pub(crate) use text::broken_budgets;
