//! The pushes to the dashboards of a live.

pub mod counts;
