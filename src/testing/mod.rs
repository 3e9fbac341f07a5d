//! What unit tests share, and what fuzzing runs.

#[cfg(test)]
mod faulty_store;
pub mod fuzzing;
#[cfg(test)]
mod unit;

#[cfg(test)]
pub(crate) use faulty_store::*;
#[cfg(test)]
pub(crate) use unit::*;
