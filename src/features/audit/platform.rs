//! Checks when the users of the platform were last seen. Redis follows every change within a moment.
//! The second look therefore inspects the same users as the first, and the inspector keeps their
//! names in memory.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::{StreamExt, TryStreamExt, stream};

use crate::base::clock::{UnixMillis, millis};
use crate::base::ids::{OnlineSet, SliceId, USERS_SLICES, UserId};
use crate::features::audit::finding::{AuditFinding, FindingKind, such_as};
use crate::features::audit::offered::Inspect;
use crate::features::audit::scan::{MAX_CONCURRENT_READS, slice_id};
use crate::store::redis::RedisStore;
use crate::store::{MAX_BATCH, StoreResult};

/// The difference that the clocks of gateways may have.
const FUTURE: Duration = Duration::from_secs(60);

/// The findings of this inspection.
const KINDS: &[FindingKind] = &[
    FindingKind::SeenAndOnline,
    FindingKind::SeenInFuture,
    FindingKind::NotForgotten,
];

pub(crate) struct PlatformInspector<'a> {
    store: &'a RedisStore,
    /// The time within which the walk of a gateway cleans up. Users whose time ran out longer ago are
    /// a finding.
    walked: Duration,
    /// How long the store remembers when a user was last seen.
    remember: Duration,
    /// The users of each slice whom the last look found online and also remembered as seen, with
    /// these times.
    suspects: BTreeMap<u32, Vec<(UserId, UnixMillis)>>,
}

impl<'a> PlatformInspector<'a> {
    pub(crate) fn new(store: &'a RedisStore, walked: Duration, remember: Duration) -> Self {
        Self {
            store,
            walked,
            remember,
            suspects: BTreeMap::new(),
        }
    }

    /// The users of a slice who are online and also remembered as seen, with the times.
    async fn find_both(&self, slice: u32) -> StoreResult<Vec<(UserId, UnixMillis)>> {
        let mut both = Vec::new();
        let mut cursor = Some(0);
        while let Some(from) = cursor {
            let (users, next) = self.store.online_page(slice, from).await?;
            both.extend(self.still_both(slice, &users).await?);
            cursor = next;
        }
        // SSCAN may return a user twice.
        both.sort_unstable();
        both.dedup();
        Ok(both)
    }

    /// The users of `users` who are online and also remembered as seen, with the times.
    async fn still_both(
        &self,
        slice: u32,
        users: &[UserId],
    ) -> StoreResult<Vec<(UserId, UnixMillis)>> {
        let mut both = Vec::new();
        for some in users.chunks(MAX_BATCH) {
            let inside = self.store.inspect_users(slice, some).await?;
            for (user, inside) in some.iter().zip(inside) {
                if inside.online
                    && let Some(seen) = inside.seen
                {
                    both.push((user.clone(), seen));
                }
            }
        }
        Ok(both)
    }

    async fn findings(
        &self,
        slices: impl IntoIterator<Item = u32>,
    ) -> StoreResult<Vec<AuditFinding>> {
        let mut findings = Vec::new();
        for slice in slices {
            findings.extend(self.times(slice).await?);
            if let Some(suspects) = self.suspects.get(&slice) {
                findings.extend(self.seen_and_online(slice, suspects));
            }
        }
        Ok(findings)
    }

    /// The findings about the times in a slice at which users were last seen.
    async fn times(&self, slice: u32) -> StoreResult<Vec<AuditFinding>> {
        let now = self.store.users_time(slice).await?;
        let future = format!("({}", now.saturating_add(millis(FUTURE)));
        let future = self.store.count_seen(slice, &future, "+inf").await?;
        let old = now
            .saturating_sub(millis(self.remember))
            .saturating_sub(millis(self.walked));
        let old = self
            .store
            .count_seen(slice, "-inf", &format!("({old}"))
            .await?;
        let mut findings = Vec::new();
        if future > 0 {
            let detail = format!("{future} users were seen last at a time that is yet to come");
            findings.push(self.seen_finding(FindingKind::SeenInFuture, slice, detail, future));
        }
        if old > 0 {
            let detail = format!("{old} users were seen longer ago than users are remembered");
            findings.push(self.seen_finding(FindingKind::NotForgotten, slice, detail, old));
        }
        Ok(findings)
    }

    /// A finding about the times in a slice at which `members` users were last seen.
    fn seen_finding(
        &self,
        kind: FindingKind,
        slice: u32,
        detail: String,
        members: u64,
    ) -> AuditFinding {
        AuditFinding::new(kind, detail)
            .slice(&users_slice(slice), self.store.keys())
            .key(self.store.keys().last_seen(slice))
            .members(members)
    }

    fn seen_and_online(&self, slice: u32, both: &[(UserId, UnixMillis)]) -> Option<AuditFinding> {
        if both.is_empty() {
            return None;
        }
        let detail = format!(
            "{} users who are online are also among those seen, {}",
            both.len(),
            such_as(both.iter().map(|(user, _)| user))
        );
        let members = both.len() as u64;
        Some(self.seen_finding(FindingKind::SeenAndOnline, slice, detail, members))
    }
}

#[async_trait(?Send)]
impl Inspect for PlatformInspector<'_> {
    async fn inspect(&mut self) -> StoreResult<Vec<AuditFinding>> {
        self.store.learn_seen_ids().await?;
        let this = &*self;
        let slices = stream::iter(1..=USERS_SLICES)
            .map(|slice| async move { StoreResult::Ok((slice, this.find_both(slice).await?)) });
        self.suspects = slices
            .buffer_unordered(MAX_CONCURRENT_READS)
            .try_collect()
            .await?;
        self.findings(1..=USERS_SLICES).await
    }

    async fn inspect_again(&mut self, before: &[AuditFinding]) -> StoreResult<Vec<AuditFinding>> {
        let mut slices: Vec<u32> = Vec::new();
        for finding in before {
            if KINDS.contains(&finding.kind)
                && let Some(slice) = &finding.subject.slice
            {
                slices.push(slice.index);
            }
        }
        slices.sort_unstable();
        slices.dedup();
        for slice in &slices {
            let earlier = self.suspects.remove(slice).unwrap_or_default();
            let users: Vec<UserId> = earlier.into_iter().map(|(user, _)| user).collect();
            let both = self.still_both(*slice, &users).await?;
            self.suspects.insert(*slice, both);
        }
        self.findings(slices).await
    }

    async fn fix(&self, finding: &AuditFinding) -> StoreResult<Option<String>> {
        let Some(SliceId { index: slice, .. }) = &finding.subject.slice else {
            return Ok(None);
        };
        match finding.kind {
            FindingKind::SeenAndOnline => {
                let both = match self.suspects.get(slice) {
                    Some(both) if !both.is_empty() => both,
                    _ => return Ok(None),
                };
                for some in both.chunks(MAX_BATCH) {
                    // The call takes out the users who are online at that moment. The others keep
                    // their time.
                    self.store.note_seen_again(*slice, some).await?;
                }
                Ok(Some(format!("{} users are only online now", both.len())))
            }
            FindingKind::SeenInFuture => {
                let now = self.store.users_time(*slice).await?;
                let mut lowered = 0;
                loop {
                    let some = self.store.cap_seen(*slice, now).await?;
                    lowered += some;
                    if some < MAX_BATCH as u64 {
                        break;
                    }
                }
                if lowered == 0 {
                    return Ok(None);
                }
                Ok(Some(format!("{lowered} times set to now")))
            }
            _ => Ok(None),
        }
    }
}

fn users_slice(slice: u32) -> SliceId {
    slice_id(OnlineSet::Users, Some(slice))
}
