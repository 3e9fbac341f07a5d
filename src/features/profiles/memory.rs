//! The calls on profiles of the embedded store. Each change is one step, so none is ever left half
//! done.

use crate::features::profiles::stored::StoredProfiles;
use async_trait::async_trait;

use crate::base::ids::{Login, UserId};
use crate::features::profiles::store::{Profile, Profiles, PutProfile, Visibility};
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

    async fn set_visibility(&self, user: &UserId, visibility: Visibility) -> StoreResult<()> {
        let hidden = &mut self.states.lock::<StoredProfiles>().hidden;
        match visibility {
            Visibility::Hidden => hidden.insert(user.clone()),
            Visibility::Shown => hidden.remove(user),
        };
        Ok(())
    }

    async fn are_hidden(&self, users: &[UserId]) -> StoreResult<Vec<bool>> {
        let profiles = self.states.lock::<StoredProfiles>();
        let hidden = users.iter().map(|user| profiles.hidden.contains(user));
        Ok(hidden.collect())
    }
}
