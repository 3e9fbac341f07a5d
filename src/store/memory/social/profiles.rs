//! The calls on profiles of the embedded store. Each change is one step, so none is ever left half
//! done.

use async_trait::async_trait;

use crate::base::ids::{Login, UserId};
use crate::store::memory::MemoryStore;
use crate::store::{FinishedChanges, Profile, Profiles, PutProfile, StoreResult};

#[async_trait]
impl Profiles for MemoryStore {
    async fn put_profile(
        &self,
        user: &UserId,
        login: &Login,
        name: &str,
    ) -> StoreResult<PutProfile> {
        let now = self.now();
        Ok(self.users.lock().put(user, login, name, now))
    }

    async fn profile(&self, user: &UserId) -> StoreResult<Option<Profile>> {
        Ok(self.users.lock().profile(user))
    }

    async fn finish_changes(&self) -> (FinishedChanges, StoreResult<()>) {
        (FinishedChanges::default(), Ok(()))
    }
}
