//! Checks what Redis knows of users: changes that a gateway left half done and, with `--users`,
//! every follow, every login and, in [`crate::features::audit::statuses`], every timeline. The inspector keeps only
//! the names of its findings in memory.

use std::time::Duration;

use crate::base::ids::{Login, UserId};
use crate::cli::common::seconds;
use crate::features::audit::finding::{AuditFinding, FindingKind};
use crate::features::audit::scan::{each_key, or_unreadable};
use crate::features::profiles::store::Profiles;
use crate::store::redis::RedisStore;
use crate::store::redis::users::HalfFollow;
use crate::store::{StoreError, StoreResult};

/// Maximum example names per finding.
const EXAMPLES: usize = 3;

pub(crate) struct UserInspector<'a> {
    pub store: &'a RedisStore,
    /// A change that nobody has finished for longer than this is a finding.
    pub overdue: Duration,
    pub every_user: bool,
}

impl UserInspector<'_> {
    pub(crate) async fn inspect(&self) -> StoreResult<Vec<AuditFinding>> {
        let mut findings = self.left_changes().await?;
        if self.every_user {
            let edges = self.store.keys().edge_keys();
            let timelines = self.store.keys().timeline_keys();
            findings.extend(
                each_key(self.store, &edges, async |key| self.follows_at(key).await).await?,
            );
            findings.extend(self.every_login().await?);
            findings.extend(
                each_key(self.store, &timelines, async |key| {
                    self.timeline_at(key).await
                })
                .await?,
            );
        }
        Ok(findings)
    }

    /// Inspects again what `before` is about.
    pub(crate) async fn confirm(&self, before: &[AuditFinding]) -> StoreResult<Vec<AuditFinding>> {
        let mut found = Vec::new();
        for finding in before {
            let remaining = match (finding.kind, &finding.key, &finding.subject.user_id) {
                (FindingKind::HalfFollow, Some(key), _) => self.follows_at(key).await?,
                (FindingKind::StaleStatus, Some(key), _) => self.timeline_at(key).await?,
                (FindingKind::StaleLogin, _, Some(user)) => match &finding.subject.login {
                    Some(login) if self.store.login_owner(login).await?.as_ref() == Some(user) => {
                        self.claim_of(login, user).await?
                    }
                    _ => None,
                },
                (FindingKind::UnclaimedLogin, _, Some(user)) => self.profile_of(user).await?,
                (FindingKind::UnreadableKey, Some(key), _) => {
                    or_unreadable(key, self.anything_at(key).await)?
                }
                _ => None,
            };
            found.extend(remaining);
        }
        if before
            .iter()
            .any(|finding| finding.kind == FindingKind::UnfinishedChange)
        {
            found.extend(self.left_changes().await?);
        }
        found.retain(|finding| before.iter().any(|earlier| earlier.is_same(finding)));
        Ok(found)
    }

    /// Repairs a finding. Returns `None` if it is not about users, or if it is gone.
    pub(crate) async fn fix(
        store: &RedisStore,
        finding: &AuditFinding,
    ) -> StoreResult<Option<String>> {
        match (finding.kind, &finding.key, &finding.subject.user_id) {
            (FindingKind::HalfFollow, Some(key), _) => {
                let mut added = 0;
                for half in store.half_follows(key).await? {
                    store.restore_follow(&half).await?;
                    added += 1;
                }
                if added == 0 {
                    return Ok(None);
                }
                Ok(Some(format!("{added} follows added at the other end")))
            }
            (FindingKind::StaleStatus, Some(key), _) => {
                let taken = Self::drop_stale(store, key).await?;
                if taken == 0 {
                    return Ok(None);
                }
                Ok(Some(format!("{taken} statuses taken out")))
            }
            (FindingKind::StaleLogin, _, Some(user)) => match &finding.subject.login {
                Some(login) => {
                    if !store.drop_claim(login, user).await? {
                        return Ok(None);
                    }
                    Ok(Some("login freed".to_owned()))
                }
                None => Ok(None),
            },
            (FindingKind::UnclaimedLogin, _, Some(user)) => {
                if !store.claim_again(user).await? {
                    return Ok(None);
                }
                Ok(Some("login claimed".to_owned()))
            }
            _ => Ok(None),
        }
    }

    async fn left_changes(&self) -> StoreResult<Vec<AuditFinding>> {
        let mut findings = Vec::new();
        for left in self.store.left_changes(self.overdue).await? {
            let detail = format!(
                "{} began {} ago, and nobody finishes it",
                left.change,
                seconds(left.age)
            );
            findings.push(AuditFinding::new(FindingKind::UnfinishedChange, detail).key(left.key));
        }
        Ok(findings)
    }

    async fn anything_at(&self, key: &str) -> StoreResult<Option<AuditFinding>> {
        let keys = self.store.keys();
        match keys.read_user(key) {
            Some(user) => self.profile_of(&user).await,
            None if keys.read_timeline(key).is_some() => self.timeline_at(key).await,
            None => self.follows_at(key).await,
        }
    }

    async fn follows_at(&self, key: &str) -> StoreResult<Option<AuditFinding>> {
        let halves = self.store.half_follows(key).await?;
        let Some(first) = halves.first() else {
            return Ok(None);
        };
        let names: Vec<String> = halves
            .iter()
            .take(EXAMPLES)
            .map(HalfFollow::to_string)
            .collect();
        let detail = format!(
            "{} follows that only {key} has, such as {}",
            halves.len(),
            names.join(", ")
        );
        let finding = AuditFinding::new(FindingKind::HalfFollow, detail)
            .key(key)
            .members(halves.len() as u64);
        Ok(Some(finding.user(first.at_one_end())))
    }

    async fn every_login(&self) -> StoreResult<Vec<AuditFinding>> {
        let mut findings = Vec::new();
        let mut cursor = Some(0);
        while let Some(from) = cursor {
            let page = self.store.logins(from).await?;
            for (login, user) in page.logins {
                match self.claim_of(&login, &user).await {
                    // The inspection of the profile itself, below, reports this.
                    Err(StoreError::Nonsense(_)) => {}
                    seen => findings.extend(seen?),
                }
            }
            cursor = page.next;
        }
        let glob = self.store.keys().user_keys();
        self.store
            .each_page(&glob, async |keys| {
                for key in keys {
                    let Some(user) = self.store.keys().read_user(&key) else {
                        continue;
                    };
                    findings.extend(or_unreadable(&key, self.profile_of(&user).await)?);
                }
                Ok(())
            })
            .await?;
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
