//! The load generator of sessions without a WebSocket: a process that holds thousands of them,
//! which beat by HTTP or by datagram, and carries out orders. Like [`super::generator`], it has no
//! task for each client and parses as little as it can.

mod clients;
pub(crate) mod datagrams;
mod echo;
pub(crate) mod http;
mod sockets;

use std::io;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::bail;
use serde::{Deserialize, Serialize};

use self::clients::TO_BEGIN;
pub(crate) use self::clients::{By, Seen, Viewers};
use self::datagrams::DatagramClients;
use self::echo::EchoClients;
use self::http::HttpClients;
use super::child::Child;
use super::cpu;
use super::generator::order::Outcome;
use super::generator::pace::{Clients, pace};
use super::generator::{ORDER_DEADLINE, obey};
use super::process::end;

/// What a generator is to do next.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Begin the sessions. Afterwards there is no connection.
    Begin(Viewers),
    /// Have this many connections from now on, which the sessions share. Each sends one beat.
    Connect { connections: usize },
    /// Each session sends a beat at this interval, spread evenly; the gateway is to answer every
    /// n-th beat of a session.
    Pace {
        every_s: f64,
        seconds: f64,
        ack_every: u32,
    },
    /// Leave.
    Leave,
}

/// The clients of a generator.
enum Crowd {
    Nobody,
    Http(HttpClients),
    Datagrams(DatagramClients),
    Echo(EchoClients),
}

impl Crowd {
    fn seen(&mut self) -> Option<&mut Seen> {
        match self {
            Self::Nobody => None,
            Self::Http(clients) => Some(&mut clients.seen),
            Self::Datagrams(clients) => Some(&mut clients.seen),
            Self::Echo(clients) => Some(&mut clients.seen),
        }
    }

    /// From now on the server is to answer every n-th beat of a client, if the client can say so.
    fn ack_every(&mut self, beats: u32) {
        match self {
            Self::Nobody | Self::Http(_) => {}
            Self::Datagrams(clients) => clients.ack_every = beats,
            Self::Echo(clients) => clients.ack_every = beats,
        }
    }
}

impl Clients for Crowd {
    fn count(&self) -> usize {
        match self {
            Self::Nobody => 0,
            Self::Http(clients) => clients.count(),
            Self::Datagrams(clients) => clients.count(),
            Self::Echo(clients) => clients.count(),
        }
    }

    fn beat(&mut self, position: usize) {
        match self {
            Self::Nobody => {}
            Self::Http(clients) => clients.beat(position),
            Self::Datagrams(clients) => clients.beat(position),
            Self::Echo(clients) => clients.beat(position),
        }
    }

    fn turn(&mut self, wait: Duration) -> io::Result<()> {
        match self {
            Self::Nobody => {
                std::thread::sleep(wait);
                Ok(())
            }
            Self::Http(clients) => clients.turn(wait),
            Self::Datagrams(clients) => clients.turn(wait),
            Self::Echo(clients) => clients.turn(wait),
        }
    }

    fn awaited(&self) -> u64 {
        match self {
            Self::Nobody => 0,
            Self::Http(clients) => clients.awaited(),
            Self::Datagrams(clients) => clients.awaited(),
            Self::Echo(clients) => clients.awaited(),
        }
    }
}

/// Runs a generator's process.
pub(crate) fn child_main() -> ExitCode {
    end(obey(&mut Crowd::Nobody, None, carry_out))
}

fn carry_out(crowd: &mut Crowd, order: Order) -> anyhow::Result<Outcome> {
    let began = Instant::now();
    let cpu = cpu::this_thread();
    if let Some(seen) = crowd.seen() {
        *seen = Seen::default();
    }
    let done = obeyed(crowd, order)?;
    let seconds = began.elapsed().as_secs_f64();
    let mut seen = Seen::default();
    if let Some(now) = crowd.seen() {
        seen = std::mem::take(now);
    }
    if !done {
        seen.trouble
            .get_or_insert_with(|| "it took too long".to_owned());
    }
    Ok(Outcome {
        sockets: crowd.count(),
        sent: seen.beats,
        answered: seen.answered,
        seconds,
        cpu_seconds: cpu::this_thread() - cpu,
        latency: seen.latency,
        gave_up: seen.trouble,
        ..Outcome::default()
    })
}

/// False if answers are missing.
fn obeyed(crowd: &mut Crowd, order: Order) -> anyhow::Result<bool> {
    match (order, &mut *crowd) {
        (Order::Begin(viewers), _) => {
            *crowd = begin(&viewers)?;
            Ok(true)
        }
        (Order::Connect { connections }, Crowd::Http(clients)) => {
            clients.connect(connections)?;
            Ok(clients.beat_over_each_connection()?)
        }
        (
            Order::Pace {
                every_s,
                seconds,
                ack_every,
            },
            crowd,
        ) => {
            crowd.ack_every(ack_every);
            Ok(pace(crowd, every_s, seconds)?)
        }
        (Order::Leave, Crowd::Http(clients)) => Ok(clients.leave()?),
        (Order::Leave, Crowd::Datagrams(clients)) => Ok(clients.leave()?),
        (order, _) => bail!("nobody is there to carry out {order:?}"),
    }
}

fn begin(viewers: &Viewers) -> anyhow::Result<Crowd> {
    if viewers.by == By::Echo {
        let clients = EchoClients::new(viewers.server, viewers.count)?;
        return Ok(Crowd::Echo(clients));
    }
    let mut clients = HttpClients::new(viewers.server)?;
    clients.connect(TO_BEGIN.min(viewers.count))?;
    clients.begin(viewers)?;
    clients.disconnect();
    if viewers.by == By::Http {
        return Ok(Crowd::Http(clients));
    }
    let mut clients = DatagramClients::of(&clients.sessions)?;
    clients.say_hello()?;
    Ok(Crowd::Datagrams(clients))
}

/// A generator in a process of its own; it ends when this is dropped.
pub(crate) struct SessionGenerator(Child<Order, Outcome>);

impl SessionGenerator {
    pub(crate) fn start() -> anyhow::Result<Self> {
        Child::start("session-generator").map(Self)
    }

    /// Does one thing.
    pub(crate) async fn carry_out(&mut self, order: &Order) -> anyhow::Result<Outcome> {
        self.0.tell(order).await?;
        let outcome = self.0.hear(ORDER_DEADLINE).await?;
        match &outcome.gave_up {
            Some(why) => bail!("a generator of sessions gave up {order:?}: {why}"),
            None => Ok(outcome),
        }
    }
}
