//! `loadtest fan-source-outage`: a PostgreSQL that knows the fans is stopped for a while under a
//! crowd of viewers. No socket may be lost, no known fan may leave the set, nobody may be kept out,
//! and who joined meanwhile must become a fan when the database is back.
//!
//! The command starts a Redis, a PostgreSQL and a gateway of its own, and ends them.

#[path = "../../tests/support/postgres.rs"]
mod postgres;
mod report;

use std::collections::HashSet;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::Args;
use fred::clients::Client;
use fred::interfaces::SetsInterface;
use reqwest::Method;
use serde_json::json;
use tokio::time::{Instant, sleep};

use self::postgres::{FOLLOWS, Postgres};
use self::report::Outage;
use crate::bench::servers::{BenchGateway, Redis, Server};
use crate::plan::CrowdPlan;
use crate::report::RunReport;
use crate::tally::Tally;
use crate::target::Target;
use crate::tool::ToolArgs;
use crate::worker::messages::WorkerCommand;
use crate::workers::Workers;

/// Short, so that many answers expire during the outage.
const FAN_TTL: &str = "2s";
/// Everybody is in, and every fan in the set, within this time.
const READY: Duration = Duration::from_secs(60);
/// After the database is back: the longest pause of the breaker, the longest wait for a retry, and
/// the questions.
const BACK: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(200);

/// `loadtest fan-source-outage`
#[derive(Debug, Clone, Args)]
pub(crate) struct OutageArgs {
    /// Viewers who are there before the outage; a tenth as many join during it
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u16).range(10..=10_000), value_name = "N")]
    viewers: u16,
    /// How long the database is stopped, in seconds
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u16).range(5..=300), value_name = "N")]
    seconds: u16,
    #[command(flatten)]
    tool: ToolArgs,
}

/// Runs `loadtest fan-source-outage`.
pub(crate) fn main(args: &OutageArgs) -> ExitCode {
    args.tool.end(run(args))
}

/// A crowd, and the fans whom it adds to the live.
struct OutageCrowd {
    plan: CrowdPlan,
    fans: HashSet<String>,
}

impl OutageCrowd {
    /// Viewers of live 0 of the plan, with a heartbeat a second each.
    fn new(target: &Target, prefix: &str, viewers: usize) -> Self {
        let plan = CrowdPlan::steady(target.clone(), prefix, viewers, 1);
        let fans = plan.fan_ids().remove(0);
        Self { plan, fans }
    }

    /// The live of this crowd, opened by a back end, and its fans in the table.
    async fn is_expected(&self, gateway: &BenchGateway, database: &Postgres) -> anyhow::Result<()> {
        let streamer = self.plan.streamer_id(0);
        let users: Vec<&str> = self.fans.iter().map(String::as_str).collect();
        ensure!(
            !users.is_empty(),
            "a crowd without fans shows nothing: use more viewers"
        );
        database.follow(&streamer, &users).await;
        let body = json!({ "streamer_id": streamer, "slices": 4 });
        gateway
            .call(
                Method::PUT,
                &format!("/v1/lives/{}", self.plan.live_id(0)),
                Some(body),
            )
            .await?;
        Ok(())
    }

    /// Starts the crowd and waits until everybody is in.
    async fn enter(&self) -> anyhow::Result<Workers> {
        let mut workers = Workers::start(&self.plan, |_| {})?;
        let all = self.plan.viewers as u64;
        ensure!(
            workers.until(READY, |sum| sum.joined >= all).await?,
            "viewers were kept out"
        );
        workers.tell(WorkerCommand::Steady).await?;
        Ok(workers)
    }

    /// Ends the crowd in good order.
    async fn leave(&self, mut workers: Workers) -> anyhow::Result<Tally> {
        workers.cool(self.plan.ack_timeout).await?;
        workers.finish().await
    }

    /// Compares the set with the fans: how many fans are missing, and how many others are there.
    async fn look(&self, redis: &Client) -> anyhow::Result<(usize, usize)> {
        let mut members = HashSet::new();
        for slice in 1..=4 {
            let key = format!("online-fans:{}_slice{slice}", self.plan.live_id(0));
            members.extend(redis.smembers::<HashSet<String>, _>(key).await?);
        }
        Ok((
            self.fans.difference(&members).count(),
            members.difference(&self.fans).count(),
        ))
    }

    /// Waits until the set has exactly the fans. Returns how long that took.
    async fn is_whole(&self, redis: &Client, within: Duration) -> anyhow::Result<Option<Duration>> {
        let began = Instant::now();
        while began.elapsed() < within {
            if self.look(redis).await? == (0, 0) {
                return Ok(Some(began.elapsed()));
            }
            sleep(LOOK).await;
        }
        Ok(None)
    }
}

async fn run(args: &OutageArgs) -> anyhow::Result<RunReport> {
    let programs = args.tool.programs()?;
    let redis = Redis::start().await?;
    let mut database = Postgres::start().await;
    database.run(FOLLOWS).await;
    let url = redis.url();
    let fans = database.url();
    let password = database.password_file();
    let password = password.to_str().context("a path that is not UTF-8")?;
    let mut flags = vec![
        "--listen",
        "127.0.0.1:0",
        "--log",
        "warn",
        "--redis",
        &url,
        "--http-rate",
        "0",
    ];
    flags.extend([
        "--fan-source",
        "sql",
        "--fan-url",
        &fans,
        "--fan-secret-file",
        password,
        "--fan-ttl",
        FAN_TTL,
    ]);
    let gateway = BenchGateway::of(Server::start(&programs.gateway, &flags).await?)?;
    let target = Target::gateway(gateway.server.addr);

    let known = OutageCrowd::new(&target, "known", args.viewers.into());
    let late = OutageCrowd::new(&target, "late", usize::from(args.viewers / 10).max(10));
    known.is_expected(&gateway, &database).await?;
    late.is_expected(&gateway, &database).await?;
    let workers = known.enter().await?;
    known
        .is_whole(&redis.client, READY)
        .await?
        .context("the fans were not in the set before the outage")?;

    eprintln!("PostgreSQL is stopped for {} s …", args.seconds);
    let began = Instant::now();
    let outage = Duration::from_secs(args.seconds.into());
    database.stop();
    let newcomers = late.enter().await?;
    let mut seen = Outage {
        viewers: known.plan.viewers,
        newcomers: late.plan.viewers,
        ..Outage::default()
    };
    while began.elapsed() < outage {
        let (missing, strangers) = known.look(&redis.client).await?;
        let (unknown, _) = late.look(&redis.client).await?;
        seen.readings += 1;
        seen.known_fans_missing = seen.known_fans_missing.max(missing);
        seen.strangers = seen.strangers.max(strangers);
        seen.newcomers_known = seen.newcomers_known.max(late.fans.len() - unknown);
        seen.breaker_opened |= gateway.metric("rollcall_fan_breaker").await? > 0.0;
        sleep(LOOK).await;
    }
    seen.seconds_down = began.elapsed().as_secs_f64();
    database.go_on().await;
    seen.newcomers_known_after_s = late
        .is_whole(&redis.client, BACK)
        .await?
        .map(|took| took.as_secs_f64());
    seen.known_fans_at_the_end = known.look(&redis.client).await? == (0, 0);
    (seen.known_fans, seen.newcomer_fans) = (known.fans.len(), late.fans.len());
    for (crowd, workers) in [(&known, workers), (&late, newcomers)] {
        seen.count(&crowd.leave(workers).await?);
    }
    seen.report()
}
