//! `loadtest chaos`: random faults over three gateways, a crowd that records the truth, and an
//! audit after each.
//!
//! A run starts and owns a [`testbed`]: Redis, the gateways, and a link from each gateway to Redis
//! that can be cut. [`faults`] breaks it in an order that follows from the seed. The people are those
//! of [`simulation::crowd`], who record what the gateways told them; [`run_state`] lets them reach
//! real gateways. From these records [`simulation::expectation`] derives who must be in Redis;
//! [`observer`] compares Redis with that all the time, and [`audit`] compares everything at rest.

pub(crate) mod audit;
mod audit_command;
pub(crate) mod backend;
pub(crate) mod dashboards;
mod faults;
pub(crate) mod findings;
mod gateway;
pub(crate) mod keys;
mod observer;
pub(crate) mod pace;
pub(crate) mod reader;
mod report;
mod run;
pub(crate) mod run_state;
mod store;
mod support;
pub(crate) mod testbed;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::bail;
use clap::{Args, ValueEnum};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;

use self::faults::{ChaosFault, GATEWAYS, Sequence};
use self::pace::Pace;
use self::report::ChaosSettings;
use self::run::Until;
use self::run_state::{ChaosPlan, Crowding};
use self::testbed::{Testbed, TestbedSetup};
use crate::report::RunReport;
use simulation::timing::Timing;

/// A run that hangs ends so long after the time that it was given.
const OVERTIME: Duration = Duration::from_secs(300);
const MOST_VIEWERS: u32 = 8_000;

/// `loadtest chaos`
#[derive(Debug, Clone, Args)]
pub(crate) struct ChaosArgs {
    /// No new fault begins after this many minutes
    #[arg(long, default_value_t = 10.0, value_name = "N")]
    minutes: f64,
    /// No more faults than this
    #[arg(long, value_name = "N")]
    steps: Option<usize>,
    /// Fixes the faults, their order and lengths, and what people do [default: by chance; it is
    /// printed]
    #[arg(long)]
    seed: Option<u64>,
    /// How many viewers
    #[arg(long, default_value_t = 600, value_name = "N")]
    viewers: u32,
    /// How many lives
    #[arg(long, default_value_t = 6, value_name = "L")]
    lives: usize,
    /// How many lives beside these in which nobody comes or goes of their own will, three viewers
    /// on one gateway each
    #[arg(long, default_value_t = 12, value_name = "Q")]
    quiet: usize,
    /// The share of viewers that follow a streamer
    #[arg(long, default_value_t = 0.6, value_name = "SHARE")]
    fans: f64,
    /// The share of devices that open no socket, and send beats over HTTP to any gateway
    #[arg(long, default_value_t = 0.3, value_name = "SHARE")]
    socketless: f64,
    /// A viewer does something every so often, on average [default: 10s, more for more than 600
    /// viewers]
    #[arg(long, value_parser = humantime::parse_duration, value_name = "TIME")]
    pace: Option<Duration>,
    /// Which gateways viewers go to
    #[arg(long, value_enum, default_value_t = Crowding::Even)]
    spread: Crowding,
    /// Only these faults
    #[arg(long, value_enum, value_delimiter = ',', value_name = "FAULT,…")]
    faults: Vec<ChaosFault>,
    /// Say which faults there are
    #[arg(long)]
    list: bool,
    /// A Redis Cluster of three masters, two of them with a replica, instead of one server
    #[arg(long)]
    cluster: bool,
    /// The gateway's program [default: rollcall beside this one]
    #[arg(long, value_name = "PATH")]
    gateway_bin: Option<PathBuf>,
    /// The gateways' times
    #[arg(long, value_enum, default_value_t = Pace::Normal)]
    timing: Pace,
    /// The gateways' lease, instead of that
    #[arg(long, value_parser = humantime::parse_duration, value_name = "TIME")]
    lease: Option<Duration>,
    /// The gateways' lease refresh, instead of that
    #[arg(long, value_parser = humantime::parse_duration, value_name = "TIME")]
    lease_refresh: Option<Duration>,
    /// The gateways' heartbeat, instead of that
    #[arg(long, value_parser = humantime::parse_duration, value_name = "TIME")]
    heartbeat: Option<Duration>,
    /// The gateways' timeout, instead of that
    #[arg(long, value_parser = humantime::parse_duration, value_name = "TIME")]
    timeout: Option<Duration>,
    /// One JSON document on standard output instead of text
    #[arg(long)]
    json: bool,
    /// Exit with 1 if any promise was broken
    #[arg(long)]
    check: bool,
}

/// Runs `loadtest chaos`.
pub(crate) fn main(args: &ChaosArgs) -> ExitCode {
    if args.list {
        for kind in ChaosFault::value_variants() {
            println!("{:<14} {}", kind.name(), kind.help());
        }
        return ExitCode::SUCCESS;
    }
    let found = crate::report::on_runtime(whole(args));
    crate::report::print(found, args.json, args.check)
}

