//! Compares the public sets of a slice with what gateways claim.
//!
//! Both change all the time, and are read page by page. A user who comes or leaves meanwhile seems
//! to be wrong. So users who seem wrong are looked up again, a moment later: only those who seem
//! wrong every time count.

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use tokio::time::sleep;

use crate::base::ids::{Group, SliceId, UserId};
use crate::features::audit::claims::{Claims, PAUSE};
use crate::features::audit::finding::{AuditFinding, FindingKind, such_as};
use crate::features::audit::inspection::Inspector;
use crate::store::{Slices, StoreResult};

/// How often the audit reads a slice in which users seem to be wrong.
const TRIES: u32 = 4;

/// The time between two tries: an odd number, so that the tries do not fall into step with flushes.
const BETWEEN: Duration = Duration::from_millis(37);

/// What is wrong about a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum UserFault {
    /// The set of this group has the user, and no claim says so.
    Stray(Group),
    /// A claim says that the user is of this group, and the set lacks the user.
    Missing(Group),
    /// A gateway without an entry claims the user.
    LacksEntry,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct WrongUser {
    fault: UserFault,
    user: UserId,
}

impl WrongUser {
    fn new(fault: UserFault, user: &UserId) -> Self {
        Self {
            fault,
            user: user.clone(),
        }
    }
}

impl Inspector<'_> {
    /// Compares the sets of an open slice with its claims. Returns the claims and the findings.
    pub(crate) async fn compare_members(
        &self,
        slice: &SliceId,
    ) -> StoreResult<(Claims, Vec<AuditFinding>)> {
        let mut claims = Claims::read(self.store, slice).await?;
        let mut wrong = self.wrong_users(slice, &claims).await?;
        for _ in 1..TRIES {
            if wrong.is_empty() {
                break;
            }
            sleep(BETWEEN).await;
            claims = Claims::read(self.store, slice).await?;
            let again = self.wrong_users(slice, &claims).await?;
            wrong.retain(|user| again.contains(user));
        }
        let mut faults: Vec<UserFault> = wrong.iter().map(|wrong| wrong.fault).collect();
        faults.dedup();
        let findings = faults
            .into_iter()
            .map(|fault| self.wrong_finding(slice, fault, &wrong))
            .collect();
        Ok((claims, findings))
    }

    /// The users of whom the sets, read now, and the claims differ.
    async fn wrong_users(
        &self,
        slice: &SliceId,
        claims: &Claims,
    ) -> StoreResult<BTreeSet<WrongUser>> {
        let mut wrong = BTreeSet::new();
        for (user, claimed) in &claims.users {
            if claimed.lacks_entry {
                wrong.insert(WrongUser::new(UserFault::LacksEntry, user));
            }
        }
        for group in slice.set.groups() {
            let members = self.read_set(slice, *group).await?;
            for user in &members {
                if !claims.say(user, *group) {
                    wrong.insert(WrongUser::new(UserFault::Stray(*group), user));
                }
            }
            for user in claims.users.keys() {
                if claims.say(user, *group) && !members.contains(user) {
                    wrong.insert(WrongUser::new(UserFault::Missing(*group), user));
                }
            }
        }
        Ok(wrong)
    }

    async fn read_set(&self, slice: &SliceId, group: Group) -> StoreResult<HashSet<UserId>> {
        let mut users = HashSet::new();
        let mut cursor = Some(0);
        while let Some(from) = cursor {
            let page = self.store.members_page(slice, group, from).await?;
            users.extend(page.users);
            cursor = page.next;
            sleep(PAUSE).await;
        }
        Ok(users)
    }

    /// The finding about all users with one fault.
    fn wrong_finding(
        &self,
        slice: &SliceId,
        fault: UserFault,
        wrong: &BTreeSet<WrongUser>,
    ) -> AuditFinding {
        let users: Vec<&UserId> = wrong
            .iter()
            .filter(|wrong| wrong.fault == fault)
            .map(|wrong| &wrong.user)
            .collect();
        let count = users.len();
        let names = such_as(users);
        let keys = self.store.keys();
        let (kind, key, detail) = match fault {
            UserFault::Stray(group) => {
                let what = who(group);
                let detail = format!("{count} {what} that no gateway with an entry holds, {names}");
                (
                    FindingKind::GhostMembers,
                    keys.members(slice, group),
                    detail,
                )
            }
            UserFault::Missing(group) => {
                let what = who(group);
                let detail =
                    format!("{count} {what} that gateways hold are not in the set, {names}");
                (
                    FindingKind::MissingMembers,
                    keys.members(slice, group),
                    detail,
                )
            }
            UserFault::LacksEntry => {
                let detail = format!("{count} users claimed by gateways without an entry, {names}");
                (FindingKind::GhostMembers, keys.who(slice), detail)
            }
        };
        AuditFinding::new(kind, detail)
            .slice(slice, keys)
            .key(key)
            .members(count as u64)
    }
}

/// The word for the users of a group in a finding.
fn who(group: Group) -> &'static str {
    match group {
        Group::All => "members",
        Group::Fans => "fans",
    }
}
