//! Checks what Redis knows of the users of the platform besides who is online: when they were seen
//! last, and in which live they are. Both follow every change within a moment, so a second look is
//! at the very users of the first, whose names are kept in memory.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt, stream};
use parking_lot::Mutex;

use super::finding::{AuditFinding, FindingKind};
use super::scan::{AT_A_TIME, slice_id};
use crate::base::clock::{UnixMillis, millis};
use crate::base::ids::{GatewayId, Group, LiveId, OnlineSet, SliceId, USERS_SLICES, UserId};
use crate::cli::leases::LeaseSnapshot;
use crate::store::redis::RedisStore;
use crate::store::redis::inspect::LeaseInside;
use crate::store::{LiveState, LiveStore, MAX_BATCH, Slices, StoreResult};

/// How many names a finding has as examples.
const EXAMPLES: usize = 3;

/// The clocks of gateways may differ by so much.
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
    /// The walk comes by within this time. Words of a gateway that was buried longer ago are a
    /// finding, and so are users who should have been forgotten longer ago.
    walked: Duration,
    /// How long it is remembered when a user was seen last.
    remember: Duration,
    every_user: bool,
    suspects: BTreeMap<u32, Suspects>,
    /// The slices of the lives that this look has read; `None` for one that is not open.
    lives: Mutex<HashMap<LiveId, Option<u32>>>,
}

