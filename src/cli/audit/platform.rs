//! Checks what Redis knows of the users of the platform: when each was last seen, and in which live
//! each is. Redis follows every change within a moment. The second look therefore inspects the same
//! users as the first, and the inspector keeps their names in memory.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt, stream};
use parking_lot::Mutex;

use super::finding::{AuditFinding, FindingKind};
use super::scan::{MAX_CONCURRENT_READS, slice_id};
use crate::base::clock::{UnixMillis, millis};
use crate::base::ids::{GatewayId, Group, LiveId, OnlineSet, SliceId, USERS_SLICES, UserId};
use crate::cli::leases::LeaseSnapshot;
use crate::store::redis::RedisStore;
use crate::store::redis::inspect::LeaseInside;
use crate::store::{LiveState, LiveStore, MAX_BATCH, Slices, StoreResult};

/// Maximum example names per finding.
const EXAMPLES: usize = 3;

/// The difference that the clocks of gateways may have.
const FUTURE: Duration = Duration::from_secs(60);

/// The findings of this inspection.
const KINDS: &[FindingKind] = &[
    FindingKind::SeenAndOnline,
    FindingKind::SeenInFuture,
    FindingKind::NotForgotten,
    FindingKind::WrongWhereabouts,
    FindingKind::StaleWhereabouts,
];

pub(super) struct PlatformInspector<'a> {
    store: &'a RedisStore,
    /// The time within which the walk of a gateway cleans up. Words of a gateway that was buried
    /// longer ago are a finding, and so are users whose time ran out longer ago.
    walked: Duration,
    /// How long the store remembers when a user was last seen.
    remember: Duration,
    every_user: bool,
    suspects: BTreeMap<u32, Suspects>,
    /// The number of slices of each live that this look has read. `None` for a live that is not
    /// open.
    lives: Mutex<HashMap<LiveId, Option<u32>>>,
}

/// The users and words that the last look found in a slice.
#[derive(Debug, Default)]
struct Suspects {
    /// The users who are online and also remembered as seen, with these times.
    both: Vec<(UserId, UnixMillis)>,
    words: Vec<Word>,
}

/// A gateway says that a user is in a live.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Word {
    user: UserId,
    gateway: GatewayId,
    live: LiveId,
}

impl<'a> PlatformInspector<'a> {
    pub(super) fn new(
        store: &'a RedisStore,
        walked: Duration,
        remember: Duration,
        every_user: bool,
    ) -> Self {
        Self {
            store,
            walked,
            remember,
            every_user,
            suspects: BTreeMap::new(),
            lives: Mutex::default(),
        }
    }

    pub(super) async fn inspect(
        &mut self,
        leases: &LeaseSnapshot,
    ) -> StoreResult<Vec<AuditFinding>> {
        self.store.learn_seen_ids().await?;
        let this = &*self;
        let slices = stream::iter(1..=USERS_SLICES).map(|slice| async move {
            let suspects = Suspects {
                both: this.find_both(slice).await?,
                words: this.find_words(leases, slice).await?,
            };
            StoreResult::Ok((slice, suspects))
        });
        self.suspects = slices
            .buffer_unordered(MAX_CONCURRENT_READS)
            .try_collect()
            .await?;
        self.findings(leases, 1..=USERS_SLICES).await
    }

