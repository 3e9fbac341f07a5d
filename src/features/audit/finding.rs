//! The findings of an audit: every kind of finding with its stable name and severity, and one
//! finding with its place.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::base::ids::{GatewayId, LiveId, Login, OnlineSet, SliceId, UserId};
use crate::store::redis::keys::Keys;

/// Maximum example names per finding.
const EXAMPLES: usize = 3;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Figures or answers are wrong because of it.
    Error,
    /// It costs memory or work, but no figure is wrong.
    Warning,
}

macro_rules! kinds {
    ($($(#[doc = $doc:literal])+ $kind:ident = $name:literal $severity:ident),* $(,)?) => {
        /// What is wrong.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
        pub enum FindingKind { $($(#[doc = $doc])+ #[serde(rename = $name)] $kind,)* }

        impl FindingKind {
            /// The stable name, the severity and the description of every kind, in the order of the
            /// kinds.
            pub const ALL: &[(&str, Severity, &str)] =
                &[$(($name, Severity::$severity, concat!($($doc),+))),*];
        }
    };
}

impl FindingKind {
    pub(crate) fn as_str(self) -> &'static str {
        Self::ALL[self as usize].0
    }

    pub(crate) fn severity(self) -> Severity {
        Self::ALL[self as usize].1
    }

    /// The time within which gateways repair it, so that an audit need not. `None` if they do not
    /// repair it, or not always.
    pub(crate) fn gateways_repair_it(self) -> Option<&'static str> {
        match self {
            Self::GhostMembers | Self::MissingMembers => Some("within --check-every and 15 s"),
            Self::MiscountedSlice
            | Self::SliceWithoutFence
            | Self::FenceAhead
            | Self::NoRecord
            | Self::GatewayDrift => Some("within --check-every"),
            Self::NotForgotten
            | Self::UnfinishedChange
            | Self::WrongRank
            | Self::ListedClosed
            | Self::ListedWithoutRecord => Some("within twice --check-every"),
            Self::EntryWithoutLease => Some("within --lease and twice --check-every"),
            Self::ExpiredLease => Some("within --lease after any gateway has started"),
            Self::UnwrittenChanges => Some("as soon as Redis takes them"),
            _ => None,
        }
    }
}

kinds! {
    /// Members or fans of a slice that no gateway with an entry holds as such
    GhostMembers = "ghost_members" Error,
    /// Members or fans that gateways hold and the set lacks
    MissingMembers = "missing_members" Error,
    /// A slice whose fence counts other members, fans or entries than there are
    MiscountedSlice = "miscounted_slice" Error,
    /// A slice whose gateways have not said for long whom they hold, so that its count stands still
    /// or lacks users
    UnfinishedRebuild = "unfinished_rebuild" Error,
    /// An entry of a gateway that has no lease, so nobody knows whether the gateway is alive
    EntryWithoutLease = "entry_without_lease" Error,
    /// An entry of a buried gateway that nobody has swept
    UnsweptGateway = "unswept_gateway" Error,
    /// A gateway that stopped renewing its lease and that nobody has buried
    ExpiredLease = "expired_lease" Error,
    /// A slice of an open live that is in use but has no fence
    SliceWithoutFence = "slice_without_fence" Error,
    /// A fence that is closed or of a newer epoch, although the record of the live says otherwise
    FenceAhead = "fence_ahead" Error,
    /// A live that gateways hold but that has no record
    NoRecord = "no_record" Error,
    /// Keys of a slice that belongs to no open live, or to an older epoch
    OrphanedSlice = "orphaned_slice" Warning,
    /// Bans or removals of a closed live
    OrphanedBans = "orphaned_bans" Warning,
    /// Users who are online and also remembered as seen, so that they count twice
    SeenAndOnline = "seen_and_online" Error,
    /// Users who were seen last at a time more than a minute ahead
    SeenInFuture = "seen_in_future" Error,
    /// Users who were seen longer ago than `--remember`, and whom nobody forgets
    NotForgotten = "not_forgotten" Warning,
    /// A close that has begun and that nobody finishes
    UnfinishedClose = "unfinished_close" Warning,
    /// A follow, an unfollow or a change of a login that was left half done and that nobody
    /// finishes
    UnfinishedChange = "unfinished_change" Warning,
    /// Follows that only one of the two ends has, so that its count is not the other's
    HalfFollow = "half_follow" Error,
    /// Statuses in a timeline that stand no longer and that nobody takes out
    StaleStatus = "stale_status" Warning,
    /// A login that is claimed for a user whose profile does not carry it, so nobody can take it
    StaleLogin = "stale_login" Warning,
    /// A profile whose login is claimed for nobody, or for another user
    UnclaimedLogin = "unclaimed_login" Error,
    /// Sessions that go on although their users are not among the viewers of the live
    GhostSessions = "ghost_sessions" Error,
    /// Viewers of a live with attendance who have no session
    MissingSessions = "missing_sessions" Error,
    /// Attendance of an epoch that is over, without its end, so that its sessions seem to go on
    UnendedAttendance = "unended_attendance" Error,
    /// Attendance of an epoch that is not noted or not in `rollcall:attendance`, so that nobody
    /// looks after it
    UnlistedAttendance = "unlisted_attendance" Warning,
    /// Keys of attendance or of sessions that never expire
    EverlastingAttendance = "everlasting_attendance" Warning,
    /// Fans who came to a live and have no session
    AttendanceWithoutSession = "attendance_without_session" Warning,
    /// An open live that is missing from `lives`
    UnlistedLive = "unlisted_live" Warning,
    /// Counts in the record of an open live that differ from those of the gateways
    WrongCounts = "wrong_counts" Warning,
    /// A rank of an open live that differs from the counts in its record
    WrongRank = "wrong_rank" Warning,
    /// An entry of `lives` whose live is closed
    ListedClosed = "listed_closed" Warning,
    /// An entry of `lives` whose live has no record
    ListedWithoutRecord = "listed_without_record" Warning,
    /// A key of an unexpected type, or with unreadable content
    UnreadableKey = "unreadable_key" Error,
    /// An id that no URL can carry, `.` or `..`: once it was taken for one, and no client can name
    /// it over HTTP
    UnusableId = "unusable_id" Warning,
    /// A gateway that says it holds other members than Redis has for it
    GatewayDrift = "gateway_drift" Error,
    /// Changes that a gateway has and could not write to Redis
    UnwrittenChanges = "unwritten_changes" Error,
    /// A master without free memory, so that it refuses joins, or drops keys if its policy says so
    FullMaster = "full_master" Error,
    /// A gateway given with `--gateway` does not answer
    GatewayUnreachable = "gateway_unreachable" Error,
}

/// Something that is wrong. An audit reports a finding only after a second look has confirmed it.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct AuditFinding {
    pub kind: FindingKind,
    pub severity: Severity,
    #[serde(flatten)]
    pub subject: Subject,
    pub members: Option<u64>,
    pub key: Option<String>,
    /// What is wrong, in a sentence.
    pub detail: String,
    /// The time within which gateways repair it. `None` if they do not.
    pub gateways_repair_it: Option<&'static str>,
}

/// The place of a finding. A field is `None` if it does not apply.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Subject {
    pub live_id: Option<LiveId>,
    #[serde(serialize_with = "index")]
    pub slice: Option<SliceId>,
    pub gateway_id: Option<GatewayId>,
    pub user_id: Option<UserId>,
    pub login: Option<Login>,
}

fn index<S: Serializer>(slice: &Option<SliceId>, serializer: S) -> Result<S::Ok, S::Error> {
    slice
        .as_ref()
        .map(|slice| slice.index)
        .serialize(serializer)
}

impl AuditFinding {
    pub(crate) fn new(kind: FindingKind, detail: impl Into<String>) -> Self {
        Self {
            kind,
            severity: kind.severity(),
            subject: Subject::default(),
            members: None,
            key: None,
            detail: detail.into(),
            gateways_repair_it: kind.gateways_repair_it(),
        }
    }

    /// A finding about a key whose content cannot be read.
    pub(crate) fn unreadable(key: &str, why: &str) -> Self {
        let detail = format!("{key}, or a key beside it, cannot be read: {why}");
        Self::new(FindingKind::UnreadableKey, detail).key(key)
    }

    pub(crate) fn live(mut self, live: &LiveId) -> Self {
        self.subject.live_id = Some(live.clone());
        self
    }

    /// Sets the slice, its live and its key.
    pub(crate) fn slice(mut self, slice: &SliceId, keys: &Keys) -> Self {
        self.subject.slice = Some(slice.clone());
        self.subject.live_id = slice.live().cloned();
        self.key(keys.slice(slice))
    }

    pub(crate) fn gateway(mut self, gateway: &GatewayId) -> Self {
        self.subject.gateway_id = Some(gateway.clone());
        self
    }

    pub(crate) fn user(mut self, user: &UserId) -> Self {
        self.subject.user_id = Some(user.clone());
        self
    }

    pub(crate) fn login(mut self, login: &Login) -> Self {
        self.subject.login = Some(login.clone());
        self
    }

    pub(crate) fn members(self, members: u64) -> Self {
        Self {
            members: Some(members),
            ..self
        }
    }

    pub(crate) fn key(self, key: impl Into<String>) -> Self {
        Self {
            key: Some(key.into()),
            ..self
        }
    }

    /// Whether both report the same problem, perhaps with other figures.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.kind == other.kind && self.subject == other.subject && self.key == other.key
    }
}

