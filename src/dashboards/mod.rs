//! What goes out to those who watch a live.

pub mod counts;
