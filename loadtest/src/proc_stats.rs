//! What the kernel says about a process: memory from `status` and `smaps_rollup`, CPU time from
//! `stat`.

use std::fs;
use std::io;

use serde::Serialize;

/// Linux reports CPU time to user space in hundredths of a second, whatever the kernel's own tick.
const TICKS_PER_SECOND: f64 = 100.0;

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
    /// User and system time since the process began.
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

/// User and system time of a process since it began.
pub(crate) fn cpu_seconds(pid: u32) -> io::Result<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    ticks(&stat)
        .map(|ticks| ticks as f64 / TICKS_PER_SECOND)
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
pub(crate) struct Machine {
    pub(crate) cores: usize,
    pub(crate) cpu_model: String,
    pub(crate) kernel: String,
    pub(crate) memory_bytes: u64,
}

impl Machine {
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

fn ticks(stat: &str) -> Option<u64> {
    // The command in parentheses may itself hold blanks and parentheses: count fields from the last
    // one.
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ').skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_with_blanks_and_parentheses_is_skipped() {
        let stat = "7 (a) (b c) S 1 7 7 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 1 0 100";
        assert_eq!(ticks(stat), Some(300));
    }

    #[test]
    fn our_own_figures_can_be_read() {
        let own = ProcStats::read(std::process::id()).unwrap();
        assert!(own.rss_bytes > 0 && own.threads > 0);
        assert!(open_files_limit().is_some_and(|limit| limit > 0));
        assert!(Machine::read().cores > 0);
    }
}
