//! When each of the users of one slice who is not online was seen last, as the embedded store knows
//! it.

use std::collections::{BTreeSet, HashMap};
use std::ops::Bound;
use std::time::Duration;

use crate::base::clock::{UnixMillis, millis};
use crate::base::ids::UserId;
use crate::store::{Seen, Span};

/// When users of one slice were seen last.
#[derive(Debug, Clone, Default)]
pub(super) struct UserSlice {
    pub(super) seen: HashMap<UserId, UnixMillis>,
    pub(super) by_time: BTreeSet<(UnixMillis, UserId)>,
}

impl UserSlice {
    /// Answers the known time if the new one is less than `apart` later. Of the two the later one
    /// stays otherwise.
    pub(super) fn note(
        &mut self,
        user: &UserId,
        at: UnixMillis,
        apart: Duration,
    ) -> Option<UnixMillis> {
        let known = self.seen.get(user).copied();
        if let Some(known) =
            known.filter(|known| !apart.is_zero() && known.saturating_add(millis(apart)) > at)
        {
            return Some(known);
        }
        if known.is_none_or(|known| known < at) {
            self.forget(user);
            self.seen.insert(user.clone(), at);
            self.by_time.insert((at, user.clone()));
        }
        None
    }

    pub(super) fn forget(&mut self, user: &UserId) {
        if let Some(at) = self.seen.remove(user) {
            self.by_time.remove(&(at, user.clone()));
        }
    }

    pub(super) fn count(&self, span: Span) -> u64 {
        if span == Span::ALL {
            return self.seen.len() as u64;
        }
        self.by_time
            .range(first_of(span.from)..)
            .take_while(|(at, _)| *at <= span.to)
            .count() as u64
    }

    pub(super) fn page(&self, from: UnixMillis, after: Option<&Seen>, limit: usize) -> Vec<Seen> {
        let first = match after {
            Some(last) => Bound::Excluded((last.at, last.user.clone())),
            None => Bound::Included(first_of(from)),
        };
        let page = self.by_time.range((first, Bound::Unbounded)).take(limit);
        page.map(|(at, user)| Seen {
            user: user.clone(),
            at: *at,
        })
        .collect()
    }
}

/// What no entry of this time comes before.
fn first_of(at: UnixMillis) -> (UnixMillis, UserId) {
    (at, UserId::least())
}
