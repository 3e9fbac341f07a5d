//! Erases profiles and logins. The logins are one large key, over which an erasure goes page by page,
//! because a claim may be there that no profile carries.

use async_trait::async_trait;
use fred::types::Value;

use crate::base::ids::Login;
use crate::features::profiles::keys::HIDDEN;
use crate::store::redis::args;
use crate::store::redis::erasing::{ErasesKeys, Erasing, FamilyEraser, Look, Suspect};
use crate::store::redis::keys::{USER, USERS};
use crate::store::redis::reply::Reply;
use crate::store::{MAX_BATCH, PersonalData, StoreResult};

pub(crate) static ERASERS: &[FamilyEraser] = &[
    (&USER, &OfProfiles),
    (&USERS, &OfLogins),
    (&HIDDEN, &OfHidden),
];

struct OfProfiles;

#[async_trait]
impl ErasesKeys for OfProfiles {
    fn look(&self, key: &Suspect, of: &Erasing<'_>) -> Option<Look> {
        if key.ids[0] != of.user.as_str() {
            return None;
        }
        Some(Look::Read(("HMGET", args![key.key, "login", "former"])))
    }

    async fn act(&self, key: &Suspect, answer: Value, of: &mut Erasing<'_>) -> StoreResult<()> {
        for login in Reply::of(answer)?.texts() {
            if let Ok(login) = Login::parse(&login) {
                free_login(&login, of).await?;
            }
        }
        // The profile goes last: it knows the logins.
        let gone = of.delete(&key.key).await?;
        of.step.add(PersonalData::Profiles, gone);
        Ok(())
    }
}

/// That a user is hidden is a part of the profile, so the report tells of the profile only.
struct OfHidden;

impl ErasesKeys for OfHidden {
    fn look(&self, key: &Suspect, of: &Erasing<'_>) -> Option<Look> {
        let erase = ("SREM", args![key.key, of.user]);
        Some(Look::Erase(None, vec![erase]))
    }
}

struct OfLogins;

#[async_trait]
impl ErasesKeys for OfLogins {
    async fn page(&self, cursor: u64, of: &mut Erasing<'_>) -> StoreResult<u64> {
        let args = args![of.calls.keys().users(), cursor, "COUNT", MAX_BATCH];
        let mut reply = Reply::of(of.send("HSCAN", args).await?)?;
        let next = reply.number()?;
        for (login, owner) in reply.list()?.pairs()? {
            if owner == of.user.as_str()
                && let Ok(login) = Login::parse(&login)
            {
                free_login(&login, of).await?;
            }
        }
        Ok(next)
    }
}

async fn free_login(login: &Login, of: &mut Erasing<'_>) -> StoreResult<()> {
    let router = &of.calls.router;
    let steps = async {
        let key = of.calls.keys().users();
        let owner = router.command("HGET", args![key, login.folded()]).await?;
        if !of.is_user(&owner) {
            return Ok(0);
        }
        let until = router.not_after(&key).await?;
        of.calls.give_back(of.user, login, until).await?;
        Ok(1)
    };
    let freed = router.call("erase_some", steps).await?;
    of.step.add(PersonalData::Logins, freed);
    Ok(())
}
