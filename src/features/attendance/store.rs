//! The boundary for attendance: which fans were online at any time of an epoch of a live. The store
//! keeps this for eight days after the close, and answers questions over several lives: which fans
//! came to all of them, to any of them, or to the first but to none of the others.
//!
//! The fans of an epoch are in *parts*, by a hash of the user's id or by the id itself, if it is a
//! number. Parts of different lives with the same number have the same users, so the store answers
//! for each part by itself.

use crate::base::ids::OnlineSet;
use crate::base::ids::SliceId;
use crate::store::AttendedSession;
use crate::store::LiveEpoch;
use crate::store::LiveRecord;
use crate::store::MAX_BATCH;
use crate::store::SessionPlace;
use crate::store::Span;
use crate::store::Store;
use crate::store::calls::{calls, plain_arguments};
use futures_util::future::try_join_all;
use std::time::Duration;

use serde::Deserialize;
use utoipa::ToSchema;

use crate::base::clock::UnixMillis;
use crate::base::ids::UserId;
use crate::config::AttendanceForm;
use crate::store::StoreResult;

/// The number of parts over which fans are spread by the hash of their id.
pub const ATTENDANCE_PARTS: u32 = 1_024;

/// Bits of a bitmap's part: 8 KiB.
pub const BITS_A_PART: u32 = 1 << 16;

/// How often the lifetimes of an open live's attendance keys are renewed.
pub const ATTENDANCE_RENEWED: Duration = Duration::from_secs(24 * 3600);

/// Maximum lives of one question.
pub const MAX_ATTENDED: usize = 64;

/// An epoch whose attendance is recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attended {
    /// The owner of the live.
    pub streamer: UserId,
    /// The number of slices over which its users were spread.
    pub slices: u32,
    /// When it opened.
    pub opened_at: UnixMillis,
    /// When its close began; `None` while it is open.
    pub closed_at: Option<UnixMillis>,
}

impl Attended {
    /// What a record says of its epoch.
    pub fn of(record: &LiveRecord) -> Self {
        Self {
            streamer: record.streamer.clone(),
            slices: record.slices,
            opened_at: record.opened_at,
            closed_at: record.closure.map(|closure| closure.at),
        }
    }
}

/// Who is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Attending {
    /// The fans who came to all of the lives.
    #[default]
    All,
    /// The fans who came to any of them.
    Any,
    /// The fans who came to the first and to none of the others.
    Not,
}

plain_arguments!(Attending);

impl Attending {
    /// Whether the question asks for a fan; `came` says for each live whether the fan came.
    pub fn takes(self, came: &[bool]) -> bool {
        match self {
            Self::All => came.iter().all(|came| *came),
            Self::Any => came.iter().any(|came| *came),
            Self::Not => match came {
                [first, others @ ..] => *first && !others.contains(&true),
                [] => false,
            },
        }
    }
}

/// The fans of one part for whom the question asks, in the order of the part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Attendees {
    /// Sorted.
    Users(Vec<UserId>),
    /// A bit for each number from `first` on, the highest bit of a byte first.
    Bits {
        /// The number of the first bit.
        first: u32,
        /// The bits.
        bits: Vec<u8>,
    },
}

impl Attendees {
    /// The number of fans.
    pub fn count(&self) -> u64 {
        match self {
            Self::Users(users) => users.len() as u64,
            Self::Bits { bits, .. } => bits.iter().map(|byte| u64::from(byte.count_ones())).sum(),
        }
    }

    /// Up to `limit` of the fans, after the given one.
    pub fn page(&self, after: Option<&UserId>, limit: usize) -> Vec<UserId> {
        match self {
            Self::Users(users) => {
                let from = match after {
                    Some(after) => users.partition_point(|user| user <= after),
                    None => 0,
                };
                users.iter().skip(from).take(limit).cloned().collect()
            }
            Self::Bits { first, bits } => {
                let after = after.and_then(|after| after.as_str().parse::<u32>().ok());
                let from = match after {
                    Some(after) => after.saturating_sub(*first) as usize + 1,
                    None => 0,
                };
                let set = (from..bits.len() * 8).filter(|n| bits[n / 8] & (0x80 >> (n % 8)) != 0);
                let mut page = Vec::new();
                for n in set.take(limit) {
                    let number = first + n as u32;
                    page.extend(UserId::parse(&number.to_string()).ok());
                }
                page
            }
        }
    }
}

