//! `loadtest crowd`: opens the lives, lets the crowd in, measures it while it is steady, lets it
//! leave, and reports. The viewers are in this process, in several, or on the machines that join.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use tokio::time::Instant;

use crate::api::Api;
use crate::args::{ArgError, CrowdArgs, enough_files};
use crate::dashboards::Dashboards;
use crate::plan::CrowdPlan;
use crate::proc_stats::{self, Machine, ProcStats};
use crate::redis_stats::CommandCounts;
use crate::report::{self, Check, Commands, Cpu, Quantiles, Report, Setup, Verify};
use crate::tally::{Tally, unix_micros};
use crate::target::Target;
use crate::worker::messages::{Command, Progress};
use crate::workers::Workers;
use crate::workers::machines::{Machine as Joined, gather};

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
    let run = || {
        let plan = args.plan()?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        runtime.block_on(async {
            let machines = match command.coordinator {
                Some(at) => Some(gather(at, plan.processes, command.join_within).await?),
                None => enough_files(&plan).map(|()| None)?,
            };
            Run::new(args, plan)?.finish(machines).await
        })
    };
    match run() {
        Ok(report) => finish(args, &report),
        Err(error) => ArgError::exit(&error),
    }
}

fn finish(args: &CrowdArgs, report: &Report) -> ExitCode {
    report::print(report, args.json);
    // A run without a single viewer, or without a worker's share, fails even without --check.
    let failed = report.join.joined == 0
        || report.workers.iter().any(|worker| worker.lost.is_some())
        || (args.check && !report.check.passed);
    if failed {
        report
            .check
            .failures
            .iter()
            .for_each(|failure| eprintln!("loadtest: {failure}"));
    }
    ExitCode::from(u8::from(failed))
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
struct Sample {
    server: Option<ProcStats>,
    redis_cpu: Option<f64>,
    commands: Option<CommandCounts>,
}

/// What the phases of the run produced.
struct Drive {
    tally: Tally,
    /// The workers whose share is missing, and why.
    lost: BTreeMap<usize, String>,
    idle: Sample,
    joined: Sample,
    steady_end: Sample,
    verify: Option<Verify>,
    interrupted: bool,
}

impl<'a> Run<'a> {
    fn new(args: &'a CrowdArgs, plan: CrowdPlan) -> anyhow::Result<Self> {
        for (flag, pid) in [("pid", args.pid), ("redis-pid", args.redis_pid)] {
            if let Some(pid) = pid {
                ProcStats::read(pid).map_err(|why| ArgError::Pid { flag, pid, why })?;
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

    async fn finish(self, machines: Option<Vec<Joined>>) -> anyhow::Result<Report> {
        let addresses: Vec<SocketAddr> = machines
            .iter()
            .flatten()
            .map(|machine| machine.address)
            .collect();
        let setup = self.set_up().await?;
        let drive = self.drive(machines).await;
        self.bar.finish_and_clear();
        // Lives and follows are removed after a failure, too.
        let cleared = if self.args.keep {
            Ok(())
        } else {
            self.clean_up().await
        };
        let drive = drive?;
        cleared.context("clearing up after the run")?;
        Ok(self.report(setup, drive, &addresses))
    }

    async fn set_up(&self) -> anyhow::Result<Setup> {
        let began = Instant::now();
        self.bar.set_prefix("setup");
        self.api.open_lives(&self.plan, self.args.slices).await?;
        let follows_written = if self.args.no_setup {
            0
        } else {
            self.api.follow(&self.plan).await?
        };
        Ok(Setup {
            lives_opened: self.plan.lives,
            follows_written,
            seconds: began.elapsed().as_secs_f64(),
        })
    }

    async fn clean_up(&self) -> anyhow::Result<()> {
        self.api.close_lives(&self.plan).await?;
        if !self.args.no_setup {
            self.api.unfollow(&self.plan).await?;
        }
        Ok(())
    }

    async fn drive(&self, machines: Option<Vec<Joined>>) -> anyhow::Result<Drive> {
        let plan = &self.plan;
        let dashboards = if self.args.verify {
            Some(Dashboards::open(plan, self.args.verify_lives).await?)
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
        workers.tell(Command::Steady).await?;
        if !interrupted {
            tokio::select! {
                ended = workers.until(self.args.duration, |_| false) => { ended?; }
                _ = tokio::signal::ctrl_c() => interrupted = true,
            }
        }
        workers.tell(Command::Cool).await?;
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
                let nobody = vec![[0; 2]; plan.lives];
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

    async fn sample(&self) -> anyhow::Result<Sample> {
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
        Ok(Sample {
            server,
            redis_cpu,
            commands,
        })
    }

    fn report(&self, setup: Setup, drive: Drive, addresses: &[SocketAddr]) -> Report {
        let Drive {
            tally,
            lost,
            idle,
            joined,
            steady_end,
            verify,
            interrupted,
        } = drive;
        let plan = &self.plan;
        let mut check = Check::of(&tally, plan.viewers, verify.as_ref());
        if interrupted {
            check.passed = false;
            check.failures.push("interrupted".to_owned());
        }
        let worker = |process| report::Worker {
            viewers: plan.share(process).count(),
            address: addresses.get(process).copied(),
            lost: lost.get(&process).cloned(),
        };
        for (process, why) in &lost {
            check.passed = false;
            check
                .failures
                .push(format!("worker {process} was lost: {why}"));
        }
        let server = self.server(&tally, [idle.server, joined.server, steady_end.server]);
        let redis_cpu = joined
            .redis_cpu
            .zip(steady_end.redis_cpu)
            .map(|(from, to)| Cpu::over(&tally, to - from));
        let commands = joined.commands.zip(steady_end.commands).map(|(from, to)| {
            let by_name = to.since(&from);
            let total: u64 = by_name.values().sum();
            Commands {
                total,
                per_second: report::rate(total as f64, tally.steady_seconds),
                per_heartbeat: report::per(total as f64, tally.steady_acked),
                by_name,
            }
        });
        let redis = if redis_cpu.is_some() || commands.is_some() {
            Some(report::Redis {
                cpu: redis_cpu,
                commands,
            })
        } else {
            None
        };
        Report {
            version: env!("CARGO_PKG_VERSION"),
            started_at_ms: self.started_at_ms,
            machine: Machine::read(),
            settings: self.settings(),
            setup,
            connect: report::Connect {
                connected: tally.connected,
                seconds: tally.connects.seconds(),
                per_second: report::rate(tally.connected as f64, tally.connects.seconds()),
                latency_us: Quantiles::of(&tally.connect),
            },
            join: report::Join {
                joined: tally.joined,
                failed: tally.failed,
                latency_us: Quantiles::of(&tally.join),
            },
            heartbeats: report::Heartbeats {
                sent: tally.sent,
                acked: tally.acked,
                unanswered: tally.sent - tally.acked,
                steady_seconds: tally.steady_seconds,
                steady_sent: tally.steady_sent,
                steady_acked: tally.steady_acked,
                sent_per_second: report::rate(tally.steady_sent as f64, tally.steady_seconds),
                acked_per_second: report::rate(tally.steady_acked as f64, tally.steady_seconds),
                ack_latency_us: Quantiles::of(&tally.ack),
            },
            fan_flags: tally.fan_flags,
            sockets: report::Sockets {
                lost: tally.lost,
                left: tally.left,
            },
            generator: report::Generator {
                processes: plan.processes,
                cpu_seconds: tally.steady_cpu_seconds,
                cpu_us_per_heartbeat: report::per(
                    tally.steady_cpu_seconds * 1e6,
                    tally.steady_acked,
                ),
                lag_us: Quantiles::of(&tally.lag),
            },
            workers: (0..plan.processes).map(worker).collect(),
            errors: tally.errors,
            server,
            redis,
            verify,
            check,
        }
    }

    fn server(
        &self,
        tally: &Tally,
        [idle, joined, steady_end]: [Option<ProcStats>; 3],
    ) -> Option<report::Server> {
        let idle = idle?;
        let joined = joined?;
        let steady_end = steady_end?;
        let rss_growth = joined.rss_bytes as f64 - idle.rss_bytes as f64;
        let anon_growth = joined.rss_anon_bytes as f64 - idle.rss_anon_bytes as f64;
        Some(report::Server {
            pid: self.args.pid?,
            rss_bytes_per_socket: report::per(rss_growth, tally.joined),
            rss_anon_bytes_per_socket: report::per(anon_growth, tally.joined),
            cpu: Cpu::over(tally, steady_end.cpu_seconds - joined.cpu_seconds),
            idle,
            joined,
            steady_end,
        })
    }

    fn settings(&self) -> report::Settings {
        let plan = &self.plan;
        report::Settings {
            viewers: plan.viewers,
            lives: plan.lives,
            spread: plan.spread,
            zipf_exponent: plan.zipf_exponent,
            fans: plan.fans,
            seed: plan.seed,
            heartbeat_ms: plan.heartbeat.as_millis() as u64,
            closed_loop: plan.closed_loop,
            ramp_per_second: plan.ramp_per_second,
            in_flight: plan.in_flight,
            join: plan.join,
            by: plan.by,
            duration_ms: self.args.duration.as_millis() as u64,
            source_addresses: plan.sources,
        }
    }
}
