//! `loadtest takeover`: a gateway that holds thousands of sessions without a WebSocket is killed
//! with SIGKILL. Their clients go on sending beats by datagram, and nothing else: another gateway
//! must go on with all of them, and at no moment may anybody be counted twice.
//!
//! The command starts a Redis and two gateways of its own. [`watch`] looks at the counts and at the
//! sets in Redis all the time, and [`report`] says what was wrong.

mod report;
mod watch;

use std::io::Write;
use std::net::{Ipv4Addr, UdpSocket};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::Args;
use tempfile::NamedTempFile;
use tokio::task::JoinHandle;

use self::report::Takeover;
use self::watch::Watch;
use crate::bench::generator::datagrams::DatagramClients;
use crate::bench::generator::http::HttpClients;
use crate::bench::generator::order::{BeatsBy, Viewers};
use crate::bench::generator::pace::{Clients, Pacer};
use crate::bench::servers::{BenchGateway, Programs, Redis};
use crate::report::RunReport;
use crate::tool::ToolArgs;

const LIVES: usize = 10;

/// Connections over which the sessions begin.
const TO_BEGIN: usize = 8;

/// How long the counts may take to be right before the kill.
const CALM: Duration = Duration::from_secs(60);

/// A client goes on to the next gateway when two beats were not answered; with the third one it
/// arrives there.
const BEATS: u32 = 3;

/// After so long the users of a gateway that was buried are swept.
const SWEPT: Duration = Duration::from_secs(10);

/// `loadtest takeover`
#[derive(Debug, Clone, Args)]
pub(crate) struct TakeoverArgs {
    /// Sessions that the gateway holds when it is killed; all their users are fans
    #[arg(
        long,
        default_value_t = 10_000,
        value_parser = clap::value_parser!(u32).range(10..=1_000_000),
        value_name = "N"
    )]
    sessions: u32,
    /// Time between two beats of a session
    #[arg(long, default_value = "5s", value_parser = humantime::parse_duration, value_name = "TIME")]
    beat: Duration,
    /// The gateways' --lease: after so long without a sign of life, a gateway is buried
    #[arg(long, default_value = "15s", value_parser = humantime::parse_duration, value_name = "TIME")]
    lease: Duration,
    #[command(flatten)]
    tool: ToolArgs,
}

impl TakeoverArgs {
    /// How long the other gateway may take until everybody is counted there: two beats and the
    /// lease.
    fn limit(&self) -> Duration {
        self.beat * 2 + self.lease
    }

    /// How long the counts are watched after the kill: until the third beat, and until the dead
    /// gateway has been buried and swept.
    fn watched(&self) -> Duration {
        self.limit().max(self.beat * BEATS) + SWEPT
    }
}

/// Runs `loadtest takeover`.
pub(crate) fn main(args: &TakeoverArgs) -> ExitCode {
    args.tool.end(run(args))
}

async fn run(args: &TakeoverArgs) -> anyhow::Result<RunReport> {
    let programs = args.tool.programs()?;
    let sessions = args.sessions as usize;
    let redis = Redis::start().await?;
    redis.follow(sessions, LIVES).await?;
    let places = Places::new()?;
    let doomed = places.gateway(&programs, &redis, args, 0).await?;
    let other = places.gateway(&programs, &redis, args, 1).await?;
    other.open(LIVES, Some(1)).await?;

    eprintln!("{sessions} sessions begin …");
    let beating = Beating::start(&doomed, args).await?;
    let mut watch = Watch::new(&redis, &other, LIVES, sessions).await?;
    watch.until_all_are_counted(CALM).await?;
    let elsewhere = other.metric("rollcall_presences").await?;
    ensure!(
        elsewhere == 0.0,
        "{elsewhere} sessions are on the other gateway before the kill"
    );

    eprintln!("the gateway is killed …");
    watch.begin();
    doomed.server.end().await;
    // Until the dead gateway is buried and its users are swept, anybody whom both held would show.
    watch.for_time(args.watched()).await?;
    let beaten = beating.end().await?;
    let resumed = other.metric("rollcall_presences_resumed_total").await?;
    let seen = Takeover {
        limit_ms: args.limit().as_secs_f64() * 1e3,
        resumed: resumed as u64,
        beats: beaten.beats,
        refused: beaten.refused,
        ..watch.seen()
    };
    seen.report()
}

