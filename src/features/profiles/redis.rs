//! The calls on profiles. A user's profile and the list of logins lie in different slots of a
//! cluster. The profile is right: a claim of a login that the profile of its user does not carry is
//! stale, and the end of the change gives it back.

use crate::features::profiles::scripts;
use async_trait::async_trait;

use crate::base::clock::UnixMillis;
use crate::base::ids::{Login, UserId};
use crate::features::profiles::store::{Profile, Profiles, PutProfile, Visibility};
use crate::store::StoreResult;
use crate::store::redis::changes::{NotedChange, in_time};
use crate::store::redis::reply::{Reply, flag, nonsense, text};
use crate::store::redis::{RedisCalls, args};

impl RedisCalls {
    /// Claims a login for a user. False if another user has the login.
    pub(crate) async fn claim(
        &self,
        user: &UserId,
        login: &Login,
        until: UnixMillis,
    ) -> StoreResult<bool> {
        let key = self.keys().users();
        let args = args![login.folded(), user, until];
        let reply = self
            .router
            .script(&scripts::CLAIM_LOGIN, vec![key.clone()], args)
            .await?;
        in_time(self, &key, reply)?.flag()
    }

    pub(crate) async fn read_profile(&self, user: &UserId) -> StoreResult<Option<Profile>> {
        let args = args![self.keys().user(user), "login", "name", "signup"];
        let mut fields = Reply::of(self.router.command("HMGET", args).await?)?;
        let login = match fields.piece() {
            Some(login) if !login.is_null() => text(login)?,
            _ => return Ok(None),
        };
        let login = Login::parse(&login).map_err(|_| nonsense("a profile without a login"))?;
        Ok(Some(Profile {
            login,
            name: fields.text()?,
            signup: fields.number()?,
        }))
    }
}

#[async_trait]
impl Profiles for RedisCalls {
    async fn put_profile(
        &self,
        user: &UserId,
        login: &Login,
        name: &str,
    ) -> StoreResult<PutProfile> {
        let change = NotedChange::Login {
            user: user.clone(),
            login: login.clone(),
        };
        let guards = self.guards(&change).await?;
        let begun = self.begin_change(&change).await?;
        let claimed = self.claim(user, login, guards[0]).await;
        if !self.or_end(&begun, claimed).await? {
            self.end_change(&begun).await;
            return Ok(PutProfile::LoginTaken);
        }
        let key = self.keys().user(user);
        let args = args![login, name, guards[1]];
        let reply = self
            .router
            .script(&scripts::WRITE_PROFILE, vec![key.clone()], args)
            .await?;
        let mut reply = in_time(self, &key, reply)?;
        let is_new = reply.flag()?;
        let signup = reply.number()?;
        let former = reply.text()?;
        if let Ok(former) = Login::parse(&former)
            && former.folded() != login.folded()
        {
            self.give_back(user, &former, guards[0]).await?;
        }
        self.end_change(&begun).await;
        let profile = Profile {
            login: login.clone(),
            name: name.to_owned(),
            signup,
        };
        Ok(if is_new {
            PutProfile::Created(profile)
        } else {
            PutProfile::Replaced(profile)
        })
    }

    async fn profile(&self, user: &UserId) -> StoreResult<Option<Profile>> {
        self.read_profile(user).await
    }

    async fn set_visibility(&self, user: &UserId, visibility: Visibility) -> StoreResult<()> {
        let key = self.keys().hidden();
        let until = self.router.not_after(&key).await?;
        let args = args![user, u8::from(visibility == Visibility::Hidden), until];
        let reply = self
            .router
            .script(&scripts::SET_VISIBILITY, vec![key.clone()], args)
            .await?;
        in_time(self, &key, reply)?;
        Ok(())
    }

    async fn are_hidden(&self, users: &[UserId]) -> StoreResult<Vec<bool>> {
        let answers = self
            .of_each("SMISMEMBER", self.keys().hidden(), users)
            .await?;
        answers.iter().map(flag).collect()
    }
}
