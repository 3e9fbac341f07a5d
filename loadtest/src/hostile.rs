//! `loadtest hostile`: one kind of hostile client after another, beside a crowd of honest viewers.
//! The hostile clients must get the documented answer, and the honest viewers must not notice.
//!
//! The command starts a Redis and two gateways with `--auth jwt`. Hostile clients come from
//! loopback, which has no limits per address: the worst case. Those who attack from one address do
//! so at the second gateway, which is told the address in PROXY headers. An attack lasts as long as
//! asked, or until its clients have their answer.

mod attacks;
mod flood;
mod honest;
mod issuer;
mod neighbours;
mod occupation;
mod publishers;
mod report;
mod scene;
mod wire;

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use clap::Args;
use reqwest::Method;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use self::attacks::{Attack, HALF_OPEN};
use self::honest::{LIVES, Observer, p99_ms};
use self::issuer::Issuer;
use self::occupation::SLOTS;
use self::report::{AttackRow, Hostile};
use self::scene::Scene;
use self::wire::Wire;
use crate::bench::servers::{BenchGateway, Programs, Redis, Server};
use crate::entry::EntryTerms;
use crate::plan::CrowdPlan;
use crate::proc_stats::open_files_limit;
use crate::report::RunReport;
use crate::target::Target;
use crate::tool::ToolArgs;
use crate::worker::messages::WorkerCommand;
use crate::workers::Workers;

/// Shorter than the defaults, so that each answer comes soon. For honest clients that is the harder
/// case.
const TIMES: [&str; 6] = [
    "--handshake-timeout",
    "3s",
    "--heartbeat",
    "2s",
    "--timeout",
    "6s",
];

/// The crowd is in, and its fans are in Redis, within this time.
const READY: Duration = Duration::from_secs(60);

/// After an attack, before quiet is measured.
const SETTLED: Duration = Duration::from_millis(300);

/// How often late acks are measured again with --check: what else runs on the machine delays them,
/// too.
const TRIES: u32 = 3;

/// Descriptors besides the crowd and the half-open connections.
const SPARE_FILES: usize = 512;

/// `loadtest hostile`
#[derive(Debug, Clone, Args)]
pub(crate) struct HostileArgs {
    /// Honest viewers
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u16).range(10..=10_000), value_name = "N")]
    viewers: u16,
    /// How long each attack lasts, and the quiet before it, in seconds
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..=60), value_name = "N")]
    seconds_per_attack: u8,
    /// Only the attacks with this text in their names
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    #[command(flatten)]
    tool: ToolArgs,
}

/// Runs `loadtest hostile`.
pub(crate) fn main(args: &HostileArgs) -> ExitCode {
    args.tool.end(run(args))
}

async fn run(args: &HostileArgs) -> anyhow::Result<RunReport> {
    let needed = usize::from(args.viewers) + HALF_OPEN + SPARE_FILES;
    let limit = open_files_limit().unwrap_or(usize::MAX);
    ensure!(
        needed <= limit,
        "{needed} open files are needed, the limit is {limit}: raise `ulimit -n`"
    );
    let attacks = chosen(args.only.as_deref())?;
    let programs = args.tool.programs()?;
    let redis = Redis::start().await?;
    let (scene, plan) = scene(&programs, &redis, args.viewers.into()).await?;
    let mut crowd = Workers::start(&plan, |_| {})?;
    let observer = Observer::start(redis.client.clone(), &plan);
    enter(&mut crowd, &observer, args.viewers.into()).await?;
    give_way()?;

    let seconds = Duration::from_secs(args.seconds_per_attack.into());
    let mut rows = Vec::new();
    for attack in attacks {
        eprintln!("{} …", attack.name);
        let mut row = measure(attack, &scene, &mut crowd, &observer, seconds).await?;
        while args.tool.check && !row.is_quick() && row.measured < TRIES {
            row = measure(attack, &scene, &mut crowd, &observer, seconds)
                .await?
                .after(row);
        }
        rows.push(row);
    }
    drop(observer);
    crowd.cool(plan.ack_timeout).await?;
    let tally = crowd.finish().await?;
    Hostile {
        viewers: plan.viewers,
        fans: plan.fan_ids().iter().map(HashSet::len).sum(),
        rows,
        sockets_lost: tally.lost,
        heartbeats: tally.sent,
        unanswered: tally.sent - tally.acked,
        errors: tally.errors,
    }
    .report()
}

fn chosen(only: Option<&str>) -> anyhow::Result<Vec<&'static Attack>> {
    let mut chosen: Vec<&Attack> = attacks::ALL.iter().collect();
    if let Some(text) = only {
        chosen.retain(|attack| attack.name.contains(text));
        ensure!(
            !chosen.is_empty(),
            "--only: no attack has {text:?} in its name"
        );
    }
    Ok(chosen)
}

