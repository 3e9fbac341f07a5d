//! Reads several timelines as one, newest first. A status that is in several of them comes once.

use std::collections::{BinaryHeap, VecDeque};

use crate::store::{Entry, MAX_TIMELINE, Store, StoreResult, Timeline};

/// Entries that are read of a timeline at a time, at least.
const FEWEST: usize = 10;

/// A timeline, as far as it was read.
struct Source {
    timeline: Timeline,
    read: VecDeque<Entry>,
    last: Option<Entry>,
    at_end: bool,
}

/// Several timelines that are read as one.
pub(in crate::store) struct Merged<'a> {
    store: &'a dyn Store,
    sources: Vec<Source>,
    /// The next entry of each source, with the source's place.
    heads: BinaryHeap<(Entry, usize)>,
    a_time: usize,
}

impl<'a> Merged<'a> {
    /// The timelines after this entry. A caller that wants `limit` entries reads little more than
    /// these.
    pub(in crate::store) async fn open(
        store: &'a dyn Store,
        timelines: Vec<Timeline>,
        after: Option<&Entry>,
        limit: usize,
    ) -> StoreResult<Self> {
        let a_time: usize = if timelines.len() > 1 {
            (limit * 2 / timelines.len()).clamp(FEWEST, limit.max(FEWEST))
        } else {
            limit
        };
        let a_time = a_time.min(MAX_TIMELINE);
        let source = |timeline| Source {
            timeline,
            read: VecDeque::new(),
            last: after.cloned(),
            at_end: false,
        };
        let sources: Vec<Source> = timelines.into_iter().map(source).collect();
        let mut merged = Self {
            store,
            sources,
            heads: BinaryHeap::new(),
            a_time,
        };
        let all: Vec<usize> = (0..merged.sources.len()).collect();
        merged.read_on(&all).await?;
        Ok(merged)
    }

    async fn read_on(&mut self, places: &[usize]) -> StoreResult<()> {
        let asked: Vec<_> = places
            .iter()
            .map(|&at| {
                (
                    self.sources[at].timeline.clone(),
                    self.sources[at].last.clone(),
                )
            })
            .collect();
        let found = self.store.read_timelines(&asked, self.a_time).await;
        for (&place, entries) in places.iter().zip(found) {
            let (entries, source) = (entries?, &mut self.sources[place]);
            source.at_end = entries.len() < self.a_time;
            source.last = entries.last().cloned().or(source.last.take());
            source.read = entries.into();
            self.heads
                .extend(source.read.pop_front().map(|first| (first, place)));
        }
        Ok(())
    }

    /// The next entry, and a timeline that has it.
    pub(in crate::store) async fn next(&mut self) -> StoreResult<Option<(Entry, Timeline)>> {
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
    pub(in crate::store) async fn take(
        &mut self,
        most: usize,
    ) -> StoreResult<Vec<(Entry, Timeline)>> {
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
