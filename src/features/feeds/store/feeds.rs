//! Feeds as users see them, and the timelines behind them when a user follows or unfollows. This
//! code consists of calls to the store, so it is the same for every store.
//!
//! A timeline may have too many entries: a live that ended a moment ago, an announcement that was
//! deleted, the status of an author whom the user no longer follows. Code that shows a timeline
//! checks for each status whether it stands, and removes the others from the timeline.

use std::collections::{HashMap, HashSet};

use crate::base::clock::UnixMillis;
use crate::base::ids::{Epoch, ListName, UserId};
use crate::features::feeds::store::FeedStore;
use crate::features::feeds::store::fanout_jobs::{FanoutJob, FanoutTask};
use crate::features::feeds::store::lists::MAX_LIST;
use crate::features::feeds::store::merged::Merged;
use crate::features::feeds::store::statuses::{Post, StatusId, StatusSubject, TimelineEntry};
use crate::features::feeds::store::timelines::{MAX_TIMELINE, Timeline};
use crate::store::followed;
use crate::store::{LiveRecord, LiveState, StoreError, StoreResult};

/// A timeline with fewer entries may lack some that were crowded out, and is filled again.
pub const MIN_TIMELINE: u64 = 750;

/// Maximum reads per page: the page ends then, even if few of its entries stand.
const MOST_READS: usize = 8;

/// Which statuses to show.
#[derive(Debug, Clone, Copy)]
pub enum View<'a> {
    /// The lives of the authors whom a user follows.
    Feed(&'a UserId),
    /// The announcements and lives of the authors whom a user follows.
    Home(&'a UserId),
    /// A user's own announcements and lives.
    Profile(&'a UserId),
    /// A user's own lives.
    OnAir(&'a UserId),
    /// The announcements and lives of the members of a list.
    List(&'a UserId, &'a ListName),
}

/// The content of a status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StatusContent {
    /// A live is on air.
    Live {
        /// The title with which it was opened.
        title: Option<String>,
    },
    /// An announcement.
    Post(Post),
}

/// Whether a status stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StatusState {
    /// The status stands, and says this.
    Stands(StatusContent),
    /// The status stands no longer, and never will again.
    Over,
    /// Nothing is known of the status: the announcement was deleted or is not written yet, or the
    /// live's record is lost.
    Unknown,
}

/// A status that stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownStatus {
    /// The status.
    pub entry: TimelineEntry,
    /// Its content.
    pub content: StatusContent,
}

/// A page of statuses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StatusPage {
    /// Newest first.
    pub items: Vec<ShownStatus>,
    /// After which entry the next page begins; `None` at the end.
    pub next: Option<TimelineEntry>,
}

/// Whether each status stands, and its content.
pub async fn states_of(
    store: &dyn FeedStore,
    statuses: &[StatusId],
) -> Vec<StoreResult<StatusState>> {
    let mut lives = Vec::new();
    let mut posts = Vec::new();
    for status in statuses {
        match status.subject() {
            StatusSubject::Live(live, _) => lives.push(live.clone()),
            StatusSubject::Post(_) => posts.push(status.clone()),
        }
    }
    let (records, posts) = tokio::join!(store.load_lives(&lives), store.posts(&posts));
    let mut records = records.into_iter();
    let mut posts = posts.into_iter();
    let mut states = Vec::with_capacity(statuses.len());
    for status in statuses {
        states.push(match status.subject() {
            StatusSubject::Post(_) => match posts.next() {
                Some(post) => post_state(post),
                None => too_few_answers(),
            },
            StatusSubject::Live(_, epoch) => match records.next() {
                Some(record) => live_state(status.author(), *epoch, record),
                None => too_few_answers(),
            },
        });
    }
    states
}

fn too_few_answers<T>() -> StoreResult<T> {
    Err(StoreError::Nonsense("too few answers".to_owned()))
}

