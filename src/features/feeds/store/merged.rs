//! Reads several timelines as one, newest first. A status that is in several timelines comes once.

use std::collections::{BinaryHeap, VecDeque};

use crate::features::feeds::store::FeedStore;
use crate::features::feeds::store::statuses::TimelineEntry;
use crate::features::feeds::store::timelines::{MAX_TIMELINE, Timeline};
use crate::store::StoreResult;

/// Minimum entries per read of a timeline.
const FEWEST: usize = 10;

/// A timeline, and the entries that were read from it.
struct TimelineSource {
    timeline: Timeline,
    read: VecDeque<TimelineEntry>,
    last: Option<TimelineEntry>,
    at_end: bool,
}

/// Several timelines that are read as one.
pub(crate) struct Merged<'a> {
    store: &'a dyn FeedStore,
    sources: Vec<TimelineSource>,
    /// The next entry of each source, with the source's place.
    heads: BinaryHeap<(TimelineEntry, usize)>,
    entries_per_read: usize,
}

impl<'a> Merged<'a> {
    /// The timelines after this entry. A caller that wants `limit` entries reads little more than
    /// these.
    pub(crate) async fn open(
        store: &'a dyn FeedStore,
        timelines: Vec<Timeline>,
        after: Option<&TimelineEntry>,
        limit: usize,
    ) -> StoreResult<Self> {
        let entries_per_read: usize = if timelines.len() > 1 {
            (limit * 2 / timelines.len()).clamp(FEWEST, limit.max(FEWEST))
        } else {
            limit
        };
        let mut sources = Vec::with_capacity(timelines.len());
        for timeline in timelines {
            sources.push(TimelineSource {
                timeline,
                read: VecDeque::new(),
                last: after.cloned(),
                at_end: false,
            });
        }
        let mut merged = Self {
            store,
            sources,
            heads: BinaryHeap::new(),
            entries_per_read: entries_per_read.min(MAX_TIMELINE),
        };
        let all: Vec<usize> = (0..merged.sources.len()).collect();
        merged.read_on(&all).await?;
        Ok(merged)
    }

    /// Reads the next entries of the sources at these places.
    async fn read_on(&mut self, places: &[usize]) -> StoreResult<()> {
        let mut asked = Vec::with_capacity(places.len());
        for &place in places {
            let source = &self.sources[place];
            asked.push((source.timeline.clone(), source.last.clone()));
        }
        let found = self
            .store
            .read_timelines(&asked, self.entries_per_read)
            .await;
        for (&place, entries) in places.iter().zip(found) {
            let entries = entries?;
            let source = &mut self.sources[place];
            source.at_end = entries.len() < self.entries_per_read;
            if let Some(last) = entries.last() {
                source.last = Some(last.clone());
            }
            source.read = entries.into();
            if let Some(first) = source.read.pop_front() {
                self.heads.push((first, place));
            }
        }
        Ok(())
    }

    /// The next entry, and a timeline that has it.
    pub(crate) async fn next(&mut self) -> StoreResult<Option<(TimelineEntry, Timeline)>> {
        let Some((entry, place)) = self.heads.pop() else {
            return Ok(None);
        };
        let timeline = self.sources[place].timeline.clone();
        self.move_on(place).await?;
        while self.heads.peek().is_some_and(|(same, _)| *same == entry) {
            if let Some((_, place)) = self.heads.pop() {
                self.move_on(place).await?;
            }
        }
        Ok(Some((entry, timeline)))
    }

    /// Puts the next entry of a source on the heap.
    async fn move_on(&mut self, place: usize) -> StoreResult<()> {
        let source = &mut self.sources[place];
        match source.read.pop_front() {
            Some(next) => self.heads.push((next, place)),
            None if !source.at_end => self.read_on(&[place]).await?,
            None => {}
        }
        Ok(())
    }

    /// Up to `most` entries, each with a timeline that has it.
    pub(crate) async fn take(
        &mut self,
        most: usize,
    ) -> StoreResult<Vec<(TimelineEntry, Timeline)>> {
        let mut taken = Vec::new();
        while taken.len() < most {
            match self.next().await? {
                Some(next) => taken.push(next),
                None => break,
            }
        }
        Ok(taken)
    }
}