async fn whole(args: &ChaosArgs) -> anyhow::Result<RunReport> {
    let kinds = args.kinds()?;
    let program = args.program()?;
    let timing = args.timing();
    if !(1..=MOST_VIEWERS).contains(&args.viewers)
        || !(1..=64).contains(&args.lives)
        || args.quiet > 64
    {
        bail!("--viewers must be 1 to {MOST_VIEWERS}, --lives 1 to 64, --quiet at most 64");
    }
    let is_share = |share: &f64| (0.0..=1.0).contains(share);
    if !(args.minutes > 0.0 && args.minutes <= 600.0) {
        bail!("--minutes must be above 0 and at most 600");
    }
    if ![args.fans, args.socketless].iter().all(is_share) {
        bail!("--fans and --socketless must be between 0 and 1");
    }
    let seed = args
        .seed
        .unwrap_or_else(|| rand::random_range(0..1_000_000));
    let logs = tempfile::Builder::new()
        .prefix("rollcall-chaos-")
        .tempdir()?
        .keep();
    eprintln!("seed {seed}; the gateways' logs are in {}", logs.display());
    let usual = Duration::from_secs_f64(10.0 * (f64::from(args.viewers) / 600.0).max(1.0));
    let plan = ChaosPlan {
        timing,
        seed,
        viewers: args.viewers,
        socketless: args.socketless,
        lives: args.lives,
        quiet: args.quiet,
        follows: args.fans,
        pace: args.pace.unwrap_or(usual),
        crowded: args.spread,
        grace: Duration::ZERO,
        gateways: GATEWAYS,
        attended: 0,
        flags: Vec::new(),
    };
    let until = Until {
        time: Duration::from_secs_f64(args.minutes * 60.0),
        steps: args.steps,
    };
    let clock = kinds.contains(&ChaosFault::ClockStep);
    let sequence = Sequence::new(
        seed,
        kinds,
        timing,
        args.lives,
        args.spread == Crowding::One,
    );
    let began = Instant::now();
    let mut steps = Vec::new();
    let mut asked_to_stop = signal(SignalKind::terminate())?;
    let story = async {
        let mut testbed = Testbed::build(TestbedSetup {
            plan,
            program,
            cluster: args.cluster,
            clock,
            logs: &logs,
        })
        .await?;
        run::run(&mut testbed, sequence, until, &mut steps).await
    };
    // Whatever ends the run, dropping `story` drops the testbed and every process that it started.
    let ended = tokio::select! {
        ended = story => ended.map_err(|error| format!("{error:#}")).err(),
        _ = tokio::signal::ctrl_c() => Some("interrupted".to_owned()),
        _ = asked_to_stop.recv() => Some("asked to stop".to_owned()),
        () = tokio::time::sleep(until.time + OVERTIME) => Some("it did not end in time".to_owned()),
    };
    let settings = ChaosSettings {
        seed,
        viewers: args.viewers,
        lives: args.lives,
        quiet: args.quiet,
        cluster: args.cluster,
        gateways: GATEWAYS,
        heartbeat_ms: timing.heartbeat.as_millis() as u64,
        timeout_ms: timing.timeout.as_millis() as u64,
        lease_ms: timing.lease.as_millis() as u64,
        refresh_ms: timing.refresh.as_millis() as u64,
    };
    report::report(
        &settings,
        &steps,
        ended.as_deref(),
        &logs.display().to_string(),
        began.elapsed().as_secs_f64(),
    )
}

impl ChaosArgs {
    fn kinds(&self) -> anyhow::Result<Vec<ChaosFault>> {
        let all = ChaosFault::all(self.cluster);
        if self.faults.is_empty() {
            return Ok(all);
        }
        match self.faults.iter().find(|kind| !all.contains(kind)) {
            Some(kind) if self.cluster => bail!("--faults {}: not with --cluster", kind.name()),
            Some(kind) => bail!("--faults {}: only with --cluster", kind.name()),
            None => Ok(self.faults.clone()),
        }
    }

    fn program(&self) -> anyhow::Result<PathBuf> {
        let program = match &self.gateway_bin {
            Some(path) => path.clone(),
            None => std::env::current_exe()?.with_file_name("rollcall"),
        };
        if !program.is_file() {
            bail!(
                "{} is not there: build the gateway first (cargo build --release), or give --gateway-bin",
                program.display()
            );
        }
        Ok(program)
    }

    fn timing(&self) -> Timing {
        let base = self.timing.timing();
        let refresh = self.lease_refresh.unwrap_or(base.refresh);
        Timing {
            lease: self.lease.unwrap_or(base.lease),
            refresh,
            // A gateway refuses to start if it is shorter.
            check_every: base.check_every.max(refresh),
            heartbeat: self.heartbeat.unwrap_or(base.heartbeat),
            timeout: self.timeout.unwrap_or(base.timeout),
            ..base
        }
    }
}
