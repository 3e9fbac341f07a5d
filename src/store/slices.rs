//! The boundary for the users who are online in lives and on the platform, slice by slice. The pure
//! model of one slice is [`super::slice`]; the flush, the walk and the audit call [`Slices`].

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream::{self, BoxStream};
use futures_util::{StreamExt, TryStreamExt};

use super::{Arrived, SESSIONS_A_CALL, StoreResult, Uniques};
use crate::base::clock::{Millis, UnixMillis};
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

/// One gateway's change to one slice. Apart from sweeps, dropped strays and a close, only these
/// calls change the members.
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
    /// version lost writes.
    pub known: SliceSize,
    /// Users who are there and, as far as this gateway knows, no fans. No user is in a list twice,
    /// or in two lists. `joins`, `fans` and `leaves` together have at most
    /// [`crate::store::MAX_BATCH`] users.
    pub joins: Vec<UserId>,
    /// Users who are there and fans. A user is a fan in the slice as long as any gateway says so.
    pub fans: Vec<UserId>,
    /// For a live: when each of `joins`, and then each of `fans`, came, by the gateway's wall
    /// clock; empty for the other sets. If a user is in the slice already, the earlier time stays.
    pub since: Vec<UnixMillis>,
    /// For the users of the platform: the lives in which each of `joins` is on this gateway, at
    /// most [`MAX_LIVES`], the live joined last at the end; empty for the other sets.
    pub lives: Vec<Vec<LiveId>>,
    /// Users to take out, unless another gateway holds them too.
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

    /// The users of `leaves`, and when each was here last, if the call says so.
    pub(crate) fn times_left(&self) -> impl Iterator<Item = (&UserId, UnixMillis)> {
        self.leaves.iter().zip(self.left.iter().flatten().copied())
    }

    /// Whether the call begins and ends sessions.
    pub fn keeps_sessions(&self) -> bool {
        self.left.is_some() && self.slice.set.live().is_some()
    }
}

/// Maximum lives in which one gateway says that a user is: the ones joined last.
pub const MAX_LIVES: usize = 32;

/// Minimum duration of a doubt about a slice that lost writes. By then, every gateway has found out
/// about the loss and has written the users whom it holds again.
pub const DOUBT_AFTER_LOSS: Duration = Duration::from_secs(10);

/// The size of a slice, over all gateways, as the calls on it have counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct SliceSize {
    /// The number of members: how many came and did not leave.
    pub card: u64,
    /// The fans among them.
    pub fans: u64,
    /// How often a member left the last gateway that held them, since the epoch began.
    pub leaves: u64,
    /// Grows with every change of the slice: of two sizes, the one with the higher version is the
    /// later.
    pub version: u64,
    /// Whether the size may be wrong: another program wrote to the slice, or the store lost writes
    /// to it, and no gateway has repaired it yet.
    pub in_doubt: bool,
}

impl SliceSize {
    /// How many came and left since the epoch began.
    pub fn arrived(self) -> Arrived {
        Arrived {
            joins: self.card.saturating_add(self.leaves),
            leaves: self.leaves,
        }
    }

    /// Whether the slice lacks notes on members. `noted` is how many notes it has, if its set keeps
    /// notes.
    pub fn lacks_notes(self, noted: Option<u64>) -> bool {
        noted.is_some_and(|noted| noted < self.card)
    }

    /// Whether the slice has notes on users who are not its members.
    pub fn has_stray_notes(self, noted: Option<u64>) -> bool {
        noted.is_some_and(|noted| noted > self.card)
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

/// A slice after a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SliceView {
    /// Its size.
    pub size: SliceSize,
    /// Members whom the calling gateway holds in it.
    pub held: u64,
    /// The fans among them.
    pub held_fans: u64,
    /// As in a [`SliceReading`].
    pub noted: Option<u64>,
}

/// The outcome of an [`Apply`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ApplyReply {
    /// Done.
    Done(SliceView),
    /// The fence says that this epoch is closed. Nothing was done.
    Closed,
    /// The fence belongs to a newer epoch. Nothing was done.
    Newer(Epoch),
    /// The gateway's entry has another number than the one that the call follows, or exists
    /// although the call would make it. Nothing was done.
    Old,
    /// The gateway has no entry although the call follows one: the store lost its data, or the
    /// gateway was swept. Nothing was done.
    Unknown,
    /// The call would make the entry and came too late. Nothing was done. Contains the store's
    /// time.
    Late(UnixMillis),
}

