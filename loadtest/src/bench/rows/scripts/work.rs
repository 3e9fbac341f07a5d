//! What the scripts row measures: the kinds of work, the columns of its table, and the batches of
//! calls.

use crate::bench::settings::Bench;

pub(super) const SIZES: [usize; 4] = [1, 10, 100, 1_000];
pub(super) const GATEWAYS: [usize; 4] = [2, 10, 40, 100];
/// The gateways of a slice where the size of the call varies.
const FEW_GATEWAYS: usize = 2;
/// The size of a call where the number of gateways varies.
const FEW_MEMBERS: usize = 10;
/// Most calls of one measurement.
const CALLS: usize = 500;
/// Most members, or gateways' entries, over all calls of one measurement.
const THINGS: usize = 5_000;
/// Fewer calls would let the fixed cost of a measurement show.
const FEWEST_CALLS: usize = 30;
pub(super) const AT_ONCE: usize = 32;

/// What a call does. Every batch does all of it to the same slices, in the order of [`Work::ALL`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    Join,
    Look,
    ClaimsPage,
    Pass,
    FanCheck,
    Leave,
    /// Fills the slice for the sweep.
    JoinAgain,
    Sweep,
    /// Fills the slice for the close.
    JoinLast,
    Close,
}

impl Work {
    pub(super) const ALL: [Self; 10] = [
        Self::Join,
        Self::Look,
        Self::ClaimsPage,
        Self::Pass,
        Self::FanCheck,
        Self::Leave,
        Self::JoinAgain,
        Self::Sweep,
        Self::JoinLast,
        Self::Close,
    ];

    /// The name in the table; `None` for work that only prepares the next.
    pub(super) fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::Join => "apply with joins",
            Self::Look => "look at a slice",
            Self::ClaimsPage => "claims page",
            Self::Pass => "pass",
            Self::FanCheck => "fan check",
            Self::Leave => "apply with leaves",
            Self::Sweep => "sweep",
            Self::Close => "close of a slice",
            Self::JoinAgain | Self::JoinLast => return None,
        })
    }

    /// Whether the script reads the entries of other gateways.
    fn reads_other_gateways(self) -> bool {
        matches!(self, Self::Join | Self::Leave | Self::Sweep | Self::Pass)
    }
}

/// What differs from one column of the table to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    Members,
    Gateways,
}

/// A column of the table.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    pub(super) by: By,
    /// Members in each call.
    pub(super) members: usize,
    /// Gateways with an entry in each slice, the measured one among them.
    pub(super) gateways: usize,
}

impl Shape {
    pub(super) fn all() -> impl Iterator<Item = Self> {
        let by_members = SIZES.map(|members| Self {
            by: By::Members,
            members,
            gateways: FEW_GATEWAYS,
        });
        let by_gateways = GATEWAYS.map(|gateways| Self {
            by: By::Gateways,
            members: FEW_MEMBERS,
            gateways,
        });
        by_members.into_iter().chain(by_gateways)
    }

    /// How many calls one measurement makes.
    pub(super) fn calls(self, bench: &Bench) -> usize {
        let things = self.members.max(self.gateways);
        (bench.pick(THINGS, 20) / things).clamp(bench.pick(FEWEST_CALLS, 2), CALLS)
    }

    pub(super) fn name(self) -> String {
        match self.by {
            By::Members => self.members.to_string(),
            By::Gateways => format!("{} gateways", self.gateways),
        }
    }

    pub(super) fn measures(self, work: Work) -> bool {
        self.by == By::Members || work.reads_other_gateways()
    }
}

/// The calls of one measurement.
#[derive(Debug, Clone, Copy)]
pub(super) struct Batch {
    pub(super) shape: Shape,
    pub(super) calls: usize,
    /// Each batch opens its slices in a new epoch.
    pub(super) epoch: u64,
}
