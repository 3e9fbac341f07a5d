//! The events that the sender has read and not delivered, each subject's in order. Pure state: times
//! come in, decisions go out. A subject is what an event is about, nearly always a live.
//!
//! Of each subject, one event at a time is sent: the oldest. While it fails, the later events of that
//! subject wait behind it, and events of others do not. The number of held events is bounded
//! ([`Backlog::room`]).

use std::collections::{BTreeSet, HashMap, VecDeque};

use crate::base::backoff::Backoff;
use crate::base::clock::{Millis, Moment};
use crate::store::{About, EntryId, Event, MAX_EVENTS};

/// The most events held, and their bytes. The last read may exceed the bytes by as many events as
/// one read has.
const MOST_HELD: usize = 4_000;
const MOST_BYTES: usize = 16 * 1024 * 1024;

/// The most events of one subject.
const MOST_OF_A_SUBJECT: usize = 1_000;

/// How long a subject waits after a failure.
const BACKOFF: Backoff = Backoff {
    first: 500,
    longest: 60_000,
};

/// A subject may have to make room for others if none of its events arrived for this time, in ms,
/// although they were sent.
const HOPELESS_AFTER: Millis = 60_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum QueueState {
    Ready,
    /// The oldest event is being sent.
    Sending,
    /// The oldest event failed, and is sent again at this time.
    Waiting(Moment),
    /// The receiver asked for no event of the subject until this time.
    Resting(Moment),
}

impl QueueState {
    /// When the oldest event is sent, if that is a matter of time.
    fn wakes_at(self) -> Option<Moment> {
        match self {
            Self::Waiting(at) | Self::Resting(at) => Some(at),
            Self::Ready | Self::Sending => None,
        }
    }
}

#[derive(Debug)]
struct SendQueue {
    events: VecDeque<(EntryId, Event)>,
    /// How often the oldest event failed.
    failures: u32,
    /// Since when no event of the subject has arrived, although some were sent.
    failing_since: Option<Moment>,
    state: QueueState,
}

impl SendQueue {
    /// Whether nothing of the subject has arrived for long, although it was sent.
    fn is_hopeless(&self, now: Moment) -> bool {
        match self.failing_since {
            Some(since) => since + HOPELESS_AFTER <= now,
            None => false,
        }
    }
}

/// An event that the others of its subject wait behind.
#[derive(Debug)]
pub(crate) struct HeldBack {
    pub(crate) entry: EntryId,
    pub(crate) event: Event,
    /// How often it failed.
    pub(crate) failures: u32,
}

#[derive(Debug, Default)]
pub(crate) struct Backlog {
    subjects: HashMap<About, SendQueue>,
    ready: VecDeque<About>,
    waiting: BTreeSet<(Moment, About)>,
    held: usize,
    bytes: usize,
}

impl Backlog {
    /// How many more events may be read; 0 if too many are held, all in all or of one subject.
    pub(crate) fn room(&self) -> usize {
        if self.bytes >= MOST_BYTES || self.longest_queue() >= MOST_OF_A_SUBJECT {
            return 0;
        }
        MOST_HELD.saturating_sub(self.held).min(MAX_EVENTS)
    }

    fn longest_queue(&self) -> usize {
        self.subjects
            .values()
            .map(|queue| queue.events.len())
            .max()
            .unwrap_or(0)
    }

    pub(crate) fn push(&mut self, entry: EntryId, event: Event) {
        let about = event.about.clone();
        let queue = self.subjects.entry(about.clone()).or_insert_with(|| {
            self.ready.push_back(about);
            SendQueue {
                events: VecDeque::new(),
                failures: 0,
                failing_since: None,
                state: QueueState::Ready,
            }
        });
        self.held += 1;
        self.bytes += event.data.len();
        queue.events.push_back((entry, event));
    }

