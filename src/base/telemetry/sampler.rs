//! Keeps a flood out of the log: of each place in the source, so many lines are written per second,
//! and the rest are counted. A gateway has some hundred such places, so what is kept here is
//! bounded.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::atomic::AtomicU64;

use parking_lot::Mutex;
use tracing::{Level, Metadata};

use crate::base::clock::Clock;
use crate::base::gcra::Rate;

/// The target of what the log says about itself and of panics, which no filter leaves out.
pub(super) const ABOUT: &str = "rollcall::log";

/// Of one place; at once, twice as many.
const LINES_PER_SECOND: u32 = 10;

/// What was written of each place, which is a [`Site`] or the text of a panic's location.
#[derive(Debug)]
pub(super) struct Sampler<P> {
    clock: Clock,
    places: Mutex<HashMap<P, Written>>,
}

#[derive(Debug, Default)]
struct Written {
    load: AtomicU64,
    left_out: u64,
}

impl<P> Default for Sampler<P> {
    fn default() -> Self {
        Self {
            clock: Clock::start(),
            places: Mutex::default(),
        }
    }
}

impl<P: Eq + Hash + Clone> Sampler<P> {
    /// Whether one more line of this place may be written; counts it otherwise.
    pub(super) fn admit(&self, place: P) -> bool {
        let mut places = self.places.lock();
        let written = places.entry(place).or_default();
        let admitted = Rate::per_second(LINES_PER_SECOND).admit(&written.load, self.clock.now());
        written.left_out += u64::from(!admitted);
        admitted
    }

    /// How many lines of which places were left out since this was last asked.
    pub(super) fn left_out(&self) -> Vec<(P, u64)> {
        let mut places = self.places.lock();
        let flooded = places
            .iter_mut()
            .filter(|(_, written)| written.left_out > 0);
        flooded
            .map(|(place, written)| (place.clone(), std::mem::take(&mut written.left_out)))
            .collect()
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

impl Sampler<Site> {
    /// Tells how many lines were left out since it last did.
    pub(super) fn report(&self) {
        for (Site(line), left_out) in self.left_out() {
            let (file, number) = (
                line.file().unwrap_or_default(),
                line.line().unwrap_or_default(),
            );
            tell(*line.level(), left_out, format_args!("{file}:{number}"));
        }
    }
}

/// Tells how many lines of a place were left out.
pub(super) fn tell(level: Level, left_out: u64, of: std::fmt::Arguments<'_>) {
    match level {
        Level::ERROR => tracing::error!(target: ABOUT, left_out, %of, "too many lines of one kind"),
        _ => tracing::warn!(target: ABOUT, left_out, %of, "too many lines of one kind"),
    }
}
