//! The boundary for users who are not online: when each of them was seen last. No user is both
//! online and here, so the two numbers add up.
//!
//! Users are spread over [`super::USERS_SLICES`] slices by their ids, as the users who are online.

use std::time::Duration;

use futures_util::future::try_join_all;

use super::calls::{calls, plain_arguments};
use super::{MAX_BATCH, StoreResult};
use crate::base::clock::UnixMillis;
use crate::base::ids::{USERS_SLICES, UserId};
use crate::config::SeenIds;

/// A user who is not online, and when the user was seen last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// The user.
    pub user: UserId,
    /// When the user was seen.
    pub at: UnixMillis,
}

impl Seen {
    /// The place in the list. Users who were seen at the same time are in this order of their ids.
    fn place(&self, order: SeenIds) -> (UnixMillis, u32, UserId) {
        let number = match order {
            SeenIds::Text => 0,
            SeenIds::U32 => self.user.as_str().parse::<u32>().unwrap_or(u32::MAX),
        };
        (self.at, number, self.user.clone())
    }
}

/// A span of time, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The first moment.
    pub from: UnixMillis,
    /// The last moment.
    pub to: UnixMillis,
}

plain_arguments!(Span);

impl Span {
    /// All of time.
    pub const ALL: Self = Self {
        from: 0,
        to: UnixMillis::MAX,
    };

    /// Whether it ends before it begins.
    pub fn is_empty(self) -> bool {
        self.from > self.to
    }
}

calls! {
    /// When users were seen last.
    pub trait LastSeen {
        /// Fixes the form in which ids are written, unless it is fixed already. Returns the form that
        /// is fixed; a gateway that is configured with another form must not go on.
        async fn fix_seen_ids(&self, ids: SeenIds) -> StoreResult<SeenIds>, writes;

        /// Up to `limit` entries of a slice, oldest first, from `after` on or from the first that is
        /// not older than `from`. The store chooses the order of entries of one time, see
        /// [`LastSeen::seen_order`].
        async fn seen_in_slice(
            &self,
            slice: u32,
            from: UnixMillis,
            after: Option<&Seen>,
            limit: usize,
        ) -> StoreResult<Vec<Seen>>, reads at UserSlice(slice);

        /// Forgets up to [`MAX_BATCH`] users of a slice who were seen before this time, the oldest
        /// first. Returns how many.
        async fn forget_seen(&self, slice: u32, before: UnixMillis) -> StoreResult<u64>,
            writes at UserSlice(slice);

        in_parts:

        /// Notes that users were seen at these times. Of two times of a user the later one stays. If a
        /// user is online, the call removes the user instead, whatever the time.
        /// [`super::Slices::apply`], the sweep and the search for strays write these times themselves;
        /// this call serves the users for whom none of them does. A time that is less than `apart`
        /// later than the known one changes nothing. The call returns such users, with the known time.
        async fn note_seen(
            &self,
            seen: &[(UserId, UnixMillis)],
            apart: Duration,
        ) -> StoreResult<Vec<(UserId, UnixMillis)>>, writes;

        known:

        /// The order of users who were seen at the same time.
        fn seen_order(&self) -> SeenIds;

        provided:

        /// Up to `limit` users who were last seen in `span`, oldest first, after the given one; and
        /// whether there are more.
        async fn seen_page(
            &self,
            span: Span,
            after: Option<&Seen>,
            limit: usize,
        ) -> StoreResult<(Vec<Seen>, bool)> {
            // Slices are equally large, near enough: with this many of each, the page is nearly always
            // full.
            let each = (limit / USERS_SLICES as usize * 2 + 16).min(MAX_BATCH);
            let slices =
                (1..=USERS_SLICES).map(|slice| self.seen_in_slice(slice, span.from, after, each));
            let slices = try_join_all(slices).await?;
            Ok(merge(self.seen_order(), span, slices, each, limit))
        }
    }
}

/// Merges the first `each` entries of every slice. A slice with that many entries may have more, of
/// which nothing is known, so the page ends with the last known entry of such a slice.
fn merge(
    order: SeenIds,
    span: Span,
    slices: Vec<Vec<Seen>>,
    each: usize,
    limit: usize,
) -> (Vec<Seen>, bool) {
    let end = slices
        .iter()
        .filter(|slice| slice.len() >= each)
        .flat_map(|slice| slice.last())
        .filter(|last| last.at <= span.to)
        .map(|last| last.place(order))
        .min();
    let mut page: Vec<Seen> = slices
        .into_iter()
        .flatten()
        .filter(|seen| seen.at <= span.to)
        .collect();
    page.sort_by_cached_key(|seen| seen.place(order));
    let known = match &end {
        Some(end) => page.partition_point(|seen| seen.place(order) <= *end),
        None => page.len(),
    };
    let more = known > limit || end.is_some();
    page.truncate(known.min(limit));
    (page, more)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(id: u32, at: UnixMillis) -> Seen {
        Seen {
            user: UserId::parse(&id.to_string()).unwrap(),
            at,
        }
    }

    #[test]
    fn a_page_ends_where_a_slice_may_have_more() {
        let slices = vec![
            vec![seen(1, 10), seen(2, 20)],
            vec![seen(3, 15), seen(4, 16)],
            vec![seen(5, 12)],
        ];
        let (page, more) = merge(SeenIds::Text, Span::ALL, slices.clone(), 2, 10);
        assert_eq!(
            (page, more),
            (
                vec![seen(1, 10), seen(5, 12), seen(3, 15), seen(4, 16)],
                true
            )
        );
        let (page, more) = merge(SeenIds::Text, Span::ALL, slices.clone(), 3, 10);
        assert_eq!((page.len(), more), (5, false));
        let (page, more) = merge(SeenIds::Text, Span { from: 0, to: 15 }, slices, 3, 2);
        assert_eq!((page, more), (vec![seen(1, 10), seen(5, 12)], true));
    }

    #[test]
    fn a_tie_is_in_the_order_of_the_store() {
        let slices = vec![vec![seen(10, 5)], vec![seen(9, 5)]];
        assert_eq!(
            merge(SeenIds::Text, Span::ALL, slices.clone(), 5, 5).0,
            [seen(10, 5), seen(9, 5)]
        );
        assert_eq!(
            merge(SeenIds::U32, Span::ALL, slices, 5, 5).0,
            [seen(9, 5), seen(10, 5)]
        );
    }
}
