//! `loadtest webhooks`: two gateways with a webhook whose receiver is a Python program. Lives open
//! and close all the time; the receiver is down for a while, and the gateway that sends is killed
//! meanwhile. Then every event must be there, each live's in order, with good signatures, and
//! repeats must be equal.

mod arrivals;

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::Args;
use futures_util::{StreamExt, stream};
use reqwest::Method;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::Instant;

use crate::bench::servers::{BenchGateway, Redis};
use crate::report::RunReport;
use crate::tool::ToolArgs;
use arrivals::{ComparedArrivals, ExpectedEvents};

/// Maximum lives whose calls are under way concurrently.
const MAX_CONCURRENT_CALLS: usize = 4;

/// Users who are removed from each live.
const REMOVED: usize = 5;

/// After the receiver is back, everything has to arrive within this time: a failed event is sent
/// again after a minute at most.
const WITHIN: Duration = Duration::from_secs(150);

#[derive(Debug, Clone, Args)]
pub(crate) struct WebhookArgs {
    /// Lives that open and close: a third before the receiver is down, a third meanwhile, and a
    /// third after
    #[arg(long, default_value_t = 300, value_name = "N")]
    lives: usize,
    /// How long the receiver is down
    #[arg(long, default_value = "60s", value_parser = humantime::parse_duration, value_name = "TIME")]
    down: Duration,
    #[command(flatten)]
    tool: ToolArgs,
    /// The Python that runs the receiver
    #[arg(long, default_value = "python3", value_name = "FILE")]
    python: PathBuf,
}

/// Runs `loadtest webhooks`.
pub(crate) fn main(args: &WebhookArgs) -> ExitCode {
    args.tool.end(run(args))
}

/// The receiver's process, and where its files are.
struct ReceiverProcess<'a> {
    python: &'a Path,
    port: u16,
    folder: tempfile::TempDir,
    child: Option<Child>,
}

impl<'a> ReceiverProcess<'a> {
    fn new(python: &'a Path) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        std::fs::write(
            folder.path().join("receiver.py"),
            include_str!("webhooks/receiver.py"),
        )?;
        std::fs::write(folder.path().join("secret"), "the secret of a load test\n")?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        Ok(Self {
            python,
            port,
            folder,
            child: None,
        })
    }

    fn file(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    async fn start(&mut self) -> anyhow::Result<()> {
        let script = self.file("receiver.py");
        let secret = self.file("secret");
        let taken = self.file("taken");
        let mut child = Command::new(self.python)
            .args([&script, &self.port.to_string(), &secret, &taken])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| {
                format!(
                    "{} cannot be started: install Python 3",
                    self.python.display()
                )
            })?;
        let output = child.stdout.take().context("a receiver without output")?;
        let said = BufReader::new(output).lines().next_line().await?;
        ensure!(
            said.as_deref() == Some("listening"),
            "the receiver said {said:?}"
        );
        self.child = Some(child);
        Ok(())
    }

    async fn stop(&mut self) -> anyhow::Result<()> {
        if let Some(mut child) = self.child.take() {
            child.kill().await?;
        }
        Ok(())
    }
}

async fn run(args: &WebhookArgs) -> anyhow::Result<RunReport> {
    let programs = args.tool.programs()?;
    let redis = Redis::start().await?;
    let mut receiver = ReceiverProcess::new(&args.python)?;
    receiver.start().await?;
    let url = format!("http://127.0.0.1:{}/", receiver.port);
    let secret = receiver.file("secret");
    let flags = [
        "--http-rate",
        "0",
        "--webhook-url",
        &url,
        "--webhook-secret-file",
        &secret,
        "--webhook-allow-private",
        "--webhook-timeout",
        "2s",
    ];
    let doomed = programs.gateway_with(&redis, None, &flags).await?;
    // It is the sender from its first event on, for the other one has not started.
    live(&doomed, "first").await?;
    let mut expected = ExpectedEvents::new(REMOVED);
    expected.live("first");
    let began = Instant::now();
    while arrivals::read(&receiver.file("taken")).map_or(true, |taken| taken.is_empty()) {
        ensure!(began.elapsed() < WITHIN, "no gateway sends");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let stays = programs.gateway_with(&redis, None, &flags).await?;

    let third = args.lives.div_ceil(3);
    lives(&doomed, (0..third).map(live_name), &mut expected).await?;
    receiver.stop().await?;
    let down = Instant::now();
    lives(
        &doomed,
        (third..third + third / 2).map(live_name),
        &mut expected,
    )
    .await?;
    doomed.server.end().await;
    lives(
        &stays,
        (third + third / 2..2 * third).map(live_name),
        &mut expected,
    )
    .await?;
    tokio::time::sleep(args.down.saturating_sub(down.elapsed())).await;
    let down = down.elapsed();
    receiver.start().await?;
    let back = Instant::now();
    lives(
        &stays,
        (2 * third..args.lives).map(live_name),
        &mut expected,
    )
    .await?;

    let taken = receiver.file("taken");
    loop {
        let compared =
            ComparedArrivals::new(&expected, &arrivals::read(&taken)?, (down, back.elapsed()));
        let waits = stays.metric(WAITING).await?;
        if (compared.missing == 0 && waits == 0.0) || back.elapsed() > WITHIN {
            return compared.report();
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// How many events wait for the receiver.
const WAITING: &str = r#"rollcall_webhook_waiting{webhook="default",queue="stream"}"#;

fn live_name(number: usize) -> String {
    format!("l{number}")
}

async fn lives(
    gateway: &BenchGateway,
    names: impl Iterator<Item = String>,
    expected: &mut ExpectedEvents,
) -> anyhow::Result<()> {
    let calls: Vec<_> = names
        .map(|name| async move { live(gateway, &name).await.map(|()| name) })
        .collect();
    let mut done = stream::iter(calls).buffer_unordered(MAX_CONCURRENT_CALLS);
    while let Some(name) = done.next().await {
        expected.live(&name?);
    }
    Ok(())
}

/// Opens a live, removes some users, and closes it.
async fn live(gateway: &BenchGateway, name: &str) -> anyhow::Result<()> {
    let path = format!("/v1/lives/{name}");
    gateway
        .call(Method::PUT, &path, Some(json!({"streamer_id": "s1"})))
        .await?;
    for user in 0..REMOVED {
        gateway
            .call(Method::DELETE, &format!("{path}/viewers/u{user}"), None)
            .await?;
    }
    gateway.call(Method::DELETE, &path, None).await?;
    Ok(())
}
