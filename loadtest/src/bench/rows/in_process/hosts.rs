//! Gateways with viewers in memory, each in a process of its own. They let a crowd spread over
//! several gateways without a file descriptor for each viewer.

use std::ops::Range;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use futures_util::{StreamExt, TryStreamExt, stream};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, BufReader};

use super::{ClientThread, InProcessGateway, JOIN_DEADLINE, LocalCrowd, own_cpu};
use crate::bench::child::{Child, end};
use crate::bench::servers::Redis;

/// The subcommand that runs such a process.
const SUBCOMMAND: &str = "hosted";
const LIVES_AT_ONCE: usize = 64;
/// How many viewers join at the same time on all gateways together. A gateway refuses more than
/// some thousand calls at once, and with more than this a machine of two cores cannot answer all
/// within the calls' deadline.
const JOINING_AT_ONCE: u64 = 200;
/// Joins have a shorter deadline of their own, and opening the lives takes less time.
const ORDER_DEADLINE: Duration = JOIN_DEADLINE.saturating_add(Duration::from_secs(30));

/// What the bench tells a process.
#[derive(Debug, Serialize, Deserialize)]
enum HostOrder {
    /// Start the gateway with these rounds of the crowd; a round is one viewer of each live.
    Start {
        redis: String,
        crowd: LocalCrowd,
        rounds: Range<usize>,
    },
    /// Open every `step`th live from `first` on.
    Open { first: usize, step: usize },
    /// Let all viewers join, this many at a time, and send heartbeats from then on.
    Join { at_once: u64 },
    /// Report what was done so far.
    Read,
}

/// The answer to every order: what the process has done since its start.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Reading {
    acks: u64,
    /// CPU seconds of the gateway, without the thread that plays the clients.
    cpu: f64,
    /// Why the process could not carry out the order.
    failed: Option<String>,
}

/// The work, per second, while viewers only send heartbeats.
#[derive(Debug, Clone, Copy)]
pub(super) struct HostWork {
    pub(super) heartbeats: f64,
    /// Cores that Redis uses, idle time included.
    pub(super) redis_cpu: f64,
    /// Commands that Redis runs, gateway scripts too.
    pub(super) commands: f64,
    /// Cores that all gateways use.
    pub(super) gateways_cpu: f64,
}

/// The processes; they end when this is dropped.
pub(super) struct BenchHosts(Vec<Child<HostOrder, Reading>>);

impl BenchHosts {
    /// Starts this many gateways, spreads the viewers of each live evenly over them, and opens the
    /// lives.
    pub(super) async fn start(
        redis: &Redis,
        crowd: LocalCrowd,
        count: usize,
    ) -> anyhow::Result<Self> {
        let hosts = (0..count)
            .map(|_| Child::start(SUBCOMMAND))
            .collect::<anyhow::Result<_>>()?;
        let mut hosts = Self(hosts);
        let rounds =
            |host: usize| crowd.per_live() * host / count..crowd.per_live() * (host + 1) / count;
        hosts
            .all(|host| HostOrder::Start {
                redis: redis.url(),
                crowd,
                rounds: rounds(host),
            })
            .await?;
        hosts
            .all(|host| HostOrder::Open {
                first: host,
                step: count,
            })
            .await?;
        Ok(hosts)
    }

    pub(super) async fn join(&mut self) -> anyhow::Result<()> {
        let at_once = JOINING_AT_ONCE / self.0.len() as u64;
        self.all(|_| HostOrder::Join { at_once }).await.map(drop)
    }

    /// Measures the work over this time.
    pub(super) async fn measure(
        &mut self,
        redis: &Redis,
        span: Duration,
    ) -> anyhow::Result<HostWork> {
        let before = self.all(|_| HostOrder::Read).await?;
        let begun = redis.read().await?;
        tokio::time::sleep(span).await;
        let after = self.all(|_| HostOrder::Read).await?;
        let work = redis.since(&begun).await?;
        Ok(HostWork {
            heartbeats: (after.acks - before.acks) as f64 / work.seconds,
            redis_cpu: work.cpu / work.seconds,
            commands: work.commands / work.seconds,
            gateways_cpu: (after.cpu - before.cpu) / work.seconds,
        })
    }

