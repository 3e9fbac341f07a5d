//! What a run found, as one JSON document with stable names; [`text`] is the same for people.
//!
//! Names are only ever added to the document: scripts and the README's figures read it.

pub(crate) mod page;
mod text;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::net::SocketAddr;
use std::process::ExitCode;

use anyhow::bail;
use serde::Serialize;

use crate::args::ArgError;
use crate::dashboards::Verdict;
use crate::plan::{By, JoinBy, Spread};
use crate::proc_stats::{Machine, ProcStats};
use crate::tally::{FanFlags, Latencies, Tally};

/// The whole document.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) version: &'static str,
    pub(crate) started_at_ms: u64,
    pub(crate) machine: Machine,
    pub(crate) settings: Settings,
    pub(crate) setup: Setup,
    pub(crate) connect: Connect,
    pub(crate) join: Join,
    pub(crate) heartbeats: Heartbeats,
    pub(crate) fan_flags: FanFlags,
    pub(crate) sockets: Sockets,
    pub(crate) errors: BTreeMap<String, u64>,
    pub(crate) generator: Generator,
    pub(crate) workers: Vec<Worker>,
    pub(crate) server: Option<Server>,
    pub(crate) redis: Option<Redis>,
    pub(crate) verify: Option<Verify>,
    pub(crate) check: Check,
}

/// What was asked for.
#[derive(Debug, Serialize)]
pub(crate) struct Settings {
    pub(crate) viewers: usize,
    pub(crate) lives: usize,
    pub(crate) spread: Spread,
    pub(crate) zipf_exponent: f64,
    pub(crate) fans: f64,
    pub(crate) seed: u64,
    pub(crate) heartbeat_ms: u64,
    pub(crate) closed_loop: bool,
    pub(crate) ramp_per_second: f64,
    pub(crate) in_flight: usize,
    pub(crate) join: JoinBy,
    pub(crate) by: By,
    pub(crate) duration_ms: u64,
    pub(crate) source_addresses: usize,
}

/// What was prepared over HTTP.
#[derive(Debug, Serialize)]
pub(crate) struct Setup {
    pub(crate) lives_opened: usize,
    pub(crate) follows_written: usize,
    pub(crate) seconds: f64,
}

/// A distribution in microseconds.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Quantiles {
    count: u64,
    p50: u64,
    p90: u64,
    p99: u64,
    p999: u64,
    max: u64,
}

#[derive(Debug, Serialize)]
pub(crate) struct Connect {
    pub(crate) connected: u64,
    pub(crate) seconds: f64,
    pub(crate) per_second: f64,
    /// From the TCP connect to the 101.
    pub(crate) latency_us: Quantiles,
}

#[derive(Debug, Serialize)]
pub(crate) struct Join {
    pub(crate) joined: u64,
    pub(crate) failed: u64,
    pub(crate) latency_us: Quantiles,
}

#[derive(Debug, Serialize)]
pub(crate) struct Heartbeats {
    /// Over the whole run.
    pub(crate) sent: u64,
    pub(crate) acked: u64,
    pub(crate) unanswered: u64,
    pub(crate) steady_seconds: f64,
    pub(crate) steady_sent: u64,
    pub(crate) steady_acked: u64,
    pub(crate) sent_per_second: f64,
    pub(crate) acked_per_second: f64,
    /// Of the steady phase.
    pub(crate) ack_latency_us: Quantiles,
}

#[derive(Debug, Serialize)]
pub(crate) struct Sockets {
    pub(crate) lost: u64,
    pub(crate) left: u64,
}

/// The load generator itself: were its figures its own limits?
#[derive(Debug, Serialize)]
pub(crate) struct Generator {
    pub(crate) processes: usize,
    pub(crate) cpu_seconds: f64,
    pub(crate) cpu_us_per_heartbeat: Option<f64>,
    /// How late heartbeats were sent.
    pub(crate) lag_us: Quantiles,
}

