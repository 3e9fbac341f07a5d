//! `loadtest soak`: a day in the life of two gateways, and whether anything of it stays behind.
//!
//! The crowd, its record of the truth and the testbed are those of [`crate::chaos`], without
//! faults: people join, swipe, lose the network, reconnect elsewhere and come back. Beside them
//! [`staff`] calls the HTTP API, and lives close and open. Meanwhile [`sampler`] looks at memory,
//! open files, tasks and keys, and chaos's observer compares every set in Redis with the truth. At
//! the end everybody goes, and everything must be at rest as before.

mod errands;
mod guest;
mod keys;
mod report;
mod run;
mod sampler;
mod slope;
mod staff;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::ensure;
use clap::Args;
use tokio::time::timeout;

use self::report::SoakSettings;
use self::run::Course;
use crate::bench::servers::Programs;
use crate::chaos::pace::Pace;
use crate::chaos::run_state::{ChaosPlan, Crowding};
use crate::chaos::testbed::{Testbed, TestbedSetup};
use crate::proc_stats::open_files_limit;
use crate::report::RunReport;

/// A run that hangs ends so long after the time that it was given.
const OVERTIME: Duration = Duration::from_secs(600);
/// The warm-up of a long run; a short one takes a quarter of its time.
const WARM_UP: Duration = Duration::from_secs(900);
/// How long the gateways remember closed lives, and users who have gone.
const REMEMBERED: Duration = Duration::from_secs(600);
/// Descriptors of this process for each viewer: two devices, their broken connections, and the
/// links to Redis.
const FILES_PER_VIEWER: usize = 6;
/// Between two rolling restarts.
const SHORTEST_ROUND: Duration = Duration::from_secs(5);
const SPARE_FILES: usize = 256;
/// A soak runs beside other work: a member may be wrong for so long beyond what is promised.
const GRACE: Duration = Duration::from_secs(1);

/// `loadtest soak`
#[derive(Debug, Clone, Args)]
pub(crate) struct SoakArgs {
    /// How long the day is, in hours; fractions are allowed
    #[arg(long, default_value_t = 1.0, value_name = "N")]
    hours: f64,
    /// Fixes what people and callers do [default: by chance; it is printed]
    #[arg(long)]
    seed: Option<u64>,
    /// How many viewers, with one or two sockets each
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..=5_000), value_name = "N")]
    viewers: u32,
    /// How many lives they move among; the first half has attendance
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u8).range(1..=64), value_name = "L")]
    lives: u8,
    /// How many lives beside these in which nobody comes or goes, three viewers each
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u8).range(0..=64), value_name = "Q")]
    quiet: u8,
    /// How many gateways
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=8), value_name = "N")]
    gateways: u8,
    /// The share of viewers that follow a streamer
    #[arg(long, default_value_t = 0.6, value_name = "SHARE")]
    fans: f64,
    /// A viewer does something every so often, on average
    #[arg(long, default_value = "10s", value_parser = humantime::parse_duration, value_name = "TIME")]
    pace: Duration,
    /// How many callers of the HTTP API
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u8).range(1..=64), value_name = "N")]
    callers: u8,
    /// Each caller has an errand every so often, on average
    #[arg(long, default_value = "3s", value_parser = humantime::parse_duration, value_name = "TIME")]
    errand: Duration,
    /// A live closes or opens every so often
    #[arg(long, default_value = "15s", value_parser = humantime::parse_duration, value_name = "TIME")]
    live: Duration,
    /// The gateways and Redis are looked at every so often
    #[arg(long, default_value = "10s", value_parser = humantime::parse_duration, value_name = "TIME")]
    sample: Duration,
    /// Restart all gateways so often, one after the other: no dashboard may show fewer viewers or
    /// fans meanwhile
    #[arg(long, value_parser = humantime::parse_duration, value_name = "TIME")]
    rolling_restart: Option<Duration>,
    /// Memory counts from then on [default: a quarter of the time, at most 15m]
    #[arg(long, value_parser = humantime::parse_duration, value_name = "TIME")]
    warm_up: Option<Duration>,
    /// The gateways' times
    #[arg(long, value_enum, default_value_t = Pace::Normal)]
    timing: Pace,
    /// The gateway [default: `rollcall` beside this program]
    #[arg(long, value_name = "FILE")]
    gateway_bin: Option<PathBuf>,
    /// Write everything that was measured to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write plots to this file, .html (with the text) or .svg
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Exit with 1 if memory grows by more than 1 % per hour, anything stays behind, or any promise
    /// was broken
    #[arg(long)]
    check: bool,
}

