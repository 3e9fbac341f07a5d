//! What unit tests share, and what fuzzing runs.

pub mod fuzzing;
#[cfg(test)]
mod unit;

#[cfg(test)]
pub(crate) use unit::*;
