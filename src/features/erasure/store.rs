//! The boundary for erasures: a user is removed from all that the store keeps. An erasure is a job.
//! Gateways share the jobs ([`crate::store::jobs`]): a gateway that takes one reports how far it got,
//! and if it makes no report for some time, another gateway goes on from there.
//!
//! A job goes over the store in passes, each step of which erases a little, and ends after a pass
//! that found nothing. What stays does not name the user: a report, and for a day a digest. By the
//! digest a gateway that was cut off during the erasure learns of it when it comes back.

pub use crate::presence::erasing::ErasureNews;
use crate::store::Store;
use crate::store::calls::calls;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::base::clock::UnixMillis;
use crate::base::ids::{ErasureId, GatewayId, UserId};
use crate::store::{ErasedSome, Found, StoreResult};

/// How long a report outlives its erasure.
pub const REPORT_KEPT: Duration = Duration::from_secs(30 * 24 * 3_600);

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

impl ErasureProgress {
    /// Adds the outcome of a step.
    pub fn add(&mut self, step: &ErasedSome) {
        for (kind, count) in &step.found {
            *self.found.entry(*kind).or_default() += count;
        }
        self.is_dirty |= step.is_dirty;
    }
}

calls! {
    /// Erasures of users.
    pub trait Erasures {
        /// Begins the erasure of a user, unless one runs; answers the one that runs.
        async fn ask_erasure(&self, user: &UserId) -> StoreResult<ErasureId>, writes;

        /// What is known of an erasure; `None` if there was none, or it ended long ago.
        async fn erasure(&self, id: &ErasureId) -> StoreResult<Option<Erasure>>, reads;

        /// Which erasures run, and which ended after this time and at most
        /// [`crate::store::ERASED_KEPT`] ago.
        async fn erasure_news(&self, after: UnixMillis) -> StoreResult<ErasureNews>, reads;

        /// Takes a job that no worker has taken, or that no worker has kept for
        /// [`crate::store::CLAIM_AFTER`].
        async fn take_erasure(&self, worker: &GatewayId) -> StoreResult<Option<TakenErasure>>, writes;

        /// Reports how far a job got, and that it goes on. Returns false if another worker has taken it
        /// over.
        async fn keep_erasure(&self, worker: &GatewayId, taken: &TakenErasure) -> StoreResult<bool>, writes;

        /// Ends a job, unless another worker has taken it over.
        async fn finish_erasure(&self, worker: &GatewayId, taken: &TakenErasure) -> StoreResult<()>, writes;

        in_parts:

        /// Does one step of a pass, from this place on: erases what it finds there. Who is online stays
        /// for the gateways to remove, and open lives for the caller to close. Every step may be
        /// repeated.
        async fn erase_some(&self, user: &UserId, place: &str) -> StoreResult<ErasedSome>, writes;
    }
}

/// Whether a JSON text names a user. One that cannot be read does.
pub(crate) fn json_names(text: &str, user: &UserId) -> bool {
    let Ok(value) = serde_json::from_str(text) else {
        return true;
    };
    value_names(&value, user)
}

/// Fields whose texts name no user: a live may have the id of a user, a user the name of a role, and
/// people write what they like.
const NO_USERS: [&str; 13] = [
    "action",
    "asked",
    "gateway_id",
    "key",
    "live_id",
    "login",
    "name",
    "reason",
    "role",
    "rule",
    "text",
    "title",
    "type",
];

/// What stands before a user's id in a path.
const BEFORE_USERS: [&str; 7] = [
    "users",
    "following",
    "followers",
    "viewers",
    "bans",
    "streamers",
    "moderators",
];

/// Whether a string in it is the id, a status or a path with the id in it, or JSON that names the
/// user.
fn value_names(value: &Value, user: &UserId) -> bool {
    match value {
        Value::String(text) => text_names(text, user),
        Value::Array(items) => items.iter().any(|item| value_names(item, user)),
        Value::Object(fields) => fields
            .iter()
            .any(|(name, field)| !NO_USERS.contains(&name.as_str()) && value_names(field, user)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn text_names(text: &str, user: &UserId) -> bool {
    if text.starts_with('/') {
        return path_names(text, user);
    }
    // An answer that is kept has its body as text.
    if text.starts_with('{') {
        return serde_json::from_str(text).is_ok_and(|inner| value_names(&inner, user));
    }
    let author = text.split('~').next().unwrap_or_default();
    author == user.as_str()
}

fn path_names(path: &str, user: &UserId) -> bool {
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let mut before = ["", ""];
    for part in path.split('/') {
        let [list, kind] = before;
        let is_user = BEFORE_USERS.contains(&kind) || list == "lists";
        if is_user && percent_decode_str(part).eq(user.as_str().bytes()) {
            return true;
        }
        before = [kind, part];
    }
    false
}

/// The calls of the core, and those about erasures.
pub trait ErasureStore: Store + Erasures {}

impl<T: Store + Erasures + ?Sized> ErasureStore for T {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_names_a_user_only_where_a_user_may_stand() {
        let user = UserId::parse("u1").unwrap();
        for text in [
            r#"{"user_id":"u1"}"#,
            r#"{"streamer_id":"u1"}"#,
            r#"{"user_ids":["u2","u1"]}"#,
            r#"{"by":{"role":"streamer","user_id":"u1"}}"#,
            r#"{"path":"/v1/users/u1"}"#,
            r#"{"path":"/v1/users/u%31/following/u2?limit=1"}"#,
            r#"{"path":"/v1/lives/42/bans/u1"}"#,
            r#"{"path":"/v1/users/u2/lists/cooks/u1"}"#,
            r#"{"status_id":"u1~abc"}"#,
            r#"{"made":{"location":"/v1/x","body":"{\"user_id\":\"u1\"}"}}"#,
            r#"{"asked":"0","id":"u1","made":null}"#,
            r#"{"asked":"0","id":["u1","abc"],"made":null}"#,
            "no JSON",
        ] {
            assert!(json_names(text, &user), "{text}");
        }
        for text in [
            r#"{"live_id":"u1","user_ids":["u2"]}"#,
            r#"{"path":"/v1/lives/u1"}"#,
            r#"{"user_id":"tenant:u1","name":"I know u1"}"#,
        ] {
            assert!(!json_names(text, &user), "{text}");
        }
        // An id may be a word that every answer has, or a number.
        let answer = r#"{"asked":"1","made":{"location":"/v1/users/7","body":"{\"user_id\":\"7\",\"signup\":1}"}}"#;
        for id in ["v1", "users", "user_id", "body", "made", "1"] {
            let user = UserId::parse(id).unwrap();
            assert!(!json_names(answer, &user), "{id}");
        }
    }
}
