//! Keeps a flood out of the log: the sampler admits a few lines per second from each place in the
//! source, and counts the rest. A gateway has some hundred such places, so the state is bounded.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::atomic::AtomicU64;

use parking_lot::Mutex;
use tracing::{Level, Metadata};

use crate::base::clock::Clock;
use crate::base::gcra::Rate;

/// The target of the log's lines about itself and of panics, which no filter leaves out.
pub(super) const ABOUT: &str = "rollcall::log";

/// The rate for one place; twice as many go at once after a pause.
const LINES_PER_SECOND: u32 = 10;

/// The lines written from each place, which is a [`Site`] or the text of a panic's location.
#[derive(Debug)]
pub(super) struct LineSampler<P> {
    clock: Clock,
    places: Mutex<HashMap<P, WrittenLines>>,
}

#[derive(Debug, Default)]
struct WrittenLines {
    load: AtomicU64,
    left_out: u64,
}

impl<P> Default for LineSampler<P> {
    fn default() -> Self {
        Self {
            clock: Clock::start(),
            places: Mutex::default(),
        }
    }
}

impl<P: Eq + Hash + Clone> LineSampler<P> {
    /// Whether the log may write one more line of this place; counts the line otherwise.
    pub(super) fn admit(&self, place: P) -> bool {
        let mut places = self.places.lock();
        let written = places.entry(place).or_default();
        let admitted = Rate::per_second(LINES_PER_SECOND).admit(&written.load, self.clock.now());
        if !admitted {
            written.left_out += 1;
        }
        admitted
    }

    /// The places whose lines the sampler left out since the last call, each with their number.
    pub(super) fn left_out(&self) -> Vec<(P, u64)> {
        let mut left_out = Vec::new();
        for (place, written) in self.places.lock().iter_mut() {
            if written.left_out > 0 {
                left_out.push((place.clone(), std::mem::take(&mut written.left_out)));
            }
        }
        left_out
    }
}

/// The place of a log line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Site(pub(super) &'static Metadata<'static>);

impl PartialEq for Site {
    fn eq(&self, other: &Self) -> bool {
        self.0.callsite() == other.0.callsite()
    }
}

impl Eq for Site {}

impl Hash for Site {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.callsite().hash(state);
    }
}

impl LineSampler<Site> {
    /// Logs how many lines the sampler left out since the last report.
    pub(super) fn report(&self) {
        for (Site(line), left_out) in self.left_out() {
            let file = line.file().unwrap_or_default();
            let number = line.line().unwrap_or_default();
            tell(*line.level(), left_out, format_args!("{file}:{number}"));
        }
    }
}

/// Logs how many lines of a place the sampler left out.
pub(super) fn tell(level: Level, left_out: u64, of: std::fmt::Arguments<'_>) {
    match level {
        Level::ERROR => tracing::error!(target: ABOUT, left_out, %of, "too many lines of one kind"),
        _ => tracing::warn!(target: ABOUT, left_out, %of, "too many lines of one kind"),
    }
}
