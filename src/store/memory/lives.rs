//! Owns the records of lives in the embedded store, the list of the open ones and the sweeper's turn. One small lock:
//! a live is opened, closed and touched rarely.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::ops::Bound;
use std::time::Duration;

use async_trait::async_trait;

use super::{KEEP_CLOSED_LIVE, MemoryStore};
use crate::clock::{Millis, UnixMillis, millis};
use crate::ids::{Epoch, GatewayId, LiveId, SliceId};
use crate::store::removals::Book;
use crate::store::{
    CloseLive, CloseReply, Closure, ListedLive, LiveRecord, LiveState, Lives, OpenLive, OpenReply, Peaks, Renewal,
    Slices, Standing, StoreResult, TouchLive,
};

/// A record, and when its streamer was last heard.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) record: LiveRecord,
    streamer_seen: UnixMillis,
    /// Who was sent out in this epoch.
    pub(super) book: Book,
}

impl Kept {
    /// For how long no gateway has heard the streamer, in ms.
    pub(super) fn silent(&self, now: UnixMillis) -> Millis {
        now.saturating_sub(self.streamer_seen)
    }
}

/// Every record of the store.
#[derive(Debug, Default)]
pub(super) struct Records {
    pub(super) kept: HashMap<LiveId, Kept>,
    listed: BTreeSet<(UnixMillis, LiveId)>,
    /// Closed lives in the order in which they are due to be forgotten.
    closed: VecDeque<(UnixMillis, LiveId, Epoch)>,
    turn: Option<(GatewayId, UnixMillis)>,
}

impl Records {
    fn open(&mut self, wish: &OpenLive, floor: Epoch, now: UnixMillis) -> OpenReply {
        self.forget(now);
        let last = self.kept.get(&wish.live).map(|kept| &kept.record);
        if let Some(record) = last.filter(|r| r.state != LiveState::Closed) {
            let record = record.clone();
            return match record.state {
                _ if record.streamer != wish.streamer => OpenReply::Owned(record),
                LiveState::Open => OpenReply::AlreadyOpen(record),
                LiveState::Closing | LiveState::Closed => OpenReply::Closing(record),
            };
        }
        let record = LiveRecord {
            live: wish.live.clone(),
            state: LiveState::Open,
            streamer: wish.streamer.clone(),
            epoch: Epoch(last.map_or(floor, |r| r.epoch.max(floor)).0 + 1),
            slices: wish.slices,
            opened_at: now,
            opened_by: wish.by,
            peaks: Peaks::default(),
            closure: None,
            removals: 0,
        };
        self.listed.insert((now, wish.live.clone()));
        self.kept.insert(wish.live.clone(), Kept { record: record.clone(), streamer_seen: now, book: Book::default() });
        OpenReply::Opened(record)
    }

    fn touch(&mut self, touch: &TouchLive, now: UnixMillis) -> Standing {
        let told = &touch.record;
        // Epochs only grow: a record of an older one is a record that was lost and came back from a backup.
        let known = self.kept.get_mut(&told.live).filter(|kept| kept.record.epoch >= told.epoch);
        let Some(kept) = known else {
            let mut book = Book::default();
            book.leap_over(told.removals);
            let record = LiveRecord { state: LiveState::Open, closure: None, removals: book.last(), ..told.clone() };
            self.listed.insert((record.opened_at, record.live.clone()));
            self.kept.insert(told.live.clone(), Kept { record, streamer_seen: now, book });
            return Standing::Rewritten;
        };
        if kept.record.state != LiveState::Open || kept.record.epoch != told.epoch {
            return Standing::Over(kept.record.clone());
        }
        kept.record.peaks = kept.record.peaks.max(told.peaks);
        if touch.streamer_heard {
            kept.streamer_seen = now;
        }
        let streamer_silent = Duration::from_millis(now.saturating_sub(kept.streamer_seen));
        if touch.relist {
            let opened_at = kept.record.opened_at;
            self.listed.insert((opened_at, told.live.clone()));
        }
        kept.book.leap_over(told.removals);
        kept.record.removals = kept.book.last();
        Standing::Open { streamer_silent, removals: kept.record.removals }
    }

    /// See [`crate::store::Renewals`].
    pub(super) fn renew(&mut self, expected: &Renewal, now: UnixMillis) -> bool {
        let Some(kept) = self.kept.get_mut(&expected.live) else { return false };
        let LiveRecord { state, epoch, removals, .. } = kept.record;
        let same = (state, epoch, removals) == (LiveState::Open, expected.epoch, expected.removals);
        if same && expected.streamer_heard {
            kept.streamer_seen = now;
        }
        if let Some(opened_at) = expected.relist.filter(|_| same) {
            self.listed.insert((opened_at, expected.live.clone()));
        }
        same
    }

    fn begin_close(&mut self, wish: &CloseLive, now: UnixMillis) -> CloseReply {
        let Some(Kept { record, book, .. }) = self.kept.get_mut(&wish.live) else { return CloseReply::Absent };
        if wish.epoch != record.epoch {
            return CloseReply::OtherEpoch(record.clone());
        }
        if record.state == LiveState::Closed {
            return CloseReply::Closed(record.clone());
        }
        record.state = LiveState::Closing;
        *book = Book::numbered_from(record.removals);
        record.closure.get_or_insert(Closure { reason: wish.reason, at: now });
        record.peaks = record.peaks.max(wish.peaks);
        CloseReply::Closing(record.clone())
    }

