//! The data of statuses in the embedded store: timelines, announcements, lists of users, and the
//! jobs for followers.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::ops::Bound;

use crate::base::clock::UnixMillis;
use crate::base::ids::{ListName, UserId};
use crate::features::feeds::store::fanout_jobs::TakenJob;
use crate::features::feeds::store::statuses::{Entry, Post, StatusId};
use crate::features::feeds::store::timelines::Timeline;

#[derive(Debug, Clone, Default)]
pub(crate) struct StoredFeeds {
    pub(crate) timelines: HashMap<Timeline, BTreeSet<Entry>>,
    /// By the text of the status id.
    pub(crate) posts: HashMap<String, Post>,
    pub(crate) lists: HashMap<(UserId, ListName), BTreeSet<UserId>>,
    pub(crate) jobs: Jobs,
}

impl StoredFeeds {
    pub(crate) fn add(&mut self, timeline: &Timeline, entry: &Entry) {
        let entries = self.timelines.entry(timeline.clone()).or_default();
        entries.retain(|other| other.id != entry.id);
        entries.insert(entry.clone());
        while entries.len() > timeline.most() {
            if let Some(oldest) = entries.pop_first()
                && matches!(timeline, Timeline::Profile(_))
            {
                self.posts.remove(oldest.id.as_str());
            }
        }
    }

    pub(crate) fn remove(&mut self, timeline: &Timeline, status: &StatusId) {
        let Some(entries) = self.timelines.get_mut(timeline) else {
            return;
        };
        entries.retain(|entry| entry.id != *status);
        if entries.is_empty() {
            self.timelines.remove(timeline);
        }
    }

    pub(crate) fn page(
        &self,
        timeline: &Timeline,
        after: Option<&Entry>,
        limit: usize,
    ) -> Vec<Entry> {
        let Some(entries) = self.timelines.get(timeline) else {
            return Vec::new();
        };
        let end = match after {
            Some(last) => Bound::Excluded(last.clone()),
            None => Bound::Unbounded,
        };
        entries
            .range((Bound::Unbounded, end))
            .rev()
            .take(limit)
            .cloned()
            .collect()
    }

    pub(crate) fn has(&self, timeline: &Timeline, status: &StatusId) -> bool {
        self.timelines
            .get(timeline)
            .is_some_and(|entries| entries.iter().any(|entry| entry.id == *status))
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Jobs {
    pub(crate) numbers: u64,
    pub(crate) waiting: VecDeque<Unfinished>,
    pub(crate) taken: Vec<Unfinished>,
    pub(crate) pulled: HashMap<UserId, UnixMillis>,
}

#[derive(Debug, Clone)]
pub(crate) struct Unfinished {
    pub(crate) job: TakenJob,
    pub(crate) since: UnixMillis,
}

impl Jobs {
    pub(crate) fn unfinished(&self) -> impl Iterator<Item = &Unfinished> {
        self.taken.iter().chain(&self.waiting)
    }
}