/// Where the two gateways take datagrams, and the secret that they share.
struct Places {
    datagrams: [String; 2],
    secret: NamedTempFile,
}

impl Places {
    fn new() -> anyhow::Result<Self> {
        let mut secret = NamedTempFile::new()?;
        writeln!(secret, "{:032x}", rand::random::<u128>())?;
        Ok(Self {
            datagrams: [free_address()?, free_address()?],
            secret,
        })
    }

    async fn gateway(
        &self,
        programs: &Programs,
        redis: &Redis,
        args: &TakeoverArgs,
        place: usize,
    ) -> anyhow::Result<BenchGateway> {
        let secret = self
            .secret
            .path()
            .to_str()
            .context("the path of the secret")?;
        let flags = [
            "--udp",
            &self.datagrams[place],
            "--udp-advertise",
            &self.datagrams.join(","),
            "--presence-secret-file",
            secret,
            "--heartbeat",
            &in_ms(args.beat),
            "--timeout",
            &in_ms(args.beat * BEATS),
            "--lease",
            &in_ms(args.lease),
            "--lease-refresh",
            &in_ms(args.lease / 7),
        ];
        programs.gateway_with(redis, None, &flags).await
    }
}

/// An address of this machine that nobody takes datagrams at.
fn free_address() -> anyhow::Result<String> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(socket.local_addr()?.to_string())
}

fn in_ms(time: Duration) -> String {
    format!("{}ms", time.as_millis())
}

/// The clients, which send beats until they are told to end.
struct Beating {
    stop: Arc<AtomicBool>,
    clients: JoinHandle<anyhow::Result<Beaten>>,
}

/// What the clients saw.
struct Beaten {
    beats: u64,
    /// What a gateway said that did not go on with a session.
    refused: Option<String>,
}

impl Beating {
    async fn start(gateway: &BenchGateway, args: &TakeoverArgs) -> anyhow::Result<Self> {
        let viewers = Viewers {
            server: gateway.server.addr,
            by: BeatsBy::Datagram,
            count: args.sessions as usize,
            lives: LIVES,
        };
        let clients = tokio::task::spawn_blocking(move || begin(&viewers)).await??;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let every_s = args.beat.as_secs_f64();
        let clients = tokio::task::spawn_blocking(move || beat(clients, every_s, &stopped));
        Ok(Self { stop, clients })
    }

    async fn end(mut self) -> anyhow::Result<Beaten> {
        self.stop.store(true, Ordering::Relaxed);
        (&mut self.clients).await?
    }
}

/// The end of the process waits for the thread of the clients.
impl Drop for Beating {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Begins the sessions. From here on there is no connection.
fn begin(viewers: &Viewers) -> anyhow::Result<DatagramClients> {
    let mut clients = HttpClients::new(viewers.server)?;
    clients.connect(TO_BEGIN)?;
    clients.begin(viewers)?;
    let mut clients = DatagramClients::of(&clients.sessions)?;
    clients.say_hello()?;
    Ok(clients)
}

fn beat(mut clients: DatagramClients, every_s: f64, stop: &AtomicBool) -> anyhow::Result<Beaten> {
    let mut pacer = Pacer::new(clients.count(), every_s);
    while !stop.load(Ordering::Relaxed) {
        pacer.turn(&mut clients)?;
        clients.forget_lost();
    }
    Ok(Beaten {
        beats: clients.seen.beats,
        refused: clients.seen.trouble,
    })
}
