//! The boundary for users who are not online: when each of them was seen last. Nobody is both
//! online and here, so that the two add up.
//!
//! Users are spread over [`super::USERS_SLICES`] slices by their ids, as those who are online.

use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::try_join_all;

use super::{MAX_BATCH, StoreResult};
use crate::base::clock::UnixMillis;
use crate::base::ids::{USERS_SLICES, UserId};
use crate::config::SeenIds;

/// A user who is not online, and when the user was seen last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// The user.
    pub user: UserId,
    /// When.
    pub at: UnixMillis,
}

/// A span of time, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The first moment.
    pub from: UnixMillis,
    /// The last moment.
    pub to: UnixMillis,
}

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

/// When users were seen last.
#[async_trait]
pub trait LastSeen: Sync {
    /// Fixes how ids are written, unless that is fixed already. Answers the form that is fixed; a
    /// gateway that was given another one must not go on.
    async fn fix_seen_ids(&self, ids: SeenIds) -> StoreResult<SeenIds>;

    /// Notes that users were seen at these times. Of two times of a user the later one stays. A
    /// user who is online is taken out instead, whatever the time. [`super::Slices::apply`], the
    /// sweep and the search for strays write these times themselves; this call is for users of whom
    /// none of them tells. A time that is less than `apart` later than the one that is known
    /// changes nothing; such users are answered, with the known time.
    async fn note_seen(
        &self,
        seen: &[(UserId, UnixMillis)],
        apart: Duration,
    ) -> StoreResult<Vec<(UserId, UnixMillis)>>;

    /// Up to `limit` entries of a slice, oldest first, from `after` on or from the first that is
    /// not older than `from`. Entries of one time are in an order of the store's own, see
    /// [`LastSeen::seen_order`].
    async fn seen_in_slice(
        &self,
        slice: u32,
        from: UnixMillis,
        after: Option<&Seen>,
        limit: usize,
    ) -> StoreResult<Vec<Seen>>;

    /// The order of ids in which the store has users who were seen at the same time.
    fn seen_order(&self) -> SeenIds;

    /// Forgets up to [`MAX_BATCH`] users of a slice who were seen before this time, the oldest
    /// first. How many.
    async fn forget_seen(&self, slice: u32, before: UnixMillis) -> StoreResult<u64>;

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
        Ok(merge(self.seen_order(), span, slices, (each, limit)))
    }
}

/// Merges the first `each` entries of every slice. Where a slice may have more, nothing later than
/// its last entry is known to be next, so the page ends there.
fn merge(
    order: SeenIds,
    span: Span,
    slices: Vec<Vec<Seen>>,
    (each, limit): (usize, usize),
) -> (Vec<Seen>, bool) {
    let place = |seen: &Seen| {
        let number = match order {
            SeenIds::Text => 0,
            SeenIds::U32 => seen.user.as_str().parse::<u32>().unwrap_or(u32::MAX),
        };
        (seen.at, number, seen.user.clone())
    };
    let cut_off = slices.iter().filter(|slice| slice.len() >= each);
    let end = cut_off
        .filter_map(|slice| slice.last())
        .filter(|last| last.at <= span.to)
        .map(place)
        .min();
    let mut page: Vec<Seen> = slices
        .into_iter()
        .flatten()
        .filter(|seen| seen.at <= span.to)
        .collect();
    page.sort_by_cached_key(place);
    let known = end.as_ref().map_or(page.len(), |end| {
        page.partition_point(|seen| place(seen) <= *end)
    });
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
        let (page, more) = merge(SeenIds::Text, Span::ALL, slices.clone(), (2, 10));
        assert_eq!(
            (page, more),
            (
                vec![seen(1, 10), seen(5, 12), seen(3, 15), seen(4, 16)],
                true
            )
        );
        let (page, more) = merge(SeenIds::Text, Span::ALL, slices.clone(), (3, 10));
        assert_eq!((page.len(), more), (5, false));
        let (page, more) = merge(SeenIds::Text, Span { from: 0, to: 15 }, slices, (3, 2));
        assert_eq!((page, more), (vec![seen(1, 10), seen(5, 12)], true));
    }

    #[test]
    fn a_tie_is_in_the_order_of_the_store() {
        let slices = vec![vec![seen(10, 5)], vec![seen(9, 5)]];
        assert_eq!(
            merge(SeenIds::Text, Span::ALL, slices.clone(), (5, 5)).0,
            [seen(10, 5), seen(9, 5)]
        );
        assert_eq!(
            merge(SeenIds::U32, Span::ALL, slices, (5, 5)).0,
            [seen(9, 5), seen(10, 5)]
        );
    }
}
