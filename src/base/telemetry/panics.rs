//! Logs panics: each of them, unless very many come from one place in the source. The filter leaves none out.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::collections::HashMap;
use std::panic::PanicHookInfo;
use std::sync::LazyLock;
use std::sync::atomic::AtomicU64;

use parking_lot::Mutex;

use super::sampler::ABOUT;
use crate::base::clock::{Clock, Millis};
use crate::base::gcra::Rate;

/// Of one place; at once, twice as many.
const PANICS_PER_SECOND: u32 = 10;

static PLACES: LazyLock<Places> = LazyLock::new(Places::default);

/// The places in the source that panicked.
#[derive(Debug)]
struct Places {
    clock: Clock,
    places: Mutex<HashMap<String, Place>>,
}

#[derive(Debug, Default)]
struct Place {
    load: AtomicU64,
    left_out: u64,
}

impl Default for Places {
    fn default() -> Self {
        Self { clock: Clock::start(), places: Mutex::default() }
    }
}

impl Places {
    /// `None` if a panic there is not logged; otherwise how many were not since the last one that was.
    fn admit(&self, at: &str, now: Millis) -> Option<u64> {
        let mut places = self.places.lock();
        let place = places.entry(at.to_owned()).or_default();
        if !Rate::per_second(PANICS_PER_SECOND).admit(&place.load, now) {
            place.left_out += 1;
            return None;
        }
        Some(std::mem::take(&mut place.left_out))
    }
}

/// The process's panic hook.
pub(super) fn log_panic(info: &PanicHookInfo<'_>) {
    let message = info.payload_as_str().unwrap_or("no message");
    let at = info.location().map(ToString::to_string).unwrap_or_default();
    let Some(left_out) = PLACES.admit(&at, PLACES.clock.now()) else { return };
    let left_out = (left_out > 0).then_some(left_out);
    let thread = std::thread::current();
    let thread = thread.name().unwrap_or("unnamed");
    let trace = Backtrace::capture();
    let trace = (trace.status() == BacktraceStatus::Captured).then(|| tracing::field::display(trace));
    tracing::error!(target: ABOUT, at, thread, left_out, trace, "panic: {message}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_panics_in_one_place_hides_no_other() {
        let places = Places::default();
        let admitted: Vec<_> = (0..100).map(|_| places.admit("a.rs:1:1", 5)).collect();
        assert_eq!(admitted.iter().flatten().count(), 20);
        assert_eq!(places.admit("b.rs:1:1", 5), Some(0));
        assert_eq!(places.admit("a.rs:1:1", 1_005), Some(80));
        assert_eq!(places.admit("a.rs:1:1", 1_005), Some(0));
    }
}
