//! The boundary for removals: which users were sent out of a live, which may not come back and for
//! how long; and the model, [`RemovalLog`]. Removals belong to one epoch: they can be noted only
//! while it is open, and the close deletes them.
//!
//! Removals and lifted bans have growing numbers; the record has the last one. A gateway that knows
//! all changes up to some number reads the later ones. Calls pass the time that is left of a ban by
//! the store's clock, so no gateway's clock is ever compared with it. The scripts of the Redis
//! store must give the same answers as [`RemovalLog`].

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use super::calls::calls;
use super::{MAX_BATCH, StoreResult};
use crate::base::actor::Actor;
use crate::base::clock::{UnixMillis, millis};
use crate::base::ids::{Epoch, LiveId, UserId};

/// Maximum bans that run in one live at a time.
pub const MAX_BANS: usize = 10_000;

/// The longest ban.
pub const MAX_BAN: Duration = Duration::from_secs(30 * 24 * 3600);

/// Maximum users whose last change is kept. A gateway that is further behind reads all bans
/// instead.
pub const MAX_CHANGES: usize = 10_000;

/// How far the numbers leap when the store turns out to have lost some. New numbers are then above
/// every number that a gateway knows, because ordinary numbers never grow that far in between.
pub const LEAP: u64 = 1 << 20;

/// A request to send a user out of an open live.
#[derive(Debug, Clone)]
pub struct RemoveUser {
    /// The live.
    pub live: LiveId,
    /// Which epoch; no other is touched, however late the call arrives.
    pub epoch: Epoch,
    /// The user.
    pub user: UserId,
    /// How long they may not come back, from now on and instead of any earlier ban, at most
    /// [`MAX_BAN`]. `None` leaves a ban that runs as it is.
    pub ban: Option<Duration>,
    /// Who asks for it, for the event.
    pub by: Option<Actor>,
    /// Whether the record notes an event, for which it must have a place.
    pub is_told: bool,
    /// Published on the live's channel in the same step.
    pub message: String,
}

/// A request to end a ban ahead of its time.
#[derive(Debug, Clone)]
pub struct LiftBan {
    /// The live.
    pub live: LiveId,
    /// The epoch.
    pub epoch: Epoch,
    /// The banned user.
    pub user: UserId,
    /// Who asks for it, for the event.
    pub by: Option<Actor>,
    /// Whether the record notes an event, for which it must have a place.
    pub is_told: bool,
    /// Published on the live's channel in the same step.
    pub message: String,
}

/// The outcome of a [`RemoveUser`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RemoveReply {
    /// The removal is noted.
    Done {
        /// Its number.
        number: u64,
        /// When the user's ban ends, by the store's clock; `None` if they may come back at once.
        until: Option<UnixMillis>,
    },
    /// The live has [`MAX_BANS`] bans already. Nothing was done.
    Full,
    /// The record has no place for the event. Nothing was done.
    Crowded,
    /// The user hosts the live, and cannot be banned from it. Nothing was done.
    Host,
    /// The epoch is not open. Nothing was done.
    Over,
    /// The live was never opened, or the store lost it. Nothing was done.
    Absent,
}

/// The outcome of a [`LiftBan`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LiftReply {
    /// The user was banned and is no longer.
    Lifted {
        /// The number of the change.
        number: u64,
    },
    /// There was no ban. Nothing was done.
    NotBanned,
    /// The record has no place for the event. Nothing was done.
    Crowded,
    /// The epoch is not open. Nothing was done.
    Over,
    /// The live was never opened, or the store lost it. Nothing was done.
    Absent,
}

/// The last thing that happened to a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemovalChange {
    /// The user.
    pub user: UserId,
    /// The number of the removal or of the lifting.
    pub number: u64,
    /// A removal, or the end of a ban ahead of its time.
    pub kind: ChangeKind,
}

/// The kind of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    /// Sent out, and banned for this long from now on; `None` if they may come back.
    Removed(Option<Duration>),
    /// The ban was lifted.
    Lifted,
}

/// The changes in an open live after some number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removals {
    /// The number of the last change.
    pub last: u64,
    /// The time by the store's clock.
    pub at: UnixMillis,
    /// At most [`MAX_BATCH`] changes by their number, one per user. If there are fewer than that,
    /// there are no more.
    pub changes: Vec<RemovalChange>,
}

/// A ban.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ban {
    /// The user.
    pub user: UserId,
    /// When it ends, by the store's clock.
    pub until: UnixMillis,
}

impl Ban {
    /// The place in the list of bans.
    fn place(&self) -> (UnixMillis, UserId) {
        (self.until, self.user.clone())
    }
}