/// Runs `loadtest soak`.
pub(crate) fn main(args: &SoakArgs) -> ExitCode {
    crate::report::end(run(args), false, args.check)
}

async fn run(args: &SoakArgs) -> anyhow::Result<RunReport> {
    let course = args.course()?;
    let program = Programs::find(args.gateway_bin.as_deref())?.gateway;
    let seed = args
        .seed
        .unwrap_or_else(|| rand::random_range(0..1_000_000));
    let logs = tempfile::Builder::new()
        .prefix("rollcall-soak-")
        .tempdir()?
        .keep();
    eprintln!("seed {seed}; the gateways' logs are in {}", logs.display());
    let setup = TestbedSetup {
        plan: args.plan(seed),
        program,
        cluster: false,
        clock: false,
        logs: &logs,
    };
    let whole = async {
        let mut testbed = Testbed::start_empty(setup).await?;
        run::run(&mut testbed, &course).await
    };
    // Whatever ends the run, dropping `whole` drops the testbed and every process that it started.
    let measured = timeout(course.length + OVERTIME, whole).await??;
    let report = measured.report(&args.settings(seed), &logs.display().to_string())?;
    if let Some(file) = &args.json {
        report.write_json(file)?;
    }
    if let Some(file) = &args.report {
        report.write_page(file, "loadtest soak", &measured.plots()?)?;
    }
    Ok(report)
}

impl SoakArgs {
    fn course(&self) -> anyhow::Result<Course> {
        ensure!(
            self.hours > 0.0 && self.hours <= 24.0 * 7.0,
            "--hours must be above 0 and at most 168"
        );
        ensure!(
            (0.0..=1.0).contains(&self.fans),
            "--fans must be between 0 and 1"
        );
        for (flag, time) in [
            ("pace", self.pace),
            ("errand", self.errand),
            ("live", self.live),
            ("sample", self.sample),
        ] {
            ensure!(
                time >= Duration::from_millis(100),
                "--{flag} must be 100ms at least"
            );
        }
        let restarts = self.rolling_restart;
        ensure!(
            restarts.is_none() || self.gateways > 1,
            "--rolling-restart needs two gateways"
        );
        ensure!(
            restarts.is_none_or(|every| every >= SHORTEST_ROUND),
            "--rolling-restart: {SHORTEST_ROUND:?} at least"
        );
        let needed = self.viewers as usize * FILES_PER_VIEWER + SPARE_FILES;
        let limit = open_files_limit().unwrap_or(usize::MAX);
        ensure!(
            needed <= limit,
            "{needed} open files are needed, the limit is {limit}: raise `ulimit -n`"
        );
        Ok(Course {
            length: Duration::from_secs_f64(self.hours * 3_600.0),
            sample_every: self.sample,
            restart_every: self.rolling_restart,
            live_every: self.live,
            callers: self.callers.into(),
            errand_every: self.errand,
            closed_ttl: REMEMBERED,
        })
    }

    fn plan(&self, seed: u64) -> ChaosPlan {
        let remembered = format!("{}s", REMEMBERED.as_secs());
        let flags = [
            "--closed-ttl",
            &remembered,
            "--remember",
            &remembered,
            "--fan-events",
            "on",
            "--log",
            "warn",
        ];
        ChaosPlan {
            timing: self.timing.timing(),
            seed,
            viewers: self.viewers,
            socketless: 0.0,
            lives: self.lives.into(),
            quiet: self.quiet.into(),
            follows: self.fans,
            pace: self.pace,
            grace: GRACE,
            crowded: Crowding::Even,
            gateways: self.gateways.into(),
            attended: usize::from(self.lives).div_ceil(2),
            flags: flags.map(str::to_owned).to_vec(),
        }
    }

    fn settings(&self, seed: u64) -> SoakSettings {
        let quarter = Duration::from_secs_f64(self.hours * 900.0);
        SoakSettings {
            seed,
            hours: self.hours,
            viewers: self.viewers,
            lives: self.lives.into(),
            gateways: self.gateways.into(),
            fans: self.fans,
            pace_ms: self.pace.as_millis() as u64,
            sample_ms: self.sample.as_millis() as u64,
            warm_up_seconds: self
                .warm_up
                .unwrap_or_else(|| quarter.min(WARM_UP))
                .as_secs(),
        }
    }
}
