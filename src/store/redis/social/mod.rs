//! Profiles, announcements, timelines, lists and fan-out jobs in Redis.

pub(super) mod fanout_jobs;
pub(super) mod lists;
pub(super) mod profiles;
pub(super) mod statuses;
pub(super) mod timelines;
