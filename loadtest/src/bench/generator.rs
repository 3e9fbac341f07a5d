//! The load generator of the bench: a process, or a thread, that holds thousands of clients and
//! carries out orders. They have sockets, or sessions that beat by HTTP or by datagram.
//!
//! It does not use [`crate::client`]: a task and a parsed JSON message per socket would take more
//! CPU time than the server that shares the two cores, and the bench would measure its own client.
//!
//! Orders and outcomes are lines of JSON over the child's standard streams; it ends when its input
//! does, so it never outlives the bench. Between orders it answers pings, as a client does.

pub(crate) mod datagrams;
mod dial;
mod engine;
pub(crate) mod frames;
pub(crate) mod http;
pub(crate) mod order;
pub(crate) mod pace;
mod udp;
mod work;

use std::io::{BufRead, Write};
use std::process::ExitCode;
use std::sync::mpsc::{self, TryRecvError};
use std::time::Duration;

use anyhow::{Context, bail};

use order::{Order, OrderOutcome};
use work::{AnyClients, carry_out};

use super::child::{Child, end};

/// Longest that any order may take.
const ORDER_DEADLINE: Duration = Duration::from_secs(180);

/// How long a turn between orders takes at most.
const BETWEEN_ORDERS: Duration = Duration::from_millis(5);

/// Runs a generator's process.
pub(crate) fn child_main() -> ExitCode {
    end(child_run())
}

/// Carries out the orders on standard input until it ends. Between orders the clients turn.
fn child_run() -> anyhow::Result<()> {
    let (to_us, orders) = mpsc::channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if to_us.send(line).is_err() {
                break;
            }
        }
    });
    let mut clients = AnyClients::new()?;
    loop {
        match orders.try_recv() {
            Ok(line) => {
                let order = serde_json::from_str(&line).context("an order on standard input")?;
                let outcome = carry_out(&mut clients, order)?;
                let mut output = std::io::stdout().lock();
                serde_json::to_writer(&mut output, &outcome)?;
                output.write_all(b"\n")?;
                output.flush()?;
            }
            Err(TryRecvError::Empty) => clients.get().turn(BETWEEN_ORDERS)?,
            Err(TryRecvError::Disconnected) => return Ok(()),
        }
    }
}

/// A generator in a process of its own; it ends when this is dropped.
pub(crate) struct Generator(Child<Order, OrderOutcome>);

impl Generator {
    pub(crate) fn start() -> anyhow::Result<Self> {
        Child::start("generator").map(Self)
    }

    /// Does one thing.
    pub(crate) async fn carry_out(&mut self, order: &Order) -> anyhow::Result<OrderOutcome> {
        self.0.tell(order).await?;
        let outcome = self.0.hear(ORDER_DEADLINE).await?;
        match &outcome.gave_up {
            Some(why) => bail!("a generator gave up {order:?}: {why}"),
            None => Ok(outcome),
        }
    }
}

/// Several generators do their orders at the same time; what they did, summed.
pub(crate) async fn together(
    generators: &mut [Generator],
    orders: &[Order],
) -> anyhow::Result<OrderOutcome> {
    for (generator, order) in generators.iter_mut().zip(orders) {
        generator.0.tell(order).await?;
    }
    let mut sum = OrderOutcome::default();
    for generator in generators.iter_mut().take(orders.len()) {
        sum.merge(&generator.0.hear(ORDER_DEADLINE).await?);
    }
    match &sum.gave_up {
        Some(why) => bail!("a generator gave up: {why}"),
        None => Ok(sum),
    }
}
