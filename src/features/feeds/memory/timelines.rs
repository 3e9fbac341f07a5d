//! The data of statuses in the embedded store: timelines, announcements, lists of users, and the
//! jobs for followers.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::ops::Bound;

use crate::base::clock::UnixMillis;
use crate::base::ids::{ListName, UserId};
use crate::features::feeds::store::fanout_jobs::TakenJob;
use crate::features::feeds::store::statuses::{Post, StatusId, TimelineEntry};
use crate::features::feeds::store::timelines::Timeline;
use crate::store::PersonalData;
use crate::store::memory::states::{State, StateErasure};

#[derive(Debug, Clone, Default)]
pub(crate) struct StoredFeeds {
    pub(crate) timelines: HashMap<Timeline, BTreeSet<TimelineEntry>>,
    /// By the text of the status id.
    pub(crate) posts: HashMap<String, Post>,
    pub(crate) lists: HashMap<(UserId, ListName), BTreeSet<UserId>>,
    pub(crate) jobs: Jobs,
}

impl StoredFeeds {
    pub(crate) fn add(&mut self, timeline: &Timeline, entry: &TimelineEntry) {
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
        after: Option<&TimelineEntry>,
        limit: usize,
    ) -> Vec<TimelineEntry> {
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

impl State for StoredFeeds {
    fn erase(&mut self, erasure: &mut StateErasure<'_>) {
        let user = erasure.user;
        let step = &mut erasure.step;
        let mut entries = 0;
        self.timelines.retain(|timeline, there| {
            let before = there.len();
            if timeline.owner() == user {
                there.clear();
            }
            there.retain(|entry| entry.id.author() != user);
            entries += (before - there.len()) as u64;
            !there.is_empty()
        });
        step.add(PersonalData::TimelineEntries, entries);
        let before = self.posts.len();
        self.posts
            .retain(|id, _| StatusId::parse(id).is_none_or(|id| id.author() != user));
        let gone = before - self.posts.len();
        step.add(PersonalData::Announcements, gone as u64);
        let before = self.lists.len();
        self.lists.retain(|(owner, _), _| owner != user);
        step.add(PersonalData::Lists, (before - self.lists.len()) as u64);
        let mut places = 0;
        self.lists.retain(|_, members| {
            places += u64::from(members.remove(user));
            !members.is_empty()
        });
        step.add(PersonalData::ListPlaces, places);
        step.is_dirty |= self.jobs.pulled.remove(user).is_some();
        step.is_dirty |= self
            .jobs
            .unfinished()
            .any(|there| there.job.job.entry.id.author() == user);
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
