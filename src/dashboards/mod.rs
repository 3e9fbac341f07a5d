//! What goes out to the dashboards of a live.

pub mod counts;
