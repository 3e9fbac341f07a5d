//! The data of statuses in the embedded store: timelines, announcements, lists of users, and the
//! jobs for followers.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::ops::Bound;

use crate::base::clock::UnixMillis;
use crate::base::ids::{ListName, UserId};
use crate::store::{Entry, Post, StatusId, TakenJob, Timeline};

#[derive(Debug, Clone, Default)]
pub(in crate::store::memory) struct Feeds {
    pub(in crate::store::memory) timelines: HashMap<Timeline, BTreeSet<Entry>>,
    /// By the text of the status id.
    pub(in crate::store::memory) posts: HashMap<String, Post>,
    pub(in crate::store::memory) lists: HashMap<(UserId, ListName), BTreeSet<UserId>>,
    pub(in crate::store::memory) jobs: Jobs,
}

impl Feeds {
    pub(in crate::store::memory) fn add(&mut self, timeline: &Timeline, entry: &Entry) {
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

    pub(in crate::store::memory) fn remove(&mut self, timeline: &Timeline, status: &StatusId) {
        let Some(entries) = self.timelines.get_mut(timeline) else {
            return;
        };
        entries.retain(|entry| entry.id != *status);
        if entries.is_empty() {
            self.timelines.remove(timeline);
        }
    }

    pub(in crate::store::memory) fn page(
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

    pub(in crate::store::memory) fn has(&self, timeline: &Timeline, status: &StatusId) -> bool {
        self.timelines
            .get(timeline)
            .is_some_and(|entries| entries.iter().any(|entry| entry.id == *status))
    }
}

#[derive(Debug, Clone, Default)]
pub(in crate::store::memory) struct Jobs {
    pub(in crate::store::memory) numbers: u64,
    pub(in crate::store::memory) waiting: VecDeque<Unfinished>,
    pub(in crate::store::memory) taken: Vec<Unfinished>,
    pub(in crate::store::memory) pulled: HashMap<UserId, UnixMillis>,
}

#[derive(Debug, Clone)]
pub(in crate::store::memory) struct Unfinished {
    pub(in crate::store::memory) job: TakenJob,
    pub(in crate::store::memory) since: UnixMillis,
}

impl Jobs {
    pub(in crate::store::memory) fn unfinished(&self) -> impl Iterator<Item = &Unfinished> {
        self.taken.iter().chain(&self.waiting)
    }
}
