//! Profiles, announcements, timelines, lists and fan-out jobs in the embedded store.

pub(super) mod fanout;
pub(super) mod feeds;
pub(super) mod profiles;
pub(super) mod timelines;
