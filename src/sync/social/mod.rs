//! Announcements on their way to followers: the service that posts them, and the workers that copy
//! them to timelines.

pub mod fanout;
pub mod feeds;