pub(crate) fn contains_kind(findings: &[AuditFinding], kind: FindingKind) -> bool {
    findings.iter().any(|finding| finding.kind == kind)
}

/// The first of some names, for the detail of a finding.
pub(crate) fn such_as<T: ToString>(names: impl IntoIterator<Item = T>) -> String {
    let names: Vec<String> = names
        .into_iter()
        .take(EXAMPLES)
        .map(|name| name.to_string())
        .collect();
    format!("such as {}", names.join(", "))
}

impl fmt::Display for AuditFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = format!("{:?}", self.severity).to_lowercase();
        write!(
            f,
            "{severity} {}{}: {}",
            self.kind.as_str(),
            self.subject,
            self.detail
        )?;
        match self.gateways_repair_it {
            Some(when) => write!(f, "; gateways repair it {when}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(live) = &self.live_id {
            write!(f, " live {live}")?;
        }
        if let Some(slice) = &self.slice {
            let of = match slice.set {
                OnlineSet::Live(_) => "",
                OnlineSet::Users => " users online",
                OnlineSet::Streamers => " streamers",
            };
            write!(f, "{of} slice {}", slice.index)?;
        }
        if let Some(user) = &self.user_id {
            write!(f, " user {user}")?;
        }
        if let Some(gateway) = &self.gateway_id {
            write!(f, " {gateway}")?;
        }
        Ok(())
    }
}
