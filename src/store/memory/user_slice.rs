//! When the users of one slice who are not online were seen last, as the embedded store knows it.

use std::collections::{BTreeSet, HashMap};
use std::ops::Bound;
use std::time::Duration;

use crate::base::clock::{UnixMillis, millis};
use crate::base::ids::UserId;
use crate::store::{Seen, Span};

/// When users of one slice were seen last.
#[derive(Debug, Clone, Default)]
pub(crate) struct UserSlice {
    pub(crate) seen: HashMap<UserId, UnixMillis>,
    pub(crate) by_time: BTreeSet<(UnixMillis, UserId)>,
}

impl UserSlice {
    /// Notes when a user was seen. Returns the known time, and changes nothing, if the new one is
    /// less than `apart` later. Otherwise the later of the two stays.
    pub(crate) fn note(
        &mut self,
        user: &UserId,
        at: UnixMillis,
        apart: Duration,
    ) -> Option<UnixMillis> {
        if let Some(known) = self.seen.get(user).copied() {
            if !apart.is_zero() && known.saturating_add(millis(apart)) > at {
                return Some(known);
            }
            if known >= at {
                return None;
            }
        }
        self.forget(user);
        self.seen.insert(user.clone(), at);
        self.by_time.insert((at, user.clone()));
        None
    }

    pub(crate) fn forget(&mut self, user: &UserId) {
        if let Some(at) = self.seen.remove(user) {
            self.by_time.remove(&(at, user.clone()));
        }
    }

    pub(crate) fn count(&self, span: Span) -> u64 {
        if span == Span::ALL {
            return self.seen.len() as u64;
        }
        self.by_time
            .range(first_of(span.from)..)
            .take_while(|(at, _)| *at <= span.to)
            .count() as u64
    }

    pub(crate) fn page(&self, from: UnixMillis, after: Option<&Seen>, limit: usize) -> Vec<Seen> {
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

/// The lowest key of this time: no entry of the time comes before it.
fn first_of(at: UnixMillis) -> (UnixMillis, UserId) {
    (at, UserId::least())
}
