//! The boundary for profiles: the name and login that pages show of a user, and which user has a
//! login.

use crate::store::Store;
use crate::store::calls::{calls, plain_arguments};
use async_trait::async_trait;

use crate::base::clock::UnixMillis;
use crate::base::ids::{Login, UserId};
use crate::store::StoreResult;

/// A user, as pages show the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// The login as the user writes it. No other user has it, whatever its case.
    pub login: Login,
    /// The name to show.
    pub name: String,
    /// When the first profile of this user was written.
    pub signup: UnixMillis,
}

/// The outcome of [`Profiles::put_profile`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PutProfile {
    /// This profile is written, and is the first of the user.
    Created(Profile),
    /// This profile is written, and has replaced an earlier one.
    Replaced(Profile),
    /// Another user has the login; nothing was changed.
    LoginTaken,
}

/// Whether other users see a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Visibility {
    /// They do.
    Shown,
    /// The user is counted, and in no list that they see.
    Hidden,
}

plain_arguments!(Visibility);

calls! {
    /// Profiles and logins.
    pub trait Profiles {
        /// Writes a profile, and claims its login. A former login of the user is free afterwards. If
        /// several users claim a login at the same time, one of them gets it.
        async fn put_profile(
            &self,
            user: &UserId,
            login: &Login,
            name: &str,
        ) -> StoreResult<PutProfile>, writes at User(user);

        /// The profile of a user.
        async fn profile(&self, user: &UserId) -> StoreResult<Option<Profile>>, reads at User(user);

        /// Hides a user from other users, or shows the user again.
        async fn set_visibility(&self, user: &UserId, visibility: Visibility) -> StoreResult<()>,
            writes at User(user);

        /// Whether each of these users, at most [`crate::store::MAX_BATCH`], is hidden, in the same
        /// order.
        async fn are_hidden(&self, users: &[UserId]) -> StoreResult<Vec<bool>>, reads;
    }
}

/// The calls of the core, and those about profiles.
pub trait ProfileStore: Store + Profiles {}

impl<T: Store + Profiles + ?Sized> ProfileStore for T {}

/// Tells how much a user announced, where there are announcements.
#[async_trait]
pub trait CountsStatuses: Send + Sync {
    /// How many announcements of this author there are.
    async fn count_statuses(&self, author: &UserId) -> StoreResult<u64>;
}