/// Whom the last look found in a slice.
#[derive(Debug, Default)]
struct Suspects {
    /// Online, and seen at these times.
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
        self.suspects = slices.buffer_unordered(AT_A_TIME).try_collect().await?;
        self.findings(leases, 1..=USERS_SLICES).await
    }

    /// Looks again at what was found.
    pub(super) async fn confirm(
        &mut self,
        leases: &LeaseSnapshot,
        before: &[AuditFinding],
    ) -> StoreResult<Vec<AuditFinding>> {
        self.lives.lock().clear();
        let mine = before
            .iter()
            .filter(|finding| KINDS.contains(&finding.kind));
        let mut slices: Vec<u32> = mine
            .filter_map(|finding| Some(finding.subject.slice.as_ref()?.index))
            .collect();
        slices.sort_unstable();
        slices.dedup();
        for slice in &slices {
            let Suspects { both, words } = self.suspects.remove(slice).unwrap_or_default();
            let both: Vec<UserId> = both.into_iter().map(|(user, _)| user).collect();
            let both = self.still_both(*slice, &both).await?;
            let words = self
                .wrong(leases, self.still_said(*slice, words).await?)
                .await?;
            self.suspects.insert(*slice, Suspects { both, words });
        }
        let mut found = self.findings(leases, slices).await?;
        found.retain(|finding| before.iter().any(|earlier| earlier.is_same(finding)));
        Ok(found)
    }

    /// Repairs a finding; `None` if it is none of these, or if it is gone.
    pub(super) async fn fix(&self, finding: &AuditFinding) -> StoreResult<Option<String>> {
        let Some(SliceId { index: slice, .. }) = &finding.subject.slice else {
            return Ok(None);
        };
        let empty = Suspects::default();
        let suspects = self.suspects.get(slice).unwrap_or(&empty);
        Ok(match finding.kind {
            FindingKind::SeenAndOnline => {
                for some in suspects.both.chunks(MAX_BATCH) {
                    // In the moment of the call, whoever is online is taken out. Others keep their
                    // time.
                    self.store.note_seen_again(*slice, some).await?;
                }
                (!suspects.both.is_empty())
                    .then(|| format!("{} users are only online now", suspects.both.len()))
            }
            FindingKind::SeenInFuture => {
                let (now, mut lowered) = (self.store.users_time(*slice).await?, 0);
                loop {
                    let some = self.store.cap_seen(*slice, now).await?;
                    lowered += some;
                    if some < MAX_BATCH as u64 {
                        break (lowered > 0).then(|| format!("{lowered} times set to now"));
                    }
                }
            }
            _ => None,
        })
    }

    async fn find_both(&self, slice: u32) -> StoreResult<Vec<(UserId, UnixMillis)>> {
        let (mut both, mut cursor) = (Vec::new(), Some(0));
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

    /// Those of some users who are online and seen, with the times.
    async fn still_both(
        &self,
        slice: u32,
        users: &[UserId],
    ) -> StoreResult<Vec<(UserId, UnixMillis)>> {
        let mut both = Vec::new();
        for some in users.chunks(MAX_BATCH) {
            let inside = self.store.inspect_users(slice, some).await?;
            let inside = some.iter().zip(inside).filter(|(_, inside)| inside.online);
            both.extend(inside.filter_map(|(user, inside)| Some((user.clone(), inside.seen?))));
        }
        Ok(both)
    }

    async fn find_words(&self, leases: &LeaseSnapshot, slice: u32) -> StoreResult<Vec<Word>> {
        let (mut wrong, mut cursor) = (Vec::new(), Some(0));
        while let Some(from) = cursor {
            let (users, next) = self.store.whereabouts_page(slice, from).await?;
            let said = users.into_iter().flat_map(|(user, words)| {
                words.into_iter().map(move |(gateway, live)| Word {
                    user: user.clone(),
                    gateway,
                    live,
                })
            });
            wrong.extend(self.wrong(leases, said.collect()).await?);
            cursor = next;
        }
        wrong.sort_unstable_by(|a: &Word, b| (&a.user, &a.gateway).cmp(&(&b.user, &b.gateway)));
        wrong.dedup();
        Ok(wrong)
    }

    /// Those of some words that are still there.
    async fn still_said(&self, slice: u32, words: Vec<Word>) -> StoreResult<Vec<Word>> {
        let mut still = Vec::new();
        for some in words.chunks(MAX_BATCH) {
            let users: Vec<UserId> = some.iter().map(|word| word.user.clone()).collect();
            let inside = self.store.inspect_users(slice, &users).await?;
            let said = some.iter().zip(inside).filter(|(word, user)| {
                user.words
                    .iter()
                    .any(|(gateway, live)| *gateway == word.gateway && *live == word.live)
            });
            still.extend(said.map(|(word, _)| word.clone()));
        }
        Ok(still)
    }

    /// Those of some words that are wrong, or nobody's.
    async fn wrong(&self, leases: &LeaseSnapshot, words: Vec<Word>) -> StoreResult<Vec<Word>> {
        let mut wrong = Vec::new();
        for word in words {
            let is_wrong = match leases.get(&word.gateway) {
                Some(LeaseInside::Dead { age, .. }) => age > self.walked,
                // A gateway has a lease before it says anything.
                None => true,
                Some(LeaseInside::Living { .. }) => self.lacks(&word.live, &word.user).await?,
            };
            wrong.extend(is_wrong.then_some(word));
        }
        Ok(wrong)
    }

    /// Whether a user is certainly not in a live. Of those that are open an audit asks with
    /// `--users`.
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
        let record = self
            .store
            .load_live(live)
            .await?
            .filter(|record| record.state == LiveState::Open);
        let slices = record.map(|record| record.slices);
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

    /// What is wrong with the times of a slice.
    async fn times(&self, slice: u32) -> StoreResult<Vec<AuditFinding>> {
        let now = self.store.users_time(slice).await?;
        let key = self.store.keys().last_seen(slice);
        let finding = |kind, members: u64, what: &str| {
            let finding = AuditFinding::new(kind, format!("{members} users {what}"));
            (members > 0).then(|| {
                finding
                    .slice(&users_slice(slice), self.store.keys())
                    .key(&key)
                    .members(members)
            })
        };
        let future = format!("({}", now.saturating_add(millis(FUTURE)));
        let future = self.store.count_seen(slice, &future, "+inf").await?;
        let old = now
            .saturating_sub(millis(self.remember))
            .saturating_sub(millis(self.walked));
        let old = self
            .store
            .count_seen(slice, "-inf", &format!("({old}"))
            .await?;
        let findings = [
            finding(
                FindingKind::SeenInFuture,
                future,
                "were seen last at a time that is yet to come",
            ),
            finding(
                FindingKind::NotForgotten,
                old,
                "were seen longer ago than users are remembered",
            ),
        ];
        Ok(findings.into_iter().flatten().collect())
    }

    fn seen_and_online(&self, slice: u32, both: &[(UserId, UnixMillis)]) -> Option<AuditFinding> {
        let names = examples(both.iter().map(|(user, _)| user));
        let detail = format!(
            "{} users who are online are also among those seen, such as {names}",
            both.len()
        );
        let finding =
            AuditFinding::new(FindingKind::SeenAndOnline, detail).members(both.len() as u64);
        let key = self.store.keys().last_seen(slice);
        (!both.is_empty()).then(|| {
            finding
                .slice(&users_slice(slice), self.store.keys())
                .key(key)
        })
    }

    /// One finding for each gateway.
    fn whereabouts(&self, leases: &LeaseSnapshot, slice: u32, words: &[Word]) -> Vec<AuditFinding> {
        let mut by_gateway: BTreeMap<&GatewayId, Vec<&Word>> = BTreeMap::new();
        for word in words {
            by_gateway.entry(&word.gateway).or_default().push(word);
        }
        let finding = |(gateway, words): (&GatewayId, Vec<&Word>)| {
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
            finding
                .gateway(gateway)
                .key(self.store.keys().whereabouts(slice))
                .members(words.len() as u64)
        };
        by_gateway.into_iter().map(finding).collect()
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
