//! What a client costs by each of the ways to a gateway: WebSocket, HTTP and datagram, beside a bare
//! echo of datagrams. Each way has a gateway and a Redis of its own, and all run at the same time;
//! they are measured in turns.
//!
//! On one machine the kernel charges most of the way of a packet, up to the receiver's socket, to
//! its sender. So each way is charged for its answers, and not for the arrival of its beats.

use std::time::Duration;

use crate::bench::figures::{Figures, Who};
use crate::bench::generator::Generator;
use crate::bench::generator::order::{self, Crowd, Enter};
use crate::bench::kernel_memory;
use crate::bench::servers::{Gateway, Redis, Server};
use crate::bench::sessions::{By, Order, SessionGenerator, Viewers};
use crate::bench::settings::Bench;

pub(super) const NAME: &str = "ways";
const LIVES: usize = 10;
const EVERY_S: f64 = 5.0;

/// After this time the joins are flushed, and memory that was needed for them only is given back.
const SETTLED: Duration = Duration::from_secs(12);

/// These clients come and go first, so that the one-time allocations of a gateway do not count as
/// memory of clients.
const WARM_UP: usize = 200;

/// Connections that all sessions by HTTP share: a process with 20,000 descriptors takes 2,500
/// connections that are no WebSockets, and closes them early when they become scarce.
const CONNECTIONS: usize = 1_000;

/// Both ends of a connection are on this machine.
const ENDS: f64 = 2.0;

/// The settings of the gateways. Clients that rest until their turn comes neither time out nor lose
/// their connections.
const FLAGS: [&str; 8] = [
    "--heartbeat",
    "5s",
    "--timeout",
    "900s",
    "--handshake-timeout",
    "300s",
    "--max-handshakes",
    "2500",
];

/// A way to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    WebSocket,
    Http,
    Datagram,
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Self::WebSocket => "WebSocket",
            Self::Http => "HTTP",
            Self::Datagram => "datagram",
        }
    }
}

/// The clients of a server.
enum Clients {
    Sockets(Generator),
    Sessions(SessionGenerator),
}

/// A server and its clients, of which every n-th beat is answered.
struct Turn {
    who: Who,
    /// Which of the contenders.
    place: usize,
    name: &'static str,
    ack_every: u32,
}

/// A server and its clients.
struct Contender {
    server: Server,
    clients: Clients,
    /// It ends with the contender.
    _redis: Option<Redis>,
}

/// What a server and the kernel take at one moment, in bytes.
struct Memory {
    resident: f64,
    /// `None` if nobody but root may know.
    kernel: Option<f64>,
}

impl Memory {
    fn read(server: &Server) -> anyhow::Result<Self> {
        Ok(Self {
            resident: server.rss()?,
            kernel: kernel_memory::of_sockets(),
        })
    }

    /// Notes what it has grown by since `before`, for each of `count`.
    fn note(&self, figures: &mut Figures, what: &str, before: &Self, count: usize) {
        let count = count as f64;
        let resident = (self.resident - before.resident) / count;
        let measure = format!("{what}: resident memory");
        figures.note(NAME, Who::Rollcall, (&measure, "B"), resident);
        if let (Some(now), Some(before)) = (self.kernel, before.kernel) {
            let measure = format!("{what}: kernel memory");
            let kernel = (now - before) / count / ENDS;
            figures.note(NAME, Who::Rollcall, (&measure, "B"), kernel);
        }
    }
}

pub(super) async fn run(bench: &Bench, figures: &mut Figures) -> anyhow::Result<()> {
    if kernel_memory::of_sockets().is_none() {
        eprintln!("{NAME}: without the kernel's memory, which only root may read");
    }
    let mut contenders = [
        contender(bench, figures, Way::WebSocket).await?,
        contender(bench, figures, Way::Http).await?,
        contender(bench, figures, Way::Datagram).await?,
        echo(bench).await?,
    ];
    let turns = [
        turn(Who::Rollcall, 0, "WebSocket", 1),
        turn(Who::Rollcall, 1, "HTTP", 1),
        turn(Who::Rollcall, 2, "datagram", 1),
        turn(Who::Bare, 3, "datagram", 1),
        turn(Who::Rollcall, 2, "datagram, a tenth answered", 10),
        turn(Who::Bare, 3, "datagram, a tenth answered", 10),
    ];
    for round in 0..bench.rounds {
        for step in 0..turns.len() {
            // Each round begins with another one.
            let turn = &turns[(round + step) % turns.len()];
            contenders[turn.place].take(turn, bench, figures).await?;
        }
    }
    note_ratios(figures);
    Ok(())
}

