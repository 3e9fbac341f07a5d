//! The machine as the simulated programs see it. Three functions of the C library are replaced in
//! this binary: `getrandom`, from which hash maps, tokio and `rand` get their seeds;
//! `clock_gettime`, which is behind `std::time`; and `sched_getaffinity`, which says how many
//! processors there are, because maps have a part for each. Threads that simulate nothing get the
//! machine's answers.
//!
//! The idea is that of the `mad-turmoil` crate, which itself follows `madsim`. That crate cannot be
//! used here: its clock is that of the turmoil simulator, and it gives every other thread a clock
//! that stands still.

#![allow(unsafe_code, reason = "functions of the C library are replaced")]

use std::cell::{Cell, RefCell};
use std::ffi::{c_int, c_uint, c_void};
use std::time::{Duration, Instant};

use tokio::time::Instant as TokioInstant;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// What the monotonic clock shows when a simulation begins.
const MONOTONIC: Duration = Duration::from_secs(1_000_000);

/// What the wall clock shows then: the first second of 2026.
const WALL: Duration = Duration::from_secs(1_767_225_600);

thread_local! {
    static RANDOM: RefCell<Option<StdRng>> = const { RefCell::new(None) };
    /// The time since the simulation began, outside every runtime.
    static PASSED: Cell<Option<Duration>> = const { Cell::new(None) };
    /// When the simulation began, as `Instant` counts.
    static BEGAN: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// From now on this thread has the randomness of a seed, and a clock that [`set_passed`] moves.
/// Inside a tokio runtime whose time is paused, the clock is that of the runtime.
pub fn begin(seed: u64) {
    RANDOM.set(Some(StdRng::seed_from_u64(seed)));
    PASSED.set(Some(Duration::ZERO));
    BEGAN.set(Some(TokioInstant::now().into_std()));
}

/// Sets the clock to so long after the begin.
pub fn set_passed(passed: Duration) {
    PASSED.set(Some(passed));
}

fn passed() -> Option<Duration> {
    let outside = PASSED.try_with(Cell::get).ok()??;
    let began = BEGAN.try_with(Cell::get).ok()?;
    match (began, tokio::runtime::Handle::try_current()) {
        (Some(began), Ok(_)) => Some(
            TokioInstant::now()
                .into_std()
                .saturating_duration_since(began),
        ),
        _ => Some(outside),
    }
}

/// # Safety
/// As of the function of the C library with this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn getrandom(buffer: *mut c_void, length: usize, flags: c_uint) -> isize {
    let is_filled = RANDOM.try_with(|random| {
        let mut random = random.try_borrow_mut().ok()?;
        // SAFETY: the caller hands over a buffer of that length.
        let bytes = unsafe { std::slice::from_raw_parts_mut(buffer.cast::<u8>(), length) };
        random.as_mut()?.fill_bytes(bytes);
        Some(())
    });
    match is_filled {
        Ok(Some(())) => length as isize,
        // SAFETY: the arguments are the caller's.
        _ => unsafe { libc::syscall(libc::SYS_getrandom, buffer, length, flags) as isize },
    }
}

/// # Safety
/// As of the function of the C library with this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn clock_gettime(clock: libc::clockid_t, time: *mut libc::timespec) -> c_int {
    let start = match clock {
        libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_COARSE => Some(WALL),
        libc::CLOCK_MONOTONIC
        | libc::CLOCK_MONOTONIC_COARSE
        | libc::CLOCK_MONOTONIC_RAW
        | libc::CLOCK_BOOTTIME => Some(MONOTONIC),
        _ => None,
    };
    match start.zip(passed()) {
        Some((start, passed)) => {
            let now = start + passed;
            let shown = libc::timespec {
                tv_sec: now.as_secs() as i64,
                tv_nsec: i64::from(now.subsec_nanos()),
            };
            // SAFETY: the caller hands over a place for the time.
            unsafe { time.write(shown) };
            0
        }
        // SAFETY: the arguments are the caller's.
        None => unsafe { libc::syscall(libc::SYS_clock_gettime, clock, time) as c_int },
    }
}

/// # Safety
/// As of the function of the C library with this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn sched_getaffinity(
    process: libc::pid_t,
    size: usize,
    set: *mut libc::cpu_set_t,
) -> c_int {
    if matches!(PASSED.try_with(Cell::get), Ok(Some(_))) {
        // SAFETY: the caller hands over a set of that size.
        unsafe {
            set.cast::<u8>().write_bytes(0, size);
            set.cast::<u8>().write(1);
        }
        return 0;
    }
    // SAFETY: the arguments are the caller's. The system call answers how many bytes it wrote, the
    // function 0.
    unsafe { (libc::syscall(libc::SYS_sched_getaffinity, process, size, set) as c_int).min(0) }
}
