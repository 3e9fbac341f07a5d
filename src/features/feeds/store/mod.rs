//! What users tell each other beside presence: profiles, announcements, timelines, lists, feeds, and
//! the jobs that copy announcements to followers.

pub mod fanout_jobs;
pub mod feeds;
pub mod lists;
pub mod merged;
pub mod statuses;
pub mod timelines;

use self::fanout_jobs::FanoutJobs;
use self::lists::UserLists;
use self::statuses::Statuses;
use self::timelines::Timelines;
use crate::features::profiles::store::Profiles;
use crate::store::Store;

/// The calls of the core, and those about announcements, timelines, lists, fan-outs and their
/// authors' profiles.
pub trait FeedStore: Store + Statuses + Timelines + UserLists + FanoutJobs + Profiles {}

impl<T: Store + Statuses + Timelines + UserLists + FanoutJobs + Profiles + ?Sized> FeedStore for T {}
