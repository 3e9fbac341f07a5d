//! What the kernel says about a process: memory from `status` and `smaps_rollup`, CPU time from
//! `schedstat`.

use std::fs;
use std::io;
use std::path::Path;

use serde::Serialize;

/// One process at one moment.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct ProcStats {
    pub(crate) rss_bytes: u64,
    pub(crate) rss_anon_bytes: u64,
    /// Peak resident size since the process began.
    pub(crate) rss_peak_bytes: u64,
    /// Proportional set size; absent where the kernel does not let us see it.
    pub(crate) pss_bytes: Option<u64>,
    pub(crate) threads: u64,
    /// Of all threads.
    pub(crate) cpu_seconds: f64,
}

impl ProcStats {
    pub(crate) fn read(pid: u32) -> io::Result<Self> {
        let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
        let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
        Ok(Self {
            rss_bytes: kib(&status, "VmRSS:").unwrap_or_default(),
            rss_anon_bytes: kib(&status, "RssAnon:").unwrap_or_default(),
            rss_peak_bytes: kib(&status, "VmHWM:").unwrap_or_default(),
            pss_bytes: kib(&rollup, "Pss:"),
            threads: number(&status, "Threads:").unwrap_or_default(),
            cpu_seconds: cpu_seconds(pid)?,
        })
    }
}

/// CPU time of all threads of a process, in seconds. The scheduler counts it to the nanosecond, and
/// forgets the threads that have ended: none of the processes here ends its threads.
pub(crate) fn cpu_seconds(pid: u32) -> io::Result<f64> {
    let mut nanos = 0;
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        // A thread that has ended in between has no figure any more.
        nanos += on_cpu(&thread?.path()).unwrap_or_default();
    }
    Ok(nanos as f64 / 1e9)
}

/// CPU time of the calling thread, in seconds.
pub(crate) fn cpu_seconds_of_this_thread() -> f64 {
    on_cpu(Path::new("/proc/thread-self")).unwrap_or_default() as f64 / 1e9
}

fn on_cpu(of: &Path) -> io::Result<u64> {
    let text = fs::read_to_string(of.join("schedstat"))?;
    text.split_whitespace()
        .next()
        .and_then(|nanos| nanos.parse().ok())
        .ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// The soft limit on open files of this process; `None` is no limit.
pub(crate) fn open_files_limit() -> Option<usize> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// The machine that the figures belong to.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct MachineSpec {
    pub(crate) cores: usize,
    pub(crate) cpu_model: String,
    pub(crate) kernel: String,
    pub(crate) memory_bytes: u64,
}

impl MachineSpec {
    pub(crate) fn read() -> Self {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = cpuinfo
            .lines()
            .find(|line| line.starts_with("model name"))
            .and_then(|line| line.split_once(": "));
        let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Self {
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            cpu_model: model.map_or("unknown", |(_, model)| model).to_owned(),
            kernel: kernel.trim().to_owned(),
            memory_bytes: kib(&meminfo, "MemTotal:").unwrap_or_default(),
        }
    }
}

fn kib(text: &str, label: &str) -> Option<u64> {
    number(text, label).map(|kib| kib * 1024)
}

fn number(text: &str, label: &str) -> Option<u64> {
    text.lines()
        .find_map(|line| line.strip_prefix(label))?
        .split_whitespace()
        .next()?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_shows_in_the_figures() {
        let before = ProcStats::read(std::process::id()).unwrap();
        let thread_before = cpu_seconds_of_this_thread();
        let mut sum = 0_u64;
        while cpu_seconds_of_this_thread() - thread_before < 0.02 {
            sum = (0..10_000).fold(sum, |sum: u64, n| {
                sum.wrapping_mul(31).wrapping_add(std::hint::black_box(n))
            });
        }
        std::hint::black_box(sum);
        let own = ProcStats::read(std::process::id()).unwrap();
        assert!(own.cpu_seconds - before.cpu_seconds >= 0.015);
        assert!(own.rss_bytes > 0 && own.threads > 0);
        assert!(open_files_limit().is_some_and(|limit| limit > 0));
        assert!(MachineSpec::read().cores > 0);
    }
}