/// The state of the status of an announcement. An announcement that another program garbled is no
/// reason to hide the other statuses.
fn post_state(post: StoreResult<Option<Post>>) -> StoreResult<StatusState> {
    match post {
        Ok(Some(post)) => Ok(StatusState::Stands(StatusContent::Post(post))),
        Ok(None) | Err(StoreError::Nonsense(_)) => Ok(StatusState::Unknown),
        Err(why) => Err(why),
    }
}

/// The state of the status of an epoch of a live, by the live's record.
fn live_state(
    streamer: &UserId,
    epoch: Epoch,
    record: StoreResult<Option<LiveRecord>>,
) -> StoreResult<StatusState> {
    let record = match record {
        Ok(Some(record)) => record,
        Ok(None) | Err(StoreError::Nonsense(_)) => return Ok(StatusState::Unknown),
        Err(why) => return Err(why),
    };
    if record.epoch < epoch {
        // A record of an older epoch came back from a backup. A gateway writes the newer one again.
        return Ok(StatusState::Unknown);
    }
    if record.epoch > epoch || record.streamer != *streamer {
        return Ok(StatusState::Over);
    }
    Ok(match record.state {
        LiveState::Open => StatusState::Stands(StatusContent::Live {
            title: record.terms.title,
        }),
        LiveState::Closing | LiveState::Closed => StatusState::Over,
    })
}

/// A page of statuses that stand, after the given entry. Removes the statuses that do not stand
/// from the timelines that it reads.
pub async fn status_page(
    store: &dyn FeedStore,
    view: View<'_>,
    after: Option<&TimelineEntry>,
    limit: usize,
) -> StoreResult<StatusPage> {
    let timelines = timelines_of(store, view).await?;
    let mut merged = Merged::open(store, timelines, after, limit + 1).await?;
    let mut page = StatusPage::default();
    for _ in 0..MOST_READS {
        let wanted = limit + 1 - page.items.len();
        let read = merged.take(wanted).await?;
        let at_end = read.len() < wanted;
        let last = read.last().map(|(entry, _)| entry.clone());
        page.items.extend(standing(store, view, read).await?);
        if page.items.len() > limit {
            page.items.truncate(limit);
            page.next = page.items.last().map(|status| status.entry.clone());
            return Ok(page);
        }
        if at_end {
            page.next = None;
            break;
        }
        page.next = last;
    }
    Ok(page)
}

/// The timelines in which a view's statuses are.
async fn timelines_of(store: &dyn FeedStore, view: View<'_>) -> StoreResult<Vec<Timeline>> {
    let mut timelines = Vec::new();
    match view {
        View::Profile(user) => timelines.extend(authored_by(user)),
        View::OnAir(user) => timelines.push(Timeline::OnAir(user.clone())),
        View::List(owner, list) => {
            let members = store.list_members(owner, list).await?;
            for member in members.iter().take(MAX_LIST) {
                timelines.extend(authored_by(member));
            }
        }
        View::Feed(user) => {
            let pulled = pulled_by(store, user).await?;
            timelines.push(Timeline::Feed(user.clone()));
            timelines.extend(pulled.into_iter().map(Timeline::OnAir));
        }
        View::Home(user) => {
            let pulled = pulled_by(store, user).await?;
            timelines.push(Timeline::Home(user.clone()));
            timelines.push(Timeline::Feed(user.clone()));
            for author in &pulled {
                timelines.extend(authored_by(author));
            }
        }
    }
    Ok(timelines)
}

/// The timelines in which an author's own statuses are.
fn authored_by(author: &UserId) -> [Timeline; 2] {
    [
        Timeline::Profile(author.clone()),
        Timeline::OnAir(author.clone()),
    ]
}

/// The authors whom a user follows and whose statuses are pulled.
async fn pulled_by(store: &dyn FeedStore, user: &UserId) -> StoreResult<Vec<UserId>> {
    let authors = store
        .pulled_authors()
        .await?
        .into_iter()
        .map(|(author, _)| author)
        .collect();
    Ok(who_is_followed(store, user, authors)
        .await?
        .into_iter()
        .collect())
}

