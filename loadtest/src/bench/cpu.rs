//! CPU time to the nanosecond, and memory, of a process or of one of its threads.
//!
//! `/proc/<pid>/stat` counts ticks of 10 ms, sampled; the scheduler's own figures are exact. They
//! are kept per thread and go with it, so a process whose threads end is read low: none of those
//! measured here ends its threads.

use std::fs;
use std::io;
use std::path::Path;

/// CPU time of all threads of a process, in seconds.
pub(crate) fn process(pid: u32) -> io::Result<f64> {
    let mut nanos = 0;
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        // A thread that has ended in between has no figure any more.
        nanos += on_cpu(&thread?.path()).unwrap_or_default();
    }
    Ok(nanos as f64 / 1e9)
}

/// CPU time of the calling thread, in seconds.
pub(crate) fn this_thread() -> f64 {
    on_cpu(Path::new("/proc/thread-self")).unwrap_or_default() as f64 / 1e9
}

/// Resident memory of a process in bytes.
pub(crate) fn rss(pid: u32) -> io::Result<f64> {
    Ok(crate::proc_stats::ProcStats::read(pid)?.rss_bytes as f64)
}

fn on_cpu(of: &Path) -> io::Result<u64> {
    let text = fs::read_to_string(of.join("schedstat"))?;
    text.split_whitespace()
        .next()
        .and_then(|nanos| nanos.parse().ok())
        .ok_or_else(|| io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_shows_in_the_figures() {
        let (process_before, thread_before) = (process(std::process::id()).unwrap(), this_thread());
        let mut sum = 0_u64;
        while this_thread() - thread_before < 0.02 {
            sum = (0..10_000).fold(sum, |sum: u64, n| {
                sum.wrapping_mul(31).wrapping_add(std::hint::black_box(n))
            });
        }
        std::hint::black_box(sum);
        assert!(process(std::process::id()).unwrap() - process_before >= 0.015);
        assert!(rss(std::process::id()).unwrap() > 0.0);
    }
}
