//! Inspects lives. Each inspection reads everything anew, except the names of keys, so that a second one can tell what
//! was only in transit.

mod inspection;
mod live;
mod slice;

pub(super) use inspection::{Holding, Inspection, Inspector, LiveRow};
