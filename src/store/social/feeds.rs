//! Feeds as users see them, and the timelines behind them when a user follows or unfollows. All of
//! it is made of calls of the store, so it is the same for every store.
//!
//! A timeline may have too much: a live that ended a moment ago, an announcement that was deleted,
//! the status of somebody whom the user no longer follows. Whoever shows a timeline asks for each
//! status whether it stands, and takes the others out.

use std::collections::{HashMap, HashSet};

use super::merged::Merged;
use crate::base::clock::UnixMillis;
use crate::base::ids::{ListName, LiveId, UserId};
use crate::store::friends::followed;
use crate::store::{
    Entry, FanoutTask, Job, LiveRecord, LiveState, MAX_LIST, MAX_TIMELINE, Post, StatusId, Store,
    StoreError, StoreResult, Subject, Timeline,
};

/// A timeline with fewer entries may lack some that were crowded out, and is filled again.
pub const MIN_TIMELINE: u64 = 750;

/// After so many reads in a row a page ends, even if few of its entries stand.
const MOST_READS: usize = 8;

/// Which statuses to show.
#[derive(Debug, Clone, Copy)]
pub enum View<'a> {
    /// The lives of those whom a user follows.
    Feed(&'a UserId),
    /// The announcements and lives of those whom a user follows.
    Home(&'a UserId),
    /// A user's own announcements and lives.
    Profile(&'a UserId),
    /// The announcements and lives of those in a list.
    List(&'a UserId, &'a ListName),
}

/// What a status says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// A live is on air.
    Live {
        /// What it was opened with.
        title: Option<String>,
    },
    /// An announcement.
    Post(Post),
}

/// Whether a status stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StatusState {
    /// It does, and says this.
    Stands(Content),
    /// It stands no longer, and never will again.
    Over,
    /// Nothing is known of it: the announcement was deleted or is not written yet, the live's
    /// record is lost.
    Unknown,
}

/// A status that stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownStatus {
    /// Which status.
    pub entry: Entry,
    /// What it says.
    pub content: Content,
}

/// A page of statuses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StatusPage {
    /// Newest first.
    pub items: Vec<ShownStatus>,
    /// After which entry the next page begins; `None` at the end.
    pub next: Option<Entry>,
}

/// What each status says, and whether it stands.
pub async fn states_of(store: &dyn Store, statuses: &[StatusId]) -> Vec<StoreResult<StatusState>> {
    let lives: Vec<LiveId> = statuses
        .iter()
        .filter_map(|status| Some(status.live()?.0.clone()))
        .collect();
    let posts: Vec<StatusId> = statuses
        .iter()
        .filter(|status| status.live().is_none())
        .cloned()
        .collect();
    let (records, posts) = tokio::join!(store.load_lives(&lives), store.posts(&posts));
    let (mut records, mut posts) = (records.into_iter(), posts.into_iter());
    let none = || StoreError::Nonsense("too few answers".to_owned());
    let state = |status: &StatusId| match status.subject() {
        // What another program garbled is no reason to hide the other statuses.
        Subject::Post(_) => Ok(match posts.next().ok_or_else(none)? {
            Ok(Some(post)) => StatusState::Stands(Content::Post(post)),
            Ok(None) | Err(StoreError::Nonsense(_)) => StatusState::Unknown,
            Err(why) => return Err(why),
        }),
        Subject::Live(_, epoch) => Ok(match records.next().ok_or_else(none)? {
            Err(StoreError::Nonsense(_)) => StatusState::Unknown,
            Err(why) => return Err(why),
            Ok(Some(record)) if record.epoch == *epoch && record.streamer == *status.author() => {
                match record.state {
                    LiveState::Open => StatusState::Stands(Content::Live {
                        title: record.terms.title,
                    }),
                    LiveState::Closing | LiveState::Closed => StatusState::Over,
                }
            }
            Ok(Some(record)) if record.epoch >= *epoch => StatusState::Over,
            // A record of an older epoch came back from a backup; a gateway writes the newer one
            // again.
            Ok(_) => StatusState::Unknown,
        }),
    };
    statuses.iter().map(state).collect()
}

/// A page of statuses that stand, after the given entry. Takes those that do not stand out of the
/// timelines that were read.
pub async fn status_page(
    store: &dyn Store,
    view: View<'_>,
    after: Option<&Entry>,
    limit: usize,
) -> StoreResult<StatusPage> {
    let timelines = timelines_of(store, view).await?;
    let mut merged = Merged::open(store, timelines, after, limit + 1).await?;
    let mut page = StatusPage::default();
    for _ in 0..MOST_READS {
        let wanted = limit + 1 - page.items.len();
        let read = merged.take(wanted).await?;
        let (at_end, last) = (
            read.len() < wanted,
            read.last().map(|(entry, _)| entry.clone()),
        );
        page.items.extend(standing(store, view, read).await?);
        if page.items.len() > limit {
            page.items.truncate(limit);
            page.next = page.items.last().map(|status| status.entry.clone());
            return Ok(page);
        }
        page.next = last.filter(|_| !at_end);
        if at_end {
            break;
        }
    }
    Ok(page)
}

