//! What the embedded store knows of users on the platform: when those who are not online were seen last, and in which
//! lives users are. One map per slice, as in Redis.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;

use async_trait::async_trait;

use super::MemoryStore;
use crate::base::clock::UnixMillis;
use crate::base::ids::{GatewayId, LiveId, UserId};
use crate::config::SeenIds;
use crate::store::{
    LastSeen, MAX_BATCH, MAX_WHEREABOUTS, ONLINE_SLICES, OnlineCount, OnlineUsers, Seen, Span, StoreResult,
    TellWhereabouts, ToldWhereabouts, UserPresence, Whereabouts, WhereaboutsPage,
};

/// What is known of the users of one slice.
#[derive(Debug, Default)]
pub(super) struct UserSlice {
    seen: HashMap<UserId, UnixMillis>,
    by_time: BTreeSet<(UnixMillis, UserId)>,
    lives: BTreeMap<UserId, Vec<(GatewayId, LiveId)>>,
    /// The number of each gateway's last call about whereabouts.
    numbers: BTreeMap<GatewayId, u64>,
}

impl UserSlice {
    fn note(&mut self, user: &UserId, at: UnixMillis) {
        let later = self.seen.get(user).is_none_or(|known| *known < at);
        if later {
            self.forget(user);
            self.seen.insert(user.clone(), at);
            self.by_time.insert((at, user.clone()));
        }
    }

    fn forget(&mut self, user: &UserId) {
        if let Some(at) = self.seen.remove(user) {
            self.by_time.remove(&(at, user.clone()));
        }
    }

    fn count(&self, span: Span) -> u64 {
        if span == Span::ALL {
            return self.seen.len() as u64;
        }
        self.by_time.range(first_of(span.from)..).take_while(|(at, _)| *at <= span.to).count() as u64
    }

    fn page(&self, from: UnixMillis, after: Option<&Seen>, limit: usize) -> Vec<Seen> {
        let first = match after {
            Some(last) => Bound::Excluded((last.at, last.user.clone())),
            None => Bound::Included(first_of(from)),
        };
        let page = self.by_time.range((first, Bound::Unbounded)).take(limit);
        page.map(|(at, user)| Seen { user: user.clone(), at: *at }).collect()
    }

    fn tell(&mut self, call: &TellWhereabouts) -> ToldWhereabouts {
        let before = self.numbers.get(&call.gateway).copied().unwrap_or(0);
        if call.number <= before {
            return ToldWhereabouts::Old;
        }
        self.numbers.insert(call.gateway.clone(), call.number);
        for (user, live) in &call.users {
            self.drop_words(user, std::slice::from_ref(&call.gateway));
            let Some(live) = live else { continue };
            let words = self.lives.entry(user.clone()).or_default();
            words.push((call.gateway.clone(), live.clone()));
            if words.len() > MAX_WHEREABOUTS {
                words.remove(0);
            }
        }
        ToldWhereabouts::Noted { before }
    }

    fn drop_words(&mut self, user: &UserId, of: &[GatewayId]) {
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

impl MemoryStore {
    fn user_slice(&self, slice: u32) -> parking_lot::MutexGuard<'_, UserSlice> {
        let place = slice.saturating_sub(1) % ONLINE_SLICES;
        self.users[place as usize].lock()
    }
}

#[async_trait]
impl LastSeen for MemoryStore {
    async fn fix_seen_ids(&self, ids: SeenIds) -> StoreResult<SeenIds> {
        Ok(ids)
    }

    async fn note_seen(&self, seen: &[(UserId, UnixMillis)]) -> StoreResult<()> {
        for (user, at) in seen {
            let slice = user.slice_index(ONLINE_SLICES);
            let online = self.online_slice(slice, |online| online.contains(user));
            let mut known = self.user_slice(slice);
            if online { known.forget(user) } else { known.note(user, *at) }
        }
        Ok(())
    }

    async fn seen_in_slice(
        &self,
        slice: u32,
        from: UnixMillis,
        after: Option<&Seen>,
        limit: usize,
    ) -> StoreResult<Vec<Seen>> {
        Ok(self.user_slice(slice).page(from, after, limit))
    }

    fn seen_order(&self) -> SeenIds {
        SeenIds::Text
    }

    async fn forget_seen(&self, slice: u32, before: UnixMillis) -> StoreResult<u64> {
        let mut known = self.user_slice(slice);
        let old = known.by_time.iter().take_while(|(at, _)| *at < before).take(MAX_BATCH);
        let old: Vec<UserId> = old.map(|(_, user)| user.clone()).collect();
        old.iter().for_each(|user| known.forget(user));
        Ok(old.len() as u64)
    }
}

#[async_trait]
impl OnlineUsers for MemoryStore {
    async fn count_online(&self, span: Span) -> StoreResult<OnlineCount> {
        let mut count = OnlineCount::default();
        for slice in 1..=ONLINE_SLICES {
            count.online += self.online_slice(slice, |online| online.card());
            count.seen += self.user_slice(slice).count(span);
        }
        Ok(count)
    }

    async fn presence_of(&self, users: &[UserId]) -> StoreResult<Vec<UserPresence>> {
        let presence = |user: &UserId| {
            let slice = user.slice_index(ONLINE_SLICES);
            let online = self.online_slice(slice, |online| online.contains(user));
            let known = self.user_slice(slice);
            let last_seen = known.seen.get(user).copied().filter(|_| !online);
            UserPresence { online, last_seen, lives: known.lives.get(user).cloned().unwrap_or_default() }
        };
        Ok(users.iter().map(presence).collect())
    }
}

#[async_trait]
impl Whereabouts for MemoryStore {
    async fn tell_whereabouts(&self, call: &TellWhereabouts) -> StoreResult<ToldWhereabouts> {
        Ok(self.user_slice(call.slice).tell(call))
    }

    async fn whereabouts_page(&self, slice: u32, _: u64) -> StoreResult<WhereaboutsPage> {
        let known = self.user_slice(slice);
        let said = known.lives.values().flatten().map(|(gateway, _)| gateway);
        Ok(WhereaboutsPage {
            users: known.lives.keys().cloned().collect(),
            gateways: said.chain(known.numbers.keys()).cloned().collect(),
            next: None,
        })
    }

    async fn forget_whereabouts(&self, slice: u32, gateways: &[GatewayId], users: &[UserId]) -> StoreResult<()> {
        let mut known = self.user_slice(slice);
        users.iter().for_each(|user| known.drop_words(user, gateways));
        known.numbers.retain(|gateway, _| !gateways.contains(gateway));
        Ok(())
    }
}