calls! {
    /// Which fans came to which lives.
    pub trait Attendance {
        /// Fixes the form in which attendance is kept, unless it is fixed already. Returns the form
        /// that is fixed; a gateway that is configured with another form must not go on.
        async fn fix_attendance_form(&self, form: AttendanceForm) -> StoreResult<AttendanceForm>, writes;

        /// Notes that the attendance of an open epoch is recorded. A second call changes nothing.
        async fn begin_attendance(&self, of: &LiveEpoch, attended: &Attended) -> StoreResult<()>,
            writes at Live(&of.live);

        /// Notes when an epoch closed, and keeps its attendance for [`crate::store::ATTENDANCE_KEPT`] from
        /// then on.
        async fn end_attendance(&self, of: &LiveEpoch, closed_at: UnixMillis) -> StoreResult<()>,
            writes at Live(&of.live);

        /// The notes on an epoch whose attendance is kept.
        async fn attended(&self, of: &LiveEpoch) -> StoreResult<Option<Attended>>, reads at Live(&of.live);

        /// Up to `limit` epochs of a streamer's lives that opened at this time or later, oldest first.
        async fn attended_lives(
            &self,
            streamer: &UserId,
            from: UnixMillis,
            limit: usize,
        ) -> StoreResult<Vec<LiveEpoch>>, reads at User(streamer);

        /// The parts in which any of these epochs may have fans, in their order.
        async fn attendance_parts(&self, lives: &[LiveEpoch]) -> StoreResult<Vec<u32>>, reads;

        /// The fans of a part for whom the question asks.
        async fn attendees(
            &self,
            which: Attending,
            lives: &[LiveEpoch],
            part: u32,
        ) -> StoreResult<Attendees>, reads;

        /// Whether each of up to [`crate::store::MAX_BATCH`] users was online as a fan, in the same order.
        async fn have_attended(&self, of: &LiveEpoch, users: &[UserId]) -> StoreResult<Vec<bool>>,
            reads at Live(&of.live);

        /// Up to `limit` epochs that are due to be looked after by `now`.
        async fn attendance_due(&self, now: UnixMillis, limit: usize) -> StoreResult<Vec<LiveEpoch>>, reads;

        in_parts:

        /// Notes that these users, at most [`crate::store::MAX_BATCH`], were online as fans. Returns the users
        /// for whom a part of the store could not be reached.
        async fn note_attendance(&self, of: &LiveEpoch, users: &[UserId]) -> StoreResult<Vec<UserId>>,
            writes at Live(&of.live);

        /// Renews the lifetimes of an epoch's attendance keys. The epoch is due again at `next`.
        async fn renew_attendance(
            &self,
            of: &LiveEpoch,
            attended: &Attended,
            next: UnixMillis,
        ) -> StoreResult<()>, writes at Live(&of.live);

        /// Forgets an epoch: its fans and its sessions.
        async fn forget_attendance(
            &self,
            of: &LiveEpoch,
            attended: Option<&Attended>,
        ) -> StoreResult<()>, writes at Live(&of.live);
    }
}

calls! {
    /// The sessions of lives with attendance.
    pub trait Sessions {
        /// How many sessions of an epoch with this number of slices began within `span`.
        async fn count_sessions(&self, of: &LiveEpoch, slices: u32, span: Span) -> StoreResult<u64>,
            reads at Live(&of.live);

        /// Up to `limit` sessions of a slice in their order, after `after` or from the first that began
        /// at `from` or later.
        async fn sessions_in_slice(
            &self,
            of: &LiveEpoch,
            slice: &SliceId,
            from: UnixMillis,
            after: Option<&SessionPlace>,
            limit: usize,
        ) -> StoreResult<Vec<AttendedSession>>, reads at Slice(slice);

        in_parts:

        /// Whether each of up to [`MAX_BATCH`] users was there at any time of `span`, in the same
        /// order.
        async fn were_there(
            &self,
            of: &LiveEpoch,
            attended: &Attended,
            users: &[UserId],
            span: Span,
        ) -> StoreResult<Vec<bool>>, reads at Live(&of.live);

        provided:

        /// Up to `limit` sessions of an epoch with this number of slices that began within `span`, in
        /// their order, after the given one; and whether there are more.
        async fn sessions_page(
            &self,
            of: &LiveEpoch,
            slices: u32,
            span: Span,
            after: Option<&SessionPlace>,
            limit: usize,
        ) -> StoreResult<(Vec<AttendedSession>, bool)> {
            // Slices are equally large, near enough: with this many of each, the page is nearly always
            // full.
            let each = (limit / slices as usize * 2 + 16).min(MAX_BATCH);
            let ids: Vec<SliceId> = SliceId::all(OnlineSet::Live(of.live.clone()), slices).collect();
            let read = ids
                .iter()
                .map(|slice| self.sessions_in_slice(of, slice, span.from, after, each));
            Ok(merge(try_join_all(read).await?, span, each, limit))
        }
    }
}