/// The authors, among these, whom the user follows. This asks the user's own key, because the keys
/// of large authors are busy.
async fn who_is_followed(
    store: &dyn FeedStore,
    user: &UserId,
    authors: HashSet<UserId>,
) -> StoreResult<HashSet<UserId>> {
    let asked: Vec<(UserId, UserId)> = authors
        .into_iter()
        .map(|author| (user.clone(), author))
        .collect();
    let answers = store.are_following(&asked).await;
    let mut followed = HashSet::new();
    for ((_, author), follows) in asked.into_iter().zip(answers) {
        if follows? {
            followed.insert(author);
        }
    }
    Ok(followed)
}

/// The entries that the view shows. Takes the others out of their timelines.
async fn standing(
    store: &dyn FeedStore,
    view: View<'_>,
    read: Vec<(TimelineEntry, Timeline)>,
) -> StoreResult<Vec<ShownStatus>> {
    let statuses: Vec<StatusId> = read.iter().map(|(entry, _)| entry.id.clone()).collect();
    let authors: HashSet<UserId> = statuses
        .iter()
        .map(|status| status.author().clone())
        .collect();
    let states = states_of(store, &statuses).await;
    let followed = match view {
        View::Feed(user) | View::Home(user) => Some(who_is_followed(store, user, authors).await?),
        View::Profile(_) | View::OnAir(_) | View::List(..) => None,
    };
    let mut shown = Vec::new();
    let mut gone: HashMap<Timeline, Vec<StatusId>> = HashMap::new();
    for ((entry, timeline), state) in read.into_iter().zip(states) {
        let is_followed = match &followed {
            Some(followed) => followed.contains(entry.id.author()),
            None => true,
        };
        match state? {
            StatusState::Stands(content) if is_followed => {
                shown.push(ShownStatus { entry, content })
            }
            // The status is no longer for this user, but stays in the author's own timeline.
            StatusState::Stands(_)
                if matches!(timeline, Timeline::Profile(_) | Timeline::OnAir(_)) => {}
            _ => gone.entry(timeline).or_default().push(entry.id),
        }
    }
    for (timeline, statuses) in gone {
        if let Err(error) = store.remove_entries(&timeline, &statuses).await {
            // The next reader of the timeline tries again.
            tracing::debug!(%error, "statuses that stand no longer stay in a timeline");
        }
    }
    Ok(shown)
}

/// Takes the statuses that do not stand out of a timeline again. If a status ends after this check,
/// the end itself takes it out, or the job that the end begins, because the timeline's user is a
/// follower already.
pub async fn take_back(
    store: &dyn FeedStore,
    timeline: &Timeline,
    entries: &[TimelineEntry],
) -> StoreResult<()> {
    let statuses: Vec<StatusId> = entries.iter().map(|entry| entry.id.clone()).collect();
    let mut gone = Vec::new();
    for (status, state) in statuses.iter().zip(states_of(store, &statuses).await) {
        if !matches!(state?, StatusState::Stands(_)) {
            gone.push(status.clone());
        }
    }
    if gone.is_empty() {
        Ok(())
    } else {
        store.remove_entries(timeline, &gone).await
    }
}

/// Puts the entries that stand into a timeline.
async fn add_standing(
    store: &dyn FeedStore,
    timeline: &Timeline,
    entries: &[TimelineEntry],
) -> StoreResult<()> {
    if entries.is_empty() {
        return Ok(());
    }
    store.add_entries(timeline, entries).await?;
    take_back(store, timeline, entries).await
}

/// The author's statuses that are not pulled, if later ones than `since` are.
fn not_pulled(entries: Vec<TimelineEntry>, since: Option<UnixMillis>) -> Vec<TimelineEntry> {
    entries
        .into_iter()
        .filter(|entry| since.is_none_or(|since| entry.at < since))
        .collect()
}

/// Withdraws the status of a live, unless the live is invisible and has none. By now the live's
/// record says that it ends, or another epoch has taken its place.
pub async fn withdraw_live(store: &dyn FeedStore, record: &LiveRecord) -> StoreResult<()> {
    if record.terms.invisible {
        Ok(())
    } else {
        withdraw(store, &TimelineEntry::of_live(record)).await
    }
}

