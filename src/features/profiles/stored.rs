//! The profiles of the embedded store, and the users who have the logins.

use std::collections::{HashMap, HashSet};

use crate::base::clock::UnixMillis;
use crate::base::ids::{Login, UserId};
use crate::features::profiles::store::{Profile, PutProfile};
use crate::store::PersonalData;
use crate::store::memory::states::{State, StateErasure};

#[derive(Debug, Clone, Default)]
pub(crate) struct StoredProfiles {
    profiles: HashMap<UserId, Profile>,
    /// By the folded login.
    logins: HashMap<Login, UserId>,
    pub(crate) hidden: HashSet<UserId>,
}

impl StoredProfiles {
    pub(crate) fn put(
        &mut self,
        user: &UserId,
        login: &Login,
        name: &str,
        now: UnixMillis,
    ) -> PutProfile {
        if let Some(owner) = self.logins.get(&login.folded())
            && owner != user
        {
            return PutProfile::LoginTaken;
        }
        let former = self.profiles.get(user).cloned();
        if let Some(former) = &former {
            self.logins.remove(&former.login.folded());
        }
        self.logins.insert(login.folded(), user.clone());
        let signup = match &former {
            Some(former) => former.signup,
            None => now,
        };
        let profile = Profile {
            login: login.clone(),
            name: name.to_owned(),
            signup,
        };
        self.profiles.insert(user.clone(), profile.clone());
        if former.is_some() {
            PutProfile::Replaced(profile)
        } else {
            PutProfile::Created(profile)
        }
    }

    pub(crate) fn profile(&self, user: &UserId) -> Option<Profile> {
        self.profiles.get(user).cloned()
    }
}

impl State for StoredProfiles {
    fn erase(&mut self, erasure: &mut StateErasure<'_>) {
        let profile = self.profiles.remove(erasure.user);
        self.hidden.remove(erasure.user);
        let before = self.logins.len();
        self.logins.retain(|_, owner| owner != erasure.user);
        let step = &mut erasure.step;
        step.add(PersonalData::Profiles, u64::from(profile.is_some()));
        step.add(PersonalData::Logins, (before - self.logins.len()) as u64);
    }
}
