//! The boundary for sessions: when each user came to a live with attendance and when the user left,
//! over all gateways. A store begins or ends a session in the same step that adds the user to the
//! set of all viewers or removes the user from it, see [`Stays::enter`] and [`Stays::leave`]. So a
//! session is exactly a stay in that set.

use super::calls::calls;
use crate::store::LiveEpoch;
use crate::store::StoreResult;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::base::clock::UnixMillis;
use crate::base::ids::UserId;
use crate::store::{MAX_BATCH, Span};

/// Maximum users of one call that begins or ends sessions. Each user who comes back takes Redis
/// some 10 µs.
pub const SESSIONS_A_CALL: usize = MAX_BATCH / 4;

/// A user with this many sessions in a live goes on with the last one after a short break.
pub const MANY_SESSIONS: u64 = 64;

/// The longest break that is short, in ms.
pub const SHORT_BREAK: u64 = 60_000;

/// Maximum sessions of a user in an epoch of a live: every further visit goes on with the last one.
pub const MOST_SESSIONS: u64 = 256;

/// A user's stay in a live without a break.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttendedSession {
    /// Where it stands in the list.
    pub place: SessionPlace,
    /// Names it among the user's sessions, and is never used again for this user.
    pub id: u64,
    /// When the user was last here; `None` while the user is, and if the live closed around the
    /// user.
    pub left_at: Option<UnixMillis>,
    /// The time that the user watched in all sessions of this epoch.
    pub watched: WatchedTime,
}

impl AttendedSession {
    /// When it ended, if the live closed at `closed_at`. The clocks of the two times may differ.
    pub fn end(&self, closed_at: Option<UnixMillis>) -> Option<UnixMillis> {
        if self.left_at.is_some() {
            return self.left_at;
        }
        closed_at.map(|at| at.max(self.place.joined_at))
    }
}

/// The order of sessions: by the time of the join.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SessionPlace {
    /// When the user came.
    pub joined_at: UnixMillis,
    /// The user.
    pub user: UserId,
    /// The number of the session among the user's sessions in this epoch, from 1.
    pub number: u64,
}

/// For how long a user was in a live, over all sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WatchedTime {
    /// The time in the sessions that ended.
    pub ended_ms: u64,
    /// When the open session began.
    pub open_since: Option<UnixMillis>,
}

impl WatchedTime {
    /// The time watched until `end`: now, or the close of the live.
    pub fn until(self, end: UnixMillis) -> u64 {
        let open_ms = match self.open_since {
            Some(since) => end.saturating_sub(since),
            None => 0,
        };
        self.ended_ms + open_ms
    }
}

/// The name of a session in answers and events; no two users share one.
pub fn session_id(user: &UserId, id: u64) -> String {
    format!("{user}~{id}")
}

/// Begin and end of one session, as the stores keep them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stay {
    /// See [`AttendedSession::id`].
    pub id: u64,
    /// When the user came.
    pub joined_at: UnixMillis,
    /// When the user was last here; `None` while the user is.
    pub left_at: Option<UnixMillis>,
}

impl Stay {
    /// Whether the user was there at any time of `span`. The live closed at `closed_at`, if it did.
    pub fn is_within(&self, span: Span, closed_at: Option<UnixMillis>) -> bool {
        let end = self.left_at.or(closed_at).unwrap_or(UnixMillis::MAX);
        self.joined_at <= span.to && end.max(self.joined_at) >= span.from
    }

    /// Whether a user who comes at `at` goes on with this session, the last of `sessions`.
    fn goes_on(&self, at: UnixMillis, sessions: u64) -> bool {
        match self.left_at {
            Some(left) => at <= left.saturating_add(longest_break(sessions)),
            None => true,
        }
    }
}

/// The sessions of the users of one slice, as pure code. The memory store keeps a value of this
/// type for each slice and epoch, and the scripts of the Redis store must give the same answers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Stays {
    by_user: BTreeMap<UserId, Vec<Stay>>,
    by_time: BTreeSet<(UnixMillis, UserId, u64)>,
}

