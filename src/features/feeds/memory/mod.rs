//! Profiles, announcements, timelines, lists and fan-out jobs in the embedded store.

pub(crate) mod fanout;
pub(crate) mod feeds;
pub(crate) mod timelines;
