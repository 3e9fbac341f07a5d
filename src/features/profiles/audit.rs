//! What an audit inspects of profiles, with `--users`: whether every login is claimed for the user
//! whose profile carries it, and for nobody else.

mod calls;

use async_trait::async_trait;

use crate::base::ids::{Login, UserId};
use crate::features::audit::finding::{AuditFinding, FindingKind};
use crate::features::audit::offered::Inspect;
use crate::features::audit::scan::{each_key, or_unreadable};
use crate::features::profiles::store::Profiles;
use crate::store::redis::RedisStore;
use crate::store::{StoreError, StoreResult};

pub(crate) struct LoginInspector<'a> {
    store: &'a RedisStore,
    every_user: bool,
}

impl<'a> LoginInspector<'a> {
    pub(crate) fn new(store: &'a RedisStore, every_user: bool) -> Self {
        Self { store, every_user }
    }

    async fn every_claim(&self) -> StoreResult<Vec<AuditFinding>> {
        let mut findings = Vec::new();
        let mut cursor = Some(0);
        while let Some(from) = cursor {
            let page = self.store.logins(from).await?;
            for (login, user) in page.logins {
                match self.claim_of(&login, &user).await {
                    // The inspection of the profile itself reports this.
                    Err(StoreError::Nonsense(_)) => {}
                    seen => findings.extend(seen?),
                }
            }
            cursor = page.next;
        }
        Ok(findings)
    }

    /// Checks whether the profile of a user carries a login that is claimed for the user.
    async fn claim_of(&self, login: &Login, user: &UserId) -> StoreResult<Option<AuditFinding>> {
        let carried = self.store.profile(user).await?.map(|profile| profile.login);
        if let Some(carried) = carried
            && carried.folded() == *login
        {
            return Ok(None);
        }
        let detail =
            format!("the login {login} is claimed for {user}, whose profile does not carry it");
        let key = self.store.keys().users();
        Ok(Some(
            AuditFinding::new(FindingKind::StaleLogin, detail)
                .user(user)
                .login(login)
                .key(key),
        ))
    }

    async fn profile_at(&self, key: &str) -> StoreResult<Option<AuditFinding>> {
        match self.store.keys().read_user(key) {
            Some(user) => self.profile_of(&user).await,
            None => Ok(None),
        }
    }

    /// Checks whether the login of a profile is claimed for its user.
    async fn profile_of(&self, user: &UserId) -> StoreResult<Option<AuditFinding>> {
        let Some(profile) = self.store.profile(user).await? else {
            return Ok(None);
        };
        let owner = self.store.login_owner(&profile.login).await?;
        if owner.as_ref() == Some(user) {
            return Ok(None);
        }
        let owner = match owner {
            Some(owner) => owner.to_string(),
            None => "nobody".to_owned(),
        };
        let detail = format!(
            "the profile carries the login {}, which is claimed for {owner}",
            profile.login
        );
        let key = self.store.keys().user(user);
        Ok(Some(
            AuditFinding::new(FindingKind::UnclaimedLogin, detail)
                .user(user)
                .key(key),
        ))
    }
}

#[async_trait(?Send)]
impl Inspect for LoginInspector<'_> {
    async fn inspect(&mut self) -> StoreResult<Vec<AuditFinding>> {
        if !self.every_user {
            return Ok(Vec::new());
        }
        let mut findings = self.every_claim().await?;
        let users = self.store.keys().user_keys();
        findings
            .extend(each_key(self.store, &users, async |key| self.profile_at(key).await).await?);
        Ok(findings)
    }

    async fn inspect_again(&mut self, before: &[AuditFinding]) -> StoreResult<Vec<AuditFinding>> {
        let mut found = Vec::new();
        for finding in before {
            let subject = &finding.subject;
            match (finding.kind, &finding.key) {
                (FindingKind::StaleLogin, _) => {
                    if let Some(user) = &subject.user_id
                        && let Some(login) = &subject.login
                        && self.store.login_owner(login).await?.as_ref() == Some(user)
                    {
                        found.extend(self.claim_of(login, user).await?);
                    }
                }
                (FindingKind::UnclaimedLogin | FindingKind::UnreadableKey, Some(key)) => {
                    found.extend(or_unreadable(key, self.profile_at(key).await)?);
                }
                _ => {}
            }
        }
        Ok(found)
    }

    async fn fix(&self, finding: &AuditFinding) -> StoreResult<Option<String>> {
        let Some(user) = &finding.subject.user_id else {
            return Ok(None);
        };
        match (finding.kind, &finding.subject.login) {
            (FindingKind::StaleLogin, Some(login)) => {
                let freed = self.store.drop_claim(login, user).await?;
                Ok(freed.then(|| "login freed".to_owned()))
            }
            (FindingKind::UnclaimedLogin, _) => {
                let claimed = self.store.claim_again(user).await?;
                Ok(claimed.then(|| "login claimed".to_owned()))
            }
            _ => Ok(None),
        }
    }
}