impl Stays {
    /// A user joins on the first or on another gateway. A session begins unless the user is here.
    ///
    /// A user who came back before the last session ended was never away, and goes on with it: the
    /// calls of two gateways may arrive in any order. A user who comes and goes all the time does
    /// not get a new session each time: a user with [`MANY_SESSIONS`] goes on with the last one
    /// after a [`SHORT_BREAK`], and a user with [`MOST_SESSIONS`] after any break.
    pub fn enter(&mut self, user: &UserId, id: u64, at: UnixMillis) {
        let stays = self.by_user.entry(user.clone()).or_default();
        let number = stays.len() as u64;
        match stays.last_mut() {
            Some(last) if last.goes_on(at, number) => {
                last.left_at = None;
                if number == 1 && at < last.joined_at {
                    self.by_time.remove(&(last.joined_at, user.clone(), number));
                    self.by_time.insert((at, user.clone(), number));
                    last.joined_at = at;
                }
            }
            _ => {
                stays.push(Stay {
                    id,
                    joined_at: at,
                    left_at: None,
                });
                self.by_time.insert((at, user.clone(), number + 1));
            }
        }
    }

    /// A user leaves the last gateway, which ends the user's session. `at` is when the user was
    /// here last.
    pub fn leave(&mut self, user: &UserId, at: UnixMillis) {
        if let Some(stays) = self.by_user.get_mut(user)
            && let Some(last) = stays.last_mut()
            && last.left_at.is_none()
        {
            last.left_at = Some(at.max(last.joined_at));
        }
    }

    /// Forgets a user's sessions. Returns how many there were.
    pub fn erase(&mut self, user: &UserId) -> u64 {
        let Some(stays) = self.by_user.remove(user) else {
            return 0;
        };
        self.by_time.retain(|(_, there, _)| there != user);
        stays.len() as u64
    }

    /// How many sessions began within `span`.
    pub fn count(&self, span: Span) -> u64 {
        self.by_time
            .iter()
            .filter(|(at, ..)| (span.from..=span.to).contains(at))
            .count() as u64
    }

    /// Up to `limit` sessions, after `after` or from `from` on.
    pub fn page(
        &self,
        from: UnixMillis,
        after: Option<&SessionPlace>,
        limit: usize,
    ) -> Vec<AttendedSession> {
        let first = match after {
            Some(SessionPlace {
                joined_at,
                user,
                number,
            }) => (*joined_at, user.clone(), number + 1),
            None => (from, UserId::least(), 0),
        };
        let mut page = Vec::new();
        for (joined_at, user, number) in self.by_time.range(first..).take(limit) {
            if let Some(stays) = self.by_user.get(user)
                && let Some(stay) = stays.get(*number as usize - 1)
            {
                page.push(AttendedSession {
                    place: SessionPlace {
                        joined_at: *joined_at,
                        user: user.clone(),
                        number: *number,
                    },
                    id: stay.id,
                    left_at: stay.left_at,
                    watched: watched(stays),
                });
            }
        }
        page
    }

    /// The user's latest session.
    pub fn latest(&self, user: &UserId) -> Option<Stay> {
        self.by_user.get(user)?.last().copied()
    }

    /// Whether a user was here at any time of `span`.
    pub fn was_here(&self, user: &UserId, span: Span, closed_at: Option<UnixMillis>) -> bool {
        match self.by_user.get(user) {
            Some(stays) => stays.iter().any(|stay| stay.is_within(span, closed_at)),
            None => false,
        }
    }
}

fn watched(stays: &[Stay]) -> WatchedTime {
    let mut watched = WatchedTime::default();
    for stay in stays {
        if let Some(left_at) = stay.left_at {
            watched.ended_ms += left_at - stay.joined_at;
        }
    }
    if let Some(last) = stays.last()
        && last.left_at.is_none()
    {
        watched.open_since = Some(last.joined_at);
    }
    watched
}