/// Takes the status of a live that has ended out of the streamer's own timeline, and enqueues a job
/// that takes it out of the timelines of the followers.
pub async fn withdraw(store: &dyn FeedStore, entry: &TimelineEntry) -> StoreResult<()> {
    let streamer = entry.id.author();
    if store.follower_count(streamer).await? > 0 {
        store
            .enqueue_fanout(&FanoutJob {
                task: FanoutTask::Remove,
                entry: entry.clone(),
            })
            .await?;
    }
    store
        .remove_entries(
            &Timeline::OnAir(streamer.clone()),
            std::slice::from_ref(&entry.id),
        )
        .await
}

/// Brings an author's statuses into the timelines of a user who follows the author now.
pub async fn merge_author(
    store: &dyn FeedStore,
    user: &UserId,
    author: &UserId,
) -> StoreResult<()> {
    let asked = [
        (Timeline::Profile(author.clone()), None),
        (Timeline::OnAir(author.clone()), None),
    ];
    let mut found = store.read_timelines(&asked, MAX_TIMELINE).await.into_iter();
    let posts = found.next().unwrap_or(Ok(Vec::new()))?;
    let lives = found.next().unwrap_or(Ok(Vec::new()))?;
    if posts.is_empty() && lives.is_empty() {
        return Ok(());
    }
    let since = store.pulled_since(author).await?;
    add_standing(
        store,
        &Timeline::Home(user.clone()),
        &not_pulled(posts, since),
    )
    .await?;
    add_standing(
        store,
        &Timeline::Feed(user.clone()),
        &not_pulled(lives, since),
    )
    .await
}

/// Takes an author's statuses out of the timelines of a user who follows the author no longer.
/// Returns whether so many went that the timelines should be filled again.
pub async fn forget_author(
    store: &dyn FeedStore,
    user: &UserId,
    author: &UserId,
) -> StoreResult<bool> {
    let asked = [
        (Timeline::Home(user.clone()), None),
        (Timeline::Feed(user.clone()), None),
    ];
    let found = store.read_timelines(&asked, MAX_TIMELINE).await;
    let mut lacks = false;
    for ((timeline, _), entries) in asked.into_iter().zip(found) {
        let entries = entries?;
        let theirs: Vec<StatusId> = entries
            .iter()
            .map(|entry| &entry.id)
            .filter(|status| status.author() == author)
            .cloned()
            .collect();
        if theirs.is_empty() {
            continue;
        }
        store.remove_entries(&timeline, &theirs).await?;
        let left = (entries.len() - theirs.len()) as u64;
        lacks |= entries.len() as u64 >= MIN_TIMELINE && left < MIN_TIMELINE;
    }
    Ok(lacks)
}

/// A kind of timeline, of any user.
type TimelineOf = fn(UserId) -> Timeline;

/// Fills the timelines of a user again from the timelines of the newest
/// [`crate::store::MAX_FOLLOWED`] authors whom the user follows.
pub async fn refill(store: &dyn FeedStore, user: &UserId) -> StoreResult<()> {
    let pulled: HashMap<UserId, UnixMillis> = store.pulled_authors().await?.into_iter().collect();
    let (authors, _) = followed(store, user).await?;
    let whole: [(TimelineOf, TimelineOf); 2] = [
        (Timeline::Home, Timeline::Profile),
        (Timeline::Feed, Timeline::OnAir),
    ];
    for (to, from) in whole {
        let from = authors.iter().cloned().map(from).collect();
        let read = Merged::open(store, from, None, MAX_TIMELINE)
            .await?
            .take(MAX_TIMELINE)
            .await?;
        let mut entries = Vec::new();
        for (entry, _) in read {
            let is_pulled = match pulled.get(entry.id.author()) {
                Some(since) => entry.at >= *since,
                None => false,
            };
            if !is_pulled {
                entries.push(entry);
            }
        }
        add_standing(store, &to(user.clone()), &entries).await?;
    }
    Ok(())
}
