//! Tells the followers of a user what the user does: that a live opened or ended, an announcement,
//! and that it was deleted. The author's own timelines change at once. The followers' are many: a
//! job is noted in the store, and [`crate::features::feeds::fanout`] works on it.
//!
//! A job is noted before the change that it tells of, or the change says by itself that it must be
//! told: so a gateway that dies between the two leaves nothing untold. Follows, unfollows and reads
//! of a feed come here, too.

use crate::features::profiles::store::CountsStatuses;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::{StreamExt, stream};
use tokio::sync::Notify;

use crate::base::clock::Clock;
use crate::base::ids::{PostId, UserId};
use crate::features::feeds::store::FeedStore;
use crate::features::feeds::store::fanout_jobs::{FanoutJob, FanoutTask};
use crate::features::feeds::store::feeds::{
    MIN_TIMELINE, ShownStatus, StatusContent, StatusPage, StatusState, View, forget_author,
    merge_author, refill, states_of, status_page, take_back, withdraw, withdraw_live,
};
use crate::features::feeds::store::statuses::{Post, StatusId, TimelineEntry};
use crate::features::feeds::store::timelines::{MAX_TIMELINE, Timeline};
use crate::store::{LiveRecord, StoreResult};
use crate::sync::features::{Feature, HowOpened};

/// How long this gateway remembers that it refilled a user's timelines.
const FILLED_TTL: Duration = Duration::from_secs(60);
/// For how many users it remembers that.
const MAX_FILLED: u64 = 100_000;
/// Lives that the walk announces at the same time.
const MAX_CONCURRENT_ANNOUNCEMENTS: usize = 8;

pub struct Feeds {
    /// The store's share for what clients ask.
    store: Arc<dyn FeedStore>,
    clock: Clock,
    filled: moka::sync::Cache<UserId, ()>,
    /// Jobs were noted here.
    jobs: Notify,
}

/// What became of an announcement that was to be deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deleted {
    Done,
    /// It is not there.
    Absent,
    /// It is another user's.
    Another,
}

impl Feeds {
    pub fn new(store: Arc<dyn FeedStore>, clock: Clock) -> Self {
        let filled = moka::sync::Cache::builder()
            .time_to_live(FILLED_TTL)
            .max_capacity(MAX_FILLED)
            .build();
        Self {
            store,
            clock,
            filled,
            jobs: Notify::new(),
        }
    }

    /// Waits until jobs were noted on this gateway.
    pub async fn jobs(&self) {
        self.jobs.notified().await;
    }

    /// Notes a job; the worker here is told once the change is made that the job tells of.
    async fn note(&self, task: FanoutTask, entry: &TimelineEntry) -> StoreResult<()> {
        self.store
            .enqueue_fanout(&FanoutJob {
                task,
                entry: entry.clone(),
            })
            .await
    }

    /// Announces a live. `followers` is the streamer's follower count before, if it is known. If the
    /// store fails, the next walk finds that the live was not announced.
    async fn show(&self, record: &LiveRecord, followers: Option<u64>) {
        if let Err(error) = self.announce(record, followers).await {
            tracing::debug!(
                live_id = %record.live, %error,
                "a live was not announced; the walk will do it"
            );
        }
    }

    async fn announce(&self, record: &LiveRecord, followers: Option<u64>) -> StoreResult<()> {
        let entry = TimelineEntry::of_live(record);
        let on_air = Timeline::OnAir(record.streamer.clone());
        if record.terms.invisible {
            return self.withdraw_ended(&on_air).await;
        }
        let noted = async {
            let has_followers = match followers {
                Some(followers) => followers > 0,
                None => self.has_followers(&record.streamer).await?,
            };
            if has_followers {
                self.note(FanoutTask::Add, &entry).await?;
            }
            StoreResult::Ok(has_followers)
        };
        let ((), had_followers) = tokio::try_join!(self.withdraw_ended(&on_air), noted)?;
        // The entry comes after the note, because it says that the live was announced. New followers
        // find the live there from now on.
        let store = self.store.as_ref();
        let entries = std::slice::from_ref(&entry);
        store.add_entries(&on_air, entries).await?;
        let noted_late = async {
            if !had_followers && self.has_followers(&record.streamer).await? {
                self.note(FanoutTask::Add, &entry).await?;
            }
            StoreResult::Ok(())
        };
        tokio::try_join!(take_back(store, &on_air, entries), noted_late)?;
        self.look_for_jobs();
        Ok(())
    }