/// The longest break, in ms, after which a user with this many sessions goes on with the last one.
fn longest_break(sessions: u64) -> u64 {
    match sessions {
        ..MANY_SESSIONS => 0,
        MANY_SESSIONS..MOST_SESSIONS => SHORT_BREAK,
        MOST_SESSIONS.. => u64::MAX,
    }
}

calls! {
    /// The stays in lives with attendance.
    pub trait LatestStays {
        /// The latest session of each of up to [`MAX_BATCH`] users in an epoch with this number of
        /// slices, in the same order.
        async fn latest_sessions(
            &self,
            of: &LiveEpoch,
            slices: u32,
            users: &[UserId],
        ) -> StoreResult<Vec<Option<Stay>>>, reads at Live(&of.live);
    }
}

/// How long attendance and sessions are kept after the close.
pub const ATTENDANCE_KEPT: Duration = Duration::from_secs(8 * 24 * 3600);

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str) -> UserId {
        UserId::parse(name).unwrap()
    }

    fn times(stays: &Stays, name: &str) -> Vec<(UnixMillis, Option<UnixMillis>)> {
        stays.by_user[&user(name)]
            .iter()
            .map(|stay| (stay.joined_at, stay.left_at))
            .collect()
    }

    #[test]
    fn a_session_lasts_from_the_first_join_to_the_last_leave() {
        let (mut stays, ann) = (Stays::default(), user("ann"));
        stays.enter(&ann, 1, 100);
        stays.enter(&ann, 2, 150);
        stays.leave(&ann, 200);
        stays.leave(&ann, 250);
        stays.enter(&ann, 3, 300);
        assert_eq!(times(&stays, "ann"), [(100, Some(200)), (300, None)]);
        assert_eq!(stays.count(Span { from: 101, to: 300 }), 1);
        assert_eq!(stays.page(0, None, 9)[0].watched.until(310), 110);
        let at = |from, to| stays.was_here(&ann, Span { from, to }, Some(400));
        assert_eq!(
            [
                at(0, 99),
                at(0, 100),
                at(201, 299),
                at(390, 500),
                at(401, 500)
            ],
            [false, true, false, true, false]
        );
    }

    #[test]
    fn a_user_who_comes_and_goes_all_the_time_costs_so_many_sessions() {
        let (mut stays, ann) = (Stays::default(), user("ann"));
        let mut at = 0;
        let mut toggle = |times: u64, pause: u64| {
            for id in 0..times {
                stays.enter(&ann, id, at);
                stays.leave(&ann, at + 10);
                at += 10 + pause;
            }
            stays.by_user[&ann].len() as u64
        };
        assert_eq!(
            toggle(MANY_SESSIONS, 100),
            MANY_SESSIONS,
            "few visits are told apart"
        );
        assert_eq!(toggle(10_000, 100), MANY_SESSIONS);
        assert_eq!(
            toggle(10, SHORT_BREAK + 1),
            MANY_SESSIONS + 9,
            "after the last short break"
        );
        assert_eq!(toggle(10_000, SHORT_BREAK + 1), MOST_SESSIONS);
        assert_eq!(
            stays.count(Span {
                from: 0,
                to: u64::MAX
            }),
            MOST_SESSIONS
        );
    }

    #[test]
    fn a_user_whose_new_gateway_was_heard_after_the_old_one_let_go_was_never_away() {
        let (mut stays, ann) = (Stays::default(), user("ann"));
        stays.enter(&ann, 1, 100);
        stays.leave(&ann, 200);
        stays.enter(&ann, 2, 190);
        assert_eq!(times(&stays, "ann"), [(100, None)]);
        stays.enter(&ann, 3, 50);
        assert_eq!(
            times(&stays, "ann"),
            [(50, None)],
            "the earliest time that a gateway says"
        );
        assert_eq!(stays.page(0, None, 9).len(), 1);
    }
}
