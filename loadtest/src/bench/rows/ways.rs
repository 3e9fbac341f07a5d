//! What a client costs by each of the ways to a gateway: WebSocket, HTTP and datagram, beside a bare
//! echo of datagrams. Each way has a gateway and a Redis of its own, and all run at the same time;
//! they are measured in turns.
//!
//! On one machine the kernel charges most of the way of a packet, up to the receiver's socket, to
//! its sender. So each way is charged for its answers, and not for the arrival of its beats.

use crate::bench::figures::Who;
use crate::bench::generator::Generator;
use crate::bench::generator::order::{BeatsBy, Crowd, Enter, Order, Viewers};
use crate::bench::kernel_memory;
use crate::bench::servers::{Redis, Server};
use crate::bench::settings::{Bench, turns};

const LIVES: usize = 10;

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

/// Who takes a turn with which of the contenders, and the answered share of its beats.
const TURNS: [(Who, usize, &str, u32); 6] = [
    (Who::Rollcall, 0, "WebSocket", 1),
    (Who::Rollcall, 1, "HTTP", 1),
    (Who::Rollcall, 2, "datagram", 1),
    (Who::Bare, 3, "datagram", 1),
    (Who::Rollcall, 2, "datagram, a tenth answered", 10),
    (Who::Bare, 3, "datagram, a tenth answered", 10),
];

/// A server and its clients.
struct Contender {
    server: Server,
    generator: Generator,
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
    fn note(&self, bench: &mut Bench, what: &str, before: &Self, count: usize) {
        let count = count as f64;
        let resident = (self.resident - before.resident) / count;
        bench.ours(&format!("{what}: resident memory, B"), resident);
        if let (Some(now), Some(before)) = (self.kernel, before.kernel) {
            let kernel = (now - before) / count / ENDS;
            bench.ours(&format!("{what}: kernel memory, B"), kernel);
        }
    }
}

pub(super) async fn run(bench: &mut Bench) -> anyhow::Result<()> {
    if kernel_memory::of_sockets().is_none() {
        eprintln!("ways: without the kernel's memory, which only root may read");
    }
    let count = bench.pick(10_000, 100);
    let mut contenders = [
        contender(bench, None, "WebSocket", count).await?,
        contender(bench, Some(BeatsBy::Http), "HTTP", count).await?,
        contender(bench, Some(BeatsBy::Datagram), "datagram", count).await?,
        echo(bench, count).await?,
    ];
    // A gateway answers the datagrams of a session four times a second at most.
    let (every_s, seconds) = bench.pick((5.0, 10.0), (0.4, 0.8));
    for (_, turn) in turns(bench.rounds(), TURNS.len()) {
        let (who, place, name, ack_every) = TURNS[turn];
        let Contender {
            server, generator, ..
        } = &mut contenders[place];
        let pace = |seconds| Order::Pace {
            every_s,
            seconds,
            ack_every,
        };
        generator.carry_out(&pace(every_s)).await?;
        let before = server.cpu()?;
        let outcome = generator.carry_out(&pace(seconds)).await?;
        let each = (server.cpu()? - before) * 1e6 / outcome.sent as f64;
        bench.note(who, &format!("{name}: CPU per beat, µs"), each);
        let latency = outcome.latency.ms_at(0.99);
        bench.note(who, &format!("{name}: ack latency p99, ms"), latency);
    }
    note_ratios(bench);
    Ok(())
}

/// How the ways compare, round by round.
fn note_ratios(bench: &mut Bench) {
    let rounds = |way: &str| {
        let measure = format!("{way}: CPU per beat, µs");
        let rounds = bench.figures.rounds(bench.row, &measure, Who::Rollcall);
        rounds.unwrap_or_default().to_vec()
    };
    let socket = rounds("WebSocket");
    let ways = ["HTTP", "datagram", "datagram, a tenth answered"].map(|way| (way, rounds(way)));
    for (way, cpu) in ways {
        let measure = format!("{way}: CPU per beat, of the WebSocket's");
        for (cpu, socket) in cpu.iter().zip(&socket) {
            bench.ours(&measure, cpu / socket);
        }
    }
}

/// A gateway whose clients are all there. Notes their memory.
async fn contender(
    bench: &mut Bench,
    by: Option<BeatsBy>,
    name: &str,
    count: usize,
) -> anyhow::Result<Contender> {
    let mut flags = FLAGS.to_vec();
    if by == Some(BeatsBy::Datagram) {
        flags.extend(["--udp", "127.0.0.1:0"]);
    }
    // Joins are flushed, and memory that was needed for them only is given back.
    let settled = bench.pick_ms(12_000, 300);
    let settle = async |order: &Order, generator: &mut Generator| {
        generator.carry_out(order).await?;
        tokio::time::sleep(settled).await;
        anyhow::Ok(())
    };
    let (redis, gateway) = bench.place(count, LIVES, &flags).await?;
    let server = gateway.server;
    let mut generator = Generator::start()?;
    let some = bench.pick(WARM_UP, 20);
    generator.carry_out(&enter(&server, by, some)).await?;
    settle(&Order::Leave, &mut generator).await?;
    let before = Memory::read(&server)?;
    settle(&enter(&server, by, count), &mut generator).await?;
    let entered = Memory::read(&server)?;
    entered.note(bench, name, &before, count);
    if by == Some(BeatsBy::Http) {
        let connections = CONNECTIONS.min(count);
        settle(&Order::Share { connections }, &mut generator).await?;
        let connected = Memory::read(&server)?;
        connected.note(bench, "HTTP, a connection", &entered, connections);
    }
    let span = bench.pick_ms(10_000, 300);
    let cpu = server.cpu()?;
    tokio::time::sleep(span).await;
    let cores = (server.cpu()? - cpu) / span.as_secs_f64();
    bench.ours(&format!("{name}: CPU while all clients rest, cores"), cores);
    Ok(Contender {
        server,
        generator,
        _redis: Some(redis),
    })
}

/// Has this many clients enter; without `by`, they have sockets.
fn enter(server: &Server, by: Option<BeatsBy>, count: usize) -> Order {
    match by {
        None => Order::Connect(Crowd {
            lives: LIVES,
            ..Crowd::new(server.addr, count, Enter::Joined)
        }),
        Some(by) => Order::Begin(Viewers {
            server: server.addr,
            by,
            count,
            lives: LIVES,
        }),
    }
}

async fn echo(bench: &Bench, count: usize) -> anyhow::Result<Contender> {
    let server = bench.programs.bare_datagrams().await?;
    let mut generator = Generator::start()?;
    let enter = enter(&server, Some(BeatsBy::Echo), count);
    generator.carry_out(&enter).await?;
    Ok(Contender {
        server,
        generator,
        _redis: None,
    })
}
