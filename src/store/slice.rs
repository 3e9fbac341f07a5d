//! The slice protocol as pure code: what one slice holds, and how each call changes it. The code
//! does no I/O and has no clock and no lock: the caller passes the time and gets an answer of
//! [`crate::store`]. The memory store keeps one [`StoredSlice`] per slice, and the scripts of the Redis
//! store must give the same answers.
//!
//! The claims say which gateways hold which users. The public sets of members and fans only show
//! the claims to others. If claims or entries of gateways are not what the calls have counted, the
//! slice forgets all of them, but not the public sets, and each gateway says again whom it holds:
//! a rebuild. If the public sets are not what the claims say, a pass puts that right.
//!
//! A slice does not know which slices a live has, whether the live is open, or which gateways live.

mod by_hash;
mod claims;
pub(crate) mod counted;
pub(crate) mod entry;
mod essence;
mod meddling;
mod pass;
mod reading;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashSet};

use self::by_hash::{ByHash, Members};
use self::claims::UserClaims;
use self::counted::{Rebuild, SliceCounts};
use self::entry::{EntryToken, GatewayEntry};
use super::limits::MAX_BATCH;
use super::slices::{
    Apply, ApplyRefusal, ApplyReply, Claim, Fence, REBUILD, SliceEntry, SliceSize, SliceTotals,
};
use super::sums::Uniques;
use crate::base::clock::{UnixMillis, millis};
use crate::base::ids::{Epoch, GatewayId, OnlineSet, UserId};
use crate::store::Stays;

/// One slice. The default is a slice that no call has used yet, or whose data was lost.
///
/// Two slices are equal if they give the same answers from now on, except for versions and for how
/// many users came and left. A model checker uses this to tell states apart.
#[derive(Debug, Clone, Default)]
pub struct StoredSlice {
    /// The public set of all members but the guests.
    members: Members,
    /// The public set of fans.
    fans: Members,
    /// The users on whom there are claims.
    who: ByHash<UserClaims>,
    entries: BTreeMap<GatewayId, GatewayEntry>,
    fence: Option<Fence>,
    counted: SliceCounts,
    /// The hashes of the different users who came, and of the fans among them.
    users: HashSet<u64>,
    different_fans: HashSet<u64>,
    /// The totals of the epoch, if it is closed.
    closed: SliceTotals,
    /// The sessions of each epoch, if the set keeps sessions. They outlast the close.
    stays: BTreeMap<Epoch, Stays>,
    /// See [`Self::take_departed`].
    departed: Vec<(UserId, UnixMillis)>,
}

impl StoredSlice {
    /// Changes what a gateway claims. A call that makes an entry does nothing after `not_after`:
    /// its gateway may have registered, let go or died since.
    pub fn apply(&mut self, call: &Apply, not_after: UnixMillis, now: UnixMillis) -> ApplyReply {
        debug_assert!(call.joins.len() + call.fans.len() + call.leaves.len() <= MAX_BATCH);
        self.departed.clear();
        let begins = match self.fence {
            Some(fence) if fence.epoch() > call.epoch || fence.is_closed_in(call.epoch) => {
                return ApplyReply::Over;
            }
            Some(Fence::Open(epoch)) if epoch == call.epoch => false,
            // No fence, or an older one.
            _ => true,
        };
        if !begins {
            self.guard(call.known, None, now);
        }
        if let Some(refusal) = self.refusal(call, begins, not_after, now) {
            return refusal;
        }
        if begins {
            self.begin(call.epoch, call.known, now);
        }
        let version = self.move_on(now);
        if call.bye {
            self.drop_entry(&call.gateway);
        } else {
            let token = self.enter(call);
            self.take_claims(call, token, now);
            self.note_uniques(call);
            self.begin_stays(call, version);
        }
        ApplyReply::Done(self.size())
    }

    /// Why the call changes no claims, if it does not. A call that begins an epoch finds no entry.
    fn refusal(
        &self,
        call: &Apply,
        begins: bool,
        not_after: UnixMillis,
        now: UnixMillis,
    ) -> Option<ApplyReply> {
        let found = if begins {
            None
        } else {
            self.entry(&call.gateway)
        };
        let entry = match found {
            Some(SliceEntry::Dead) => return Some(ApplyReply::Refused(ApplyRefusal::default())),
            Some(SliceEntry::At { number, .. }) => Some(number),
            None => None,
        };
        if entry != call.follows {
            let size = if begins { None } else { Some(self.size()) };
            return Some(ApplyReply::Refused(ApplyRefusal { entry, size }));
        }
        if entry.is_none() && now > not_after {
            return Some(ApplyReply::Late(now));
        }
        None
    }

