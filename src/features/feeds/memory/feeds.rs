//! Statuses, timelines and lists of users in the embedded store, under one small lock.

use crate::features::feeds::memory::timelines::StoredFeeds;
use async_trait::async_trait;
use tokio::time::Instant;

use crate::base::ids::{ListName, UserId};
use crate::features::feeds::store::lists::{MAX_LIST, PutInList, UserLists};
use crate::features::feeds::store::statuses::{Post, StatusId, Statuses, TimelineEntry};
use crate::features::feeds::store::timelines::{Timeline, Timelines};
use crate::store::StoreResult;
use crate::store::memory::MemoryStore;

#[async_trait]
impl Statuses for MemoryStore {
    async fn put_post(&self, status: &StatusId, post: &Post) -> StoreResult<Post> {
        let mut feeds = self.states.lock::<StoredFeeds>();
        if let Some(there) = feeds.posts.get(status.as_str()) {
            return Ok(there.clone());
        }
        feeds.posts.insert(status.as_str().to_owned(), post.clone());
        feeds.add(
            &Timeline::Profile(status.author().clone()),
            &TimelineEntry {
                at: post.at,
                id: status.clone(),
            },
        );
        Ok(post.clone())
    }

    async fn drop_post(&self, status: &StatusId) -> StoreResult<bool> {
        let mut feeds = self.states.lock::<StoredFeeds>();
        feeds.remove(&Timeline::Profile(status.author().clone()), status);
        Ok(feeds.posts.remove(status.as_str()).is_some())
    }

    async fn posts(&self, statuses: &[StatusId]) -> Vec<StoreResult<Option<Post>>> {
        let feeds = self.states.lock::<StoredFeeds>();
        statuses
            .iter()
            .map(|status| Ok(feeds.posts.get(status.as_str()).cloned()))
            .collect()
    }

    async fn count_posts(&self, author: &UserId) -> StoreResult<u64> {
        self.timeline_len(&Timeline::Profile(author.clone())).await
    }
}

#[async_trait]
impl Timelines for MemoryStore {
    async fn read_timelines(
        &self,
        asked: &[(Timeline, Option<TimelineEntry>)],
        limit: usize,
    ) -> Vec<StoreResult<Vec<TimelineEntry>>> {
        let feeds = self.states.lock::<StoredFeeds>();
        asked
            .iter()
            .map(|(timeline, after)| Ok(feeds.page(timeline, after.as_ref(), limit)))
            .collect()
    }

    async fn timeline_len(&self, timeline: &Timeline) -> StoreResult<u64> {
        match self.states.lock::<StoredFeeds>().timelines.get(timeline) {
            Some(entries) => Ok(entries.len() as u64),
            None => Ok(0),
        }
    }

    async fn are_on_timelines(&self, asked: &[(Timeline, StatusId)]) -> Vec<StoreResult<bool>> {
        let feeds = self.states.lock::<StoredFeeds>();
        asked
            .iter()
            .map(|(timeline, status)| Ok(feeds.has(timeline, status)))
            .collect()
    }

    async fn add_to_timelines(
        &self,
        entry: &TimelineEntry,
        to: &[Timeline],
        _: Instant,
    ) -> StoreResult<()> {
        let mut feeds = self.states.lock::<StoredFeeds>();
        for timeline in to {
            feeds.add(timeline, entry);
        }
        Ok(())
    }

    async fn add_entries(&self, timeline: &Timeline, entries: &[TimelineEntry]) -> StoreResult<()> {
        let mut feeds = self.states.lock::<StoredFeeds>();
        for entry in entries {
            feeds.add(timeline, entry);
        }
        Ok(())
    }

    async fn remove_from_timelines(&self, status: &StatusId, from: &[Timeline]) -> StoreResult<()> {
        let mut feeds = self.states.lock::<StoredFeeds>();
        for timeline in from {
            feeds.remove(timeline, status);
        }
        Ok(())
    }

    async fn remove_entries(&self, timeline: &Timeline, statuses: &[StatusId]) -> StoreResult<()> {
        let mut feeds = self.states.lock::<StoredFeeds>();
        for status in statuses {
            feeds.remove(timeline, status);
        }
        Ok(())
    }
}

#[async_trait]
impl UserLists for MemoryStore {
    async fn put_in_list(
        &self,
        owner: &UserId,
        list: &ListName,
        member: &UserId,
    ) -> StoreResult<PutInList> {
        let mut feeds = self.states.lock::<StoredFeeds>();
        let members = feeds
            .lists
            .entry((owner.clone(), list.clone()))
            .or_default();
        if members.contains(member) {
            return Ok(PutInList::There);
        }
        if members.len() >= MAX_LIST {
            return Ok(PutInList::Full);
        }
        members.insert(member.clone());
        Ok(PutInList::Added)
    }

    async fn take_out_of_list(
        &self,
        owner: &UserId,
        list: &ListName,
        member: &UserId,
    ) -> StoreResult<bool> {
        let key = (owner.clone(), list.clone());
        let mut feeds = self.states.lock::<StoredFeeds>();
        let Some(members) = feeds.lists.get_mut(&key) else {
            return Ok(false);
        };
        let removed = members.remove(member);
        if members.is_empty() {
            feeds.lists.remove(&key);
        }
        Ok(removed)
    }

    async fn list_members(&self, owner: &UserId, list: &ListName) -> StoreResult<Vec<UserId>> {
        let feeds = self.states.lock::<StoredFeeds>();
        let members = feeds.lists.get(&(owner.clone(), list.clone()));
        Ok(members
            .map(|members| members.iter().cloned().collect())
            .unwrap_or_default())
    }
}
