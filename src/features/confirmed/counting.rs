//! Confirms viewers, counts them again while there are any, and tells the other gateways. While nobody
//! is confirmed, it does nothing and asks nothing.
//!
//! Every gateway that holds a live with confirmed viewers would ask the store about a second after the
//! last news. The first one does, and tells the others, so about one gateway asks, and another goes on
//! if that one is gone. A message that is lost, or comes late, is made up for by the next one.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::{StreamExt, stream};
use tokio_util::sync::CancellationToken;

use crate::base::ids::{SliceId, UserId};
use crate::features::confirmed::store::ConfirmationStore;
use crate::peers::core::Core;
use crate::presence::Room;
use crate::presence::confirmed::SliceConfirmed;
use crate::store::{LiveRecord, StoreResult};

/// Maximum calls about one live at the same time.
const MAX_CONCURRENT_CALLS: usize = 16;

/// Maximum lives that are counted at the same time.
const MAX_CONCURRENT_LIVES: usize = 16;

pub(crate) struct ConfirmedCounter {
    pub(crate) core: Arc<Core>,
    pub(crate) store: Arc<dyn ConfirmationStore>,
}

impl ConfirmedCounter {
    pub(crate) async fn run(self: Arc<Self>, stop: CancellationToken) {
        let mut rooms: Vec<Arc<Room>> = Vec::new();
        loop {
            let next = rooms
                .iter()
                .filter_map(|room| room.confirmed.ask_at())
                .min();
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.core.rooms.confirmed.wait() => {}
                () = self.core.clock.sleep_until(next.unwrap_or_default()), if next.is_some() => {}
            }
            rooms.extend(self.core.rooms.confirmed.take());
            let now = self.core.clock.now();
            let mut due = rooms.clone();
            due.retain(|room| room.confirmed.ask_at().is_some_and(|at| at <= now));
            stream::iter(due)
                .for_each_concurrent(MAX_CONCURRENT_LIVES, |room| self.count_again(room))
                .await;
            rooms.retain(|room| self.goes_on(room));
        }
    }

    async fn count_again(&self, room: Arc<Room>) {
        let slices = room.confirmed.slices();
        let nobody = slices.into_iter().map(|slice| (slice, Vec::new()));
        if let Err(why) = self.ask(&room.record, nobody.collect()).await {
            tracing::debug!(
                live_id = %room.record.live, error = %why,
                "confirmed viewers were not counted, will try again"
            );
            room.confirmed.put_off(self.core.clock.now());
        }
    }

    /// Whether this task must look after a room. The mark goes before the look, so that later news
    /// queue the room again.
    fn goes_on(&self, room: &Room) -> bool {
        if room.end().is_some() {
            return false;
        }
        if room.confirmed.ask_at().is_some() {
            return true;
        }
        room.schedule.confirmed_queued.clear();
        room.confirmed.ask_at().is_some()
    }

    /// Confirms those of these users who are in the open live, and answers how many viewers are
    /// confirmed then.
    pub(crate) async fn confirm(
        &self,
        record: &LiveRecord,
        users: Vec<UserId>,
    ) -> StoreResult<u64> {
        let mut by_slice: BTreeMap<u32, Vec<UserId>> = BTreeMap::new();
        for user in users {
            let slice = user.slice_index(record.slices);
            by_slice.entry(slice).or_default().push(user);
        }
        let room = self.core.rooms.of_epoch(record);
        if room.is_none() {
            // This gateway was not told of the other slices.
            for slice in 1..=record.slices {
                by_slice.entry(slice).or_default();
            }
        }
        let viewers = self.ask(record, by_slice).await?;
        Ok(room.map_or(viewers, |room| room.confirmed.viewers()))
    }

    /// Makes one call for each of these slices, and tells all gateways the answers. Answers the sum.
    async fn ask(
        &self,
        record: &LiveRecord,
        by_slice: BTreeMap<u32, Vec<UserId>>,
    ) -> StoreResult<u64> {
        let calls = by_slice.into_iter().map(|(index, users)| async move {
            let slice = SliceId::of_live(record.live.clone(), index, record.slices);
            self.store.confirm(&slice, record.epoch, &users).await
        });
        let calls: Vec<_> = calls.collect();
        let mut answers = stream::iter(calls).buffer_unordered(MAX_CONCURRENT_CALLS);
        let mut said = Vec::new();
        let mut failure = None;
        while let Some(answer) = answers.next().await {
            match answer {
                Ok(slice) => said.push(slice),
                Err(why) => failure = Some(why),
            }
        }
        let viewers = said.iter().map(|slice| slice.viewers).sum();
        self.tell(record, said);
        match failure {
            Some(why) => Err(why),
            None => Ok(viewers),
        }
    }

    fn tell(&self, record: &LiveRecord, said: Vec<SliceConfirmed>) {
        let mut is_news = said.iter().any(|slice| slice.kept > 0);
        if let Some(room) = self.core.rooms.of_epoch(record) {
            is_news |= room.confirmed.ask_at().is_some();
            let now = self.core.clock.now();
            self.core.rooms.note_confirmed(&room, &said, now);
        }
        if is_news {
            self.core.to_peers.confirmed(&record.live_epoch(), said);
        }
    }
}