/// The owner of a share of the viewers: a process, or a machine.
#[derive(Debug, Serialize)]
pub(crate) struct Worker {
    pub(crate) viewers: usize,
    /// Of a machine that joined.
    pub(crate) address: Option<SocketAddr>,
    /// Why its share is missing from the figures.
    pub(crate) lost: Option<String>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Server {
    pub(crate) pid: u32,
    /// Lives open, no viewer yet.
    pub(crate) idle: ProcStats,
    /// Everybody joined.
    pub(crate) joined: ProcStats,
    /// The end of the steady phase.
    pub(crate) steady_end: ProcStats,
    pub(crate) rss_bytes_per_socket: Option<f64>,
    pub(crate) rss_anon_bytes_per_socket: Option<f64>,
    pub(crate) cpu: Cpu,
}

/// A process's CPU time over the steady phase.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Cpu {
    pub(crate) seconds: f64,
    pub(crate) cores: f64,
    pub(crate) us_per_heartbeat: Option<f64>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Redis {
    pub(crate) cpu: Option<Cpu>,
    pub(crate) commands: Option<Commands>,
}

/// Commands over the steady phase, those inside scripts among them, our own `INFO` not.
#[derive(Debug, Serialize)]
pub(crate) struct Commands {
    pub(crate) total: u64,
    pub(crate) per_second: f64,
    pub(crate) per_heartbeat: Option<f64>,
    pub(crate) by_name: BTreeMap<String, u64>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Verify {
    /// After the last viewer joined.
    pub(crate) joined: Verdict,
    /// At the end of the steady phase.
    pub(crate) held: Verdict,
    /// Messages with other counts than the truth, in the steady phase.
    pub(crate) wobbles: u64,
    /// After the last viewer left.
    pub(crate) left: Verdict,
    pub(crate) messages: u64,
}

#[derive(Debug, Serialize)]
pub(crate) struct Check {
    pub(crate) passed: bool,
    pub(crate) failures: Vec<String>,
}

/// Prints a report, as one JSON document or as text.
pub(crate) fn print(report: &(impl Serialize + Display), json: bool) {
    if !json {
        println!("{report}");
        return;
    }
    match serde_json::to_string_pretty(report) {
        Ok(text) => println!("{text}"),
        Err(error) => eprintln!("loadtest: the report cannot be written: {error}"),
    }
}

/// Runs a tool to its end, or until it is interrupted, and prints its report. Exits with 1 if the
/// report fails.
pub(crate) fn end<R: Serialize + Display>(
    run: impl Future<Output = anyhow::Result<R>>,
    json: bool,
    fails: impl FnOnce(&R) -> bool,
) -> ExitCode {
    let whole = async {
        tokio::select! {
            done = Box::pin(run) => done,
            _ = tokio::signal::ctrl_c() => bail!("interrupted"),
        }
    };
    match block_on(whole) {
        Ok(report) => {
            print(&report, json);
            ExitCode::from(u8::from(fails(&report)))
        }
        Err(error) => ArgError::exit(&error),
    }
}

fn block_on<T>(whole: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?
        .block_on(whole)
}

impl Quantiles {
    pub(crate) fn of(latencies: &Latencies) -> Self {
        Self {
            count: latencies.count(),
            p50: latencies.at(0.5),
            p90: latencies.at(0.9),
            p99: latencies.at(0.99),
            p999: latencies.at(0.999),
            max: latencies.max(),
        }
    }
}

impl Cpu {
    pub(crate) fn over(tally: &Tally, seconds: f64) -> Self {
        let us_per_heartbeat = per(seconds * 1e6, tally.steady_acked);
        Self {
            seconds,
            cores: rate(seconds, tally.steady_seconds),
            us_per_heartbeat,
        }
    }
}

impl Check {
    /// What `--check` calls a failure.
    pub(crate) fn of(tally: &Tally, viewers: usize, verify: Option<&Verify>) -> Self {
        let mut failures = Vec::new();
        fail_if(
            &mut failures,
            tally.joined < viewers as u64,
            format!("{} of {viewers} viewers joined", tally.joined),
        );
        let unanswered = tally.sent - tally.acked;
        fail_if(
            &mut failures,
            unanswered > 0,
            format!("{unanswered} of {} heartbeats unanswered", tally.sent),
        );
        fail_if(
            &mut failures,
            tally.steady_acked == 0,
            "no heartbeat answered in the steady phase".to_owned(),
        );
        fail_if(
            &mut failures,
            tally.lost > 0,
            format!("{} sockets lost", tally.lost),
        );
        for (kind, times) in &tally.errors {
            fail_if(&mut failures, true, format!("{times} errors {kind}"));
        }
        if let Some(verify) = verify {
            let wrong = tally.fan_flags.wrong;
            fail_if(
                &mut failures,
                wrong > 0,
                format!("{wrong} acks with a wrong fan flag"),
            );
            fail_if(
                &mut failures,
                verify.wobbles > 0,
                format!(
                    "{} counts left the truth in the steady phase",
                    verify.wobbles
                ),
            );
            for (when, verdict) in [
                ("joined", &verify.joined),
                ("held", &verify.held),
                ("left", &verify.left),
            ] {
                let Verdict {
                    correct, watched, ..
                } = verdict;
                fail_if(
                    &mut failures,
                    !verdict.wrong.is_empty(),
                    format!("{when}: {correct} of {watched} dashboards right"),
                );
            }
        }
        Self {
            passed: failures.is_empty(),
            failures,
        }
    }
}

/// Adds a failure of `--check` if it happened.
pub(crate) fn fail_if(failures: &mut Vec<String>, fails: bool, why: String) {
    if fails {
        failures.push(why);
    }
}

/// `amount` per one of `count`, if there were any.
pub(crate) fn per(amount: f64, count: u64) -> Option<f64> {
    if count > 0 {
        Some(amount / count as f64)
    } else {
        None
    }
}

/// `amount` per second.
pub(crate) fn rate(amount: f64, seconds: f64) -> f64 {
    if seconds > 0.0 { amount / seconds } else { 0.0 }
}
