//! The events that the sender has read and not delivered, each live's in order. Pure state: times
//! come in, decisions go out.
//!
//! Of each live, one event at a time is sent: the oldest. While it fails, the later events of that
//! live wait behind it, and events of other lives do not. The number of held events is bounded
//! ([`Backlog::room`]).

use std::collections::{BTreeSet, HashMap, VecDeque};

use crate::base::backoff::Backoff;
use crate::base::clock::Millis;
use crate::base::ids::LiveId;
use crate::store::{EntryId, Event, MAX_EVENTS};

/// The most events held, and their bytes. The last read may exceed the bytes by as many events as
/// one read has.
const MOST_HELD: usize = 4_000;
const MOST_BYTES: usize = 16 * 1024 * 1024;

/// The most events of one live.
const MOST_OF_A_LIVE: usize = 1_000;

/// How long a live waits after a failure.
const BACKOFF: Backoff = Backoff {
    first: 500,
    longest: 60_000,
};

/// A live may have to make room for others if none of its events arrived for this time, in ms,
/// although they were sent.
const HOPELESS_AFTER: Millis = 60_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Ready,
    /// The oldest event is being sent.
    Sending,
    /// The oldest event failed, and is sent again at this time.
    Waiting(Millis),
}

#[derive(Debug)]
struct Queue {
    events: VecDeque<(EntryId, Event)>,
    /// How often the oldest event failed.
    failures: u32,
    /// Since when no event of the live has arrived, although some were sent.
    failing_since: Option<Millis>,
    state: State,
}

impl Queue {
    /// Whether nothing of the live has arrived for long, although it was sent.
    fn is_hopeless(&self, now: Millis) -> bool {
        match self.failing_since {
            Some(since) => since + HOPELESS_AFTER <= now,
            None => false,
        }
    }
}

/// An event that the others of its live wait behind.
#[derive(Debug)]
pub(super) struct HeldBack {
    pub(super) entry: EntryId,
    pub(super) event: Event,
    /// How often it failed.
    pub(super) failures: u32,
}

#[derive(Debug, Default)]
pub(super) struct Backlog {
    lives: HashMap<LiveId, Queue>,
    ready: VecDeque<LiveId>,
    waiting: BTreeSet<(Millis, LiveId)>,
    held: usize,
    bytes: usize,
}

impl Backlog {
    /// How many more events may be read; 0 if too many are held, all in all or of one live.
    pub(super) fn room(&self) -> usize {
        if self.bytes >= MOST_BYTES || self.longest_queue() >= MOST_OF_A_LIVE {
            return 0;
        }
        MOST_HELD.saturating_sub(self.held).min(MAX_EVENTS)
    }

    fn longest_queue(&self) -> usize {
        self.lives
            .values()
            .map(|queue| queue.events.len())
            .max()
            .unwrap_or(0)
    }

    pub(super) fn push(&mut self, entry: EntryId, event: Event) {
        let live = event.live.clone();
        let queue = self.lives.entry(live.clone()).or_insert_with(|| {
            self.ready.push_back(live);
            Queue {
                events: VecDeque::new(),
                failures: 0,
                failing_since: None,
                state: State::Ready,
            }
        });
        self.held += 1;
        self.bytes += event.data.len();
        queue.events.push_back((entry, event));
    }

    /// The next event to send now, if any.
    pub(super) fn next(&mut self, now: Millis) -> Option<(EntryId, Event)> {
        while let Some((at, _)) = self.waiting.first()
            && *at <= now
            && let Some((_, live)) = self.waiting.pop_first()
        {
            if let Some(queue) = self.lives.get_mut(&live) {
                queue.state = State::Ready;
                self.ready.push_back(live);
            }
        }
        let live = self.ready.pop_front()?;
        let queue = self.lives.get_mut(&live)?;
        queue.state = State::Sending;
        queue.events.front().cloned()
    }

    /// When [`Self::next`] may have another event, although nothing is delivered or read.
    pub(super) fn next_at(&self) -> Option<Millis> {
        if self.ready.is_empty() {
            self.waiting.first().map(|(at, _)| *at)
        } else {
            Some(0)
        }
    }

    /// The oldest event of this live arrived.
    pub(super) fn arrived(&mut self, live: &LiveId, entry: EntryId) {
        if self.done(live, entry)
            && let Some(queue) = self.lives.get_mut(live)
        {
            queue.failing_since = None;
        }
    }

    /// The oldest event of this live was given up.
    pub(super) fn gave_up(&mut self, live: &LiveId, entry: EntryId) {
        self.done(live, entry);
    }

    /// False if it was not the oldest event of this live.
    fn done(&mut self, live: &LiveId, entry: EntryId) -> bool {
        let Some(queue) = self.lives.get_mut(live) else {
            return false;
        };
        match queue.events.front() {
            Some((oldest, _)) if *oldest == entry => {}
            _ => return false,
        }
        if let State::Waiting(at) = queue.state {
            self.waiting.remove(&(at, live.clone()));
        }
        if let Some((_, event)) = queue.events.pop_front() {
            self.held -= 1;
            self.bytes -= event.data.len();
        }
        queue.failures = 0;
        if queue.events.is_empty() {
            self.lives.remove(live);
        } else if queue.state != State::Ready {
            queue.state = State::Ready;
            self.ready.push_back(live.clone());
        }
        true
    }

    /// The oldest event of this live failed and is sent again after a while; `jitter` is from 0 to
    /// 1. Returns how often it failed.
    pub(super) fn failed(&mut self, live: &LiveId, now: Millis, jitter: f64) -> u32 {
        let Some(queue) = self
            .lives
            .get_mut(live)
            .filter(|queue| queue.state == State::Sending)
        else {
            return 0;
        };
        let at = now + BACKOFF.jittered(queue.failures, jitter);
        queue.failures += 1;
        queue.failing_since.get_or_insert(now);
        queue.state = State::Waiting(at);
        self.waiting.insert((at, live.clone()));
        queue.failures
    }

    /// The receiver asked for no event of this live during `wait`, in ms. The live's oldest event
    /// has just failed. The wait is never longer than the longest back-off.
    pub(super) fn leave_alone(&mut self, live: &LiveId, now: Millis, wait: Millis) {
        let Some(queue) = self.lives.get_mut(live) else {
            return;
        };
        let State::Waiting(before) = queue.state else {
            return;
        };
        let at = now + wait.min(BACKOFF.longest);
        if at > before {
            self.waiting.remove(&(before, live.clone()));
            self.waiting.insert((at, live.clone()));
            queue.state = State::Waiting(at);
        }
    }

    /// The oldest event of the live that holds back the most events, among the lives of which no
    /// event has arrived for long.
    pub(super) fn most_held_back(&self, now: Millis) -> Option<HeldBack> {
        let mut longest: Option<&Queue> = None;
        for (_, live) in &self.waiting {
            let Some(queue) = self.lives.get(live) else {
                continue;
            };
            if !queue.is_hopeless(now) {
                continue;
            }
            // Of queues of the same length, the last one counts.
            match longest {
                Some(known) if known.events.len() > queue.events.len() => {}
                _ => longest = Some(queue),
            }
        }
        let longest = longest?;
        let (entry, event) = longest.events.front()?;
        Some(HeldBack {
            entry: *entry,
            event: event.clone(),
            failures: longest.failures,
        })
    }

    /// The oldest entry that is held.
    pub(super) fn oldest(&self) -> Option<EntryId> {
        self.lives
            .values()
            .filter_map(|queue| queue.events.front())
            .map(|(entry, _)| *entry)
            .min()
    }
}

#[cfg(test)]
mod tests;
