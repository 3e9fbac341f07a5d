//! Helpers that unit tests share, and the targets of the fuzzer.

#[cfg(test)]
mod faulty_store;
pub mod fuzzing;
#[cfg(test)]
mod unit;

#[cfg(test)]
pub(crate) use faulty_store::*;
#[cfg(test)]
pub(crate) use unit::*;
