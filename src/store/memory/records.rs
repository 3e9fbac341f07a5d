//! The records of lives in the embedded store, with the list of the open ones and the sweeper's
//! turn: plain data that [`super::MemoryStore`] keeps under one lock.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ops::Bound;

use crate::base::actor::Actor;
use crate::base::clock::{UnixMillis, millis};
use crate::base::ids::{Epoch, GatewayId, LiveId, UserId};
use crate::store::ERASED_KEPT;
use crate::store::LiveEpoch;
use crate::store::Point;
use crate::store::removals::RemovalLog;
use crate::store::{
    ChangeLive, ChangeReply, CloseLive, CloseReason, CloseReply, Closure, Counted, Figures,
    FinishClose, Happened, Info, ListedLive, LiveChange, LiveRecord, LiveState, MAX_RECORD_FIELDS,
    OpenLive, OpenReply, Peaks, PendingEvent, Rank, RankedLive, RecordEvents, RecordStanding, Sums,
    Uniques,
};

/// A record, and what belongs to its epoch.
#[derive(Debug, Clone)]
pub(crate) struct KeptRecord {
    pub(crate) record: LiveRecord,
    /// The number of the last event that was noted.
    pub(crate) last_event: u64,
    /// The removals.
    pub(crate) book: RemovalLog,
}

impl KeptRecord {
    fn new(record: LiveRecord, book: RemovalLog) -> Self {
        Self {
            record,
            last_event: 0,
            book,
        }
    }

    /// Whether so many events are pending that only that of the close is noted.
    pub(crate) fn is_crowded(&self) -> bool {
        self.record.events.pending.len() >= MAX_RECORD_FIELDS
    }

    /// Notes an event of the epoch. Returns false, and does nothing, if the record is crowded.
    pub(crate) fn note(&mut self, what: Happened, now: UnixMillis) -> bool {
        self.note_by(what, None, now)
    }

    /// Does the same as [`Self::note`] for an event that somebody asked for.
    pub(crate) fn note_by(&mut self, what: Happened, by: Option<Actor>, now: UnixMillis) -> bool {
        let is_noted = what == Happened::Closed || !self.is_crowded();
        if is_noted {
            self.last_event = now.max(self.last_event + 1);
            self.record.events.pending.push(PendingEvent {
                number: self.last_event,
                what,
                by,
            });
        }
        is_noted
    }
}

/// Adds the time until now in which the viewers of the last figures were there.
pub(crate) fn watched_until(now: UnixMillis, record: &mut LiveRecord, counted: Option<Counted>) {
    if let Some(Counted { figures, at }) = counted {
        record.sums.watched_ms += figures.viewers * now.saturating_sub(at);
    }
}

/// The list of open lives, each once, by the time of its opening.
#[derive(Debug, Clone, Default)]
pub(crate) struct List {
    since: HashMap<LiveId, UnixMillis>,
    /// The figures by which a live is ranked. A live without figures is ranked by zeros.
    ranked: HashMap<LiveId, Figures>,
    by_time: BTreeSet<(UnixMillis, LiveId)>,
}

impl List {
    pub(crate) fn contains(&self, live: &str) -> bool {
        self.since.contains_key(live)
    }

    pub(crate) fn put(&mut self, live: &LiveId, opened_at: UnixMillis) {
        if let Some(since) = self.since.remove(live) {
            self.by_time.remove(&(since, live.clone()));
        }
        self.since.insert(live.clone(), opened_at);
        self.by_time.insert((opened_at, live.clone()));
    }

    pub(crate) fn take(&mut self, live: &LiveId) {
        if let Some(since) = self.since.remove(live) {
            self.by_time.remove(&(since, live.clone()));
        }
        self.ranked.remove(live);
    }

    pub(crate) fn rank(&mut self, live: &LiveId, figures: Figures) {
        if self.since.contains_key(live) {
            self.ranked.insert(live.clone(), figures.ranked());
        }
    }

    pub(crate) fn ranked(&self, live: &LiveId) -> Option<Figures> {
        if !self.since.contains_key(live) {
            return None;
        }
        Some(self.ranked.get(live).copied().unwrap_or_default())
    }