    /// Opens a slice that belongs to no epoch or to an older one. If there is something in a slice
    /// without a fence, or should be, the fence was lost: the public sets stay then.
    fn begin(&mut self, epoch: Epoch, known: SliceSize, now: UnixMillis) {
        if self.fence.is_some() {
            self.wipe();
        }
        let has_lost_data = self.has_keys() || known.version > 0;
        self.fence = Some(Fence::Open(epoch));
        if has_lost_data {
            self.forget(known, now);
        } else {
            self.counted.incarnation = self.move_on(now);
        }
    }

    /// Looks for lost writes, and for claims and entries that somebody else wrote; ends a rebuild
    /// that is due. `known` is what the caller knows of the slice, and `wrong` the incarnation in
    /// which it found its entry changed.
    fn guard(&mut self, known: SliceSize, wrong: Option<u64>, now: UnixMillis) {
        let is_wrong = wrong == Some(self.counted.incarnation) || !self.is_intact();
        if self.size().is_older_than(known) {
            self.forget(known, now);
        } else if is_wrong {
            match &mut self.counted.rebuild {
                // One rebuild at a time: the next one begins when this one ends.
                Some(rebuild) => rebuild.users = None,
                None => self.forget(known, now),
            }
        }
        self.end_rebuild(known, now);
    }

    /// Forgets all claims and entries, but not the public sets. Every gateway finds that its entry
    /// is gone, and says again whom it holds.
    fn forget(&mut self, known: SliceSize, now: UnixMillis) {
        let shown = if known.version > self.counted.version {
            known
        } else {
            self.counted.size(false)
        };
        self.who = ByHash::default();
        self.entries.clear();
        self.counted = SliceCounts {
            // The next version is newer than every version that gateways know, even if the clock
            // is behind.
            version: self.counted.version.max(known.version),
            arrived: self.counted.arrived.max(known.arrived()),
            rebuild: Some(Rebuild {
                users: Some(0),
                since: now,
                fans: shown.fans,
                guests: shown.guests,
            }),
            ..SliceCounts::default()
        };
        self.counted.incarnation = self.move_on(now);
    }

    /// Ends a rebuild that has lasted long enough, if all gateways have said whom they hold. If
    /// somebody else wrote meanwhile, the slice forgets again.
    fn end_rebuild(&mut self, known: SliceSize, now: UnixMillis) {
        let Some(rebuild) = &mut self.counted.rebuild else {
            return;
        };
        // The clock may have gone back since.
        rebuild.since = rebuild.since.min(now);
        let is_complete = self.entries.values().all(GatewayEntry::is_complete);
        if now - rebuild.since < millis(REBUILD) || !is_complete {
            return;
        }
        let users = self.who.len();
        if rebuild.users == Some(users) {
            self.counted.end_rebuild(users);
            self.move_on(now);
        } else {
            self.forget(known, now);
        }
    }

    /// Writes the number of the call into the entry of its gateway. A gateway without an entry gets
    /// a new token.
    fn enter(&mut self, call: &Apply) -> EntryToken {
        let token = match self.entries.get(&call.gateway) {
            Some(entry) => entry.token,
            None => {
                self.counted.entries += 1;
                self.counted.last_token += 1;
                self.counted.last_token
            }
        };
        let state = SliceEntry::At {
            number: call.number,
            is_complete: !call.more,
        };
        self.entries
            .insert(call.gateway.clone(), GatewayEntry { token, state });
        token
    }

    fn drop_entry(&mut self, gateway: &GatewayId) {
        if self.entries.remove(gateway).is_some() {
            self.counted.entries -= 1;
        }
    }

    /// Makes the claims of a call, and takes those back that the gateway has no longer.
    fn take_claims(&mut self, call: &Apply, token: EntryToken, now: UnixMillis) {
        for (place, user) in call.present().enumerate() {
            let claim = if place >= call.joins.len() {
                Claim::Fan
            } else if call.slice.set == OnlineSet::Users {
                Claim::In(call.lives.get(place).cloned().unwrap_or_default())
            } else {
                Claim::Member
            };
            let since = call.since.get(place).copied();
            self.change_claims(user, |claims| claims.put(token, claim, since));
            self.show(user);
            self.show_fan(user);
        }
        for (place, user) in call.leaves.iter().enumerate() {
            let left = call.left.as_ref().and_then(|left| left.get(place));
            self.change_claims(user, |claims| claims.retract(token));
            self.leave_unless_claimed(user, left.copied().unwrap_or(now));
            self.show_fan(user);
        }
    }

