//! What an audit inspects of attendance. Each epoch must be noted, listed and ended, and its keys must
//! expire. The sessions of an open epoch must be those of the users who are there. With `--users`,
//! every fan who came must have a session.

mod calls;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::{StreamExt, TryStreamExt, stream};
use tokio::time::sleep;

use self::calls::StraySessions;
use crate::base::clock::unix_now;
use crate::base::ids::{SliceId, UserId};
use crate::features::attendance::store::{Attendance, Attended, Attending, Sessions};
use crate::features::audit::finding::{AuditFinding, FindingKind, such_as};
use crate::features::audit::inspection::Inspection;
use crate::features::audit::offered::Inspect;
use crate::features::audit::scan::MAX_CONCURRENT_READS;
use crate::store::LiveEpoch;
use crate::store::redis::RedisStore;
use crate::store::redis::keys::{SESSIONS, STAYS};
use crate::store::{LiveRecord, LiveState, LiveStore, MAX_BATCH, Span, StoreResult};

/// How many of the fans without a session are kept for the finding, which names some of them.
const EXAMPLES: usize = 3;

/// The pause after each part of the fans of an epoch, which leaves Redis time for gateways.
const PAUSE: Duration = Duration::from_millis(1);

/// The findings about the keys of an epoch; those about open sessions are found slice by slice.
const KINDS: &[FindingKind] = &[
    FindingKind::UnlistedAttendance,
    FindingKind::UnendedAttendance,
    FindingKind::EverlastingAttendance,
    FindingKind::AttendanceWithoutSession,
    FindingKind::UnreadableKey,
];

pub(crate) struct AttendanceInspector<'a> {
    store: &'a RedisStore,
    every_user: bool,
    found: BTreeMap<LiveEpoch, Kept>,
}

/// The keys of an epoch that the scan found.
#[derive(Debug, Default)]
struct Kept {
    /// Any one of its keys. While this key exists, the store keeps attendance of the epoch.
    any: String,
    /// The keys of sessions. The scan has to find them, because their names depend on the number of
    /// slices.
    sessions: BTreeSet<String>,
    /// The keys that never expire.
    everlasting: BTreeSet<String>,
}

/// What the store knows of an epoch.
struct KnownEpoch {
    listed: bool,
    /// The note of its attendance.
    noted: Option<Attended>,
    /// The record of its live, which may be in another epoch.
    record: Option<LiveRecord>,
}

impl KnownEpoch {
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
            if record.state != LiveState::Closed {
                return None;
            }
            return record.closure.map(|closure| closure.at);
        }
        if record.epoch > of.epoch {
            Some(unix_now())
        } else {
            None
        }
    }

    /// The note that the epoch should have.
    fn attended(self, of: &LiveEpoch) -> Option<Attended> {
        let ended_at = self.ended_at(of);
        let of_record = self
            .record
            .filter(|record| record.epoch == of.epoch && record.terms.attendance);
        let attended = self
            .noted
            .or(of_record.map(|record| Attended::of(&record)))?;
        Some(Attended {
            closed_at: attended.closed_at.or(ended_at),
            ..attended
        })
    }
}

impl<'a> AttendanceInspector<'a> {
    pub(crate) fn new(store: &'a RedisStore, every_user: bool) -> Self {
        Self {
            store,
            every_user,
            found: BTreeMap::new(),
        }
    }

    /// Ends the sessions of users who are not in the slice of an open epoch.
    async fn end_ghost_sessions(&self, finding: &AuditFinding) -> StoreResult<Option<String>> {
        let Some(slice) = &finding.subject.slice else {
            return Ok(None);
        };
        let Some(live) = slice.live() else {
            return Ok(None);
        };
        let epoch = match self.store.load_live(live).await? {
            Some(record) if record.state == LiveState::Open => record.epoch,
            _ => return Ok(None),
        };
        let (ended, _) = self
            .store
            .stray_sessions(slice, epoch, StraySessions::EndGhosts)
            .await?;
        if ended == 0 {
            return Ok(None);
        }
        Ok(Some(format!("{ended} sessions ended")))
    }

    /// Notes an epoch and its end. If the live has no attendance in this epoch, deletes the keys
    /// that are left.
    async fn note(&self, of: &LiveEpoch, kept: &Kept) -> StoreResult<Option<String>> {
        let known = KnownEpoch::read(self.store, of).await?;
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
        let known = KnownEpoch::read(self.store, of).await;
        let Some(known) = seen.readable(Some(&of.live), &key, known)? else {
            return Ok(seen.findings);
        };
        let everlasting = self.everlasting(kept).await?;
        if let Some(first) = everlasting.first() {
            let detail = format!(
                "{} keys of {of} never expire, such as {first}",
                everlasting.len()
            );
            let finding = self.finding(FindingKind::EverlastingAttendance, of, detail);
            seen.findings
                .push(finding.members(everlasting.len() as u64));
        }
        if (!known.listed || known.noted.is_none()) && self.store.is_there(&kept.any).await? {
            let what = if known.listed {
                "is not noted"
            } else {
                "is not listed, so nobody looks after it"
            };
            let detail = format!("the attendance of {of} {what}");
            seen.findings
                .push(self.finding(FindingKind::UnlistedAttendance, of, detail));
        }
        if let Some(noted) = &known.noted
            && noted.closed_at.is_none()
            && known.ended_at(of).is_some()
        {
            let detail = format!("{of} is closed, and its sessions seem to go on");
            seen.findings
                .push(self.finding(FindingKind::UnendedAttendance, of, detail));
        }
        if self.every_user
            && let Some(attended) = &known.noted
        {
            let without = self.without_session(of, attended).await;
            let without = seen.readable(Some(&of.live), &key, without)?;
            if let Some((fans, names)) = without
                && fans > 0
            {
                let detail = format!(
                    "{fans} fans of {of} came and have no session, {}",
                    such_as(names)
                );
                let finding = self.finding(FindingKind::AttendanceWithoutSession, of, detail);
                seen.findings.push(finding.members(fans));
            }
        }
        Ok(seen.findings)
    }