/// The timelines in which a view's statuses are.
async fn timelines_of(store: &dyn Store, view: View<'_>) -> StoreResult<Vec<Timeline>> {
    let own = |user: &UserId| {
        [
            Timeline::Profile(user.clone()),
            Timeline::OnAir(user.clone()),
        ]
    };
    Ok(match view {
        View::Profile(user) => own(user).into(),
        View::List(owner, list) => {
            let members = store.list_members(owner, list).await?;
            members.iter().take(MAX_LIST).flat_map(own).collect()
        }
        View::Feed(user) => {
            let pulled = pulled_by(store, user).await?;
            [Timeline::Feed(user.clone())]
                .into_iter()
                .chain(pulled.into_iter().map(Timeline::OnAir))
                .collect()
        }
        View::Home(user) => {
            let pulled = pulled_by(store, user).await?;
            let own_two = [Timeline::Home(user.clone()), Timeline::Feed(user.clone())];
            own_two
                .into_iter()
                .chain(pulled.iter().flat_map(own))
                .collect()
        }
    })
}

/// The authors whom a user follows and whose statuses are pulled.
async fn pulled_by(store: &dyn Store, user: &UserId) -> StoreResult<Vec<UserId>> {
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

/// Those of the authors whom the user follows. Asks the user's own key: those of large authors are
/// busy.
async fn who_is_followed(
    store: &dyn Store,
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

/// Those entries that the view shows. Takes the others out of their timelines.
async fn standing(
    store: &dyn Store,
    view: View<'_>,
    read: Vec<(Entry, Timeline)>,
) -> StoreResult<Vec<ShownStatus>> {
    let statuses: Vec<StatusId> = read.iter().map(|(entry, _)| entry.id.clone()).collect();
    let authors: HashSet<UserId> = statuses
        .iter()
        .map(|status| status.author().clone())
        .collect();
    let states = states_of(store, &statuses).await;
    let followed = match view {
        View::Feed(user) | View::Home(user) => Some(who_is_followed(store, user, authors).await?),
        View::Profile(_) | View::List(..) => None,
    };
    let (mut shown, mut gone) = (Vec::new(), HashMap::<Timeline, Vec<StatusId>>::new());
    for ((entry, timeline), state) in read.into_iter().zip(states) {
        let is_followed = followed
            .as_ref()
            .is_none_or(|followed| followed.contains(entry.id.author()));
        match state? {
            StatusState::Stands(content) if is_followed => {
                shown.push(ShownStatus { entry, content })
            }
            // It is no longer for this user; in the author's own timeline it stays.
            StatusState::Stands(_)
                if matches!(timeline, Timeline::Profile(_) | Timeline::OnAir(_)) => {}
            _ => gone.entry(timeline).or_default().push(entry.id),
        }
    }
    for (timeline, statuses) in gone {
        if let Err(error) = store.remove_entries(&timeline, &statuses).await {
            // Whoever reads the timeline next tries again.
            tracing::debug!(%error, "statuses that stand no longer stay in a timeline");
        }
    }
    Ok(shown)
}

/// Takes those statuses out of a timeline again that do not stand. A status that falls after this
/// look is taken out by its end: by the end itself, or by the job that the end begins, because the
/// timeline's user is a follower already.
pub async fn take_back(
    store: &dyn Store,
    timeline: &Timeline,
    entries: &[Entry],
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

/// Puts entries into a timeline, those that do not stand aside.
async fn add_standing(
    store: &dyn Store,
    timeline: &Timeline,
    entries: &[Entry],
) -> StoreResult<()> {
    if entries.is_empty() {
        return Ok(());
    }
    store.add_entries(timeline, entries).await?;
    take_back(store, timeline, entries).await
}

/// The author's statuses that are not pulled.
fn not_pulled(entries: Vec<Entry>, since: Option<UnixMillis>) -> Vec<Entry> {
    entries
        .into_iter()
        .filter(|entry| since.is_none_or(|since| entry.at < since))
        .collect()
}

/// Withdraws the status of a live, unless nobody was told. The live's record says that it ends, or
/// another epoch has taken its place.
pub async fn withdraw_live(store: &dyn Store, record: &LiveRecord) -> StoreResult<()> {
    if record.terms.invisible {
        Ok(())
    } else {
        withdraw(store, &Entry::of_live(record)).await
    }
}

/// Takes the status of a live that has ended out of the streamer's own timeline, and notes a job
/// that takes it from the followers.
pub async fn withdraw(store: &dyn Store, entry: &Entry) -> StoreResult<()> {
    let streamer = entry.id.author();
    if store.follower_count(streamer).await? > 0 {
        store
            .enqueue_fanout(&Job {
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
pub async fn merge_author(store: &dyn Store, user: &UserId, author: &UserId) -> StoreResult<()> {
    let asked = [
        (Timeline::Profile(author.clone()), None),
        (Timeline::OnAir(author.clone()), None),
    ];
    let mut found = store.read_timelines(&asked, MAX_TIMELINE).await.into_iter();
    let mut next = || found.next().unwrap_or_else(|| Ok(Vec::new()));
    let (posts, lives) = (next()?, next()?);
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

/// Takes an author's statuses out of the timelines of a user who follows the author no longer. True
/// if so many went that the timelines should be filled again.
pub async fn forget_author(store: &dyn Store, user: &UserId, author: &UserId) -> StoreResult<bool> {
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

/// Fills the timelines of a user again from those of the newest [`crate::store::MAX_FOLLOWED`] whom the
/// user follows.
pub async fn refill(store: &dyn Store, user: &UserId) -> StoreResult<()> {
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
        let is_missing = |entry: &Entry| {
            pulled
                .get(entry.id.author())
                .is_none_or(|since| entry.at < *since)
        };
        let entries: Vec<Entry> = read
            .into_iter()
            .map(|(entry, _)| entry)
            .filter(is_missing)
            .collect();
        add_standing(store, &to(user.clone()), &entries).await?;
    }
    Ok(())
}
