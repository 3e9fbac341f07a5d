//! The boundary for erasures: a user is removed from all that the store keeps. An erasure is a job.
//! Gateways share the jobs as they share those of [`crate::store::FanoutJobs`]: a gateway that takes
//! one reports how far it got, and if it makes no report for [`crate::store::CLAIM_AFTER`], another
//! gateway goes on from there.
//!
//! A job goes over the store in passes, each step of which erases a little, and ends after a pass
//! that found nothing. The report that stays does not name the user.

use std::collections::BTreeMap;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::StoreResult;
use crate::base::clock::UnixMillis;
use crate::base::ids::{ErasureId, GatewayId, LiveId, UserId};

/// A kind of thing that names a user.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Trace {
    /// The profile, with its name.
    Profiles,
    /// Logins that find the user.
    Logins,
    /// Follows by the user.
    Following,
    /// Follows of the user.
    Followers,
    /// Announcements of the user.
    Announcements,
    /// Entries of the user's own timelines, and the user's statuses in those of others.
    TimelineEntries,
    /// Lists that the user made.
    Lists,
    /// Places in the lists of others.
    ListPlaces,
    /// The time at which the user was seen last.
    LastSeen,
    /// Lives that the user attended as a fan.
    Attendance,
    /// Stays in lives with attendance.
    Sessions,
    /// Removals from open lives, and bans.
    Bans,
    /// Records of lives that the user owned, with all that was kept of them.
    Lives,
    /// Summaries of the user's past lives.
    PastLives,
    /// Answers to requests that may be repeated.
    Answers,
    /// Stream keys of the user's lives.
    StreamKeys,
    /// Events that webhooks did not accept, or are sent again.
    WebhookEvents,
}

/// How many things of each kind were found and erased. Kinds of which there were none are absent.
pub type Found = BTreeMap<Trace, u64>;

/// What a client may know of an erasure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Erasure {
    /// When it was asked for, by the store's clock.
    pub asked_at: UnixMillis,
    /// Its end; `None` while it runs.
    pub ended: Option<EndedErasure>,
}

/// The end of an erasure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedErasure {
    /// When it ended, by the store's clock.
    pub at: UnixMillis,
    /// What it erased.
    pub found: Found,
}

/// How far a job got.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErasureProgress {
    /// Where the next step begins; empty at the beginning of a pass. Only the store can read it.
    pub place: String,
    /// What was erased so far.
    pub found: Found,
    /// Whether this pass found anything.
    pub is_dirty: bool,
}

/// A job that a gateway has taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TakenErasure {
    /// The store's name for the job.
    pub job: String,
    /// The erasure.
    pub id: ErasureId,
    /// Who is erased.
    pub user: UserId,
    /// How far it got.
    pub progress: ErasureProgress,
}

/// The outcome of one step.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ErasedSome {
    /// What was erased.
    pub found: Found,
    /// Whether anything that names the user was found, erased or not.
    pub is_dirty: bool,
    /// The lives that the user owns and that are open. They must be closed before they can be
    /// erased.
    pub open_lives: Vec<LiveId>,
    /// Where the next step begins; `None` at the end of the pass.
    pub next: Option<String>,
}

impl ErasedSome {
    /// Notes that so many things were erased.
    pub(crate) fn add(&mut self, trace: Trace, count: u64) {
        if count > 0 {
            *self.found.entry(trace).or_default() += count;
            self.is_dirty = true;
        }
    }
}

impl ErasureProgress {
    /// Adds the outcome of a step.
    pub fn add(&mut self, step: &ErasedSome) {
        for (trace, count) in &step.found {
            *self.found.entry(*trace).or_default() += count;
        }
        self.is_dirty |= step.is_dirty;
    }
}

/// Erasures of users.
#[async_trait]
pub trait Erasures: Sync {
    /// Begins the erasure of a user, unless one runs; answers the one that runs.
    async fn ask_erasure(&self, user: &UserId) -> StoreResult<ErasureId>;

    /// What is known of an erasure; `None` if there was none, or it ended long ago.
    async fn erasure(&self, id: &ErasureId) -> StoreResult<Option<Erasure>>;

    /// The users whose erasure has not ended.
    async fn being_erased(&self) -> StoreResult<Vec<UserId>>;

    /// Takes a job that no worker has taken, or that no worker has kept for
    /// [`crate::store::CLAIM_AFTER`].
    async fn take_erasure(&self, worker: &GatewayId) -> StoreResult<Option<TakenErasure>>;

    /// Reports how far a job got, and that it goes on. Returns false if another worker has taken it
    /// over.
    async fn keep_erasure(&self, worker: &GatewayId, taken: &TakenErasure) -> StoreResult<bool>;

    /// Ends a job, unless another worker has taken it over.
    async fn finish_erasure(&self, worker: &GatewayId, taken: &TakenErasure) -> StoreResult<()>;

    /// Does one step of a pass, from this place on: erases what it finds there. Who is online stays
    /// for the gateways to remove, and open lives for the caller to close. Every step may be
    /// repeated.
    async fn erase_some(&self, user: &UserId, place: &str) -> StoreResult<ErasedSome>;
}

/// Whether a text names a user: the id is in it, and is no part of a longer id.
pub(crate) fn names(text: &str, user: &UserId) -> bool {
    let id = user.as_str();
    for (at, _) in text.match_indices(id) {
        let before = text[..at].bytes().next_back();
        let after = text[at + id.len()..].bytes().next();
        if !is_of_id(before) && !is_of_id(after) {
            return true;
        }
    }
    false
}

/// Whether an event names a user. An event that cannot be read does.
pub(crate) fn event_names(data: &str, user: &UserId) -> bool {
    let Ok(event) = serde_json::from_str(data) else {
        return true;
    };
    value_names(&event, user)
}

/// Whether a field names the user, or a path in it does. A live may have the id of a user.
fn value_names(value: &Value, user: &UserId) -> bool {
    match value {
        Value::String(text) => text == user.as_str() || text.starts_with('/') && names(text, user),
        Value::Array(items) => items.iter().any(|item| value_names(item, user)),
        Value::Object(fields) => fields
            .iter()
            .any(|(name, field)| name != "live_id" && value_names(field, user)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Whether an id may go on with this byte. A colon may be a part of an id, too, but mostly stands
/// between an id and something else.
fn is_of_id(byte: Option<u8>) -> bool {
    byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || b"_.@-".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_names_a_user_only_by_the_whole_id() {
        let user = UserId::parse("u1").unwrap();
        for text in [
            "u1",
            r#"{"user_id":"u1"}"#,
            "/v1/users/u1",
            "u11 u1",
            "u1~post",
            "user.banned u1 9",
        ] {
            assert!(names(text, &user), "{text}");
        }
        for event in [
            r#"{"user_id":"u1"}"#,
            r#"{"streamer_id":"u1"}"#,
            r#"{"user_ids":["u2","u1"]}"#,
            r#"{"by":{"role":"streamer","user_id":"u1"}}"#,
            r#"{"path":"/v1/users/u1"}"#,
        ] {
            assert!(event_names(event, &user), "{event}");
        }
        assert!(!event_names(r#"{"live_id":"u1","user_ids":["u2"]}"#, &user));
        for text in ["", "u", "u11", "au1", "u1@example.org", "u-1", r#""u1.b""#] {
            assert!(!names(text, &user), "{text}");
        }
    }
}
