//! The boundary for profiles: what pages show of a user, and which user has a login.

use async_trait::async_trait;

use crate::base::clock::UnixMillis;
use crate::base::ids::{Login, UserId};
use crate::store::StoreResult;

/// What pages show of a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// As the user writes it; nobody else has it, whatever its case.
    pub login: Login,
    /// The name to show.
    pub name: String,
    /// When the first profile of this user was written.
    pub signup: UnixMillis,
}

/// What became of a profile that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PutProfile {
    /// It stands now, and is the first of this user.
    Created(Profile),
    /// It stands now, in the place of another one.
    Replaced(Profile),
    /// Another user has the login; nothing was changed.
    LoginTaken,
}

/// Changes of several keys that [`Profiles::finish_changes`] finished.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FinishedChanges {
    /// How many they are.
    pub count: u64,
    /// The follows and unfollows among them: who followed or unfollowed, and whom.
    pub follows: Vec<(UserId, UserId)>,
}

/// Profiles and logins.
#[async_trait]
pub trait Profiles: Sync {
    /// Writes a profile, and claims its login. A former login of the user is free afterwards. Of
    /// several users who claim a login at a time, one gets it.
    async fn put_profile(
        &self,
        user: &UserId,
        login: &Login,
        name: &str,
    ) -> StoreResult<PutProfile>;

    /// The profile of a user.
    async fn profile(&self, user: &UserId) -> StoreResult<Option<Profile>>;

    /// Finishes changes of several keys, such as a follow, whose gateway died half way or could not
    /// reach a key. Answers which it finished; an error means that at least one is left.
    async fn finish_changes(&self) -> (FinishedChanges, StoreResult<()>);
}