    async fn has_followers(&self, author: &UserId) -> StoreResult<bool> {
        Ok(self.store.follower_count(author).await? > 0)
    }

    /// Withdraws what ended unnoticed: an epoch whose record was lost before its close, an entry
    /// that came late.
    async fn withdraw_ended(&self, on_air: &Timeline) -> StoreResult<()> {
        let mut read = self
            .store
            .read_timelines(&[(on_air.clone(), None)], MAX_TIMELINE)
            .await;
        let known = match read.pop() {
            Some(known) => known?,
            None => Vec::new(),
        };
        let statuses: Vec<StatusId> = known.iter().map(|entry| entry.id.clone()).collect();
        for (entry, state) in known
            .iter()
            .zip(states_of(self.store.as_ref(), &statuses).await)
        {
            if state == Ok(StatusState::Over) {
                withdraw(self.store.as_ref(), entry).await?;
            }
        }
        Ok(())
    }

    /// The worker here looks for jobs at once.
    fn look_for_jobs(&self) {
        self.jobs.notify_one();
    }

    /// Announces the open lives that are not on air: a gateway died before it announced them, or the
    /// store lost their entries.
    async fn announce_missing(&self, open: &[LiveRecord]) {
        let open: Vec<&LiveRecord> = open
            .iter()
            .filter(|record| !record.terms.invisible)
            .collect();
        let mut places = Vec::with_capacity(open.len());
        for record in &open {
            places.push((
                Timeline::OnAir(record.streamer.clone()),
                TimelineEntry::of_live(record).id,
            ));
        }
        let listed = self.store.are_on_timelines(&places).await;
        let mut missing: Vec<&LiveRecord> = Vec::new();
        for (record, listed) in open.into_iter().zip(listed) {
            if listed == Ok(false) {
                missing.push(record);
            }
        }
        stream::iter(missing)
            .for_each_concurrent(MAX_CONCURRENT_ANNOUNCEMENTS, |record| {
                self.show(record, None)
            })
            .await;
    }

    /// Makes an announcement now, or answers the one that an earlier call made with this id. `None` if
    /// its author has no profile.
    pub async fn post(
        &self,
        author: &UserId,
        post: PostId,
        text: String,
        data: Option<String>,
    ) -> StoreResult<Option<ShownStatus>> {
        if self.store.profile(author).await?.is_none() {
            return Ok(None);
        }
        let id = StatusId::of_post(author.clone(), post);
        if let Some(there) = self.find(author, &id).await? {
            return Ok(Some(there));
        }
        let at = self.clock.unix();
        let mut entry = TimelineEntry { at, id };
        self.note(FanoutTask::Add, &entry).await?;
        let post = Post { at, text, data };
        // The same request may be under way on another gateway. The first one tells the time.
        let post = self.store.put_post(&entry.id, &post).await?;
        entry.at = post.at;
        self.look_for_jobs();
        Ok(Some(ShownStatus {
            entry,
            content: StatusContent::Post(post),
        }))
    }

