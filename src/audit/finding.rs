//! Owns what can be found: every kind of finding with its stable name, how bad it is, and where it is.

use serde::Serialize;

use crate::ids::{GatewayId, LiveId, SliceId};
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
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Kind { $($(#[doc = $doc])+ $kind,)* }

        impl Kind {
            /// Every kind, with its name, how bad it is, and what it is.
            pub const ALL: &[(&str, Severity, &str)] =
                &[$(($name, Severity::$severity, concat!($($doc),+))),*];

            /// Its stable name.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$kind => $name),* }
            }

            /// How bad it is.
            pub fn severity(self) -> Severity {
                match self { $(Self::$kind => Severity::$severity),* }
            }
        }
    };
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

impl Serialize for Kind {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(self.as_str())
    }
}

/// Something that is wrong, and still was at a second look.
#[derive(Debug, Clone, Serialize)]
pub struct Finding {
    /// What.
    pub kind: Kind,
    /// How bad.
    pub severity: Severity,
    /// In which live.
    pub live_id: Option<LiveId>,
    /// In which of its slices, from 1.
    pub slice: Option<u32>,
    /// Which gateway's.
    pub gateway_id: Option<GatewayId>,
    /// How many members, where it is about members.
    pub members: Option<u64>,
    /// The key that it is about, where it is one.
    pub key: Option<String>,
    /// What it is, in a sentence.
    pub detail: String,
    /// The slice, for whoever puts it right.
    #[serde(skip)]
    pub(super) place: Option<SliceId>,
}

impl Finding {
    /// Something about a live.
    pub(super) fn about(kind: Kind, live: &LiveId, detail: impl Into<String>) -> Self {
        Self { live_id: Some(live.clone()), ..Self::nowhere(kind, detail.into()) }
    }

    /// Something about no live in particular.
    pub(super) fn nowhere(kind: Kind, detail: String) -> Self {
        Self {
            kind,
            severity: kind.severity(),
            live_id: None,
            slice: None,
            gateway_id: None,
            members: None,
            key: None,
            detail,
            place: None,
        }
    }

    /// In this slice.
    pub(super) fn slice(self, slice: &SliceId) -> Self {
        Self { slice: Some(slice.index), key: Some(keys::slice(slice)), place: Some(slice.clone()), ..self }
    }

    /// Of this gateway.
    pub(super) fn gateway(self, gateway: &GatewayId) -> Self {
        Self { gateway_id: Some(gateway.clone()), ..self }
    }

    /// About so many members.
    pub(super) fn members(self, members: u64) -> Self {
        Self { members: Some(members), ..self }
    }

    /// About this key.
    pub(super) fn key(self, key: impl Into<String>) -> Self {
        Self { key: Some(key.into()), ..self }
    }

    /// Whether both say the same, whatever the figures.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let what = |finding: &'_ Self| {
            (finding.kind, finding.live_id.clone(), finding.key.clone(), finding.gateway_id.clone())
        };
        what(self) == what(other)
    }
}