    /// Inspects again the slices that have findings.
    pub(super) async fn confirm(
        &mut self,
        leases: &LeaseSnapshot,
        before: &[AuditFinding],
    ) -> StoreResult<Vec<AuditFinding>> {
        self.lives.lock().clear();
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
            let users: Vec<UserId> = earlier.both.into_iter().map(|(user, _)| user).collect();
            let both = self.still_both(*slice, &users).await?;
            let said = self.still_said(*slice, earlier.words).await?;
            let words = self.wrong(leases, said).await?;
            self.suspects.insert(*slice, Suspects { both, words });
        }
        let mut found = self.findings(leases, slices).await?;
        found.retain(|finding| before.iter().any(|earlier| earlier.is_same(finding)));
        Ok(found)
    }

    /// Repairs a finding. Returns `None` if it is of another inspection, or if it is gone.
    pub(super) async fn fix(&self, finding: &AuditFinding) -> StoreResult<Option<String>> {
        let Some(SliceId { index: slice, .. }) = &finding.subject.slice else {
            return Ok(None);
        };
        let empty = Suspects::default();
        let suspects = self.suspects.get(slice).unwrap_or(&empty);
        match finding.kind {
            FindingKind::SeenAndOnline => {
                for some in suspects.both.chunks(MAX_BATCH) {
                    // The call takes out the users who are online at that moment. The others keep
                    // their time.
                    self.store.note_seen_again(*slice, some).await?;
                }
                if suspects.both.is_empty() {
                    return Ok(None);
                }
                Ok(Some(format!(
                    "{} users are only online now",
                    suspects.both.len()
                )))
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

    async fn find_words(&self, leases: &LeaseSnapshot, slice: u32) -> StoreResult<Vec<Word>> {
        let mut wrong = Vec::new();
        let mut cursor = Some(0);
        while let Some(from) = cursor {
            let (users, next) = self.store.whereabouts_page(slice, from).await?;
            let mut said = Vec::new();
            for (user, words) in users {
                for (gateway, live) in words {
                    said.push(Word {
                        user: user.clone(),
                        gateway,
                        live,
                    });
                }
            }
            wrong.extend(self.wrong(leases, said).await?);
            cursor = next;
        }
        wrong.sort_unstable_by(|a: &Word, b| (&a.user, &a.gateway).cmp(&(&b.user, &b.gateway)));
        wrong.dedup();
        Ok(wrong)
    }

    /// The words of `words` that gateways still say.
    async fn still_said(&self, slice: u32, words: Vec<Word>) -> StoreResult<Vec<Word>> {
        let mut still = Vec::new();
        for some in words.chunks(MAX_BATCH) {
            let users: Vec<UserId> = some.iter().map(|word| word.user.clone()).collect();
            let inside = self.store.inspect_users(slice, &users).await?;
            for (word, user) in some.iter().zip(inside) {
                let is_said = user
                    .words
                    .iter()
                    .any(|(gateway, live)| *gateway == word.gateway && *live == word.live);
                if is_said {
                    still.push(word.clone());
                }
            }
        }
        Ok(still)
    }

    /// The words of `words` that are wrong, or whose gateway is gone.
    async fn wrong(&self, leases: &LeaseSnapshot, words: Vec<Word>) -> StoreResult<Vec<Word>> {
        let mut wrong = Vec::new();
        for word in words {
            let is_wrong = match leases.get(&word.gateway) {
                Some(LeaseInside::Dead { age, .. }) => age > self.walked,
                // A gateway has a lease before it says anything.
                None => true,
                Some(LeaseInside::Living { .. }) => self.lacks(&word.live, &word.user).await?,
            };
            if is_wrong {
                wrong.push(word);
            }
        }
        Ok(wrong)
    }

    /// Whether a user is certainly not in a live. An audit asks for the members of an open live only
    /// with `--users`.
    async fn lacks(&self, live: &LiveId, user: &UserId) -> StoreResult<bool> {
        let Some(of) = self.slices_if_open(live).await? else {
            return Ok(true);
        };
        if !self.every_user {
            return Ok(false);
        }
        let slice = SliceId::of_user(OnlineSet::Live(live.clone()), user, of);
        Ok(!self.store.is_member(&slice, Group::All, user).await?)
    }

    async fn slices_if_open(&self, live: &LiveId) -> StoreResult<Option<u32>> {
        let known = self.lives.lock().get(live).copied();
        if let Some(known) = known {
            return Ok(known);
        }
        let slices = match self.store.load_live(live).await? {
            Some(record) if record.state == LiveState::Open => Some(record.slices),
            _ => None,
        };
        self.lives.lock().insert(live.clone(), slices);
        Ok(slices)
    }

    async fn findings(
        &self,
        leases: &LeaseSnapshot,
        slices: impl IntoIterator<Item = u32>,
    ) -> StoreResult<Vec<AuditFinding>> {
        let mut findings = Vec::new();
        for slice in slices {
            findings.extend(self.times(slice).await?);
            if let Some(suspects) = self.suspects.get(&slice) {
                findings.extend(self.seen_and_online(slice, &suspects.both));
                findings.extend(self.whereabouts(leases, slice, &suspects.words));
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
        let names = examples(both.iter().map(|(user, _)| user));
        let detail = format!(
            "{} users who are online are also among those seen, such as {names}",
            both.len()
        );
        let members = both.len() as u64;
        Some(self.seen_finding(FindingKind::SeenAndOnline, slice, detail, members))
    }

    /// One finding for each gateway that says something wrong.
    fn whereabouts(&self, leases: &LeaseSnapshot, slice: u32, words: &[Word]) -> Vec<AuditFinding> {
        let mut by_gateway: BTreeMap<&GatewayId, Vec<&Word>> = BTreeMap::new();
        for word in words {
            by_gateway.entry(&word.gateway).or_default().push(word);
        }
        let mut findings = Vec::new();
        for (gateway, words) in by_gateway {
            let said = examples(
                words
                    .iter()
                    .map(|word| format!("{} in {}", word.user, word.live)),
            );
            let (kind, why) = if leases.is_living(gateway) {
                (FindingKind::WrongWhereabouts, "which are not there")
            } else {
                (FindingKind::StaleWhereabouts, "but the gateway is gone")
            };
            let detail = format!(
                "it says of {} users in which live they are, {why}: {said}",
                words.len()
            );
            let finding =
                AuditFinding::new(kind, detail).slice(&users_slice(slice), self.store.keys());
            findings.push(
                finding
                    .gateway(gateway)
                    .key(self.store.keys().whereabouts(slice))
                    .members(words.len() as u64),
            );
        }
        findings
    }
}

fn users_slice(slice: u32) -> SliceId {
    slice_id(OnlineSet::Users, Some(slice))
}

fn examples(names: impl Iterator<Item = impl ToString>) -> String {
    names
        .take(EXAMPLES)
        .map(|name| name.to_string())
        .collect::<Vec<_>>()
        .join(", ")
}