/// Lets every other process go before this one's hostile clients, whose work is done on other
/// machines in truth: they run only while nothing else wants to. The gateway, Redis and the honest
/// crowd have been started, and keep their priority.
fn give_way() -> anyhow::Result<()> {
    let this = std::process::id().to_string();
    let chrt = std::process::Command::new("chrt")
        .args(["--idle", "--all-tasks", "--pid", "0", &this])
        .status();
    ensure!(chrt.context("chrt of util-linux")?.success(), "chrt failed");
    Ok(())
}

/// A gateway with lives, and followers who are yet to come.
async fn scene(
    programs: &Programs,
    redis: &Redis,
    viewers: usize,
) -> anyhow::Result<(Arc<Scene>, CrowdPlan)> {
    let issuer = Issuer::new().await?;
    let url = redis.url();
    let secret = PathBuf::from(&issuer.secret_file);
    let mut flags = vec![
        "--listen",
        "127.0.0.1:0",
        "--log",
        "warn",
        "--redis",
        &url,
        "--auth",
        "jwt",
        "--udp",
        "127.0.0.1:0",
    ];
    flags.extend([
        "--jwt-hs256-secret-file",
        &issuer.secret_file,
        "--jwt-public-key",
        &issuer.public_key_file,
    ]);
    flags.extend(TIMES);
    let settings = publishers::settings(issuer.folder()).await?;
    flags.extend(["--config", &settings]);
    let gateway = BenchGateway::of(Server::start(&programs.gateway, &flags).await?)?
        .with_tokens_of(&secret)?;
    flags.extend(["--proxy-protocol", "on", "--max-handshakes", SLOTS]);
    let proxied = BenchGateway::of(Server::start(&programs.gateway, &flags).await?)?;

    let target = Target::gateway(gateway.server.addr);
    let entry = EntryTerms {
        secret: Some(secret),
        ..EntryTerms::default()
    };
    let plan = CrowdPlan::steady(Target { entry, ..target }, "honest", viewers, LIVES);
    let absent_fan = "absent-fan".to_owned();
    honest::follow(&redis.client, &plan, &absent_fan).await?;
    for live in 0..LIVES as u32 {
        let body = json!({"streamer_id": plan.streamer_id(live), "slices": 1});
        gateway
            .call(
                Method::PUT,
                &format!("/v1/lives/{}", plan.live_id(live)),
                Some(body),
            )
            .await?;
    }
    // Otherwise a refused RSA token would prove nothing.
    let query = format!("token={}", issuer.viewer_by_rsa("u1")?);
    let good = Wire::connect(gateway.server.addr)
        .await?
        .upgrade(&query, "")
        .await?;
    ensure!(good.is_ok(), "a good RSA token was refused: {good:?}");
    Ok((
        Arc::new(Scene {
            issuer,
            gateway,
            proxied,
            live_id: plan.live_id(0),
            absent_fan,
        }),
        plan,
    ))
}

/// Waits until the crowd is in and every fan is in Redis.
async fn enter(crowd: &mut Workers, observer: &Observer, viewers: u64) -> anyhow::Result<()> {
    if !crowd.until(READY, |sum| sum.joined >= viewers).await? {
        bail!("the crowd was not in within {READY:?}");
    }
    let began = Instant::now();
    loop {
        observer.take();
        sleep(Duration::from_millis(500)).await;
        let seen = observer.take();
        if seen.readings > 0 && seen.missing_fans == 0 && seen.unread == 0 {
            return crowd.tell(WorkerCommand::Steady).await;
        }
        ensure!(
            began.elapsed() < READY,
            "{} fans were not in Redis within {READY:?}",
            seen.missing_fans
        );
    }
}

async fn measure(
    attack: &'static Attack,
    scene: &Arc<Scene>,
    crowd: &mut Workers,
    observer: &Observer,
    seconds: Duration,
) -> anyhow::Result<AttackRow> {
    sleep(SETTLED).await;
    crowd.take_acks().await?;
    sleep(seconds).await;
    let quiet = crowd.take_acks().await?;

    let deadline = Instant::now() + seconds;
    let mut clients = JoinSet::new();
    for number in attack.places() {
        let scene = scene.clone();
        clients.spawn(async move { attack.place(&scene, number, deadline).await });
    }
    let mut answers = BTreeMap::new();
    while let Some(place) = clients.join_next().await {
        for answer in place?? {
            *answers.entry(answer).or_default() += 1;
        }
    }
    let during = crowd.take_acks().await?;
    Ok(AttackRow {
        attack: attack.name,
        expected: attack.expected,
        answers,
        quiet_p99_ms: p99_ms(&quiet),
        during_p99_ms: p99_ms(&during),
        acks: during.count(),
        measured: 1,
        // Since the last attack: its traces would show in quiet, too.
        seen: observer.take(),
    })
}
