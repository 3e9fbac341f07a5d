//! Profiles, announcements, timelines, lists and fan-out jobs in Redis.

pub(crate) mod fanout_jobs;
pub(crate) mod lists;
pub(crate) mod statuses;
pub(crate) mod timelines;
