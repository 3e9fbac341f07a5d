//! Metrics that the operating system has of this process: memory, CPU, open files. The names are
//! those that the clients of Prometheus agree on, so they have no prefix of this program.

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

/// Reads the metrics at each scrape. It leaves out a metric that it cannot read.
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
    let fields = fields_after_name(&stat);
    let user = seconds(&fields, 14);
    let system = seconds(&fields, 15);
    let threads = field(&fields, 20);
    let start = seconds(&fields, 22);
    let pages = field(&fields, 24);
    [
        user.zip(system).map(|(user, system)| user + system),
        pages.map(|pages| pages * rustix::param::page_size() as f64),
        open_files().ok().map(|files| files as f64),
        getrlimit(Resource::Nofile).current.map(|most| most as f64),
        threads,
        boot().zip(start).map(|(boot, start)| boot + start),
    ]
}

/// The fields of `/proc/self/stat` after the name of the program. The name, in parentheses, may
/// have spaces in it.
fn fields_after_name(stat: &str) -> Vec<&str> {
    match stat.rsplit_once(')') {
        Some((_, fields)) => fields.split_whitespace().collect(),
        None => Vec::new(),
    }
}

/// A field by its number. proc(5) numbers the fields from 1; the state, after the name, is the
/// third.
fn field(after_name: &[&str], number: usize) -> Option<f64> {
    after_name.get(number - 3)?.parse().ok()
}

/// A field that holds clock ticks, in seconds.
fn seconds(after_name: &[&str], number: usize) -> Option<f64> {
    Some(field(after_name, number)? / rustix::param::clock_ticks_per_second() as f64)
}

/// Linux 6.2 and later give the number as the size of the folder. Before, the size is 0, so this
/// counts the files.
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