    fn finish_close(&mut self, live: &LiveId, epoch: Epoch, now: UnixMillis) -> Option<LiveRecord> {
        self.forget(now);
        let record = &mut self.kept.get_mut(live)?.record;
        if record.state == LiveState::Closing && record.epoch == epoch {
            record.state = LiveState::Closed;
            self.closed.push_back((now + millis(KEEP_CLOSED_LIVE), live.clone(), epoch));
            self.listed.remove(&(record.opened_at, live.clone()));
        }
        Some(record.clone())
    }

    /// Drops closed records that are due; each call pays for at most two.
    fn forget(&mut self, now: UnixMillis) {
        for _ in 0..2 {
            if self.closed.front().is_none_or(|(at, ..)| *at > now) {
                return;
            }
            let Some((_, live, epoch)) = self.closed.pop_front() else { return };
            let over = |kept: &Kept| kept.record.epoch == epoch && kept.record.state == LiveState::Closed;
            if self.kept.get(&live).is_some_and(over) {
                self.kept.remove(&live);
            }
        }
    }
}

#[async_trait]
impl Lives for MemoryStore {
    async fn open_live(&self, wish: &OpenLive) -> StoreResult<OpenReply> {
        let mut floor = Epoch(0);
        for slice in SliceId::all(&wish.live, wish.slices) {
            floor = floor.max(self.fence(&slice).await?.unwrap_or(floor));
        }
        let now = self.now();
        Ok(self.lives.lock().open(wish, floor, now))
    }

    async fn load_live(&self, live: &LiveId) -> StoreResult<Option<LiveRecord>> {
        Ok(self.lives.lock().kept.get(live).map(|kept| kept.record.clone()))
    }

    async fn touch_live(&self, touch: &TouchLive) -> StoreResult<Standing> {
        let now = self.now();
        Ok(self.lives.lock().touch(touch, now))
    }

    async fn streamer_silent(&self, live: &LiveId) -> StoreResult<Option<Duration>> {
        let now = self.now();
        let lives = self.lives.lock();
        let open = lives.kept.get(live).filter(|kept| kept.record.state == LiveState::Open);
        Ok(open.map(|kept| Duration::from_millis(kept.silent(now))))
    }

    async fn begin_close(&self, wish: &CloseLive) -> StoreResult<CloseReply> {
        let now = self.now();
        Ok(self.lives.lock().begin_close(wish, now))
    }

    async fn finish_close(&self, live: &LiveId, epoch: Epoch) -> StoreResult<Option<LiveRecord>> {
        let now = self.now();
        Ok(self.lives.lock().finish_close(live, epoch, now))
    }

    async fn lives_page(&self, after: Option<&ListedLive>, limit: usize) -> StoreResult<Vec<ListedLive>> {
        let from = after.map_or(Bound::Unbounded, |last| Bound::Excluded((last.opened_at, last.live.clone())));
        let lives = self.lives.lock();
        let page = lives.listed.range((from, Bound::Unbounded)).take(limit);
        Ok(page.map(|(opened_at, live)| ListedLive { live: live.clone(), opened_at: *opened_at }).collect())
    }

    async fn delist(&self, live: &LiveId) -> StoreResult<()> {
        let mut lives = self.lives.lock();
        let over = lives.kept.get(live).is_none_or(|kept| kept.record.state == LiveState::Closed);
        if over {
            lives.listed.retain(|(_, listed)| listed != live);
        }
        Ok(())
    }

    async fn take_sweeper_turn(&self, gateway: &GatewayId, ttl: Duration) -> StoreResult<bool> {
        let now = self.now();
        let mut lives = self.lives.lock();
        let taken = lives.turn.as_ref().is_some_and(|(holder, until)| holder != gateway && *until > now);
        if !taken {
            lives.turn = Some((gateway.clone(), now + millis(ttl)));
        }
        Ok(!taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::UserId;
    use crate::store::{CloseReason, OpenedBy};

    fn wish(name: &str) -> OpenLive {
        let (live, streamer) = (LiveId::parse(name).unwrap(), UserId::parse("s1").unwrap());
        OpenLive { live, streamer, slices: 1, by: OpenedBy::Service }
    }

    fn open_and_close(records: &mut Records, name: &str, now: UnixMillis) -> Epoch {
        let OpenReply::Opened(record) = records.open(&wish(name), Epoch(0), now) else { panic!("not opened") };
        let live = record.live.clone();
        let end = CloseLive {
            live: live.clone(),
            epoch: record.epoch,
            reason: CloseReason::Requested,
            peaks: Peaks::default(),
        };
        records.begin_close(&end, now);
        records.finish_close(&live, record.epoch, now);
        record.epoch
    }

    #[test]
    fn closed_records_are_forgotten_after_their_time_and_not_before() {
        let keep = millis(KEEP_CLOSED_LIVE);
        let mut records = Records::default();
        open_and_close(&mut records, "1", 0);
        open_and_close(&mut records, "2", keep - 1);
        assert_eq!(records.kept.len(), 2);
        open_and_close(&mut records, "3", keep);
        assert!(!records.kept.contains_key("1") && records.kept.contains_key("2"));
    }

    #[test]
    fn a_live_that_opened_again_is_not_forgotten_with_its_last_epoch() {
        let keep = millis(KEEP_CLOSED_LIVE);
        let mut records = Records::default();
        open_and_close(&mut records, "1", 0);
        assert_eq!(open_and_close(&mut records, "1", 5), Epoch(2));
        records.forget(keep);
        assert!(records.kept.contains_key("1"));
        records.forget(keep + 5);
        assert!(records.kept.is_empty() && records.closed.is_empty() && records.listed.is_empty());
    }
}
