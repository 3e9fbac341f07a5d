//! What an erasure finds: the kinds of things that name a user, and how many of each a step erased.
//! Whoever keeps such things, the core or a feature, tells of them with these words. The kinds are
//! one list, because the report of an erasure is one document for clients.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::base::ids::LiveId;
use crate::store::StoreError;

/// A kind of thing that names a user.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum PersonalData {
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
    /// Places among the hosts of lives.
    HostPlaces,
    /// The time at which the user was seen last.
    LastSeen,
    /// Lives that the user attended as a fan.
    Attendance,
    /// Stays in lives with attendance.
    Sessions,
    /// Removals from open lives, bans, and the other rules of moderation.
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
    /// Entries of the audit trail.
    AuditEntries,
}

/// How many things of each kind were found and erased. Kinds of which there were none are absent.
pub type Found = BTreeMap<PersonalData, u64>;

/// The outcome of one step of an erasure.
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
    /// Why the step ended before it was done, if it did. The next one does the rest.
    pub failed: Option<StoreError>,
}

impl ErasedSome {
    /// Notes that so many things were erased, of which the report may tell.
    pub(crate) fn note(&mut self, kind: Option<PersonalData>, count: u64) {
        match kind {
            Some(kind) => self.add(kind, count),
            None => self.is_dirty |= count > 0,
        }
    }

    /// Notes that so many things were erased.
    pub(crate) fn add(&mut self, kind: PersonalData, count: u64) {
        if count > 0 {
            *self.found.entry(kind).or_default() += count;
            self.is_dirty = true;
        }
    }
}
