//! Checks what is kept of lives with attendance: whether each epoch is noted, listed and ended,
//! whether its keys expire, whether the sessions of an open epoch are those of the users who are
//! there and, with `--users`, whether every fan who came has a session.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt, stream};
use tokio::time::sleep;

use super::finding::{AuditFinding, FindingKind};
use super::inspection::{Inspection, Inspector};
use super::scan::AT_A_TIME;
use crate::base::clock::unix_now;
use crate::base::ids::{Epoch, SliceId, UserId};
use crate::store::redis::RedisStore;
use crate::store::redis::inspect_attendance::StraySessions;
use crate::store::redis::keys::KeptKey;
use crate::store::{
    Attendance, Attended, Attending, LiveEpoch, LiveRecord, LiveState, LiveStore, MAX_BATCH,
    Sessions, Span, StoreResult,
};

/// How many names a finding has as examples.
const EXAMPLES: usize = 3;

/// The pause after a part of the fans of an epoch.
const PAUSE: Duration = Duration::from_millis(1);

/// The findings of this inspection; those about open sessions are found with their slices.
pub(super) const KINDS: &[FindingKind] = &[
    FindingKind::UnlistedAttendance,
    FindingKind::UnendedAttendance,
    FindingKind::EverlastingAttendance,
    FindingKind::AttendanceWithoutSession,
    FindingKind::UnreadableKey,
];

pub(super) struct AttendanceInspector<'a> {
    store: &'a RedisStore,
    every_user: bool,
    found: BTreeMap<LiveEpoch, Kept>,
}

/// What the scan found of an epoch.
#[derive(Debug, Default)]
struct Kept {
    /// Any of its keys: while it is there, something is kept.
    any: String,
    /// The keys of sessions, whose names only the number of slices tells.
    sessions: BTreeSet<String>,
    /// The keys that never expire.
    everlasting: BTreeSet<String>,
}

/// What the store knows of an epoch.
struct Known {
    listed: bool,
    /// What is noted of its attendance.
    noted: Option<Attended>,
    /// The record of its live, of whichever epoch.
    record: Option<LiveRecord>,
}

impl Known {
    async fn read(store: &RedisStore, of: &LiveEpoch) -> StoreResult<Self> {
        let record = store.load_live(&of.live).await?;
        Ok(Self {
            listed: store.is_attendance_listed(of).await?,
            noted: store.attended(of).await?,
            record,
        })
    }

    /// When the epoch ended, if the record says that it did.
    fn ended_at(&self, of: &LiveEpoch) -> Option<u64> {
        let record = self.record.as_ref()?;
        if record.epoch == of.epoch {
            return record
                .closure
                .filter(|_| record.state == LiveState::Closed)
                .map(|closure| closure.at);
        }
        (record.epoch > of.epoch).then(unix_now)
    }

    /// What should be noted.
    fn attended(self, of: &LiveEpoch) -> Option<Attended> {
        let ended_at = self.ended_at(of);
        let of_record = self
            .record
            .filter(|record| record.epoch == of.epoch && record.terms.attendance);
        let attended = self.noted.or(of_record.map(|record| record.attended()))?;
        Some(Attended {
            closed_at: attended.closed_at.or(ended_at),
            ..attended
        })
    }
}

impl<'a> AttendanceInspector<'a> {
    pub(super) fn new(store: &'a RedisStore, every_user: bool) -> Self {
        Self {
            store,
            every_user,
            found: BTreeMap::new(),
        }
    }

    pub(super) async fn inspect(&mut self) -> StoreResult<Vec<AuditFinding>> {
        self.store.learn_attendance_form().await?;
        let mut found: BTreeMap<LiveEpoch, Kept> = BTreeMap::new();
        for glob in self.store.keys().kept_keys() {
            self.store
                .each_page(&glob, async |mut keys| {
                    let names = self.store.keys();
                    keys.retain(|key| names.read_kept(key).is_some());
                    for everlasting in self.store.everlasting(&keys).await? {
                        if let Some((of, _)) = names.read_kept(&everlasting) {
                            found.entry(of).or_default().everlasting.insert(everlasting);
                        }
                    }
                    for key in keys {
                        if let Some((of, kind)) = names.read_kept(&key) {
                            let kept = found.entry(of).or_default();
                            kept.any.clone_from(&key);
                            kept.sessions
                                .extend((kind == KeptKey::Sessions).then_some(key));
                        }
                    }
                    Ok(())
                })
                .await?;
        }
        self.found = found;
        let this = &*self;
        let looks = stream::iter(&this.found).map(|(of, kept)| this.look_at(of, kept));
        let found: Vec<Vec<AuditFinding>> = looks.buffered(AT_A_TIME).try_collect().await?;
        Ok(found.into_iter().flatten().collect())
    }

    /// Looks again at what was found.
    pub(super) async fn confirm(&self, before: &[AuditFinding]) -> StoreResult<Vec<AuditFinding>> {
        let mut found = Vec::new();
        for (of, kept) in &self.found {
            let key = Some(self.store.keys().attended(of));
            if before
                .iter()
                .any(|finding| KINDS.contains(&finding.kind) && finding.key == key)
            {
                found.extend(self.look_at(of, kept).await?);
            }
        }
        found.retain(|finding| before.iter().any(|earlier| earlier.is_same(finding)));
        Ok(found)
    }

