//! The orders, carried out: each turns the clients until it is done or its time is over.

use std::io;
use std::time::{Duration, Instant};

use anyhow::bail;

use super::datagrams::DatagramClients;
use super::engine::SocketEngine;
use super::http::{HttpClients, TO_BEGIN};
use super::order::{BeatsBy, Crowd, Order, OrderOutcome, Viewers};
use super::pace::{Clients, NAP, await_answers, each_at, pace};
use crate::proc_stats::cpu_seconds_of_this_thread;

/// How long a crowd may take beyond its own rate.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long long answers may take.
const LAST_ANSWERS: Duration = Duration::from_secs(5);

/// The clients of this process.
pub(super) enum AnyClients {
    Sockets(SocketEngine),
    Http(HttpClients),
    Datagrams(DatagramClients),
}

impl AnyClients {
    /// Sockets, none of which is there yet.
    pub(super) fn new() -> io::Result<Self> {
        SocketEngine::new().map(Self::Sockets)
    }

    pub(super) fn get(&mut self) -> &mut dyn Clients {
        match self {
            Self::Sockets(clients) => clients,
            Self::Http(clients) => clients,
            Self::Datagrams(clients) => clients,
        }
    }
}

/// Carries out one order.
pub(super) fn carry_out(clients: &mut AnyClients, order: Order) -> anyhow::Result<OrderOutcome> {
    let cpu = cpu_seconds_of_this_thread();
    *clients.get().seen() = Default::default();
    let began = Instant::now();
    let done = obey(clients, order)?;
    let seconds = began.elapsed().as_secs_f64();
    let clients = clients.get();
    let mut seen = std::mem::take(clients.seen());
    if !done {
        seen.trouble
            .get_or_insert_with(|| "it took too long".to_owned());
    }
    Ok(OrderOutcome {
        sockets: clients.entered(),
        sent: seen.beats,
        answered: seen.answered,
        asked_at: seen.asked_at,
        seconds,
        cpu_seconds: cpu_seconds_of_this_thread() - cpu,
        latency: seen.latency,
        gave_up: seen.trouble,
    })
}

/// False if it takes too long.
fn obey(clients: &mut AnyClients, order: Order) -> anyhow::Result<bool> {
    let done = match (order, &mut *clients) {
        (Order::Connect(crowd), AnyClients::Sockets(engine)) => connect(engine, crowd)?,
        (Order::Begin(viewers), _) => {
            *clients = begin(&viewers)?;
            true
        }
        (Order::Share { connections }, AnyClients::Http(http)) => {
            http.connect(connections)?;
            http.beat_over_each_connection()?
        }
        (Order::Join { per_second }, AnyClients::Sockets(engine)) => join(engine, per_second)?,
        (Order::Loop { seconds }, AnyClients::Sockets(engine)) => {
            run_loop(engine, seconds)?;
            true
        }
        (Order::Large { per_second }, AnyClients::Sockets(engine)) => {
            let before = engine.awaited();
            let count = engine.count();
            each_at(engine, count, per_second, SocketEngine::ask_at_length)?;
            await_answers(engine, before, LAST_ANSWERS)?
        }
        (
            Order::Pace {
                every_s,
                seconds,
                ack_every,
            },
            clients,
        ) => {
            clients.get().ack_every(ack_every);
            pace(clients.get(), every_s, seconds)?
        }
        (Order::Rest { seconds }, clients) => {
            let until = Instant::now() + Duration::from_secs_f64(seconds);
            while Instant::now() < until {
                clients.get().turn(NAP * 50)?;
            }
            true
        }
        (Order::Leave, clients) => clients.get().leave()?,
        (order, _) => bail!("nobody is there to carry out {order:?}"),
    };
    Ok(done)
}

fn connect(engine: &mut SocketEngine, crowd: Crowd) -> io::Result<bool> {
    let Crowd {
        count,
        per_second,
        in_flight,
        ..
    } = crowd;
    engine.expect(crowd);
    let began = Instant::now();
    let slowest = per_second.map_or(Duration::ZERO, |rate| {
        Duration::from_secs_f64(count as f64 / rate)
    });
    while engine.entered() + engine.lost() < count {
        let due = match per_second {
            Some(rate) => (began.elapsed().as_secs_f64() * rate) as usize + 1,
            None => count,
        };
        while engine.count() < due.min(count)
            && engine.count() - engine.entered() - engine.lost() < in_flight
        {
            engine.connect_next();
        }
        engine.turn(NAP)?;
        if began.elapsed() > slowest + PATIENCE {
            return Ok(false);
        }
    }
    Ok(true)
}

fn join(engine: &mut SocketEngine, per_second: f64) -> io::Result<bool> {
    let count = engine.count();
    each_at(engine, count, per_second, SocketEngine::join)?;
    let began = Instant::now();
    while engine.joined() + engine.lost() < count {
        engine.turn(NAP)?;
        if began.elapsed() > PATIENCE {
            return Ok(false);
        }
    }
    Ok(true)
}

fn run_loop(engine: &mut SocketEngine, seconds: f64) -> io::Result<()> {
    engine.looping = true;
    (0..engine.count()).for_each(|position| engine.beat(position));
    let until = Instant::now() + Duration::from_secs_f64(seconds);
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        engine.turn(left)?;
    }
    // What is still on its way is not followed by more; it is not waited for, or the seconds would
    // be more than asked.
    engine.looping = false;
    Ok(())
}

fn begin(viewers: &Viewers) -> anyhow::Result<AnyClients> {
    if viewers.by == BeatsBy::Echo {
        let clients = DatagramClients::of_echo(viewers.server, viewers.count)?;
        return Ok(AnyClients::Datagrams(clients));
    }
    let mut clients = HttpClients::new(viewers.server)?;
    clients.connect(TO_BEGIN.min(viewers.count))?;
    clients.begin(viewers)?;
    clients.disconnect();
    if viewers.by == BeatsBy::Http {
        return Ok(AnyClients::Http(clients));
    }
    let mut clients = DatagramClients::of(&clients.sessions)?;
    clients.say_hello()?;
    Ok(AnyClients::Datagrams(clients))
}