calls! {
    /// Removals and bans.
    pub trait Moderation {
        /// Sends a user out of an open live, see [`RemoveUser`].
        async fn remove_user(&self, request: &RemoveUser) -> StoreResult<RemoveReply>,
            writes at Live(&request.live);

        /// Ends a ban ahead of its time, see [`LiftBan`].
        async fn lift_ban(&self, request: &LiftBan) -> StoreResult<LiftReply>, writes at Live(&request.live);

        /// The changes after the number `since`, lowest number first; `None` if the epoch is not open.
        async fn removals_since(
            &self,
            live: &LiveId,
            epoch: Epoch,
            since: u64,
        ) -> StoreResult<Option<Removals>>, reads at Live(live);

        /// Up to `limit` bans, soonest end first, after the given one. Some may have run out. The call
        /// names no epoch: a live that is not open has no bans.
        async fn bans_page(
            &self,
            live: &LiveId,
            after: Option<&Ban>,
            limit: usize,
        ) -> StoreResult<Vec<Ban>>, reads at Live(live);

        /// Notes up to [`MAX_BATCH`] bans that a gateway knows and the store may have lost, each with
        /// the time that is left of it. Changes nothing for a user of whom the store has a change, and
        /// nothing in an epoch that is not open.
        async fn restore_bans(
            &self,
            live: &LiveId,
            epoch: Epoch,
            bans: &[(UserId, Duration)],
        ) -> StoreResult<()>, writes at Live(live);
    }
}

/// The removals of one epoch, as the two keys beside a live's record hold them.
#[derive(Debug, Clone, Default)]
pub(crate) struct RemovalLog {
    last: u64,
    by_number: BTreeMap<u64, (UserId, RemovalKind)>,
    numbers: HashMap<UserId, u64>,
    bans: HashMap<UserId, UnixMillis>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RemovalKind {
    Removed,
    Lifted,
}

impl RemovalLog {
    /// A log whose last number is this one.
    pub(crate) fn numbered_from(last: u64) -> Self {
        Self {
            last,
            ..Self::default()
        }
    }

    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    /// A gateway knows of this number. If it is above the last one, changes were lost, and later
    /// numbers are above it.
    pub(crate) fn leap_over(&mut self, known: u64) {
        if known > self.last {
            self.last = known + LEAP;
        }
    }

    pub(crate) fn remove(
        &mut self,
        user: &UserId,
        ban: Option<Duration>,
        now: UnixMillis,
    ) -> RemoveReply {
        self.forget_ended(now);
        if let Some(ban) = ban {
            if !self.bans.contains_key(user) && self.bans.len() >= MAX_BANS {
                return RemoveReply::Full;
            }
            self.bans.insert(user.clone(), now + millis(ban));
        }
        let number = self.note(user, RemovalKind::Removed);
        RemoveReply::Done {
            number,
            until: self.bans.get(user).copied(),
        }
    }

    /// Whether the user may not come back yet.
    pub(crate) fn is_banned(&self, user: &UserId, now: UnixMillis) -> bool {
        self.bans.get(user).is_some_and(|until| *until > now)
    }

    pub(crate) fn lift(&mut self, user: &UserId, now: UnixMillis) -> LiftReply {
        self.forget_ended(now);
        match self.bans.remove(user) {
            Some(_) => LiftReply::Lifted {
                number: self.note(user, RemovalKind::Lifted),
            },
            None => LiftReply::NotBanned,
        }
    }

    pub(crate) fn since(&mut self, since: u64, now: UnixMillis) -> Removals {
        self.forget_ended(now);
        let later = self.by_number.range(since.saturating_add(1)..);
        let mut changes = Vec::new();
        for (number, (user, happened)) in later.take(MAX_BATCH) {
            let kind = match happened {
                RemovalKind::Removed => {
                    let until = self.bans.get(user);
                    ChangeKind::Removed(until.map(|until| Duration::from_millis(until - now)))
                }
                RemovalKind::Lifted => ChangeKind::Lifted,
            };
            changes.push(RemovalChange {
                user: user.clone(),
                number: *number,
                kind,
            });
        }
        Removals {
            last: self.last,
            at: now,
            changes,
        }
    }

    pub(crate) fn page(&self, after: Option<&Ban>, limit: usize) -> Vec<Ban> {
        let mut page: Vec<Ban> = self
            .bans
            .iter()
            .map(|(user, until)| Ban {
                user: user.clone(),
                until: *until,
            })
            .collect();
        if let Some(after) = after {
            page.retain(|ban| ban.place() > after.place());
        }
        page.sort_by_key(Ban::place);
        page.truncate(limit);
        page
    }

    pub(crate) fn restore(&mut self, bans: &[(UserId, Duration)], now: UnixMillis) {
        self.forget_ended(now);
        for (user, left) in bans {
            if !self.numbers.contains_key(user) && self.bans.len() < MAX_BANS {
                self.bans.insert(user.clone(), now + millis(*left));
                self.note(user, RemovalKind::Removed);
            }
        }
    }

    /// Forgets what happened to a user. Answers of how many things, a ban and a last change.
    pub(crate) fn erase(&mut self, user: &UserId) -> u64 {
        let mut gone = u64::from(self.bans.remove(user).is_some());
        if let Some(number) = self.numbers.remove(user) {
            self.by_number.remove(&number);
            gone += 1;
        }
        gone
    }

    fn note(&mut self, user: &UserId, happened: RemovalKind) -> u64 {
        self.last += 1;
        if let Some(before) = self.numbers.insert(user.clone(), self.last) {
            self.by_number.remove(&before);
        }
        self.by_number.insert(self.last, (user.clone(), happened));
        if self.by_number.len() > MAX_CHANGES
            && let Some((_, (user, _))) = self.by_number.pop_first()
        {
            self.numbers.remove(&user);
        }
        self.last
    }

    fn forget_ended(&mut self, now: UnixMillis) {
        self.bans.retain(|_, until| *until > now);
    }
}
