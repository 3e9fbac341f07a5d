//! What the operating system knows of this process: memory, CPU, open files. The names are those
//! that the clients of Prometheus agree on, so they have no prefix of this program.

use std::{fmt, fs, io};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use rustix::process::{Resource, getrlimit};

/// Name, type and help of each.
pub const ALL: &[(&str, &str, &str)] = &[
    (
        "process_cpu_seconds",
        "Counter",
        "User and system CPU time spent, in seconds",
    ),
    (
        "process_resident_memory_bytes",
        "Gauge",
        "Resident memory, in bytes",
    ),
    ("process_open_fds", "Gauge", "Open file descriptors"),
    (
        "process_max_fds",
        "Gauge",
        "Most file descriptors that may be open; absent if there is no limit",
    ),
    ("process_threads", "Gauge", "Threads"),
    (
        "process_start_time_seconds",
        "Gauge",
        "When the process started, in seconds since 1970",
    ),
];

/// Reads them at each scrape. What cannot be read is left out.
#[derive(Debug)]
pub(crate) struct ProcessMetrics;

impl Collector for ProcessMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for ((name, kind, help), value) in ALL.iter().zip(read()) {
            let Some(value) = value else { continue };
            if *kind == "Counter" {
                let metric = ConstCounter::new(value);
                metric.encode(encoder.encode_descriptor(
                    name,
                    help,
                    None,
                    metric.metric_type(),
                )?)?;
            } else {
                let metric = ConstGauge::new(value);
                metric.encode(encoder.encode_descriptor(
                    name,
                    help,
                    None,
                    metric.metric_type(),
                )?)?;
            }
        }
        Ok(())
    }
}

/// The values, in the order of [`ALL`].
fn read() -> [Option<f64>; 6] {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name of the program, in parentheses, may have spaces in it. proc(5) numbers the fields
    // from 1; the state, after the name, is the third.
    let fields: Vec<&str> = stat
        .rsplit_once(')')
        .map_or("", |(_, rest)| rest)
        .split_whitespace()
        .collect();
    let field = |number: usize| fields.get(number - 3)?.parse::<f64>().ok();
    let seconds = |number| Some(field(number)? / rustix::param::clock_ticks_per_second() as f64);
    let (user, system, threads, start, pages) =
        (seconds(14), seconds(15), field(20), seconds(22), field(24));
    [
        user.zip(system).map(|(user, system)| user + system),
        pages.map(|pages| pages * rustix::param::page_size() as f64),
        open_files().ok().map(|files| files as f64),
        getrlimit(Resource::Nofile).current.map(|most| most as f64),
        threads,
        boot().zip(start).map(|(boot, start)| boot + start),
    ]
}

/// Linux 6.2 and later tell the number as the size of the folder; before, the size is 0 and the
/// files are counted.
fn open_files() -> io::Result<u64> {
    match fs::metadata("/proc/self/fd")?.len() {
        0 => Ok(fs::read_dir("/proc/self/fd")?.count() as u64),
        files => Ok(files),
    }
}

/// When the machine was started, in seconds since 1970.
fn boot() -> Option<f64> {
    fs::read_to_string("/proc/stat")
        .ok()?
        .lines()
        .find_map(|line| line.strip_prefix("btime ")?.parse().ok())
}