    /// Lets all processes carry out their orders at the same time. Returns the sum of what they
    /// have done.
    async fn all(&mut self, order: impl Fn(usize) -> HostOrder) -> anyhow::Result<Reading> {
        for (number, host) in self.0.iter_mut().enumerate() {
            host.tell(&order(number)).await?;
        }
        let mut sum = Reading::default();
        for (number, host) in self.0.iter_mut().enumerate() {
            let Reading { acks, cpu, failed } = host.hear(ORDER_DEADLINE).await?;
            if let Some(why) = failed {
                bail!("gateway {number}: {why}");
            }
            (sum.acks, sum.cpu) = (sum.acks + acks, sum.cpu + cpu);
        }
        Ok(sum)
    }
}

/// Runs such a process.
pub(crate) fn child_main() -> ExitCode {
    end(crate::report::on_runtime(serve()))
}

async fn serve() -> anyhow::Result<()> {
    let mut hosted = None;
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        let order = serde_json::from_str(&line).context("an order on standard input")?;
        let reading = carry_out(&mut hosted, order).await;
        let reading = reading.unwrap_or_else(|error| Reading {
            failed: Some(format!("{error:#}")),
            ..Reading::default()
        });
        println!("{}", serde_json::to_string(&reading)?);
    }
    Ok(())
}

/// The gateway of this process, and its viewers.
struct Hosted {
    gateway: InProcessGateway,
    rounds: Range<usize>,
    heartbeat: Duration,
    clients: Option<ClientThread>,
}

async fn carry_out(place: &mut Option<Hosted>, order: HostOrder) -> anyhow::Result<Reading> {
    if let HostOrder::Start {
        redis,
        crowd,
        rounds,
    } = order
    {
        let mut gateway = InProcessGateway::start(redis, &crowd).await?;
        gateway.make_sockets(rounds.len() * crowd.lives);
        *place = Some(Hosted {
            gateway,
            rounds,
            heartbeat: crowd.every,
            clients: None,
        });
        return Ok(Reading::default());
    }
    let hosted = place.as_mut().context("no gateway was started")?;
    match order {
        HostOrder::Open { first, step } => hosted.open(first, step).await?,
        HostOrder::Join { at_once } => hosted.join(at_once).await?,
        HostOrder::Start { .. } | HostOrder::Read => {}
    }
    hosted.read()
}

impl Hosted {
    async fn open(&self, first: usize, step: usize) -> anyhow::Result<()> {
        let open = (first..self.gateway.lives)
            .step_by(step)
            .map(|live| self.gateway.open(live, None));
        stream::iter(open)
            .buffer_unordered(LIVES_AT_ONCE)
            .try_collect::<Vec<()>>()
            .await?;
        Ok(())
    }

    /// Fills some lives at a time, so that the joins of a live share a flush, as those of a real
    /// crowd do.
    async fn join(&mut self, at_once: u64) -> anyhow::Result<()> {
        let gateway = &self.gateway;
        self.clients = Some(gateway.beat(self.heartbeat));
        let began = Instant::now();
        let lives: Vec<usize> = (0..gateway.lives).collect();
        for some in lives.chunks(LIVES_AT_ONCE) {
            let users = self
                .rounds
                .clone()
                .flat_map(|round| some.iter().map(move |live| live + round * gateway.lives));
            gateway.join(users, at_once, began).await?;
        }
        gateway.all_joined(began).await
    }

    fn read(&self) -> anyhow::Result<Reading> {
        let played = self.clients.as_ref().map_or(0.0, ClientThread::cpu);
        let acks = self.gateway.received.acks.load(Ordering::Relaxed);
        Ok(Reading {
            acks,
            cpu: own_cpu()? - played,
            failed: None,
        })
    }
}