    pub(crate) fn top(
        &self,
        rank: Rank,
        after: Option<&RankedLive>,
        limit: usize,
    ) -> Vec<RankedLive> {
        let mut top = Vec::new();
        for live in self.since.keys() {
            let figures = self.ranked.get(live).copied().unwrap_or_default();
            top.push(RankedLive {
                live: live.clone(),
                figure: match rank {
                    Rank::Viewers => figures.viewers,
                    Rank::Fans => figures.fans,
                },
            });
        }
        if let Some(after) = after {
            top.retain(|ranked| place_of(ranked) < place_of(after));
        }
        // The highest place comes first.
        top.sort_unstable_by(|a, b| place_of(b).cmp(&place_of(a)));
        top.truncate(limit);
        top
    }

    pub(crate) fn page(&self, after: Option<&ListedLive>, limit: usize) -> Vec<ListedLive> {
        let from = match after {
            Some(last) => Bound::Excluded((last.opened_at, last.live.clone())),
            None => Bound::Unbounded,
        };
        let page = self.by_time.range((from, Bound::Unbounded)).take(limit);
        page.map(|(opened_at, live)| ListedLive {
            live: live.clone(),
            opened_at: *opened_at,
        })
        .collect()
    }
}

/// The place of a live in a ranking.
fn place_of(ranked: &RankedLive) -> (u64, &LiveId) {
    (ranked.figure, &ranked.live)
}

/// Every record of the store.
#[derive(Debug, Clone, Default)]
pub(crate) struct Records {
    pub(crate) kept: HashMap<LiveId, KeptRecord>,
    pub(crate) listed: List,
    /// Closed epochs and their streamers, in the order in which they are due to be forgotten.
    closed: VecDeque<(UnixMillis, LiveEpoch, UserId)>,
    pub(crate) turn: Option<(GatewayId, UnixMillis)>,
    /// The points of each epoch, as long as its record is kept, or would be if the live were not
    /// open again.
    pub(crate) histories: HashMap<LiveEpoch, BTreeMap<UnixMillis, Point>>,
    /// The last epoch of each live that an erasure took away, for a day.
    erased: HashMap<LiveId, Erased>,
}

/// What is left of an epoch whose record was erased.
#[derive(Debug, Clone)]
struct Erased {
    epoch: Epoch,
    closed_at: UnixMillis,
    until: UnixMillis,
}

impl Records {
    /// Erases the records of these closed lives, with all that lies beside them. What is left keeps
    /// [`Self::keep`] from writing them again.
    pub(crate) fn erase(&mut self, lives: &[LiveId], now: UnixMillis) {
        self.erased.retain(|_, erased| erased.until > now);
        for live in lives {
            if let Some(KeptRecord { record, .. }) = self.kept.remove(live) {
                let erased = Erased {
                    epoch: record.epoch,
                    closed_at: record.closure.map_or(0, |closure| closure.at),
                    until: now + millis(ERASED_KEPT),
                };
                self.erased.insert(live.clone(), erased);
                self.closed
                    .retain(|(_, of, streamer)| of.live != *live || *streamer != record.streamer);
            }
            self.histories.retain(|of, _| of.live != *live);
        }
    }

    pub(crate) fn open(&mut self, request: &OpenLive, floor: Epoch, now: UnixMillis) -> OpenReply {
        self.forget(now);
        let last = self.kept.get(&request.live).map(|kept| &kept.record);
        if let Some(record) = last
            && record.state != LiveState::Closed
        {
            let record = record.clone();
            return match record.state {
                _ if record.streamer != request.streamer => OpenReply::Owned(record),
                LiveState::Open => OpenReply::AlreadyOpen(record),
                LiveState::Closing | LiveState::Closed => OpenReply::Closing(record),
            };
        }
        let last_epoch = match last {
            Some(record) => record.epoch.max(floor),
            None => floor,
        };
        let record = LiveRecord {
            live: request.live.clone(),
            state: LiveState::Open,
            streamer: request.streamer.clone(),
            epoch: Epoch((last_epoch.0 + 1).max(now / 1_000)),
            slices: request.slices,
            opened_at: now,
            opened_by: request.by,
            peaks: Peaks::default(),
            closure: None,
            removals: 0,
            version: 0,
            terms: request.terms.clone(),
            info: Info::default(),
            counted: None,
            sums: Sums::default(),
            events: RecordEvents::default(),
            stream: None,
        };
        self.listed.take(&request.live);
        self.listed.put(&request.live, now);
        let mut kept = KeptRecord::new(record, RemovalLog::default());
        kept.note(Happened::Opened, now);
        let record = kept.record.clone();
        self.kept.insert(request.live.clone(), kept);
        OpenReply::Opened(record)
    }

