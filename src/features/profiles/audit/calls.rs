//! The calls of an audit of logins. No gateway makes them. They read pages of 1,000 members.

use crate::base::ids::{Login, UserId};
use crate::store::redis::changes::NotedChange;
use crate::store::redis::reply::Reply;
use crate::store::redis::{RedisStore, args};
use crate::store::{MAX_BATCH, StoreResult};

/// A page of claimed logins.
#[derive(Debug)]
pub(crate) struct LoginPage {
    pub(crate) logins: Vec<(Login, UserId)>,
    /// Where the next page begins; `None` at the end.
    pub(crate) next: Option<u64>,
}

impl RedisStore {
    /// A page of the logins that are claimed, in their folded form.
    pub(crate) async fn logins(&self, cursor: u64) -> StoreResult<LoginPage> {
        let args = args![self.keys().users(), cursor, "COUNT", MAX_BATCH];
        let page = self
            .router
            .call("logins", self.router.command("HSCAN", args))
            .await?;
        let mut reply = Reply::of(page)?;
        let next = reply.cursor()?;
        let mut logins = Vec::new();
        for (login, user) in reply.list()?.pairs()? {
            if let Ok(login) = Login::parse(&login)
                && let Ok(user) = UserId::parse(&user)
            {
                logins.push((login, user));
            }
        }
        Ok(LoginPage { logins, next })
    }

    /// The user for whom a login is claimed.
    pub(crate) async fn login_owner(&self, login: &Login) -> StoreResult<Option<UserId>> {
        let args = args![self.keys().users(), login.folded()];
        let owner = self
            .router
            .call("login_owner", self.router.command("HGET", args))
            .await?;
        match owner.into_string() {
            Some(user) => Ok(UserId::parse(&user).ok()),
            None => Ok(None),
        }
    }

    /// Frees a login that is claimed for a user whose profile does not carry it. False if the user
    /// may have it.
    pub(crate) async fn drop_claim(&self, login: &Login, user: &UserId) -> StoreResult<bool> {
        let steps = async {
            let change = NotedChange::Login {
                user: user.clone(),
                login: login.clone(),
            };
            let guards = self.calls.guards(&change).await?;
            let begun = self.calls.begin_change(&change).await?;
            self.calls.settle_login(user, login, guards[0]).await?;
            self.calls.end_change(&begun).await;
            Ok(())
        };
        self.router.call("drop_claim", steps).await?;
        Ok(self.login_owner(login).await?.as_ref() != Some(user))
    }

    /// Claims the login of a user's profile. False if another user has it.
    pub(crate) async fn claim_again(&self, user: &UserId) -> StoreResult<bool> {
        let steps = async {
            let Some(profile) = self.calls.read_profile(user).await? else {
                return Ok(false);
            };
            let change = NotedChange::Login {
                user: user.clone(),
                login: profile.login.clone(),
            };
            let guards = self.calls.guards(&change).await?;
            let begun = self.calls.begin_change(&change).await?;
            let claimed = self.calls.claim(user, &profile.login, guards[0]).await?;
            self.calls
                .settle_login(user, &profile.login, guards[0])
                .await?;
            self.calls.end_change(&begun).await;
            Ok(claimed)
        };
        self.router.call("claim_again", steps).await
    }
}