/// Merges the first `each` entries of every slice. A slice with that many entries may have more, of
/// which nothing is known, so the page ends with the last known entry of such a slice.
pub(crate) fn merge(
    slices: Vec<Vec<AttendedSession>>,
    span: Span,
    each: usize,
    limit: usize,
) -> (Vec<AttendedSession>, bool) {
    let end: Option<SessionPlace> = slices
        .iter()
        .filter(|slice| slice.len() >= each)
        .flat_map(|slice| slice.last())
        .map(|last| &last.place)
        .filter(|place| place.joined_at <= span.to)
        .min()
        .cloned();
    let mut page: Vec<AttendedSession> = slices
        .into_iter()
        .flatten()
        .filter(|session| session.place.joined_at <= span.to)
        .collect();
    page.sort_by(|a, b| a.place.cmp(&b.place));
    let known = match &end {
        Some(end) => page.partition_point(|session| session.place <= *end),
        None => page.len(),
    };
    let more = known > limit || end.is_some();
    page.truncate(known.min(limit));
    (page, more)
}

/// The calls of the core, and those about attendance and sessions.
pub trait AttendanceStore: Store + Attendance + Sessions {}

impl<T: Store + Attendance + Sessions + ?Sized> AttendanceStore for T {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::WatchedTime;

    fn user(name: &str) -> UserId {
        UserId::parse(name).unwrap()
    }

    #[test]
    fn a_page_is_merged_of_slices_and_ends_where_one_may_go_on() {
        let session = |name: &str, joined_at| AttendedSession {
            place: SessionPlace {
                joined_at,
                user: user(name),
                number: 1,
            },
            id: 1,
            left_at: None,
            watched: WatchedTime::default(),
        };
        let slices = vec![
            vec![session("a", 1), session("b", 5)],
            vec![session("c", 3)],
        ];
        let names = |page: Vec<AttendedSession>| {
            page.iter()
                .map(|it| it.place.user.to_string())
                .collect::<Vec<_>>()
        };
        let (page, more) = merge(slices.clone(), Span::ALL, 9, 9);
        assert_eq!(
            (names(page), more),
            (vec!["a".into(), "c".into(), "b".into()], false)
        );
        let (page, more) = merge(slices.clone(), Span { from: 0, to: 4 }, 2, 9);
        assert_eq!((names(page), more), (vec!["a".into(), "c".into()], false));
        let (page, more) = merge(slices, Span::ALL, 2, 2);
        assert_eq!((names(page), more), (vec!["a".into(), "c".into()], true));
    }

    #[test]
    fn bits_are_counted_and_listed_as_the_numbers_that_they_are() {
        let found = Attendees::Bits {
            first: 65_536,
            bits: vec![0b1000_0001, 0, 0b0100_0000],
        };
        let names = |page: Vec<UserId>| {
            page.iter()
                .map(|user| user.as_str().to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(found.count(), 3);
        assert_eq!(names(found.page(None, 9)), ["65536", "65543", "65553"]);
        assert_eq!(
            names(found.page(Some(&UserId::parse("65536").unwrap()), 1)),
            ["65543"]
        );
    }

    #[test]
    fn who_is_taken() {
        let cases = [
            ([true, true], [true, true, false]),
            ([true, false], [false, true, true]),
            ([false; 2], [false; 3]),
        ];
        for (came, taken) in cases {
            assert_eq!(
                [Attending::All, Attending::Any, Attending::Not].map(|which| which.takes(&came)),
                taken
            );
        }
        assert!(!Attending::Not.takes(&[false, true]));
    }
}
