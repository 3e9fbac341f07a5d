//! The boundary for the users who are online in lives and on the platform, slice by slice. The pure
//! model of one slice is [`super::slice`]; the flush, the walk and the audit call [`Slices`].

use std::time::Duration;

use super::calls::{Door, calls, plain_arguments};
use super::{Arrived, StoreResult, Uniques};
use crate::base::clock::UnixMillis;
use crate::base::ids::{Epoch, GatewayId, Group, LiveId, SliceId, UserId};

/// The epoch that a slice belongs to. A fence only moves up: to a newer epoch, or from open to
/// closed within one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fence {
    /// Members of this epoch may come and go.
    Open(Epoch),
    /// No user of this epoch or an older one may enter again.
    Closed(Epoch),
}

impl Fence {
    /// The epoch to which the fence belongs.
    pub fn epoch(self) -> Epoch {
        match self {
            Self::Open(epoch) | Self::Closed(epoch) => epoch,
        }
    }

    /// Whether the fence is closed in this epoch.
    pub fn is_closed_in(self, epoch: Epoch) -> bool {
        self == Self::Closed(epoch)
    }
}

/// The longest time that a call to the store takes until it ends or fails, however many steps it
/// has.
pub const CALL_DEADLINE: Duration = Duration::from_millis(1_800);

/// The store refuses a call that makes an entry for a gateway if the call arrives later than this
/// after it was sent.
pub const LATEST_ENTRY: Duration = Duration::from_secs(5);

/// One gateway's change to one slice: what it claims of some users from now on. Apart from passes
/// and a close, only these calls change the members.
#[derive(Debug, Clone)]
pub struct Apply {
    /// The slice.
    pub slice: SliceId,
    /// The epoch in which the gateway believes.
    pub epoch: Epoch,
    /// The calling gateway.
    pub gateway: GatewayId,
    /// Grows with every call of this gateway to this slice; becomes the number of its entry.
    pub number: u64,
    /// The number of the gateway's entry that this call follows; with any other entry the call does
    /// nothing. If this is `None`, the call makes the entry; the gateway must first have read
    /// `live:` and found the epoch open.
    pub follows: Option<u64>,
    /// The newest size that the gateway knows of the slice in this epoch. A slice with an older
    /// version, or with fewer joins or leaves, lost writes.
    pub known: SliceSize,
    /// Whether the gateway holds more users than it has said since it made its entry. The entry is
    /// complete after the first call that says no.
    pub more: bool,
    /// Whether the gateway lets go of the slice: the call takes its entry away. Such a call names
    /// nobody.
    pub bye: bool,
    /// Users who are there and, as far as this gateway knows, no fans. No user is in a list twice,
    /// or in two lists. `joins`, `fans` and `leaves` together have at most
    /// [`crate::store::MAX_BATCH`] users.
    pub joins: Vec<UserId>,
    /// Users who are there and fans. A user is a fan in the slice as long as any gateway says so.
    pub fans: Vec<UserId>,
    /// For a live: when each of `joins`, and then each of `fans`, came, by the gateway's wall
    /// clock; empty for the other sets. If there is a claim on a user already, the earlier time
    /// stays.
    pub since: Vec<UnixMillis>,
    /// For the users of the platform: the lives in which each of `joins` is on this gateway, at
    /// most [`MAX_LIVES`], the live joined last at the end; empty for the other sets.
    pub lives: Vec<Vec<LiveId>>,
    /// Users on whom the gateway has no claim any more. A user leaves the slice with the last
    /// claim.
    pub leaves: Vec<UserId>,
    /// When each of `leaves` was here last, in the same order, by the gateway's wall clock. A live
    /// with attendance needs this for the sessions that the call ends. The set of the users of the
    /// platform needs it to note when they were seen last. `None` for the other sets, and if the
    /// users were here until now.
    pub left: Option<Vec<UnixMillis>>,
    /// Whether to count how many different users join.
    pub uniques: bool,
}

impl Apply {
    /// All users who are there, fans last.
    pub fn present(&self) -> impl Iterator<Item = &UserId> {
        self.joins.iter().chain(&self.fans)
    }

    /// Whether the call begins and ends sessions.
    pub fn keeps_sessions(&self) -> bool {
        self.left.is_some() && self.slice.set.live().is_some()
    }
}

/// Maximum lives in which one gateway says that a user is: the ones joined last.
pub const MAX_LIVES: usize = 32;

/// Minimum duration of a rebuild. By then, every gateway that lives has found out that the slice
/// forgot, and has begun to say again whom it holds.
pub const REBUILD: Duration = Duration::from_secs(5);