fn turn(who: Who, place: usize, name: &'static str, ack_every: u32) -> Turn {
    Turn {
        who,
        place,
        name,
        ack_every,
    }
}

/// How the ways compare, round by round: the budgets bound these.
fn note_ratios(figures: &mut Figures) {
    let Some(socket) = rounds(figures, "WebSocket") else {
        return;
    };
    for way in ["HTTP", "datagram", "datagram, a tenth answered"] {
        let Some(cpu) = rounds(figures, way) else {
            continue;
        };
        let measure = format!("{way}: CPU per beat, of the WebSocket's");
        for (cpu, socket) in cpu.iter().zip(&socket) {
            figures.note(NAME, Who::Rollcall, (&measure, ""), cpu / socket);
        }
    }
}

fn rounds(figures: &Figures, way: &str) -> Option<Vec<f64>> {
    let measure = format!("{way}: CPU per beat");
    let figure = figures.find(NAME, &measure, Who::Rollcall)?;
    Some(figure.rounds.clone())
}

/// A gateway whose clients are all there. Notes their memory.
async fn contender(bench: &Bench, figures: &mut Figures, way: Way) -> anyhow::Result<Contender> {
    let count = bench.pick(10_000, 100);
    let redis = Redis::start().await?;
    redis.follow(count, LIVES).await?;
    let mut flags = FLAGS.to_vec();
    if way == Way::Datagram {
        flags.extend(["--udp", "127.0.0.1:0"]);
    }
    let gateway = bench.programs.gateway_with(&redis, None, &flags).await?;
    gateway.open(LIVES, None).await?;
    let clients = match way {
        Way::WebSocket => sockets(bench, figures, &gateway, count).await?,
        Way::Http => by_http(bench, figures, &gateway, count).await?,
        Way::Datagram => by_datagram(bench, figures, &gateway, count).await?,
    };
    let mut contender = Contender {
        server: gateway.server,
        clients,
        _redis: Some(redis),
    };
    contender.note_idle(bench, figures, way).await?;
    Ok(contender)
}

async fn sockets(
    bench: &Bench,
    figures: &mut Figures,
    gateway: &Gateway,
    count: usize,
) -> anyhow::Result<Clients> {
    let server = &gateway.server;
    let mut generator = Generator::start()?;
    let some = WARM_UP.min(count);
    generator.carry_out(&connect(server, some, 190)).await?;
    generator.carry_out(&order::Order::Leave).await?;
    settle(bench).await;
    let before = Memory::read(server)?;
    generator.carry_out(&connect(server, count, 191)).await?;
    settle(bench).await;
    Memory::read(server)?.note(figures, "WebSocket", &before, count);
    Ok(Clients::Sockets(generator))
}

fn connect(server: &Server, count: usize, block: u8) -> order::Order {
    let crowd = Crowd::new(server.addr, count, Enter::Joined, block);
    order::Order::Connect(Crowd {
        lives: LIVES,
        ..crowd
    })
}

async fn by_http(
    bench: &Bench,
    figures: &mut Figures,
    gateway: &Gateway,
    count: usize,
) -> anyhow::Result<Clients> {
    let server = &gateway.server;
    let mut generator = SessionGenerator::start()?;
    let before = warmed_up(bench, &mut generator, server, By::Http).await?;
    generator.carry_out(&begin(server, By::Http, count)).await?;
    settle(bench).await;
    let begun = Memory::read(server)?;
    begun.note(figures, "HTTP, a session", &before, count);
    let connections = CONNECTIONS.min(count);
    generator.carry_out(&Order::Connect { connections }).await?;
    settle(bench).await;
    let connected = Memory::read(server)?;
    connected.note(figures, "HTTP, a connection", &begun, connections);
    Ok(Clients::Sessions(generator))
}

