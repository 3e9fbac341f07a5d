//! The calls on users of the platform: when they were seen last, which are online, and the lives in
//! which they are.

use std::time::Duration;

use async_trait::async_trait;

use super::MemoryStore;
use super::user_slice::UserSlice;
use crate::base::clock::UnixMillis;
use crate::base::ids::{Group, USERS_SLICES, UserId};
use crate::config::SeenIds;
use crate::store::{
    LastSeen, MAX_BATCH, OnlineCount, OnlineUsers, Seen, Span, StoreResult, UserPresence,
    Whereabouts,
};

impl MemoryStore {
    pub(crate) fn user_slice(&self, slice: u32) -> parking_lot::MutexGuard<'_, UserSlice> {
        let place = slice.saturating_sub(1) % USERS_SLICES;
        self.user_slices[place as usize].lock()
    }
}

#[async_trait]
impl LastSeen for MemoryStore {
    async fn fix_seen_ids(&self, ids: SeenIds) -> StoreResult<SeenIds> {
        Ok(ids)
    }

    async fn note_seen(
        &self,
        seen: &[(UserId, UnixMillis)],
        apart: Duration,
    ) -> StoreResult<Vec<(UserId, UnixMillis)>> {
        let mut unchanged = Vec::new();
        for (user, at) in seen {
            let slice = user.slice_index(USERS_SLICES);
            let mut known = self.user_slice(slice);
            if self.online_slice(slice, |online| online.contains(Group::All, user)) {
                known.forget(user);
            } else if let Some(at_before) = known.note(user, *at, apart) {
                unchanged.push((user.clone(), at_before));
            }
        }
        Ok(unchanged)
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
        let old: Vec<UserId> = known
            .by_time
            .iter()
            .take_while(|(at, _)| *at < before)
            .take(MAX_BATCH)
            .map(|(_, user)| user.clone())
            .collect();
        for user in &old {
            known.forget(user);
        }
        Ok(old.len() as u64)
    }
}

#[async_trait]
impl OnlineUsers for MemoryStore {
    async fn count_online(&self, span: Span) -> StoreResult<OnlineCount> {
        let mut count = OnlineCount::default();
        for slice in 1..=USERS_SLICES {
            let known = self.user_slice(slice);
            count.online += self.online_slice(slice, |online| online.card(Group::All));
            count.seen += known.count(span);
        }
        Ok(count)
    }

    async fn presence_of(&self, users: &[UserId]) -> StoreResult<Vec<UserPresence>> {
        let mut presences = Vec::with_capacity(users.len());
        for user in users {
            let slice = user.slice_index(USERS_SLICES);
            let known = self.user_slice(slice);
            presences.push(self.online_slice(slice, |online| {
                if online.contains(Group::All, user) {
                    UserPresence {
                        online: true,
                        last_seen: None,
                        lives: online.whereabouts_of(user),
                    }
                } else {
                    UserPresence {
                        online: false,
                        last_seen: known.seen.get(user).copied(),
                        lives: Vec::new(),
                    }
                }
            }));
        }
        Ok(presences)
    }

    async fn whereabouts_of(&self, users: &[UserId]) -> StoreResult<Vec<Whereabouts>> {
        let mut whereabouts = Vec::with_capacity(users.len());
        for user in users {
            let slice = user.slice_index(USERS_SLICES);
            whereabouts.push(self.online_slice(slice, |online| online.whereabouts_of(user)));
        }
        Ok(whereabouts)
    }
}