    /// Changes the claims on a user, and counts the change.
    fn change_claims(&mut self, user: &UserId, change: impl FnOnce(&mut UserClaims)) {
        let mut claims = self.who.remove(user).unwrap_or_default();
        let before = claims.presence(user);
        change(&mut claims);
        let after = claims.presence(user);
        if after.is_member {
            self.who.insert(user, claims);
        }
        self.counted.count(before, after);
    }

    /// Takes a user without claims out of the members; in a rebuild nobody leaves. `last_here` is
    /// when the user was here last.
    fn leave_unless_claimed(&mut self, user: &UserId, last_here: UnixMillis) {
        if !self.who.contains(user) && !self.is_in_rebuild() {
            self.remove_member(user, last_here);
        }
    }

    /// Shows a user in the public set of members, if the claims say so.
    fn show(&mut self, user: &UserId) {
        if self.is_shown(user) {
            self.members.insert(user, ());
        }
    }

    /// Shows in the public set of fans whether a user is one. In a rebuild nobody leaves the set.
    fn show_fan(&mut self, user: &UserId) {
        if self.claimed(user).is_fan {
            self.fans.insert(user, ());
        } else if !self.is_in_rebuild() {
            self.fans.remove(user);
        }
    }

    /// Takes a user out of the members, which ends the user's session.
    fn remove_member(&mut self, user: &UserId, last_here: UnixMillis) {
        if let Some(fence) = self.fence
            && let Some(stays) = self.stays.get_mut(&fence.epoch())
        {
            stays.leave(user, last_here);
        }
        if self.members.remove(user).is_some() {
            self.departed.push((user.clone(), last_here));
        }
    }

    /// The users whom the last call took out of the members, and when each was here last.
    pub fn take_departed(&mut self) -> Vec<(UserId, UnixMillis)> {
        std::mem::take(&mut self.departed)
    }

    fn note_uniques(&mut self, call: &Apply) {
        if call.uniques {
            self.users.extend(call.present().map(UserId::xxh3));
            self.different_fans
                .extend(call.fans.iter().map(UserId::xxh3));
        }
    }

    /// Begins the sessions of users who join. `id` names them.
    fn begin_stays(&mut self, call: &Apply, id: u64) {
        if call.keeps_sessions() {
            let stays = self.stays.entry(call.epoch).or_default();
            for (user, at) in call.present().zip(&call.since) {
                if !user.is_guest() {
                    stays.enter(user, id, *at);
                }
            }
        }
    }

    /// Closes the slice for an epoch and forgets all it held. Returns the totals of the epoch,
    /// zeros if the slice belongs to another one, and whether the fence moved.
    pub fn close(&mut self, epoch: Epoch) -> (SliceTotals, bool) {
        if self.fence.is_some_and(|fence| fence.epoch() > epoch) {
            return (SliceTotals::default(), false);
        }
        let closed = Some(Fence::Closed(epoch));
        let has_moved = self.fence != closed;
        let totals = if self.is_open_in(epoch) {
            SliceTotals {
                arrived: self.counted.arrived,
                uniques: Uniques {
                    viewers: self.users.len() as u64,
                    fans: self.different_fans.len() as u64,
                },
            }
        } else if has_moved {
            SliceTotals::default()
        } else {
            self.closed
        };
        self.wipe();
        self.closed = totals;
        self.fence = closed;
        (totals, has_moved)
    }

    /// Forgets everything but the sessions and the version, which goes on over a new epoch.
    fn wipe(&mut self) {
        *self = Self {
            counted: SliceCounts {
                version: self.counted.version,
                ..SliceCounts::default()
            },
            stays: std::mem::take(&mut self.stays),
            ..Self::default()
        };
    }

    /// Forgets the sessions of an epoch.
    pub fn forget_stays(&mut self, epoch: Epoch) {
        self.stays.remove(&epoch);
    }

    /// Forgets a user's sessions in all epochs. Answers how many there were.
    pub fn erase_stays(&mut self, user: &UserId) -> u64 {
        self.stays.values_mut().map(|stays| stays.erase(user)).sum()
    }

    /// Moves to the next version after a change. Versions follow the store's clock, so that they
    /// keep growing after the slice's data was lost, and they grow even if the clock goes back.
    fn move_on(&mut self, now: UnixMillis) -> u64 {
        self.counted.version = (self.counted.version + 1).max(now * 1_000);
        self.counted.version
    }
}