    /// The next event to send now, if any.
    pub(crate) fn next(&mut self, now: Moment) -> Option<(EntryId, Event)> {
        while let Some((at, _)) = self.waiting.first()
            && *at <= now
            && let Some((_, about)) = self.waiting.pop_first()
        {
            if let Some(queue) = self.subjects.get_mut(&about) {
                queue.state = QueueState::Ready;
                self.ready.push_back(about);
            }
        }
        let about = self.ready.pop_front()?;
        let queue = self.subjects.get_mut(&about)?;
        queue.state = QueueState::Sending;
        queue.events.front().cloned()
    }

    /// When [`Self::next`] may have another event, although nothing is delivered or read.
    pub(crate) fn next_at(&self) -> Option<Moment> {
        if !self.ready.is_empty() {
            return Some(Moment::START);
        }
        let (at, _) = self.waiting.first()?;
        Some(*at)
    }

    /// How often the oldest event of this subject failed.
    pub(crate) fn failures(&self, about: &About) -> u32 {
        match self.subjects.get(about) {
            Some(queue) => queue.failures,
            None => 0,
        }
    }

    /// The oldest event of this subject arrived.
    pub(crate) fn arrived(&mut self, about: &About, entry: EntryId) {
        if self.done(about, entry)
            && let Some(queue) = self.subjects.get_mut(about)
        {
            queue.failing_since = None;
        }
    }

    /// The oldest event of this subject was given up.
    pub(crate) fn gave_up(&mut self, about: &About, entry: EntryId) {
        self.done(about, entry);
    }

    /// False if it was not the oldest event of this subject.
    fn done(&mut self, about: &About, entry: EntryId) -> bool {
        let Some(queue) = self.subjects.get_mut(about) else {
            return false;
        };
        match queue.events.front() {
            Some((oldest, _)) if *oldest == entry => {}
            _ => return false,
        }
        if let Some((_, event)) = queue.events.pop_front() {
            self.held -= 1;
            self.bytes -= event.data.len();
        }
        queue.failures = 0;
        let is_empty = queue.events.is_empty();
        if !is_empty && matches!(queue.state, QueueState::Ready | QueueState::Resting(_)) {
            return true;
        }
        if let Some(at) = queue.state.wakes_at() {
            self.waiting.remove(&(at, about.clone()));
        }
        if is_empty {
            self.subjects.remove(about);
        } else {
            queue.state = QueueState::Ready;
            self.ready.push_back(about.clone());
        }
        true
    }

    /// The oldest event of this subject failed and is sent again after a while; `jitter` is from 0 to
    /// 1. Returns how often it failed.
    pub(crate) fn failed(&mut self, about: &About, now: Moment, jitter: f64) -> u32 {
        let Some(queue) = self
            .subjects
            .get_mut(about)
            .filter(|queue| queue.state == QueueState::Sending)
        else {
            return 0;
        };
        let at = now + BACKOFF.jittered(queue.failures, jitter);
        queue.failures += 1;
        queue.failing_since.get_or_insert(now);
        queue.state = QueueState::Waiting(at);
        self.waiting.insert((at, about.clone()));
        queue.failures
    }

    /// The receiver asked for no event of this subject during `wait`, in ms. The subject's oldest event
    /// has just failed. If that is given up, the next one waits all the same.
    pub(crate) fn leave_alone(&mut self, about: &About, now: Moment, wait: Millis) {
        let Some(queue) = self.subjects.get_mut(about) else {
            return;
        };
        let QueueState::Waiting(before) = queue.state else {
            return;
        };
        let at = now + wait;
        if at > before {
            self.waiting.remove(&(before, about.clone()));
            self.waiting.insert((at, about.clone()));
            queue.state = QueueState::Resting(at);
        }
    }

    /// The oldest event of the subject that holds back the most events, among the subjects of which no
    /// event has arrived for long.
    pub(crate) fn most_held_back(&self, now: Moment) -> Option<HeldBack> {
        let mut longest: Option<&SendQueue> = None;
        for (_, about) in &self.waiting {
            let Some(queue) = self.subjects.get(about) else {
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
    pub(crate) fn oldest(&self) -> Option<EntryId> {
        self.subjects
            .values()
            .filter_map(|queue| queue.events.front())
            .map(|(entry, _)| *entry)
            .min()
    }
}

#[cfg(test)]
mod tests;