/// The size of a slice, over all gateways, as the calls on it have counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct SliceSize {
    /// The number of members: how many came and did not leave. In a rebuild this number stands
    /// still.
    pub card: u64,
    /// The fans among them, by the claims. This number and the next stand still as well.
    pub fans: u64,
    /// The guests among them, by the claims. The public sets do not have them.
    pub guests: u64,
    /// How often the last claim on a member ended, since the epoch began.
    pub leaves: u64,
    /// Grows with every change of the slice: of two sizes, the one with the higher version is the
    /// later.
    pub version: u64,
    /// The version at which the slice forgot all claims last, or began.
    pub incarnation: u64,
    /// Whether the gateways are saying again whom they hold, because the slice forgot all claims.
    /// Nobody leaves the public sets meanwhile, and the size may be wrong.
    pub rebuild: bool,
    /// Whether the public sets have another number of members than the claims say: another program
    /// wrote there, or a rebuild has ended. A pass puts that right.
    pub differs: bool,
}

impl SliceSize {
    /// How many came and left since the epoch began.
    pub fn arrived(self) -> Arrived {
        Arrived {
            joins: self.card.saturating_add(self.leaves),
            leaves: self.leaves,
        }
    }

    /// Whether nothing is to be put right: the slice is in no rebuild, and its public sets have the
    /// right sizes.
    pub fn is_in_order(self) -> bool {
        !self.rebuild && !self.differs
    }

    /// Whether a slice of this size lacks writes of which a gateway knows.
    pub fn is_older_than(self, known: Self) -> bool {
        let (own, known_arrived) = (self.arrived(), known.arrived());
        self.version < known.version
            || own.joins < known_arrived.joins
            || own.leaves < known_arrived.leaves
    }
}

/// The totals of an epoch that is over, for one slice. A close returns them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SliceTotals {
    /// How many came and left.
    pub arrived: Arrived,
    /// How many different users came; zeros if nothing counted them.
    pub uniques: Uniques,
}

/// The outcome of an [`Apply`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ApplyReply {
    /// Done. Contains the size of the slice after the call.
    Done(SliceSize),
    /// The fence says that this epoch is closed, or belongs to a newer one. Nothing was done.
    Over,
    /// The gateway's entry has another number than the one that the call follows. No user was
    /// changed.
    Refused(ApplyRefusal),
    /// The call would make the entry and came too late. No user was changed. Contains the store's
    /// time.
    Late(UnixMillis),
}

/// What a gateway finds instead of its entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct ApplyRefusal {
    /// The number of the entry that is there; `None` also for a gateway that was buried.
    pub entry: Option<u64>,
    /// The size of the slice; `None` if the slice does not belong to the epoch of the call, or the
    /// gateway was buried.
    pub size: Option<SliceSize>,
}

/// A gateway's entry in a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SliceEntry {
    /// It is alive, as far as the slice knows.
    At {
        /// The number of its last call.
        number: u64,
        /// Whether it has said all that it holds.
        is_complete: bool,
    },
    /// The gateway was buried, and a pass is taking its claims out.
    Dead,
}

/// Which entries a look reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entries {
    /// That of the looking gateway.
    Own,
    /// Those of all gateways.
    All,
}

plain_arguments!(Entries);

/// A slice as a gateway finds it. The parts are not read in one step, so a change meanwhile may be
/// seen in part.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SliceLook {
    /// The epoch that it belongs to.
    pub fence: Option<Fence>,
    /// The size of an open slice; zeros otherwise.
    pub size: SliceSize,
    /// Whether the slice has as many claims and entries as the calls have counted.
    pub is_intact: bool,
    /// Whether there is any key besides the fence.
    pub has_keys: bool,
    /// The entry of the looking gateway.
    pub entry: Option<SliceEntry>,
    /// Every gateway with an entry, if all were asked for.
    pub entries: Vec<(GatewayId, SliceEntry)>,
}

/// Takes the claims of dead gateways out of a slice, and brings its public sets in line with the
/// claims, about 500 users at a time.
#[derive(Debug, Clone)]
pub struct Pass {
    /// The slice.
    pub slice: SliceId,
    /// The epoch in which the gateway believes.
    pub epoch: Epoch,
    /// As in [`Apply::known`].
    pub known: SliceSize,
    /// The incarnation in which the gateway found that somebody else changed its entry: the slice
    /// forgets everything if it is still in that incarnation.
    pub wrong: Option<u64>,
    /// Gateways that were buried, and when each was heard last. Sessions of their users end then,
    /// and users of the platform count as seen then.
    pub dead: Vec<(GatewayId, UnixMillis)>,
    /// Where the pass goes on; `None` is its first part, which marks the entries of the dead.
    pub from: Option<PassCursor>,
    /// Whether the pass ends with the claims. That is enough for a sweep.
    pub only_claims: bool,
}

/// What a part of a pass looks through. The phases come in this order; a part goes through several
/// of them if the slice is small.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PassPhase {
    /// The claims.
    Claims,
    /// The public set of all members.
    Members,
    /// The public set of fans. Only lives have one.
    Fans,
}