    pub(crate) fn keep(&mut self, known: &LiveRecord) -> RecordStanding {
        // Epochs only grow, so a record of an older epoch came back from a backup.
        let kept = self
            .kept
            .get_mut(&known.live)
            .filter(|kept| kept.record.epoch >= known.epoch);
        let Some(kept) = kept else {
            if let Some(erased) = self.erased.get(&known.live)
                && erased.epoch >= known.epoch
            {
                return RecordStanding::Over(LiveRecord {
                    state: LiveState::Closed,
                    closure: Some(Closure {
                        reason: CloseReason::Requested,
                        at: erased.closed_at,
                    }),
                    ..known.clone()
                });
            }
            let mut book = RemovalLog::default();
            book.leap_over(known.removals);
            let record = LiveRecord {
                state: LiveState::Open,
                closure: None,
                removals: book.last(),
                counted: None,
                sums: Sums::default(),
                events: RecordEvents::default(),
                stream: None,
                ..known.clone()
            };
            self.listed.put(&record.live, record.opened_at);
            self.kept
                .insert(known.live.clone(), KeptRecord::new(record, book));
            return RecordStanding::Rewritten;
        };
        if !kept.record.is_open_in(known.epoch) {
            return RecordStanding::Over(kept.record.clone());
        }
        kept.record.peaks = kept.record.peaks.max(known.peaks);
        kept.book.leap_over(known.removals);
        kept.record.removals = kept.book.last();
        if known.version > kept.record.version {
            kept.record.version = known.version;
            kept.record.info = known.info.clone();
            kept.record.terms = known.terms.clone();
        }
        RecordStanding::Open {
            removals: kept.record.removals,
            version: kept.record.version,
        }
    }

    pub(crate) fn change(&mut self, request: &ChangeLive, now: UnixMillis) -> ChangeReply {
        let Some(kept) = self.kept.get_mut(&request.live) else {
            return ChangeReply::Absent;
        };
        let record = &mut kept.record;
        if !record.is_open_in(request.epoch) {
            return ChangeReply::Over;
        }
        let hosts_to_be = request.change.hosts.iter().flatten();
        for host in hosts_to_be {
            if kept.book.is_banned(host, now) {
                return ChangeReply::Banned(host.clone());
            }
        }
        record.version = now.max(record.version + 1);
        let LiveChange {
            info,
            title,
            streamer_timeout,
            hosts,
        } = &request.change;
        if let Some(json) = info {
            record.info = Info {
                version: record.version,
                json: json.clone(),
            };
        }
        if let Some(title) = title {
            record.terms.title.clone_from(title);
        }
        if let Some(timeout) = streamer_timeout {
            record.terms.streamer_timeout = *timeout;
        }
        if let Some(hosts) = hosts {
            record.terms.hosts.clone_from(hosts);
        }
        ChangeReply::Changed(record.version)
    }

    pub(crate) fn begin_close(&mut self, request: &CloseLive, now: UnixMillis) -> CloseReply {
        let Some(kept) = self.kept.get_mut(&request.live) else {
            return CloseReply::Absent;
        };
        let KeptRecord { record, book, .. } = kept;
        if request.epoch != record.epoch {
            return CloseReply::OtherEpoch(record.clone());
        }
        if record.state == LiveState::Closed {
            return CloseReply::Closed(record.clone());
        }
        record.state = LiveState::Closing;
        let counted = record.counted.take();
        record.version = 0;
        record.info = Info::default();
        *book = RemovalLog::numbered_from(record.removals);
        record.peaks = record.peaks.max(request.peaks);
        if record.closure.is_none() {
            record.closure = Some(Closure {
                reason: request.reason,
                at: now,
            });
            watched_until(now, record, counted);
            record.sums.uniques = if request.uniques {
                Some(Uniques::default())
            } else {
                None
            };
            kept.note(Happened::Closed, now);
        }
        CloseReply::Closing(kept.record.clone())
    }

