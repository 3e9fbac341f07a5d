//! `loadtest crowd`: opens the lives, lets the crowd in, measures it while it is steady, lets it
//! leave, and reports. The viewers are in this process, in several, or on the machines that join.

mod report;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::api::Api;
use crate::args::{ArgError, CrowdArgs, enough_files};
use crate::dashboards::{CrowdDashboards, DashboardVerdict};
use crate::plan::CrowdPlan;
use crate::proc_stats::{self, ProcStats};
use crate::redis_stats::CommandCounts;
use crate::report::RunReport;
use crate::tally::{Tally, unix_micros};
use crate::target::Target;
use crate::worker::messages::{Progress, WorkerCommand};
use crate::workers::Workers;
use crate::workers::machines::{JoinedMachine as Joined, gather};

/// `loadtest crowd`
#[derive(Debug, Clone, Args)]
pub(crate) struct CrowdCommand {
    #[command(flatten)]
    crowd: CrowdArgs,
    /// Let the machines that join at this address have the viewers, and print one report of all
    #[arg(
        long,
        requires = "machines",
        conflicts_with = "processes",
        value_name = "ADDR:PORT"
    )]
    coordinator: Option<SocketAddr>,
    /// So many machines join
    #[arg(long, requires = "coordinator", value_parser = clap::value_parser!(u16).range(1..=1_000), value_name = "N")]
    machines: Option<u16>,
    /// How long the coordinator waits for them
    #[arg(long, default_value = "60s", value_parser = humantime::parse_duration, value_name = "TIME")]
    join_within: Duration,
}

/// Runs `loadtest crowd`.
pub(crate) fn main(mut command: CrowdCommand) -> ExitCode {
    let args = &mut command.crowd;
    args.processes = command.machines.map_or(args.processes, usize::from);
    let found = crate::report::on_runtime(async {
        let plan = args.plan()?;
        let machines = match command.coordinator {
            Some(at) => Some(gather(at, plan.processes, command.join_within).await?),
            None => enough_files(&plan).map(|()| None)?,
        };
        Run::new(args, plan)?.finish(machines).await
    });
    crate::report::print(found, args.json, args.check)
}

struct Run<'a> {
    args: &'a CrowdArgs,
    plan: CrowdPlan,
    api: Api,
    redis: Option<Target>,
    started_at_ms: u64,
    bar: ProgressBar,
}

/// The figures of the server and of Redis at one moment.
struct CrowdSample {
    server: Option<ProcStats>,
    redis_cpu: Option<f64>,
    commands: Option<CommandCounts>,
}

/// What the phases of the run produced.
struct Drive {
    tally: Tally,
    /// The workers whose share is missing, and why.
    lost: BTreeMap<usize, String>,
    idle: CrowdSample,
    joined: CrowdSample,
    steady_end: CrowdSample,
    verify: Option<Verify>,
    interrupted: bool,
}

/// What the dashboards showed.
struct Verify {
    /// After the last viewer joined.
    joined: DashboardVerdict,
    /// At the end of the steady phase.
    held: DashboardVerdict,
    /// Messages with other counts than the truth, in the steady phase.
    wobbles: u64,
    /// After the last viewer left.
    left: DashboardVerdict,
    messages: u64,
}

impl<'a> Run<'a> {
    fn new(args: &'a CrowdArgs, plan: CrowdPlan) -> anyhow::Result<Self> {
        for (flag, pid) in [("pid", args.pid), ("redis-pid", args.redis_pid)] {
            if let Some(pid) = pid {
                ProcStats::read(pid)
                    .map_err(|why| ArgError::new(format!("--{flag} {pid}: {why}")))?;
            }
        }
        let api = Api::of(args, &plan)?;
        let redis = args.redis_target()?;
        // Drawn on standard error, and only if that is a terminal.
        let bar = ProgressBar::new(plan.viewers as u64);
        bar.set_style(ProgressStyle::with_template(
            "{prefix:<8} {wide_bar} {pos}/{len} {msg}",
        )?);
        Ok(Self {
            args,
            plan,
            api,
            redis,
            started_at_ms: unix_micros() / 1000,
            bar,
        })
    }

    async fn finish(self, machines: Option<Vec<Joined>>) -> anyhow::Result<RunReport> {
        let addresses: Vec<SocketAddr> = machines
            .iter()
            .flatten()
            .map(|machine| machine.address)
            .collect();
        let setup = self.set_up().await?;
        let drive = self.drive(machines).await;
        self.bar.finish_and_clear();
        // Lives and follows are removed after a failure, too.
        let cleared = self.api.clear(self.args, &self.plan).await;
        let drive = drive?;
        cleared?;
        self.report(&setup, &drive, &addresses)
    }

