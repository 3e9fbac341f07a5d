//! What the embedded store knows of the users of one slice: when each who is not online was seen last, and in which
//! lives each is.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::time::Duration;

use crate::base::clock::{UnixMillis, millis};
use crate::base::ids::{GatewayId, LiveId, UserId};
use crate::store::{Chain, MAX_WHEREABOUTS, Seen, Span, TellWhereabouts, ToldWhereabouts};

/// What is known of the users of one slice.
#[derive(Debug, Clone, Default)]
pub(super) struct UserSlice {
    pub(super) seen: HashMap<UserId, UnixMillis>,
    pub(super) by_time: BTreeSet<(UnixMillis, UserId)>,
    pub(super) lives: BTreeMap<UserId, Vec<(GatewayId, LiveId)>>,
    /// What is kept of each gateway's calls about whereabouts.
    pub(super) marks: BTreeMap<GatewayId, CallMark>,
}

/// What is kept of a gateway's calls about a slice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct CallMark {
    /// The number of the last call.
    number: u64,
    /// The call with this number was answered, and since then nothing was lost; or the chain broke at it.
    base: u64,
}

impl CallMark {
    /// Takes in a call. A call that comes late changes nothing.
    fn note(&mut self, call: &TellWhereabouts) -> ToldWhereabouts {
        let (number, known) = (call.number, call.known);
        if number <= self.number {
            return ToldWhereabouts::Old;
        }
        let unbroken = [0, self.number, self.base].contains(&known);
        *self = Self { number, base: if unbroken { known } else { number } };
        ToldWhereabouts::Noted(if unbroken { Chain::Unbroken } else { Chain::Broken })
    }
}

impl UserSlice {
    /// Answers the known time if the new one is less than `apart` later. Of the two the later one stays otherwise.
    pub(super) fn note(&mut self, user: &UserId, at: UnixMillis, apart: Duration) -> Option<UnixMillis> {
        let known = self.seen.get(user).copied();
        if let Some(known) = known.filter(|known| !apart.is_zero() && known.saturating_add(millis(apart)) > at) {
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
        self.by_time.range(first_of(span.from)..).take_while(|(at, _)| *at <= span.to).count() as u64
    }

    pub(super) fn page(&self, from: UnixMillis, after: Option<&Seen>, limit: usize) -> Vec<Seen> {
        let first = match after {
            Some(last) => Bound::Excluded((last.at, last.user.clone())),
            None => Bound::Included(first_of(from)),
        };
        let page = self.by_time.range((first, Bound::Unbounded)).take(limit);
        page.map(|(at, user)| Seen { user: user.clone(), at: *at }).collect()
    }

    pub(super) fn tell(&mut self, call: &TellWhereabouts) -> ToldWhereabouts {
        let told = self.marks.entry(call.gateway.clone()).or_default().note(call);
        if told == ToldWhereabouts::Old {
            return told;
        }
        for (user, lives) in &call.users {
            self.drop_words(user, std::slice::from_ref(&call.gateway));
            if lives.is_empty() {
                continue;
            }
            let words = self.lives.entry(user.clone()).or_default();
            words.extend(lives.iter().map(|live| (call.gateway.clone(), live.clone())));
            words.drain(..words.len().saturating_sub(MAX_WHEREABOUTS));
        }
        told
    }

    pub(super) fn drop_words(&mut self, user: &UserId, of: &[GatewayId]) {
        if let Some(words) = self.lives.get_mut(user) {
            words.retain(|(gateway, _)| !of.contains(gateway));
            if words.is_empty() {
                self.lives.remove(user);
            }
        }
    }
}

/// What no entry of this time comes before.
fn first_of(at: UnixMillis) -> (UnixMillis, UserId) {
    (at, UserId::least())
}
