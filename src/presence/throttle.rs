//! Decides how often the figures of a live go out to its dashboards: throttled, never debounced.
//! Pure.
//!
//! The first change, and any change to or from zero, goes out at once. Later changes go out at most
//! once per [`GAP`], the newest always within it.

use super::figures::{Figures, Quality};
use super::room_stream::ShownStream;
use crate::base::clock::{Millis, Moment};
use crate::store::Arrived;

/// The least time between two counts of one live, in ms.
pub const GAP: Millis = 500;

/// The least time between two counts of one live if a figure changed to or from zero, in ms. It
/// bounds the cost of a viewer who keeps joining and leaving.
pub const ZERO_GAP: Millis = 50;

#[derive(Debug, Default)]
pub struct Throttle {
    sent: Option<Shown>,
    /// A dashboard that began to watch got other figures than `sent`.
    forced: bool,
    /// The time since which figures other than `sent` wait.
    waiting: Option<Moment>,
    /// How long the figures sent last had waited.
    lag: Millis,
}

/// Figures for dashboards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shown {
    /// Unique within a live.
    pub at: Moment,
    pub figures: Figures,
    /// Viewers who are away.
    pub away: u64,
    /// Viewers who watch.
    pub watching: u64,
    /// Viewers whom a back end confirmed within the last minute.
    pub confirmed: u64,
    /// The numbers of users who came and left. A change of these alone goes out with the next
    /// change of the others.
    pub arrived: Arrived,
    pub stream: Option<ShownStream>,
    pub quality: Quality,
}

impl Shown {
    /// Whether clients would see no difference.
    pub fn is_same(&self, other: &Self) -> bool {
        Self {
            at: other.at,
            arrived: other.arrived,
            ..*self
        } == *other
    }
}

/// The decision about a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThrottleStep {
    Nothing,
    Send,
    /// Look again at this time.
    At(Moment),
}

impl Throttle {
    /// Decides whether to send the figures, and notes them if so.
    pub fn step(&mut self, next: Shown) -> ThrottleStep {
        let Shown {
            at: now,
            figures,
            quality,
            ..
        } = next;
        let Some(shown) = self.sent else {
            return self.send(next);
        };
        if shown.is_same(&next) && !self.forced {
            self.waiting = None;
            return ThrottleStep::Nothing;
        }
        self.waiting.get_or_insert(now);
        let is_urgent = crosses_zero(shown.figures.viewers, figures.viewers)
            || crosses_zero(shown.figures.fans, figures.fans)
            || shown.quality != quality
            || shown.stream != next.stream;
        let due = shown.at + if is_urgent { ZERO_GAP } else { GAP };
        if now < due {
            return ThrottleStep::At(due);
        }
        self.send(next)
    }

    fn send(&mut self, next: Shown) -> ThrottleStep {
        self.lag = match self.waiting.take() {
            Some(since) => next.at.since(since),
            None => 0,
        };
        self.sent = Some(next);
        self.forced = false;
        ThrottleStep::Send
    }

    /// How long the figures sent last had waited, in ms.
    pub fn lag(&self) -> Millis {
        self.lag
    }

    /// Notes that a dashboard began to watch and got these figures. True if the dashboards need
    /// figures again.
    pub fn note_first(&mut self, first: Shown) -> bool {
        match self.sent {
            // No dashboard got figures before, so the next change is the first and goes out at
            // once.
            None => {
                self.sent = Some(Shown {
                    at: first.at - GAP,
                    ..first
                })
            }
            Some(shown) => self.forced |= !shown.is_same(&first),
        }
        self.forced
    }

    /// Makes figures go out to the dashboards again even if they stay the same.
    pub fn force(&mut self) {
        self.forced = true;
    }

    pub fn shown(&self) -> Option<Shown> {
        self.sent
    }
}

/// Whether a figure changed to or from zero.
fn crosses_zero(before: u64, after: u64) -> bool {
    (before == 0) != (after == 0)
}

#[cfg(test)]
mod tests;