    async fn set_up(&self) -> anyhow::Result<Value> {
        let began = Instant::now();
        self.bar.set_prefix("setup");
        let follows_written = self.api.set_up(self.args, &self.plan).await?;
        Ok(json!({
            "lives_opened": self.plan.lives,
            "follows_written": follows_written,
            "seconds": began.elapsed().as_secs_f64(),
        }))
    }

    async fn drive(&self, machines: Option<Vec<Joined>>) -> anyhow::Result<Drive> {
        let plan = &self.plan;
        let dashboards = if self.args.verify {
            Some(CrowdDashboards::open(plan, self.args.verify_lives).await?)
        } else {
            None
        };
        let idle = self.sample().await?;

        self.bar.set_prefix("ramp");
        let bar = self.bar.clone();
        let show = move |sum: &Progress| {
            bar.set_position(sum.joined);
            bar.set_message(format!(
                "{} failed, {} lost, {} acks",
                sum.failed, sum.lost, sum.acked
            ));
        };
        let mut workers = match machines {
            Some(machines) => Workers::on_machines(plan, machines, show),
            None => Workers::start(plan, show)?,
        };
        let everybody = plan.viewers as u64;
        let slowest = Duration::from_secs_f64(plan.viewers as f64 / plan.ramp_per_second)
            + plan.connect_timeout * 2 * (plan.viewers.div_ceil(plan.in_flight) as u32 + 1);
        let mut interrupted = tokio::select! {
            settled = workers.until(slowest, |sum| sum.joined + sum.failed >= everybody) => {
                if !settled? { bail!("the ramp did not end within {slowest:?}") }
                false
            }
            _ = tokio::signal::ctrl_c() => true,
        };
        let truth = workers.counts().await?;
        let mut joined_verdict = None;
        // An interrupted ramp still lets viewers in, so the counts cannot settle.
        if let Some(dashboards) = dashboards.as_ref().filter(|_| !interrupted) {
            joined_verdict = Some(dashboards.settle(&truth, self.args.verify_timeout).await);
            dashboards.hold(&truth);
        }

        self.bar.set_prefix("steady");
        let joined = self.sample().await?;
        workers.tell(WorkerCommand::Steady).await?;
        if !interrupted {
            tokio::select! {
                ended = workers.until(self.args.duration, |_| false) => { ended?; }
                _ = tokio::signal::ctrl_c() => interrupted = true,
            }
        }
        workers.tell(WorkerCommand::Cool).await?;
        let steady_end = self.sample().await?;

        self.bar.set_prefix("leave");
        // Acks that do not come within this time are missing; the workers count them so.
        workers
            .until(plan.ack_timeout, |sum| sum.cool && sum.pending == 0)
            .await?;
        let mut held = None;
        if let Some(dashboards) = dashboards.as_ref().filter(|_| joined_verdict.is_some()) {
            let truth = workers.counts().await?;
            let cooled = unix_micros();
            let verdict = dashboards.settle(&truth, self.args.verify_timeout).await;
            held = Some((verdict.timed_from(cooled), dashboards.release()));
        }
        let (tally, lost) = workers.finish_without_lost().await?;
        let verify = match (&dashboards, joined_verdict, held) {
            (Some(dashboards), Some(joined), Some((held, wobbles))) => {
                let nobody = vec![[0; 3]; plan.lives];
                let left = dashboards.settle(&nobody, self.args.verify_timeout).await;
                let left = left.timed_from(tally.leaves.last().unwrap_or_default());
                let joined = joined.timed_from(tally.joins.last().unwrap_or_default());
                Some(Verify {
                    joined,
                    held,
                    wobbles,
                    left,
                    messages: dashboards.messages(),
                })
            }
            _ => None,
        };
        Ok(Drive {
            tally,
            lost,
            idle,
            joined,
            steady_end,
            verify,
            interrupted,
        })
    }

    async fn sample(&self) -> anyhow::Result<CrowdSample> {
        let server = self
            .args
            .pid
            .map(ProcStats::read)
            .transpose()
            .context("the gateway's process")?;
        let redis_cpu = self
            .args
            .redis_pid
            .map(proc_stats::cpu_seconds)
            .transpose()
            .context("Redis's process")?;
        let commands = match &self.redis {
            Some(redis) => Some(CommandCounts::read(redis).await?),
            None => None,
        };
        Ok(CrowdSample {
            server,
            redis_cpu,
            commands,
        })
    }
}
