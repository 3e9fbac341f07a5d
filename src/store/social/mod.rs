//! What users tell each other beside presence: profiles, announcements, timelines, lists, feeds, and
//! the jobs that copy announcements to followers.

pub(super) mod fanout_jobs;
pub(super) mod feeds;
pub(super) mod lists;
pub(super) mod merged;
pub(super) mod profiles;
pub(super) mod statuses;
pub(super) mod timelines;