/// Where a pass goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PassCursor {
    /// What the next part looks through first.
    pub phase: PassPhase,
    /// The cursor there.
    pub cursor: u64,
}

/// The outcome of one part of a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Passed {
    /// Where the pass goes on; `None` at the end.
    pub next: Option<PassCursor>,
    /// The size of the slice after it.
    pub size: SliceSize,
    /// The claims of dead gateways that were taken out.
    pub released: u64,
    /// How many users another program had put into the public sets, and taken out of them.
    pub drift: Drift,
}

/// How many members or fans of the public sets were wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Drift {
    /// There without a claim.
    pub stray: u64,
    /// Not there despite a claim.
    pub missing: u64,
}

/// A page of members; `next` is `None` at the end. A member may come twice, as in SSCAN.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberPage {
    /// Members.
    pub users: Vec<UserId>,
    /// Where to go on.
    pub next: Option<u64>,
}

/// What a gateway claims of a user.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Claim {
    /// The user is there.
    Member,
    /// The user is there, and a fan.
    Fan,
    /// The user of the platform is in these lives on that gateway.
    In(Vec<LiveId>),
}

/// The claims on a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimedUser {
    /// The user.
    pub user: UserId,
    /// When the user of a live came.
    pub since: Option<UnixMillis>,
    /// By which gateways; `None` for a claim without an entry.
    pub by: Vec<(Option<GatewayId>, Claim)>,
}

/// A page of claims; `next` is `None` at the end. A user may come twice, as in HSCAN.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimsPage {
    /// Users with claims.
    pub users: Vec<ClaimedUser>,
    /// Where to go on.
    pub next: Option<u64>,
}

/// A door that passes on the calls on slices as all others. One that answers some of them by itself
/// implements [`Slices`] instead.
pub trait SlicesDoor: Door {}

calls! {
    /// The users who are online in lives and on the platform, slice by slice.
    pub trait Slices, passed on by SlicesDoor {
        /// Changes what a gateway claims, see [`Apply`].
        async fn apply(&self, call: &Apply) -> StoreResult<ApplyReply>, writes at Slice(&call.slice);

        /// Makes one part of a pass, see [`Pass`]. `None` if the slice does not belong to this epoch.
        /// Deletes keys of the wrong type, which another program wrote.
        async fn pass(&self, pass: &Pass) -> StoreResult<Option<Passed>>, writes at Slice(&pass.slice);

        /// Sets the fence to closed for this epoch and unlinks the slice and its companions. Changes
        /// nothing if the slice belongs to a newer epoch. Returns the totals of the epoch, also if it
        /// was closed before; zeros if the slice belongs to another epoch.
        async fn close_slice(&self, slice: &SliceId, epoch: Epoch) -> StoreResult<SliceTotals>,
            writes at Slice(slice);

        /// A page of about [`crate::store::MAX_BATCH`] users with claims, from cursor 0 on.
        async fn claims_page(&self, slice: &SliceId, cursor: u64) -> StoreResult<ClaimsPage>,
            reads at Slice(slice);

        /// A page of a group of a slice, about [`crate::store::MAX_BATCH`] users, from cursor 0 on.
        async fn members_page(
            &self,
            slice: &SliceId,
            group: Group,
            cursor: u64,
        ) -> StoreResult<MemberPage>, reads at Slice(slice);

        /// Whether a user is in a group of the slice.
        async fn is_member(&self, slice: &SliceId, group: Group, user: &UserId) -> StoreResult<bool>,
            reads at Slice(slice);

        /// Whether each of up to [`crate::store::MAX_BATCH`] users is in a group of the slice, in the
        /// same order.
        async fn are_members(
            &self,
            slice: &SliceId,
            group: Group,
            users: &[UserId],
        ) -> StoreResult<Vec<bool>>, reads at Slice(slice);

        /// When each of up to [`crate::store::MAX_BATCH`] users came to the slice, in the same order;
        /// `None` if the slice does not say.
        async fn since_of(
            &self,
            slice: &SliceId,
            users: &[UserId],
        ) -> StoreResult<Vec<Option<UnixMillis>>>, reads at Slice(slice);

        each:

        /// Looks at slices, as a gateway sees them. An error for one slice is no error for another.
        async fn look(
            &self,
            slices: &[SliceId],
            gateway: &GatewayId,
            entries: Entries,
        ) -> Vec<StoreResult<SliceLook>>, reads at |slice| Slice(slice);

        provided:

        /// Every user of a group of a slice, from the first page to the last. A user may come twice, as
        /// in SSCAN.
        async fn members(&self, slice: &SliceId, group: Group) -> StoreResult<Vec<UserId>> {
            let mut users = Vec::new();
            let mut cursor = Some(0);
            while let Some(from) = cursor {
                let page = self.members_page(slice, group, from).await?;
                users.extend(page.users);
                cursor = page.next;
            }
            Ok(users)
        }
    }
}
