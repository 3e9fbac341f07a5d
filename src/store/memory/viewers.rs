//! Owns the viewers per gateway in the embedded store. There is one gateway, so this is the model more than a need.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use async_trait::async_trait;

use super::{KEEP_CLOSED_FENCE, MemoryStore};
use crate::clock::{UnixMillis, millis};
use crate::ids::{Epoch, GatewayId, LiveId};
use crate::store::viewers::Board;
use crate::store::{OwnLeases, SayViewers, StoreResult, Viewers, ViewersReply};

/// The boards of all lives, and the closed ones in the order in which they are due to be forgotten.
#[derive(Debug, Default)]
pub(super) struct Boards {
    by_live: HashMap<LiveId, Board>,
    closed: VecDeque<(UnixMillis, LiveId, Epoch)>,
}

impl Boards {
    fn of(&mut self, live: &LiveId) -> &mut Board {
        self.by_live.entry(live.clone()).or_default()
    }

    /// See [`crate::store::Renewals`].
    pub(super) fn renew(
        &mut self,
        live: &LiveId,
        gateway: &GatewayId,
        (viewers, number): (u64, u64),
        now: UnixMillis,
    ) -> bool {
        self.by_live.get_mut(live).is_some_and(|board| board.renew(gateway, viewers, number, now))
    }

    /// Each close pays for at most two others.
    fn forget_later(&mut self, live: &LiveId, epoch: Epoch, now: UnixMillis) {
        self.closed.push_back((now + millis(KEEP_CLOSED_FENCE), live.clone(), epoch));
        for _ in 0..2 {
            if self.closed.front().is_none_or(|(at, ..)| *at > now) {
                return;
            }
            let Some((_, live, epoch)) = self.closed.pop_front() else { return };
            if self.by_live.get(&live).is_some_and(|board| board.is_closed_in(epoch)) {
                self.by_live.remove(&live);
            }
        }
    }
}

#[async_trait]
impl Viewers for MemoryStore {
    async fn say_viewers(&self, say: &SayViewers) -> StoreResult<ViewersReply> {
        let now = self.now();
        Ok(self.boards.lock().of(&say.live).say(say, &self.own_leases.lock(), now))
    }

    async fn view_viewers(&self, live: &LiveId, epoch: Epoch, keep: Duration) -> StoreResult<ViewersReply> {
        let now = self.now();
        Ok(match self.boards.lock().by_live.get_mut(live) {
            Some(board) => board.view(epoch, keep, &self.own_leases.lock(), now),
            None => Board::default().view(epoch, keep, &OwnLeases::default(), now),
        })
    }

    async fn forget_viewers(&self, live: &LiveId, gateway: &GatewayId, number: u64) -> StoreResult<()> {
        let now = self.now();
        if let Some(board) = self.boards.lock().by_live.get_mut(live) {
            board.forget(gateway, number, now);
        }
        Ok(())
    }

    async fn close_viewers(&self, live: &LiveId, epoch: Epoch) -> StoreResult<()> {
        let now = self.now();
        let mut boards = self.boards.lock();
        if boards.of(live).close(epoch) {
            boards.forget_later(live, epoch, now);
        }
        Ok(())
    }
}
