//! What the operating system knows of this process: memory, CPU, open files. The names are those that the clients of
//! Prometheus agree on, so they have no prefix of this program.

use std::fmt;

use procfs::ProcResult;
use procfs::process::{LimitValue, Process};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// Name, type and help of each.
pub const ALL: &[(&str, &str, &str)] = &[
    ("process_cpu_seconds", "Counter", "User and system CPU time spent, in seconds"),
    ("process_resident_memory_bytes", "Gauge", "Resident memory, in bytes"),
    ("process_open_fds", "Gauge", "Open file descriptors"),
    ("process_max_fds", "Gauge", "Most file descriptors that may be open; absent if there is no limit"),
    ("process_threads", "Gauge", "Threads"),
    ("process_start_time_seconds", "Gauge", "When the process started, in seconds since 1970"),
];

/// Reads them at each scrape. What cannot be read is left out.
#[derive(Debug)]
pub(crate) struct ProcessMetrics;

impl Collector for ProcessMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Ok(values) = read() else { return Ok(()) };
        for ((name, kind, help), value) in ALL.iter().zip(values) {
            let Some(value) = value else { continue };
            if *kind == "Counter" {
                let metric = ConstCounter::new(value);
                metric.encode(encoder.encode_descriptor(name, help, None, metric.metric_type())?)?;
            } else {
                let metric = ConstGauge::new(value);
                metric.encode(encoder.encode_descriptor(name, help, None, metric.metric_type())?)?;
            }
        }
        Ok(())
    }
}

/// The values, in the order of [`ALL`].
fn read() -> ProcResult<[Option<f64>; 6]> {
    let process = Process::myself()?;
    let stat = process.stat()?;
    let ticks = procfs::ticks_per_second() as f64;
    let max_fds = match process.limits()?.max_open_files.soft_limit {
        LimitValue::Value(most) => Some(most as f64),
        LimitValue::Unlimited => None,
    };
    Ok([
        Some((stat.utime + stat.stime) as f64 / ticks),
        Some((stat.rss * procfs::page_size()) as f64),
        Some(process.fd_count()? as f64),
        max_fds,
        Some(stat.num_threads as f64),
        Some(procfs::boot_time_secs()? as f64 + stat.starttime as f64 / ticks),
    ])
}
