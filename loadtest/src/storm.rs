//! `loadtest storm`: all viewers but some bystanders lose their connection in the same moment, with
//! no close frame, and reconnect at once, or when the gateway tells them to. Meanwhile the
//! bystanders go on with their heartbeats, and the dashboards must not move, because a viewer who
//! loses the network keeps the seat until the timeout.

mod report;
mod sizes;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::bail;
use clap::Args;

use crate::api::Api;
use crate::args::{ArgError, CrowdArgs, enough_files};
use crate::dashboards::CrowdDashboards;
use crate::plan::{CrowdPlan, ViewerTransport};
use crate::report::RunReport;
use crate::tally::unix_micros;
use crate::worker::messages::WorkerCommand;
use crate::workers::Workers;
use report::{StormFindings, StormTerms};

/// Between the last join and the cut. By then all fan checks are done, and heartbeats are under
/// way.
const CALM: Duration = Duration::from_secs(2);

/// No phase takes longer than this.
const LONGEST: Duration = Duration::from_secs(90);

/// `loadtest storm`: the crowd's settings (--viewers are those cut off, --duration is watched from
/// the cut on) and some of its own.
#[derive(Debug, Clone, Args)]
pub(crate) struct StormArgs {
    #[command(flatten)]
    crowd: CrowdArgs,
    /// How many more viewers stay connected
    #[arg(long, default_value_t = 500, value_name = "N")]
    bystanders: usize,
    /// Everybody has to be back and joined within this time (--check)
    #[arg(long, default_value = "10s", value_parser = humantime::parse_duration, value_name = "TIME")]
    within: Duration,
    /// 99 of 100 heartbeats of those who stay have to be answered within this time (--check)
    #[arg(long, default_value = "250ms", value_parser = humantime::parse_duration, value_name = "TIME")]
    ack_within: Duration,
}

/// Runs `loadtest storm`.
pub(crate) fn main(mut args: StormArgs) -> ExitCode {
    let cut = args.crowd.viewers;
    args.crowd.viewers += args.bystanders;
    let found = crate::report::on_runtime(run(&args, cut));
    crate::report::print(found, args.crowd.json, args.crowd.check)
}

async fn run(args: &StormArgs, cut: usize) -> anyhow::Result<RunReport> {
    if args.crowd.by != ViewerTransport::Ws {
        return Err(ArgError::new("--by must be ws: a storm cuts the viewers' WebSockets").into());
    }
    let plan = CrowdPlan {
        bystanders: args.bystanders,
        ..args.crowd.plan()?
    };
    enough_files(&plan)?;
    let api = Api::of(&args.crowd, &plan)?;
    api.set_up(&args.crowd, &plan).await?;
    let seen = drive(args, &plan, cut).await;
    api.clear(&args.crowd, &plan).await?;
    let asked = StormTerms {
        cut,
        bystanders: args.bystanders,
        within: args.within,
        ack_within: args.ack_within,
    };
    seen?.report(&asked)
}

async fn drive(args: &StormArgs, plan: &CrowdPlan, cut: usize) -> anyhow::Result<StormFindings> {
    let dashboards = CrowdDashboards::open(plan, args.crowd.verify_lives).await?;
    let mut workers = Workers::start(plan, |_| {})?;
    let everybody = plan.viewers as u64;
    let ramp = Duration::from_secs_f64(plan.viewers as f64 / plan.ramp_per_second) + LONGEST;
    if !workers
        .until(ramp, |sum| sum.joined + sum.failed >= everybody)
        .await?
    {
        bail!("the crowd was not in within {ramp:?}");
    }
    let truth = workers.counts().await?;
    let before = dashboards.settle(&truth, args.crowd.verify_timeout).await;
    workers.until(CALM, |_| false).await?;
    dashboards.hold(&truth);

    workers.tell(WorkerCommand::Steady).await?;
    let cut_at = unix_micros();
    workers.tell(WorkerCommand::Cut).await?;
    let all_back = workers
        .until(LONGEST, |sum| sum.returned + sum.stranded >= cut as u64)
        .await?;
    let passed = Duration::from_micros(unix_micros().saturating_sub(cut_at));
    // The seats of the cut sockets end at the gateway's timeout: the counts must not move then,
    // either.
    workers
        .until(args.crowd.duration.saturating_sub(passed), |_| false)
        .await?;
    let lowest = dashboards.lowest();
    let after_truth = workers.counts().await?;
    let after = dashboards
        .settle(&after_truth, args.crowd.verify_timeout)
        .await;
    let wobbles = dashboards.release();
    let fans_in_redis = match args.crowd.redis_target()? {
        Some(redis) => Some(sizes::fans(&redis, plan).await?),
        None => None,
    };
    workers.cool(plan.ack_timeout).await?;
    let tally = workers.finish().await?;
    Ok(StormFindings {
        truth,
        before,
        after,
        lowest,
        wobbles,
        fans_in_redis,
        cut_at,
        all_back,
        tally,
    })
}
