//! The end of a change of a login, which the walk finishes as it does other changes
//! ([`super::changes`]): a user keeps the login that the profile carries, and no other.

use super::changes::in_time;
use super::reply::Reply;
use super::{RedisCalls, args, scripts};
use crate::base::clock::UnixMillis;
use crate::base::ids::{Login, UserId};
use crate::store::StoreResult;

impl RedisCalls {
    /// Frees a login that this user has claimed.
    pub(crate) async fn give_back(
        &self,
        user: &UserId,
        login: &Login,
        until: UnixMillis,
    ) -> StoreResult<()> {
        let key = self.keys().users();
        let args = args![login.folded(), user, until];
        let reply = self
            .router
            .script(&scripts::FREE_LOGIN, vec![key.clone()], args)
            .await?;
        in_time(self, &key, reply)?.flag()?;
        Ok(())
    }

    /// Gives back the logins that a change left behind, claimed or not given back: all that the
    /// profile does not carry.
    pub(crate) async fn settle_login(
        &self,
        user: &UserId,
        claimed: &Login,
        until: UnixMillis,
    ) -> StoreResult<()> {
        let args = args![self.keys().user(user), "login", "former"];
        let mut fields = Reply::of(self.router.command("HMGET", args).await?)?;
        let carried = next_login(&mut fields);
        let former = next_login(&mut fields);
        let mut logins = vec![claimed.clone()];
        logins.extend(former);
        for login in logins {
            let is_carried = match &carried {
                Some(carried) => carried.folded() == login.folded(),
                None => false,
            };
            if !is_carried {
                self.give_back(user, &login, until).await?;
            }
        }
        Ok(())
    }
}

/// The next field as a login; `None` for a field that is absent or no login.
fn next_login(fields: &mut Reply) -> Option<Login> {
    let login = fields.piece()?.into_string()?;
    Login::parse(&login).ok()
}
