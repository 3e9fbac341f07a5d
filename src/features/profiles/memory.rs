//! The calls on profiles of the embedded store. Each change is one step, so none is ever left half
//! done.

use crate::features::profiles::stored::StoredProfiles;
use async_trait::async_trait;

use crate::base::ids::{Login, UserId};
use crate::features::profiles::store::{Profile, Profiles, PutProfile};
use crate::store::StoreResult;
use crate::store::memory::MemoryStore;

#[async_trait]
impl Profiles for MemoryStore {
    async fn put_profile(
        &self,
        user: &UserId,
        login: &Login,
        name: &str,
    ) -> StoreResult<PutProfile> {
        let now = self.now();
        Ok(self
            .states
            .lock::<StoredProfiles>()
            .put(user, login, name, now))
    }

    async fn profile(&self, user: &UserId) -> StoreResult<Option<Profile>> {
        Ok(self.states.lock::<StoredProfiles>().profile(user))
    }
}
