//! The report of a soak: the document, its text for people, and its plots.

mod document;
mod plots;
#[cfg(test)]
mod tests;
mod text;

pub(super) use document::{Kept, Measured, Report, Settings};
pub(super) use plots::write as write_plots;
