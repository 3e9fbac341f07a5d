//! The routes of what users tell each other: announcements, feeds and lists.

pub(super) mod feeds;
pub(super) mod lists;
pub(super) mod statuses;