    /// A finding about the attendance of an epoch.
    fn finding(&self, kind: FindingKind, of: &LiveEpoch, detail: String) -> AuditFinding {
        AuditFinding::new(kind, detail)
            .live(&of.live)
            .key(self.store.keys().attended(of))
    }

    /// How many fans came to an epoch without a session, and some of them.
    async fn without_session(
        &self,
        of: &LiveEpoch,
        attended: &Attended,
    ) -> StoreResult<(u64, Vec<UserId>)> {
        let parts = self
            .store
            .attendance_parts(std::slice::from_ref(of))
            .await?;
        let mut found = stream::iter(parts)
            .map(|part| self.without_session_in_part(of, attended, part))
            .buffered(MAX_CONCURRENT_READS);
        let mut count = 0;
        let mut names = Vec::new();
        while let Some(users) = found.try_next().await? {
            count += users.len() as u64;
            let wanted = EXAMPLES - names.len();
            names.extend(users.into_iter().take(wanted));
        }
        Ok((count, names))
    }

    /// The fans of one part who came to an epoch and have no session.
    async fn without_session_in_part(
        &self,
        of: &LiveEpoch,
        attended: &Attended,
        part: u32,
    ) -> StoreResult<Vec<UserId>> {
        let came = self
            .store
            .attendees(Attending::Any, std::slice::from_ref(of), part)
            .await?
            .page(None, usize::MAX - 1);
        let mut found = Vec::new();
        for users in came.chunks(MAX_BATCH) {
            let there = self
                .store
                .were_there(of, attended, users, Span::ALL)
                .await?;
            let absent = users.iter().zip(there).filter(|(_, was_there)| !was_there);
            found.extend(absent.map(|(user, _)| user.clone()));
        }
        sleep(PAUSE).await;
        Ok(found)
    }
}

#[async_trait(?Send)]
impl Inspect for AttendanceInspector<'_> {
    async fn inspect(&mut self) -> StoreResult<Vec<AuditFinding>> {
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
                        if let Some((of, family)) = names.read_kept(&key) {
                            let kept = found.entry(of).or_default();
                            kept.any.clone_from(&key);
                            if *family == STAYS || *family == SESSIONS {
                                kept.sessions.insert(key);
                            }
                        }
                    }
                    Ok(())
                })
                .await?;
        }
        self.found = found;
        let this = &*self;
        let looks = stream::iter(&this.found).map(|(of, kept)| this.look_at(of, kept));
        let found: Vec<Vec<AuditFinding>> =
            looks.buffered(MAX_CONCURRENT_READS).try_collect().await?;
        Ok(found.into_iter().flatten().collect())
    }

    async fn inspect_again(&mut self, before: &[AuditFinding]) -> StoreResult<Vec<AuditFinding>> {
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
        Ok(found)
    }

    async fn fix(&self, finding: &AuditFinding) -> StoreResult<Option<String>> {
        if finding.kind == FindingKind::GhostSessions {
            return self.end_ghost_sessions(finding).await;
        }
        let Some((of, kept)) = self
            .found
            .iter()
            .find(|(of, _)| finding.key.as_ref() == Some(&self.store.keys().attended(of)))
        else {
            return Ok(None);
        };
        match finding.kind {
            FindingKind::EverlastingAttendance => {
                let keys = self.everlasting(kept).await?;
                self.store.let_expire(&keys).await?;
                if keys.is_empty() {
                    return Ok(None);
                }
                Ok(Some(format!("{} keys expire now", keys.len())))
            }
            FindingKind::UnlistedAttendance | FindingKind::UnendedAttendance => {
                self.note(of, kept).await
            }
            _ => Ok(None),
        }
    }

    /// Compares the sessions of an open epoch with the members of one of its slices.
    async fn slice(&self, slice: &SliceId, record: &LiveRecord) -> StoreResult<Vec<AuditFinding>> {
        let mut findings = Vec::new();
        if !record.terms.attendance {
            return Ok(findings);
        }
        let epoch = record.epoch;
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
                let detail = format!("{count} {what}, {}", such_as(users));
                findings.push(
                    AuditFinding::new(kind, detail)
                        .slice(slice, self.store.keys())
                        .key(self.store.keys().stays(slice, epoch))
                        .members(count),
                );
            }
        }
        Ok(findings)
    }
}