    pub(crate) fn finish_close(
        &mut self,
        request: &FinishClose,
        now: UnixMillis,
    ) -> Option<LiveRecord> {
        self.forget(now);
        let FinishClose {
            live,
            epoch,
            arrived,
            uniques,
            keep,
        } = request;
        let record = &mut self.kept.get_mut(live)?.record;
        if record.state == LiveState::Closing && record.epoch == *epoch {
            record.state = LiveState::Closed;
            record.sums = Sums {
                arrived: *arrived,
                uniques: *uniques,
                ..record.sums
            };
            record.events = RecordEvents::default();
            self.closed.push_back((
                now + millis(*keep),
                record.live_epoch(),
                record.streamer.clone(),
            ));
        }
        if record.state == LiveState::Closed {
            // Also if the close was finished before: the list may have lagged behind.
            self.listed.take(live);
        }
        Some(record.clone())
    }

    /// Drops closed epochs that are due, with all that is left of them; each call pays for at most
    /// two.
    fn forget(&mut self, now: UnixMillis) {
        for _ in 0..2 {
            match self.closed.front() {
                Some((due, ..)) if *due <= now => {}
                _ => return,
            }
            let Some((_, of, _)) = self.closed.pop_front() else {
                return;
            };
            self.histories.remove(&of);
            if let Some(kept) = self.kept.get(&of.live)
                && kept.record.epoch == of.epoch
                && kept.record.state == LiveState::Closed
            {
                self.kept.remove(&of.live);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::store::{Arrived, CloseReason, OpenedBy, Terms};

    const KEEP: Duration = Duration::from_secs(3_600);

    fn request(name: &str) -> OpenLive {
        let (live, streamer) = (LiveId::parse(name).unwrap(), UserId::parse("s1").unwrap());
        let (by, terms) = (OpenedBy::Service, Terms::default());
        OpenLive {
            live,
            streamer,
            slices: 1,
            by,
            terms,
            message: String::new(),
        }
    }

    fn open_and_close(records: &mut Records, name: &str, now: UnixMillis) -> Epoch {
        let OpenReply::Opened(record) = records.open(&request(name), Epoch(0), now) else {
            panic!("not opened")
        };
        let live = record.live.clone();
        let end = CloseLive {
            live: live.clone(),
            epoch: record.epoch,
            reason: CloseReason::Requested,
            peaks: Peaks::default(),
            uniques: false,
            message: String::new(),
        };
        let CloseReply::Closing(_) = records.begin_close(&end, now) else {
            panic!("not closing")
        };
        let points = records.histories.entry(record.live_epoch()).or_default();
        points.insert(
            now,
            Point {
                at: now,
                figures: Figures::default(),
                arrived: Arrived::default(),
            },
        );
        let (epoch, arrived) = (record.epoch, Arrived::default());
        records.finish_close(
            &FinishClose {
                live,
                epoch,
                arrived,
                uniques: None,
                keep: KEEP,
            },
            now,
        );
        record.epoch
    }

    #[test]
    fn closed_records_are_forgotten_after_their_time_and_not_before() {
        let keep = millis(KEEP);
        let mut records = Records::default();
        open_and_close(&mut records, "1", 0);
        open_and_close(&mut records, "2", keep - 1);
        assert_eq!(records.kept.len(), 2);
        open_and_close(&mut records, "3", keep);
        assert!(!records.kept.contains_key("1") && records.kept.contains_key("2"));
        assert_eq!(records.histories.len(), 2, "the two that are kept");
        records.forget(2 * keep);
        assert!(records.histories.is_empty());
    }

    #[test]
    fn a_live_that_opened_again_is_not_forgotten_with_its_last_epoch() {
        let keep = millis(KEEP);
        let mut records = Records::default();
        let first = open_and_close(&mut records, "1", 0);
        assert_eq!(open_and_close(&mut records, "1", 5), Epoch(first.0 + 1));
        records.forget(keep);
        assert!(records.kept.contains_key("1"));
        records.forget(keep + 5);
        assert!(
            records.kept.is_empty() && records.closed.is_empty() && !records.listed.contains("1")
        );
    }
}
