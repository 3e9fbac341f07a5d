//! The boundary for statuses, which tell a user's followers that a live is on air, or something
//! that the user announces. The content of a live's status is in the record of the live; the store
//! keeps the announcements here.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::base::clock::UnixMillis;
use crate::base::ids::{Epoch, LiveId, PostId, UserId};
use crate::store::calls::calls;
use crate::store::{LiveRecord, StoreResult};

/// Between the author and the rest of a status id. No other id contains it.
const SEPARATOR: char = '~';

/// The subject of a status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StatusSubject {
    /// This epoch of a live is on air.
    Live(LiveId, Epoch),
    /// An announcement.
    Post(PostId),
}

/// Names a status: `<author>~<post>`, or `<author>~<live>@<epoch>`. Ordered by that text, as Redis
/// orders members.
#[derive(Debug, Clone)]
pub struct StatusId {
    author: UserId,
    subject: StatusSubject,
    text: Arc<str>,
}

impl StatusId {
    fn new(author: UserId, subject: StatusSubject) -> Self {
        let text = match &subject {
            StatusSubject::Live(live, epoch) => format!("{author}{SEPARATOR}{live}@{epoch}"),
            StatusSubject::Post(post) => format!("{author}{SEPARATOR}{post}"),
        };
        Self {
            author,
            subject,
            text: text.into(),
        }
    }

    /// The status of an announcement.
    pub fn of_post(author: UserId, post: PostId) -> Self {
        Self::new(author, StatusSubject::Post(post))
    }

    /// The status of a live.
    pub fn of_live(streamer: UserId, live: LiveId, epoch: Epoch) -> Self {
        Self::new(streamer, StatusSubject::Live(live, epoch))
    }

    /// Reads the text back; `None` if no status has that name.
    pub fn parse(text: &str) -> Option<Self> {
        let (author, subject) = text.split_once(SEPARATOR)?;
        let author = UserId::parse(author).ok()?;
        let subject = match subject.split_once('@') {
            Some((live, epoch)) => {
                StatusSubject::Live(LiveId::parse(live).ok()?, Epoch(epoch.parse().ok()?))
            }
            None => StatusSubject::Post(PostId::parse(subject).ok()?),
        };
        // Each status has one name, so another spelling of the epoch names nothing.
        let id = Self::new(author, subject);
        if id.as_str() == text { Some(id) } else { None }
    }

    /// Whose status it is.
    pub fn author(&self) -> &UserId {
        &self.author
    }

    /// The subject of the status.
    pub fn subject(&self) -> &StatusSubject {
        &self.subject
    }

    /// The id as in keys and answers.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The live that it says is on air.
    pub fn live(&self) -> Option<(&LiveId, Epoch)> {
        match &self.subject {
            StatusSubject::Live(live, epoch) => Some((live, *epoch)),
            StatusSubject::Post(_) => None,
        }
    }
}

impl PartialEq for StatusId {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for StatusId {}

impl PartialOrd for StatusId {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for StatusId {
    fn cmp(&self, other: &Self) -> Ordering {
        self.text.cmp(&other.text)
    }
}

impl fmt::Display for StatusId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A status in a timeline. The newest is the greatest.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimelineEntry {
    /// When the live opened, or the announcement was made.
    pub at: UnixMillis,
    /// Which status.
    pub id: StatusId,
}

impl TimelineEntry {
    /// The status of the epoch of a live.
    pub fn of_live(record: &LiveRecord) -> Self {
        let id = StatusId::of_live(record.streamer.clone(), record.live.clone(), record.epoch);
        Self {
            at: record.opened_at,
            id,
        }
    }
}

/// An announcement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Post {
    /// When it was made.
    pub at: UnixMillis,
    /// For people.
    pub text: String,
    /// For programs: a JSON text.
    pub data: Option<String>,
}

calls! {
    /// Announcements. Each author's newest [`crate::features::feeds::store::timelines::MAX_TIMELINE`] are kept.
    pub trait Statuses {
        /// Keeps an announcement unless there is one with the id, and puts it into the author's profile.
        /// Answers the one that is there. Forgets the author's oldest announcement if there are too many.
        async fn put_post(&self, status: &StatusId, post: &Post) -> StoreResult<Post>, writes;

        /// Forgets an announcement. Returns false if there is no such announcement.
        async fn drop_post(&self, status: &StatusId) -> StoreResult<bool>, writes;

        /// How many announcements of an author there are. Counted in the author's profile, so it cannot
        /// drift from it.
        async fn count_posts(&self, author: &UserId) -> StoreResult<u64>, reads at User(author);

        each:

        /// Reads announcements; `None` for one that does not exist, or for the status of a live.
        async fn posts(&self, statuses: &[StatusId]) -> Vec<StoreResult<Option<Post>>>, reads;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_id_is_read_as_it_was_written() {
        let user = |id| UserId::parse(id).unwrap();
        let live = StatusId::of_live(
            user("mail@example.org:1"),
            LiveId::parse("42").unwrap(),
            Epoch(7),
        );
        assert_eq!(live.as_str(), "mail@example.org:1~42@7");
        let post = StatusId::of_post(user("s1"), PostId::parse("abc").unwrap());
        assert_eq!(post.as_str(), "s1~abc");
        for id in [live, post] {
            let read = StatusId::parse(id.as_str()).unwrap();
            assert_eq!((read.author(), read.subject()), (id.author(), id.subject()));
        }
        for bad in [
            "",
            "s1",
            "s1~",
            "~abc",
            "s1~a~b",
            "s1~42@",
            "s1~42@x",
            "s1~42@07",
            "s1~a b",
            "s1~42_slice1@7",
        ] {
            assert_eq!(StatusId::parse(bad), None, "{bad}");
        }
    }
}
