//! The calls on profiles. A user's profile and the list of logins lie in different slots of a
//! cluster. The profile is right: a claim of a login that the profile of its user does not carry is
//! stale, and is given back when the change is finished.

use async_trait::async_trait;

use crate::base::clock::UnixMillis;
use crate::base::ids::{Login, UserId};
use crate::store::redis::changes::{Change, in_time};
use crate::store::redis::reply::{Reply, nonsense, text};
use crate::store::redis::{RedisStore, args, scripts};
use crate::store::{FinishedChanges, Profile, Profiles, PutProfile, StoreResult};

impl RedisStore {
    async fn do_put(&self, user: &UserId, login: &Login, name: &str) -> StoreResult<PutProfile> {
        let change = Change::Login {
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
            .script(&scripts::PROFILE, vec![key.clone()], args)
            .await?;
        let mut reply = in_time(self, &key, reply)?;
        let (is_new, signup, former) = (reply.flag()?, reply.number()?, reply.text()?);
        if let Some(former) = Login::parse(&former)
            .ok()
            .filter(|former| former.folded() != login.folded())
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

    /// False if another user has the login.
    pub(crate) async fn claim(
        &self,
        user: &UserId,
        login: &Login,
        until: UnixMillis,
    ) -> StoreResult<bool> {
        let (key, args) = (self.keys().users(), args![login.folded(), user, until]);
        let reply = self
            .router
            .script(&scripts::CLAIM, vec![key.clone()], args)
            .await?;
        in_time(self, &key, reply)?.flag()
    }

    /// Frees a login that this user has claimed.
    pub(crate) async fn give_back(
        &self,
        user: &UserId,
        login: &Login,
        until: UnixMillis,
    ) -> StoreResult<()> {
        let (key, args) = (self.keys().users(), args![login.folded(), user, until]);
        let reply = self
            .router
            .script(&scripts::GIVE_BACK, vec![key.clone()], args)
            .await?;
        in_time(self, &key, reply)?.flag().map(drop)
    }

    /// Gives back what a change of logins that was left has claimed, or has not given back: all
    /// that the profile does not carry.
    pub(in crate::store::redis) async fn settle_login(
        &self,
        user: &UserId,
        claimed: &Login,
        until: UnixMillis,
    ) -> StoreResult<()> {
        let args = args![self.keys().user(user), "login", "former"];
        let mut fields = Reply::of(self.router.command("HMGET", args).await?)?;
        let mut login = || {
            fields
                .piece()
                .and_then(fred::types::Value::into_string)
                .and_then(|l| Login::parse(&l).ok())
        };
        let (carried, former) = (login(), login());
        for login in [Some(claimed.clone()), former].into_iter().flatten() {
            if carried
                .as_ref()
                .is_none_or(|carried| carried.folded() != login.folded())
            {
                self.give_back(user, &login, until).await?;
            }
        }
        Ok(())
    }

    pub(crate) async fn read_profile(&self, user: &UserId) -> StoreResult<Option<Profile>> {
        let args = args![self.keys().user(user), "login", "name", "signup"];
        let mut fields = Reply::of(self.router.command("HMGET", args).await?)?;
        let Some(login) = fields.piece().filter(|login| !login.is_null()) else {
            return Ok(None);
        };
        let login =
            Login::parse(&text(login)?).map_err(|_| nonsense("a profile without a login"))?;
        Ok(Some(Profile {
            login,
            name: fields.text()?,
            signup: fields.number()?,
        }))
    }
}

#[async_trait]
impl Profiles for RedisStore {
    async fn put_profile(
        &self,
        user: &UserId,
        login: &Login,
        name: &str,
    ) -> StoreResult<PutProfile> {
        self.router
            .call("put_profile", self.do_put(user, login, name))
            .await
    }

    async fn profile(&self, user: &UserId) -> StoreResult<Option<Profile>> {
        self.router.call("profile", self.read_profile(user)).await
    }

    async fn finish_changes(&self) -> (FinishedChanges, StoreResult<()>) {
        self.do_finish_changes().await
    }
}
