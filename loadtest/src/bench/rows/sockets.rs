//! How fast a server lets sockets in, how much memory each has, and what it costs to spread them
//! over several gateways.

use crate::bench::figures::Who;
use crate::bench::generator::order::{Crowd, Enter, Order};
use crate::bench::generator::{Generator, together};
use crate::bench::servers::{BenchGateway, Redis, Server};
use crate::bench::settings::{Bench, on, turns};

const LIVES: usize = 10;
const MIB: f64 = (1 << 20) as f64;
/// These sockets come and go first, so that the one-time allocations of a server do not count as
/// memory of sockets.
const WARM_UP: usize = 200;

/// Sockets a second, for Rollcall up to `joined` and for the bare server up to the 101.
pub(super) async fn connect(bench: &mut Bench) -> anyhow::Result<()> {
    let sockets = bench.pick(10_000, 200);
    let (_redis, gateway) = bench.place(sockets, LIVES, &[]).await?;
    let bare = bench.programs.bare().await?;
    let servers = [(Who::Rollcall, &gateway.server), (Who::Bare, &bare)];
    let mut generator = Generator::start()?;
    let settle = Order::Rest {
        seconds: bench.pick(1.0, 0.1),
    };
    // Round 0 only warms the servers up.
    for (round, turn) in turns(bench.rounds() + 1, servers.len()) {
        let (who, server) = servers[turn];
        let crowd = Crowd {
            lives: LIVES,
            ..Crowd::new(server.addr, sockets, Enter::of(who))
        };
        let before = server.cpu()?;
        let outcome = generator.carry_out(&Order::Connect(crowd)).await?;
        let cpu = server.cpu()? - before;
        let entered = outcome.sockets as f64;
        generator.carry_out(&Order::Leave).await?;
        generator.carry_out(&settle).await?;
        if round == 0 {
            continue;
        }
        bench.note(who, "sockets in, 1/s", entered / outcome.seconds);
        bench.note(who, "server CPU per socket, µs", cpu * 1e6 / entered);
        let generator_cpu = outcome.cpu_seconds * 1e6 / entered;
        bench.note(who, "generator CPU per socket, µs", generator_cpu);
    }
    Ok(())
}

/// Resident memory per socket: idle, and after a long message each way.
pub(super) async fn memory(bench: &mut Bench) -> anyhow::Result<()> {
    let sockets = bench.pick(18_000, 400);
    for _ in 0..bench.rounds().min(3) {
        let (redis, gateway) = bench.place(sockets, LIVES, &[]).await?;
        fill(bench, Who::Rollcall, &gateway.server, sockets).await?;
        gateway.server.end().await;
        drop(redis);
        let bare = bench.programs.bare().await?;
        fill(bench, Who::Bare, &bare, sockets).await?;
    }
    Ok(())
}

async fn fill(bench: &mut Bench, who: Who, server: &Server, sockets: usize) -> anyhow::Result<()> {
    let mut generators = [Generator::start()?, Generator::start()?];
    let rest = Order::Rest {
        seconds: bench.pick(3.0, 0.1),
    };
    let large = Order::Large {
        per_second: 5_000.0,
    };
    let servers = [server; 2];
    let both = |order: &Order| [order.clone(), order.clone()];

    together(&mut generators, &connects(&servers, WARM_UP, who)).await?;
    together(&mut generators, &both(&Order::Leave)).await?;
    together(&mut generators, &both(&rest)).await?;
    let empty = server.rss()?;
    let entered = together(&mut generators, &connects(&servers, sockets, who)).await?;
    together(&mut generators, &both(&rest)).await?;
    let each = |rss: f64| (rss - empty) / entered.sockets as f64;
    let idle = each(server.rss()?);
    together(&mut generators, &both(&large)).await?;
    together(&mut generators, &both(&rest)).await?;
    let after = each(server.rss()?);
    bench.note(who, "RSS per idle socket, B", idle);
    bench.note(who, "RSS per socket after 4 KiB each way, B", after);
    bench.note(who, "after 4 KiB each way, of idle", after / idle);
    together(&mut generators, &both(&Order::Leave)).await?;
    Ok(())
}