    /// A status of this user, if it stands.
    pub async fn find(&self, user: &UserId, status: &StatusId) -> StoreResult<Option<ShownStatus>> {
        if status.author() != user {
            return Ok(None);
        }
        let store = self.store.as_ref();
        match states_of(store, std::slice::from_ref(status))
            .await
            .pop()
            .unwrap_or(Ok(StatusState::Unknown))?
        {
            StatusState::Stands(StatusContent::Post(post)) => {
                let entry = TimelineEntry {
                    at: post.at,
                    id: status.clone(),
                };
                Ok(Some(ShownStatus {
                    entry,
                    content: StatusContent::Post(post),
                }))
            }
            StatusState::Stands(content @ StatusContent::Live { .. }) => {
                let Some((live, _)) = status.live() else {
                    return Ok(None);
                };
                let record = store
                    .load_live(live)
                    .await?
                    .filter(|record| !record.terms.invisible);
                let entry = record
                    .map(|record| TimelineEntry::of_live(&record))
                    .filter(|entry| entry.id == *status);
                Ok(entry.map(|entry| ShownStatus { entry, content }))
            }
            StatusState::Over | StatusState::Unknown => Ok(None),
        }
    }

    /// Deletes an announcement of this user.
    pub async fn delete(&self, user: &UserId, status: &StatusId) -> StoreResult<Deleted> {
        let known = self
            .store
            .posts(std::slice::from_ref(status))
            .await
            .pop()
            .unwrap_or(Ok(None))?;
        match known {
            // The status of a live is nobody's to delete: the live can be closed.
            None if status.live().is_some() => return Ok(Deleted::Another),
            None => return Ok(Deleted::Absent),
            Some(_) if status.author() != user => return Ok(Deleted::Another),
            Some(post) => {
                self.note(
                    FanoutTask::Remove,
                    &TimelineEntry {
                        at: post.at,
                        id: status.clone(),
                    },
                )
                .await?
            }
        }
        let was_there = self.store.drop_post(status).await?;
        self.look_for_jobs();
        Ok(if was_there {
            Deleted::Done
        } else {
            Deleted::Absent
        })
    }

    /// A page of what a user sees.
    pub async fn page(
        &self,
        view: View<'_>,
        after: Option<&TimelineEntry>,
        limit: usize,
    ) -> StoreResult<StatusPage> {
        let store = self.store.as_ref();
        let page = status_page(store, view, after, limit).await?;
        let (View::Feed(user) | View::Home(user)) = view else {
            return Ok(page);
        };
        if after.is_some() || self.filled.contains_key(user) || !self.is_short(user).await? {
            return Ok(page);
        }
        // The mark comes first, so that a user who reads all the time costs one refill.
        self.filled.insert(user.clone(), ());
        refill(store, user).await?;
        status_page(store, view, after, limit).await
    }

    /// Whether a user's timelines have so few entries that they may lack some.
    async fn is_short(&self, user: &UserId) -> StoreResult<bool> {
        let home = Timeline::Home(user.clone());
        let feed = Timeline::Feed(user.clone());
        let (home, feed) = tokio::try_join!(
            self.store.timeline_len(&home),
            self.store.timeline_len(&feed)
        )?;
        Ok(home.min(feed) < MIN_TIMELINE)
    }
}

#[async_trait]
impl CountsStatuses for Feeds {
    async fn count_statuses(&self, author: &UserId) -> StoreResult<u64> {
        self.store.count_posts(author).await
    }
}

#[async_trait]
impl Feature for Feeds {
    async fn opened(&self, record: &LiveRecord, how: HowOpened) -> StoreResult<()> {
        if how.created {
            self.show(record, how.followers).await;
        }
        Ok(())
    }

    async fn closing(&self, record: &LiveRecord) -> StoreResult<()> {
        withdraw_live(self.store.as_ref(), record).await
    }

    fn closed(&self) {
        self.look_for_jobs();
    }

    async fn superseded(&self, record: &LiveRecord) -> StoreResult<()> {
        withdraw_live(self.store.as_ref(), record).await?;
        self.look_for_jobs();
        Ok(())
    }

    async fn walked(&self, open: &[LiveRecord]) {
        self.announce_missing(open).await;
    }

    async fn followed(&self, user: &UserId, author: &UserId) -> StoreResult<()> {
        merge_author(self.store.as_ref(), user, author).await
    }

    async fn unfollowed(&self, user: &UserId, author: &UserId) -> StoreResult<()> {
        if forget_author(self.store.as_ref(), user, author).await? {
            refill(self.store.as_ref(), user).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
