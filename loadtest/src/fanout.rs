//! `loadtest fanout`: a streamer with very many followers goes on air and off again. It measures
//! how soon the request is answered, how long it takes until every follower's feed has the live,
//! and what others notice meanwhile. Then a gateway is killed in the middle of it, and another one
//! must leave nobody out.
//!
//! The command starts a Redis and gateways of its own, and reads the feeds in Redis, past the
//! gateways.

mod probes;
mod report;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::Args;
use fred::interfaces::{ClientLike, SortedSetsInterface};
use fred::types::{ClusterHash, CustomCommand, Value};
use reqwest::Method;
use serde_json::json;
use tokio::time::Instant;

use self::probes::{LIVE, Probes};
use self::report::{FanoutReach, FanoutReport, Killed};
use crate::bench::servers::{BenchGateway, Programs, Redis};
use crate::report::RunReport;
use crate::target::Target;
use crate::tool::ToolArgs;

/// Followers that are written, or looked at, with one command.
const TOGETHER: usize = 1_000;
/// Until every feed is written.
const DEADLINE: Duration = Duration::from_secs(600);
const LOOK: Duration = Duration::from_millis(100);
/// Neither heartbeats nor handshakes of the probes are limited, and each gateway takes whom it
/// likes.
const FLAGS: [&str; 6] = [
    "--message-rate",
    "0",
    "--fanout-limit",
    "100000000",
    "--join-rate",
    "0",
];

/// `loadtest fanout`
#[derive(Debug, Clone, Args)]
pub(crate) struct FanoutArgs {
    /// Followers of the streamer who goes on air
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1_000..=10_000_000))]
    followers: u32,
    /// Followers of the streamer whose gateway is killed
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(10_000..=10_000_000))]
    killed: u32,
    /// How long the quiet before is measured, in seconds
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u8).range(1..=60))]
    quiet: u8,
    #[command(flatten)]
    tool: ToolArgs,
}

/// Runs `loadtest fanout`.
pub(crate) fn main(args: &FanoutArgs) -> ExitCode {
    args.tool.end(run(args))
}

async fn run(args: &FanoutArgs) -> anyhow::Result<RunReport> {
    let programs = args.tool.programs()?;
    let redis = Redis::start().await?;
    let probing = Duration::from_secs(args.quiet.into());
    let gateway = programs.gateway_with(&redis, None, &FLAGS).await?;
    put(&gateway, &format!("/v1/lives/{LIVE}"), "nobody").await?;
    let target = Target::websocket(&format!("ws://{}", gateway.server.addr))
        .context("the gateway's address")?;

    eprintln!("{} follow …", args.followers);
    let large = FollowerCrowd {
        redis: &redis,
        streamer: "large",
        followers: args.followers as usize,
    };
    large.follow().await?;
    eprintln!("quiet …");
    let probes = Probes::start(&target, &redis.client);
    tokio::time::sleep(probing).await;
    let quiet = probes.end().await?;
    eprintln!("on air …");
    let probes = Probes::start(&target, &redis.client);
    let on = large.reached_by(&gateway, Method::PUT).await?;
    let busy = probes.end().await?;
    let (once, all) = large.feeds().await?;
    eprintln!("off air …");
    let off = large.reached_by(&gateway, Method::DELETE).await?;
    let left = large.feeds().await?.1;

    eprintln!("a gateway is killed …");
    let killed = kill(&programs, &redis, gateway, args.killed as usize).await?;
    let followers = args.followers as usize;
    FanoutReport {
        followers,
        quiet,
        busy,
        on,
        off,
        once,
        all,
        left,
        killed,
    }
    .report()
}