    /// Repairs a finding; `None` if an audit must not repair it, or if it is gone.
    pub(super) async fn fix(&self, finding: &AuditFinding) -> StoreResult<Option<String>> {
        let is_it = |(of, _): &(&LiveEpoch, &Kept)| {
            finding.key.as_ref() == Some(&self.store.keys().attended(of))
        };
        let Some((of, kept)) = self.found.iter().find(is_it) else {
            return Ok(None);
        };
        match finding.kind {
            FindingKind::EverlastingAttendance => {
                let keys = self.everlasting(kept).await?;
                self.store.let_expire(&keys).await?;
                Ok((!keys.is_empty()).then(|| format!("{} keys expire now", keys.len())))
            }
            FindingKind::UnlistedAttendance | FindingKind::UnendedAttendance => {
                self.note(of, kept).await
            }
            _ => Ok(None),
        }
    }

    /// Notes an epoch, and its end; deletes what is left of one without attendance.
    async fn note(&self, of: &LiveEpoch, kept: &Kept) -> StoreResult<Option<String>> {
        let known = Known::read(self.store, of).await?;
        // A gateway may write a lost record again.
        let is_lost = known.record.is_none();
        let Some(attended) = known.attended(of) else {
            if is_lost {
                return Ok(None);
            }
            self.store.forget_attendance(of, None).await?;
            let sessions: Vec<String> = kept.sessions.iter().cloned().collect();
            self.store.unlink(&sessions).await?;
            return Ok(Some(
                "deleted: no live of that epoch has attendance".to_owned(),
            ));
        };
        self.store.begin_attendance(of, &attended).await?;
        if let Some(closed_at) = attended.closed_at {
            self.store.end_attendance(of, closed_at).await?;
        }
        Ok(Some("noted, and listed in rollcall:attendance".to_owned()))
    }

    async fn everlasting(&self, kept: &Kept) -> StoreResult<Vec<String>> {
        let keys: Vec<String> = kept.everlasting.iter().cloned().collect();
        self.store.everlasting(&keys).await
    }

    async fn look_at(&self, of: &LiveEpoch, kept: &Kept) -> StoreResult<Vec<AuditFinding>> {
        let key = self.store.keys().attended(of);
        let mut seen = Inspection::default();
        let known = Known::read(self.store, of).await;
        let Some(known) = seen.readable(Some(&of.live), &key, known)? else {
            return Ok(seen.findings);
        };
        let find = |kind, detail: String| AuditFinding::new(kind, detail).live(&of.live).key(&key);
        let everlasting = self.everlasting(kept).await?;
        if let Some(first) = everlasting.first() {
            let detail = format!(
                "{} keys of {of} never expire, such as {first}",
                everlasting.len()
            );
            let finding = find(FindingKind::EverlastingAttendance, detail);
            seen.findings
                .push(finding.members(everlasting.len() as u64));
        }
        if (!known.listed || known.noted.is_none()) && self.store.is_there(&kept.any).await? {
            let what = if known.listed {
                "is not noted"
            } else {
                "is not listed, so nobody looks after it"
            };
            seen.findings.push(find(
                FindingKind::UnlistedAttendance,
                format!("the attendance of {of} {what}"),
            ));
        }
        if known
            .noted
            .as_ref()
            .is_some_and(|noted| noted.closed_at.is_none())
            && known.ended_at(of).is_some()
        {
            let detail = format!("{of} is closed, and its sessions seem to go on");
            seen.findings
                .push(find(FindingKind::UnendedAttendance, detail));
        }
        if let Some(attended) = known.noted.as_ref().filter(|_| self.every_user) {
            let without = self.without_session(of, attended).await;
            let without = seen.readable(Some(&of.live), &key, without)?;
            if let Some((fans, names)) = without.filter(|(fans, _)| *fans > 0) {
                let detail = format!(
                    "{fans} fans of {of} came and have no session, such as {}",
                    names.join(", ")
                );
                seen.findings
                    .push(find(FindingKind::AttendanceWithoutSession, detail).members(fans));
            }
        }
        Ok(seen.findings)
    }

    /// How many fans came to an epoch without a session, and some of them.
    async fn without_session(
        &self,
        of: &LiveEpoch,
        attended: &Attended,
    ) -> StoreResult<(u64, Vec<String>)> {
        let (mut count, mut names) = (0, Vec::new());
        let lives = std::slice::from_ref(of);
        for part in self.store.attendance_parts(lives).await? {
            let came = self
                .store
                .attendees(Attending::Any, lives, part)
                .await?
                .page(None, usize::MAX - 1);
            for users in came.chunks(MAX_BATCH) {
                let there = self
                    .store
                    .were_there(of, attended, users, Span::ALL)
                    .await?;
                let without = users
                    .iter()
                    .zip(there)
                    .filter(|(_, there)| !there)
                    .map(|(user, _)| user.to_string());
                let without: Vec<String> = without.collect();
                count += without.len() as u64;
                names.extend(without.into_iter().take(EXAMPLES - names.len()));
            }
            sleep(PAUSE).await;
        }
        Ok((count, names))
    }
}

impl Inspector<'_> {
    /// Compares the sessions of an open epoch with the members of one of its slices.
    pub(super) async fn check_sessions(
        &self,
        (slice, epoch): (&SliceId, Epoch),
        seen: &mut Inspection,
    ) -> StoreResult<()> {
        let looks = [
            (
                StraySessions::Ghosts,
                FindingKind::GhostSessions,
                "sessions go on of users who are not there",
            ),
            (
                StraySessions::Missing,
                FindingKind::MissingSessions,
                "users who are there have no session",
            ),
        ];
        for (look, kind, what) in looks {
            let (count, users) = self.store.stray_sessions(slice, epoch, look).await?;
            if count > 0 {
                let names: Vec<_> = users.iter().take(EXAMPLES).map(UserId::to_string).collect();
                let detail = format!("{count} {what}, such as {}", names.join(", "));
                let finding = AuditFinding::new(kind, detail)
                    .slice(slice, self.store.keys())
                    .members(count);
                seen.findings
                    .push(finding.key(self.store.keys().stays(slice, epoch)));
            }
        }
        Ok(())
    }
}