/// The sockets, in as many shares as there are servers.
fn connects(servers: &[&Server], sockets: usize, who: Who) -> Vec<Order> {
    let share = sockets / servers.len();
    let connect = |(place, server): (usize, &&Server)| {
        Order::Connect(Crowd {
            first: place * share,
            lives: LIVES,
            in_flight: 32,
            ..Crowd::new(server.addr, share, Enter::of(who))
        })
    };
    servers.iter().enumerate().map(connect).collect()
}

/// The same crowd over 1, 2, 4 and 8 gateways: which costs grow with the number of processes.
pub(super) async fn gateways(bench: &mut Bench) -> anyhow::Result<()> {
    let sockets = bench.pick(8_000, 160);
    let counts: &[usize] = bench.pick(&[1, 2, 4, 8], &[1, 2]);
    for &count in counts {
        let redis = Redis::start().await?;
        redis.follow(sockets, LIVES).await?;
        let mut gateways = Vec::new();
        let mut generators = Vec::new();
        for _ in 0..count {
            gateways.push(bench.programs.gateway(&redis).await?);
            generators.push(Generator::start()?);
        }
        gateways[0].open(LIVES, None).await?;
        let servers: Vec<&Server> = gateways.iter().map(|gateway| &gateway.server).collect();
        let empty = sum(&servers, Server::rss)?;
        let orders = connects(&servers, sockets, Who::Rollcall);
        together(&mut generators, &orders).await?;
        tokio::time::sleep(bench.pick_ms(3_000, 300)).await;

        let full = sum(&servers, Server::rss)?;
        let messages_before = messages(&gateways).await?;
        let redis_before = redis.read().await?;
        let cpu_before = sum(&servers, Server::cpu)?;
        let (every_s, seconds) = bench.pick((5.0, 15.0), (0.2, 0.4));
        let pace = vec![Order::pace(every_s, seconds); count];
        let outcome = together(&mut generators, &pace).await?;
        let spent = sum(&servers, Server::cpu)? - cpu_before;
        let work = redis.since(&redis_before).await?;
        let messages = messages(&gateways).await? - messages_before;
        for (what, value) in [
            ("RSS with nobody, all, MiB", empty / MIB),
            ("RSS, all, MiB", full / MIB),
            ("CPU, all, cores", spent / outcome.seconds),
            ("Redis CPU, cores", work.cpu / work.seconds),
            (
                "Redis commands, inner ones too, 1/s",
                work.commands / work.seconds,
            ),
            ("messages between gateways, 1/s", messages / outcome.seconds),
            ("ack p99, ms", outcome.latency.ms_at(0.99)),
        ] {
            bench.ours(&format!("{}: {what}", on(count)), value);
        }
    }
    Ok(())
}

fn sum(servers: &[&Server], of: fn(&Server) -> anyhow::Result<f64>) -> anyhow::Result<f64> {
    servers.iter().map(|server| of(server)).sum()
}

async fn messages(gateways: &[BenchGateway]) -> anyhow::Result<f64> {
    let mut sum = 0.0;
    for gateway in gateways {
        sum += gateway.metric("rollcall_peer_messages_sent_total").await?;
    }
    Ok(sum)
}

/// What the sets cost Redis: viewers, half of them fans, connect, join at 2,000 a second, and
/// leave, with and without `--track-online`.
pub(super) async fn sets(bench: &mut Bench) -> anyhow::Result<()> {
    const KEPT: [(&str, &str); 2] = [("viewers and fans", "off"), ("users online too", "on")];
    let sockets = bench.pick(10_000, 200);
    let mut generator = Generator::start()?;
    for (_, turn) in turns(bench.rounds().min(5), KEPT.len()) {
        let (kept, tracks) = KEPT[turn];
        let flags = ["--track-online", tracks];
        let (redis, gateway) = bench.place(sockets / 2, 1, &flags).await?;
        let before = redis.server.cpu()?;
        let crowd = Crowd::new(gateway.server.addr, sockets, Enter::Upgraded);
        for order in [
            Order::Connect(crowd),
            Order::Join {
                per_second: 2_000.0,
            },
            Order::Rest { seconds: 1.0 },
            Order::Leave,
            // The last flush.
            Order::Rest { seconds: 1.0 },
        ] {
            generator.carry_out(&order).await?;
        }
        let each = (redis.server.cpu()? - before) * 1e6 / sockets as f64;
        bench.ours(
            &format!("Redis CPU per viewer who comes and goes, {kept}, µs"),
            each,
        );
    }
    Ok(())
}