/// A slice as a gateway reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SliceReading {
    /// Its size. It is also in doubt if the slice has another number of members or fans than the
    /// calls have counted.
    pub size: SliceSize,
    /// The epoch that it belongs to.
    pub fence: Option<Fence>,
    /// The number of the reading gateway's entry.
    pub entry: Option<u64>,
    /// Members whom the reading gateway holds.
    pub held: u64,
    /// The fans among them.
    pub held_fans: u64,
    /// How many members have notes in the slice; `None` for a set that keeps no notes on its
    /// members.
    pub noted: Option<u64>,
    /// The other gateways with an entry.
    pub gateways: Vec<GatewayId>,
}

/// What a slice holds for all gateways.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SliceSurvey {
    /// The epoch that it belongs to.
    pub fence: Option<Fence>,
    /// Members of the slice.
    pub card: u64,
    /// The fans among them.
    pub fans: u64,
    /// How many left, as the calls on the slice have counted.
    pub leaves: u64,
    /// As in a [`SliceReading`].
    pub noted: Option<u64>,
    /// Whether the slice may be in doubt, or about to be. A change between two steps of the reading
    /// may cause this, too.
    pub may_be_in_doubt: bool,
    /// Every gateway with an entry.
    pub parts: Vec<SlicePart>,
}

/// What a slice holds for one gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlicePart {
    /// The gateway.
    pub gateway: GatewayId,
    /// The number in its entry.
    pub entry: u64,
    /// Members that it holds.
    pub held: u64,
    /// The fans among them.
    pub held_fans: u64,
}

/// The outcome of a sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Swept {
    /// Members taken out of the swept gateway's held set.
    pub released: u64,
    /// Nothing is left to sweep: the entry is gone.
    pub done: bool,
    /// The size of the slice now.
    pub size: SliceSize,
}

/// A page of members; `next` is `None` at the end. A member may come twice, as in SSCAN.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberPage {
    /// Members.
    pub users: Vec<UserId>,
    /// Where to go on.
    pub next: Option<u64>,
}

/// A page of what a gateway holds; `next` is `None` at the end. A user may come twice, as in SSCAN.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldPage {
    /// The users that it holds.
    pub users: Vec<UserId>,
    /// The users among them whom the slice lacks, on whom it lacks notes, or on whom it has notes
    /// of gateways that do not hold them. No call leaves such users behind, so another program
    /// wrote there.
    pub missing: Vec<UserId>,
    /// The lives in which each user is on this gateway, by the notes on the users of the platform.
    pub lives: Vec<(UserId, Vec<LiveId>)>,
    /// Where to go on.
    pub next: Option<u64>,
}

/// The gateways with an entry in a slice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holders {
    /// The slice.
    pub slice: SliceId,
    /// The gateways.
    pub gateways: Vec<GatewayId>,
    /// Whether the gateways together hold more members than the slice has, or more fans: several
    /// hold the same user, or the slice lacks a user. Otherwise a slice without strays lacks no
    /// user.
    pub overlap: bool,
}

/// Which page of what a gateway holds is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeldFrom {
    /// The group of users.
    pub group: Group,
    /// 0, or [`PutBackPage::next`] of the last page.
    pub cursor: u64,
    /// The approximate number of users.
    pub most: usize,
}

/// All that a gateway holds in a slice.
#[derive(Debug, Default)]
pub struct HeldMembers {
    /// The users that it holds.
    pub users: HashSet<UserId>,
    /// The users whom it holds as fans.
    pub fans: HashSet<UserId>,
    /// The users of both whom the slice lacks, or on whom it has wrong notes, see
    /// [`HeldPage::missing`].
    pub missing: Vec<UserId>,
    /// The lives in which each user is on this gateway, by the notes on the users of the platform.
    pub lives: HashMap<UserId, Vec<LiveId>>,
}

/// The treatment of strays by a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strays {
    /// The call counts them.
    Count,
    /// The call removes them, in the step that finds them.
    Drop,
}

/// The strays in a page of a group of a slice: users whom no gateway holds. No call leaves strays
/// behind, so another program wrote them, or a node lost writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StraysPage {
    /// Strays in the page.
    pub strays: u64,
    /// Up to ten of the strays.
    pub names: Vec<UserId>,
    /// Where to go on; `None` at the end.
    pub next: Option<u64>,
    /// The size of the slice after the call.
    pub size: SliceSize,
    /// The users of the group that the slice has now, strays among them.
    pub card: u64,
    /// Users of all held sets of the group together. If these are fewer than `card`, there are more
    /// strays.
    pub held: u64,
}

/// The result for a page of the users whom a gateway holds: the slice lacked some of them. No call
/// leaves such users behind, so another program took them out, or a node lost writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PutBackPage {
    /// How many users were put back into the slice.
    pub put_back: u64,
    /// Where to go on; `None` at the end.
    pub next: Option<u64>,
    /// The size of the slice after the call.
    pub size: SliceSize,
}

