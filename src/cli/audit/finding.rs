//! Every kind of finding with its stable name and its severity, and a finding itself: what is wrong, and where.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::base::ids::{GatewayId, LiveId, SliceId};
use crate::store::redis::keys;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Figures or answers are wrong because of it.
    Error,
    /// It costs memory or work, and no figure is wrong.
    Warning,
}

macro_rules! kinds {
    ($($(#[doc = $doc:literal])+ $kind:ident = $name:literal $severity:ident),* $(,)?) => {
        /// What is wrong.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
        pub enum Kind { $($(#[doc = $doc])+ #[serde(rename = $name)] $kind,)* }

        impl Kind {
            /// The stable name, the severity and the description of every kind, in the order of the kinds.
            pub const ALL: &[(&str, Severity, &str)] =
                &[$(($name, Severity::$severity, concat!($($doc),+))),*];
        }
    };
}

impl Kind {
    pub(super) fn as_str(self) -> &'static str {
        Self::ALL[self as usize].0
    }

    pub(super) fn severity(self) -> Severity {
        Self::ALL[self as usize].1
    }
}

kinds! {
    /// Members of a slice that no gateway holds
    GhostMembers = "ghost_members" Error,
    /// Members that a gateway holds and the slice lacks
    MissingMembers = "missing_members" Error,
    /// A gateway's held set without an entry
    HeldWithoutEntry = "held_without_entry" Error,
    /// An entry of a gateway that has no lease: nothing says whether the gateway lives
    EntryWithoutLease = "entry_without_lease" Error,
    /// An entry of a gateway that was buried, and nobody swept it
    UnsweptGateway = "unswept_gateway" Error,
    /// A gateway stopped renewing its lease, and nobody buried it
    ExpiredLease = "expired_lease" Error,
    /// A slice of an open live with something in it and no fence
    SliceWithoutFence = "slice_without_fence" Error,
    /// A fence that is closed, or of a newer epoch, in a live whose record says otherwise
    FenceAhead = "fence_ahead" Error,
    /// Gateways hold a live that has no record
    NoRecord = "no_record" Error,
    /// Keys of a slice that is none of an open live: of a closed or absent one, or of an older epoch
    OrphanedSlice = "orphaned_slice" Warning,
    /// Viewers of a live that is not open
    OrphanedViewers = "orphaned_viewers" Warning,
    /// Bans or removals of a live that is closed
    OrphanedBans = "orphaned_bans" Warning,
    /// Viewers of a gateway that was buried since, or that has no lease
    StaleViewers = "stale_viewers" Warning,
    /// A close that nobody finishes
    UnfinishedClose = "unfinished_close" Warning,
    /// An open live that `lives` lacks
    UnlistedLive = "unlisted_live" Warning,
    /// An entry of `lives` whose live is closed
    ListedClosed = "listed_closed" Warning,
    /// An entry of `lives` without a record
    ListedWithoutRecord = "listed_without_record" Warning,
    /// A key that is of another type or garbled
    UnreadableKey = "unreadable_key" Error,
    /// A gateway holds other members in the store than it says
    GatewayDrift = "gateway_drift" Error,
    /// A gateway that was to be asked does not answer
    GatewayUnreachable = "gateway_unreachable" Error,
}

/// Something that is wrong, and still was at a second look.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Finding {
    pub kind: Kind,
    pub severity: Severity,
    #[serde(flatten)]
    pub subject: Subject,
    pub members: Option<u64>,
    pub key: Option<String>,
    /// What is wrong, in a sentence.
    pub detail: String,
}

/// Where something is wrong, as far as that applies.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Subject {
    pub live_id: Option<LiveId>,
    #[serde(serialize_with = "index")]
    pub slice: Option<SliceId>,
    pub gateway_id: Option<GatewayId>,
}

fn index<S: Serializer>(slice: &Option<SliceId>, serializer: S) -> Result<S::Ok, S::Error> {
    slice.as_ref().map(|slice| slice.index).serialize(serializer)
}

impl Finding {
    pub(super) fn new(kind: Kind, detail: impl Into<String>) -> Self {
        let (severity, detail) = (kind.severity(), detail.into());
        Self { kind, severity, subject: Subject::default(), members: None, key: None, detail }
    }

    pub(super) fn live(mut self, live: &LiveId) -> Self {
        self.subject.live_id = Some(live.clone());
        self
    }

    /// A finding about a slice is about its live and its key, too.
    pub(super) fn slice(mut self, slice: &SliceId) -> Self {
        self.subject.slice = Some(slice.clone());
        self.live(&slice.live).key(keys::slice(slice))
    }

    pub(super) fn gateway(mut self, gateway: &GatewayId) -> Self {
        self.subject.gateway_id = Some(gateway.clone());
        self
    }

    pub(super) fn members(self, members: u64) -> Self {
        Self { members: Some(members), ..self }
    }

    pub(super) fn key(self, key: impl Into<String>) -> Self {
        Self { key: Some(key.into()), ..self }
    }

    /// Whether both are about the same, whatever the figures.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        fn place(finding: &Finding) -> (Kind, &Option<LiveId>, &Option<String>, &Option<GatewayId>) {
            (finding.kind, &finding.subject.live_id, &finding.key, &finding.subject.gateway_id)
        }
        place(self) == place(other)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = format!("{:?}", self.severity).to_lowercase();
        write!(f, "{severity} {}{}: {}", self.kind.as_str(), self.subject, self.detail)
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(live) = &self.live_id {
            write!(f, " live {live}")?;
        }
        if let Some(slice) = &self.slice {
            write!(f, " slice {}", slice.index)?;
        }
        self.gateway_id.as_ref().map_or(Ok(()), |gateway| write!(f, " {gateway}"))
    }
}
