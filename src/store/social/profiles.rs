//! The boundary for profiles: the name and login that pages show of a user, and which user has a
//! login.

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

/// Changes of several keys that [`Profiles::finish_changes`] finished.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FinishedChanges {
    /// The number of changes.
    pub count: u64,
    /// The follows and unfollows among them: the user who followed or unfollowed, and the streamer.
    pub follows: Vec<(UserId, UserId)>,
}

/// Profiles and logins.
#[async_trait]
pub trait Profiles: Sync {
    /// Writes a profile, and claims its login. A former login of the user is free afterwards. If
    /// several users claim a login at the same time, one of them gets it.
    async fn put_profile(
        &self,
        user: &UserId,
        login: &Login,
        name: &str,
    ) -> StoreResult<PutProfile>;

    /// The profile of a user.
    async fn profile(&self, user: &UserId) -> StoreResult<Option<Profile>>;

    /// Finishes changes of several keys, such as a follow, whose gateway died half way or could not
    /// reach a key. Returns the changes that it finished. An error means that at least one is left.
    async fn finish_changes(&self) -> (FinishedChanges, StoreResult<()>);
}