/// A slice, compared with the members that the scripts have counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compared {
    /// The size of the slice.
    pub size: SliceSize,
    /// The members and fans that it has beyond that size.
    pub surplus: Surplus,
    /// The ms after which the doubt may end; 0 if at once.
    pub wait: Millis,
    /// Whether the doubt began with this comparison, so that no gateway can know it yet.
    pub began: bool,
}

/// How many members and fans a slice has beyond those that the scripts counted; negative if fewer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Surplus {
    /// Members.
    pub members: i64,
    /// Fans.
    pub fans: i64,
}

/// The dropped notes, in a page, on users who are not in the slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DroppedNotes {
    /// The number of notes.
    pub dropped: u64,
    /// Where to go on; `None` at the end.
    pub next: Option<u64>,
}

/// The outcome of [`Slices::settle`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// The slice is in doubt no longer.
    Settled(SliceSize),
    /// The store lost writes less than [`DOUBT_AFTER_LOSS`] ago.
    Early,
    /// Another program has written since the comparison.
    Changed,
    /// The slice does not belong to this epoch.
    Over,
}

/// The users who are online in lives and on the platform, slice by slice.
#[async_trait]
pub trait Slices: Sync {
    /// Changes what a gateway holds, see [`Apply`].
    async fn apply(&self, call: &Apply) -> StoreResult<ApplyReply>;

    /// Reads a slice, as a gateway sees it.
    async fn read_slice(&self, slice: &SliceId, gateway: &GatewayId) -> StoreResult<SliceReading>;

    /// Reads what many slices hold for all gateways; not in one step, so a change meanwhile may be
    /// seen in part. An error for one slice is no error for another.
    async fn survey(&self, slices: &[SliceId]) -> Vec<StoreResult<SliceSurvey>>;

    /// Takes out up to `most` members of a gateway that was buried; drops its entry when none is
    /// left. Costs as many steps as `most` times the gateways in the slice. Sessions end at
    /// `last_heard`, when the gateway was heard last. Users of the platform who leave the set by a
    /// sweep were seen last at that time.
    async fn sweep(
        &self,
        slice: &SliceId,
        gateway: &GatewayId,
        most: usize,
        last_heard: UnixMillis,
    ) -> StoreResult<Swept>;

    /// Whether slices have members whom none of these gateways holds, or lack members whom one of
    /// them holds. A gateway that the caller does not know may hold members nevertheless. The
    /// caller asks only about slices of at most [`crate::store::MAX_BATCH`] members. An error for
    /// one slice is no error for another.
    async fn differ_from_held(&self, slices: &[Holders]) -> Vec<StoreResult<bool>>;

    /// Looks through a page of about `most` users of a group, from cursor 0 on, for strays, whom no
    /// gateway holds. If the call drops members, their sessions end now, and users of the platform
    /// count as seen now.
    async fn strays(
        &self,
        slice: &SliceId,
        group: Group,
        cursor: u64,
        most: usize,
        strays: Strays,
    ) -> StoreResult<StraysPage>;

    /// Compares how many members and fans an open slice has with how many the calls have counted.
    /// If the numbers differ, or if the slice is older than the size `known` to the caller, a doubt
    /// begins. Returns `None` if the slice does not belong to this epoch.
    async fn compare(
        &self,
        slice: &SliceId,
        epoch: Epoch,
        known: SliceSize,
    ) -> StoreResult<Option<Compared>>;

    /// Looks through a page of the users whom a gateway holds, and puts those back whom the slice
    /// lacks. The gateway must be alive. Does nothing to a slice of another epoch.
    async fn put_back(
        &self,
        slice: &SliceId,
        epoch: Epoch,
        gateway: &GatewayId,
        page: HeldFrom,
    ) -> StoreResult<PutBackPage>;

    /// Looks through a page of a slice's notes on members, from cursor 0 on, and removes the notes
    /// on users who are not in the slice. The slice must belong to a set that keeps notes.
    async fn drop_notes(&self, slice: &SliceId, cursor: u64) -> StoreResult<DroppedNotes>;

    /// Ends the doubt about a slice, after the caller compared it with all held sets: strays are
    /// gone, and missing users are back. Members whom no call counted now count as joined, and
    /// missing ones as left. `surplus` is [`Compared::surplus`] of that comparison.
    async fn settle(&self, slice: &SliceId, epoch: Epoch, surplus: Surplus)
    -> StoreResult<Settled>;

    /// Removes keys of a slice that have the wrong type, and a fence that cannot be read: another
    /// program put them there, and every call on the slice fails. The held sets are those of the
    /// gateways with an entry and of the calling one. Returns the removed keys.
    async fn drop_foreign_keys(
        &self,
        slice: &SliceId,
        gateway: &GatewayId,
    ) -> StoreResult<Vec<String>>;