async fn by_datagram(
    bench: &Bench,
    figures: &mut Figures,
    gateway: &Gateway,
    count: usize,
) -> anyhow::Result<Clients> {
    let server = &gateway.server;
    let mut generator = SessionGenerator::start()?;
    let before = warmed_up(bench, &mut generator, server, By::Datagram).await?;
    generator
        .carry_out(&begin(server, By::Datagram, count))
        .await?;
    settle(bench).await;
    Memory::read(server)?.note(figures, "datagram", &before, count);
    Ok(Clients::Sessions(generator))
}

fn begin(server: &Server, by: By, count: usize) -> Order {
    Order::Begin(Viewers {
        server: server.addr,
        by,
        count,
        lives: LIVES,
    })
}

/// The memory of a server after some sessions have come and gone.
async fn warmed_up(
    bench: &Bench,
    generator: &mut SessionGenerator,
    server: &Server,
    by: By,
) -> anyhow::Result<Memory> {
    let some = bench.pick(WARM_UP, 20);
    generator.carry_out(&begin(server, by, some)).await?;
    generator.carry_out(&Order::Leave).await?;
    settle(bench).await;
    Memory::read(server)
}

async fn settle(bench: &Bench) {
    tokio::time::sleep(bench.pick(SETTLED, Duration::from_millis(300))).await;
}

async fn echo(bench: &Bench) -> anyhow::Result<Contender> {
    let server = bench.programs.bare_datagrams().await?;
    let mut generator = SessionGenerator::start()?;
    let count = bench.pick(10_000, 100);
    generator
        .carry_out(&begin(&server, By::Echo, count))
        .await?;
    Ok(Contender {
        server,
        clients: Clients::Sessions(generator),
        _redis: None,
    })
}

impl Contender {
    /// Notes what a gateway takes when all clients are there and rest.
    async fn note_idle(
        &mut self,
        bench: &Bench,
        figures: &mut Figures,
        way: Way,
    ) -> anyhow::Result<()> {
        let span = bench.pick(Duration::from_secs(10), Duration::from_millis(300));
        let before = self.server.cpu()?;
        tokio::time::sleep(span).await;
        let cores = (self.server.cpu()? - before) / span.as_secs_f64();
        let measure = format!("{}: CPU while all clients rest", way.name());
        figures.note(NAME, Who::Rollcall, (&measure, "cores"), cores);
        Ok(())
    }

    async fn take(
        &mut self,
        turn: &Turn,
        bench: &Bench,
        figures: &mut Figures,
    ) -> anyhow::Result<()> {
        // A gateway answers the datagrams of a session four times a second at most.
        let (every_s, seconds) = bench.pick((EVERY_S, 10.0), (0.4, 0.8));
        self.pace(every_s, every_s, turn.ack_every).await?;
        let before = self.server.cpu()?;
        let outcome = self.pace(every_s, seconds, turn.ack_every).await?;
        let cpu = self.server.cpu()? - before;
        let name = turn.name;
        for (what, unit, value) in [
            ("CPU per beat", "µs", cpu * 1e6 / outcome.sent as f64),
            (
                "ack latency p99",
                "ms",
                outcome.latency.at(0.99) as f64 / 1e3,
            ),
        ] {
            figures.note(NAME, turn.who, (&format!("{name}: {what}"), unit), value);
        }
        Ok(())
    }

    async fn pace(
        &mut self,
        every_s: f64,
        seconds: f64,
        ack_every: u32,
    ) -> anyhow::Result<order::Outcome> {
        match &mut self.clients {
            Clients::Sockets(generator) => {
                generator
                    .carry_out(&order::Order::Pace { every_s, seconds })
                    .await
            }
            Clients::Sessions(generator) => {
                generator
                    .carry_out(&Order::Pace {
                        every_s,
                        seconds,
                        ack_every,
                    })
                    .await
            }
        }
    }
}
