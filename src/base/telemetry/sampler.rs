//! Keeps a flood out of the log: of each line in the source, so many are written per second, and the rest are counted.
//! A gateway has some hundred such lines, so what is kept here is bounded.

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;

use parking_lot::Mutex;
use tracing::callsite::Identifier;
use tracing::{Level, Metadata};

use crate::base::clock::Clock;
use crate::base::gcra::Rate;

/// The target of what the log says about itself and of panics, which neither a filter nor this leaves out.
pub(super) const ABOUT: &str = "rollcall::log";

/// Of one line in the source; at once, twice as many.
const LINES_PER_SECOND: u32 = 10;

#[derive(Debug)]
pub(super) struct Sampler {
    clock: Clock,
    sites: Mutex<HashMap<Identifier, Site>>,
}

/// A line in the source.
#[derive(Debug)]
struct Site {
    line: &'static Metadata<'static>,
    load: AtomicU64,
    left_out: u64,
}

impl Default for Sampler {
    fn default() -> Self {
        Self { clock: Clock::start(), sites: Mutex::default() }
    }
}

impl Sampler {
    /// Whether one more line of this place in the source may be written; counts it otherwise.
    pub(super) fn admit(&self, line: &'static Metadata<'static>) -> bool {
        let mut sites = self.sites.lock();
        let new = || Site { line, load: AtomicU64::new(0), left_out: 0 };
        let site = sites.entry(line.callsite()).or_insert_with(new);
        let admitted = Rate::per_second(LINES_PER_SECOND).admit(&site.load, self.clock.now());
        site.left_out += u64::from(!admitted);
        admitted
    }

    /// Tells how many lines were left out since it last did.
    pub(super) fn report(&self) {
        let left_out: Vec<_> = {
            let mut sites = self.sites.lock();
            let flooded = sites.values_mut().filter(|site| site.left_out > 0);
            flooded.map(|site| (site.line, std::mem::take(&mut site.left_out))).collect()
        };
        for (line, left_out) in left_out {
            let (file, number) = (line.file().unwrap_or_default(), line.line().unwrap_or_default());
            let of = format_args!("{file}:{number}");
            match *line.level() {
                Level::ERROR => tracing::error!(target: ABOUT, left_out, %of, "too many lines of one kind"),
                _ => tracing::warn!(target: ABOUT, left_out, %of, "too many lines of one kind"),
            }
        }
    }
}