    /// Sets the fence to closed for this epoch and unlinks the slice and its companions. Changes
    /// nothing if the slice belongs to a newer epoch. Returns the totals of the epoch, also if it
    /// was closed before; zeros if the slice belongs to another epoch.
    async fn close_slice(&self, slice: &SliceId, epoch: Epoch) -> StoreResult<SliceTotals>;

    /// A page of about [`crate::store::MAX_BATCH`] users of a group whom a gateway holds in a
    /// slice, from cursor 0 on.
    async fn held_page(
        &self,
        slice: &SliceId,
        group: Group,
        gateway: &GatewayId,
        cursor: u64,
    ) -> StoreResult<HeldPage>;

    /// Every page of the users of a group whom a gateway holds in a slice, from the first to the
    /// last.
    fn held_pages<'a>(
        &'a self,
        slice: &'a SliceId,
        group: Group,
        gateway: &'a GatewayId,
    ) -> BoxStream<'a, StoreResult<HeldPage>> {
        pages(move |cursor| async move {
            let page = self.held_page(slice, group, gateway, cursor).await?;
            let next = page.next;
            Ok((page, next))
        })
    }

    /// All that a gateway holds in a slice.
    async fn held_members(&self, slice: &SliceId, gateway: &GatewayId) -> StoreResult<HeldMembers> {
        let mut all = HeldMembers::default();
        for group in slice.set.groups() {
            let mut pages = self.held_pages(slice, *group, gateway);
            while let Some(page) = pages.try_next().await? {
                match group {
                    Group::All => all.users.extend(page.users),
                    Group::Fans => all.fans.extend(page.users),
                }
                all.missing.extend(page.missing);
                all.lives.extend(page.lives);
            }
        }
        Ok(all)
    }

    /// Every page of a group of a slice for strays, from the first to the last; see
    /// [`Slices::strays`].
    fn stray_pages<'a>(
        &'a self,
        slice: &'a SliceId,
        group: Group,
        most: usize,
        strays: Strays,
    ) -> BoxStream<'a, StoreResult<StraysPage>> {
        pages(move |cursor| async move {
            let page = self.strays(slice, group, cursor, most, strays).await?;
            let next = page.next;
            Ok((page, next))
        })
    }

    /// Sweeps a gateway that was buried call by call, until nothing is left of it in the slice; see
    /// [`Slices::sweep`].
    fn sweeps<'a>(
        &'a self,
        slice: &'a SliceId,
        gateway: &'a GatewayId,
        most: usize,
        last_heard: UnixMillis,
    ) -> BoxStream<'a, StoreResult<Swept>> {
        // Such a set may keep sessions.
        let most = if slice.set.live().is_some() {
            most.min(SESSIONS_A_CALL)
        } else {
            most
        };
        pages(move |_| async move {
            let swept = self.sweep(slice, gateway, most, last_heard).await?;
            let next = if swept.done { None } else { Some(0) };
            Ok((swept, next))
        })
    }

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

    /// A page of a group of a slice, about [`crate::store::MAX_BATCH`] users, from cursor 0 on.
    async fn members_page(
        &self,
        slice: &SliceId,
        group: Group,
        cursor: u64,
    ) -> StoreResult<MemberPage>;

    /// Whether a user is in a group of the slice.
    async fn is_member(&self, slice: &SliceId, group: Group, user: &UserId) -> StoreResult<bool>;

    /// Whether each of up to [`crate::store::MAX_BATCH`] users is in a group of the slice, in the
    /// same order.
    async fn are_members(
        &self,
        slice: &SliceId,
        group: Group,
        users: &[UserId],
    ) -> StoreResult<Vec<bool>>;

    /// When each of up to [`crate::store::MAX_BATCH`] users came to the slice, in the same order;
    /// `None` if the slice does not say.
    async fn since_of(
        &self,
        slice: &SliceId,
        users: &[UserId],
    ) -> StoreResult<Vec<Option<UnixMillis>>>;
}

/// Pages from cursor 0 on, until one names no next cursor.
fn pages<'a, T, F>(read: impl Fn(u64) -> F + Send + 'a) -> BoxStream<'a, StoreResult<T>>
where
    T: Send + 'a,
    F: Future<Output = StoreResult<(T, Option<u64>)>> + Send + 'a,
{
    stream::try_unfold(Some(0), move |cursor: Option<u64>| {
        let reading = cursor.map(&read);
        async move {
            match reading {
                Some(reading) => reading.await.map(Some),
                None => Ok(None),
            }
        }
    })
    .boxed()
}