/// Kills the gateway while it tells followers; another one goes on.
async fn kill(
    programs: &Programs,
    redis: &Redis,
    doomed: BenchGateway,
    followers: usize,
) -> anyhow::Result<Killed> {
    let crowd = FollowerCrowd {
        redis,
        streamer: "doomed",
        followers,
    };
    crowd.follow().await?;
    put(&doomed, &crowd.path(), crowd.streamer).await?;
    let began = Instant::now();
    // The last follower is told first.
    while !crowd.has_feed(followers * 2 / 3).await? {
        ensure!(began.elapsed() < DEADLINE, "followers are not told");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    doomed.server.end().await;
    let told = crowd.feeds().await?.0;
    let since = Instant::now();
    let other = programs.gateway_with(redis, None, &FLAGS).await?;
    crowd.until_idle().await?;
    let after = since.elapsed().as_secs_f64();
    let (once, all) = crowd.feeds().await?;
    other.call(Method::DELETE, &crowd.path(), None).await?;
    crowd.until_idle().await?;
    let left = crowd.feeds().await?.1;
    Ok(Killed {
        followers,
        told,
        after,
        once,
        all,
        left,
    })
}

async fn put(gateway: &BenchGateway, path: &str, streamer: &str) -> anyhow::Result<()> {
    gateway
        .call(Method::PUT, path, Some(json!({ "streamer_id": streamer })))
        .await
        .map(drop)
}

/// The followers of a streamer: the streamer's id and a number each.
struct FollowerCrowd<'a> {
    redis: &'a Redis,
    streamer: &'a str,
    followers: usize,
}

impl FollowerCrowd<'_> {
    fn path(&self) -> String {
        format!("/v1/lives/{}", self.streamer)
    }

    fn feed(&self, n: usize) -> String {
        format!("statuses:feed:{}{n}", self.streamer)
    }

    /// Written as a platform would.
    async fn follow(&self) -> anyhow::Result<()> {
        let key = format!("followers:{}", self.streamer);
        for from in (0..self.followers).step_by(TOGETHER) {
            let to = (from + TOGETHER).min(self.followers);
            let members: Vec<(f64, String)> = (from..to)
                .map(|n| (n as f64, format!("{}{n}", self.streamer)))
                .collect();
            self.redis
                .client
                .zadd::<(), _, _>(key.as_str(), None, None, false, false, members)
                .await?;
        }
        Ok(())
    }

    async fn ask(&self, command: &'static str, words: Vec<String>) -> anyhow::Result<Value> {
        Ok(self
            .redis
            .client
            .custom(
                CustomCommand::new_static(command, ClusterHash::FirstKey, false),
                words,
            )
            .await?)
    }

    async fn has_feed(&self, n: usize) -> anyhow::Result<bool> {
        Ok(self.ask("EXISTS", vec![self.feed(n)]).await?.as_u64() == Some(1))
    }

    /// How many followers have exactly one live in their feed, and how many lives all feeds have.
    async fn feeds(&self) -> anyhow::Result<(usize, usize)> {
        let script = "local once, all = 0, 0
            for _, key in ipairs(KEYS) do
                local n = redis.call('ZCARD', key)
                once, all = once + (n == 1 and 1 or 0), all + n
            end
            return { once, all }";
        let mut once = 0;
        let mut all = 0;
        for from in (0..self.followers).step_by(TOGETHER) {
            let keys: Vec<String> = (from..(from + TOGETHER).min(self.followers))
                .map(|n| self.feed(n))
                .collect();
            let words = [script.to_owned(), keys.len().to_string()]
                .into_iter()
                .chain(keys)
                .collect();
            let said: Vec<usize> = self.ask("EVAL", words).await?.convert()?;
            once += said.first().context("an answer")?;
            all += said.get(1).context("an answer")?;
        }
        Ok((once, all))
    }

    /// Waits until no job is left.
    async fn until_idle(&self) -> anyhow::Result<()> {
        let began = Instant::now();
        while self
            .ask("HLEN", vec!["{rollcall:fanout}:progress".to_owned()])
            .await?
            .as_u64()
            != Some(0)
        {
            ensure!(
                began.elapsed() < DEADLINE,
                "jobs are left after {DEADLINE:?}"
            );
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    /// Opens or closes the live, and waits until every follower knows.
    async fn reached_by(
        &self,
        gateway: &BenchGateway,
        method: Method,
    ) -> anyhow::Result<FanoutReach> {
        let began = Instant::now();
        let cpu = self.redis.server.cpu()?;
        match method {
            Method::PUT => put(gateway, &self.path(), self.streamer).await?,
            method => drop(gateway.call(method, &self.path(), None).await?),
        }
        let answered_ms = began.elapsed().as_secs_f64() * 1e3;
        self.until_idle().await?;
        let took = began.elapsed().as_secs_f64();
        Ok(FanoutReach {
            answered_ms,
            took,
            redis: (self.redis.server.cpu()? - cpu) / took,
        })
    }
}
