//! The orders, carried out: each turns the engine until it is done or its time is over.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::engine::Engine;
use super::order::{Order, Outcome};
use super::pace::{Clients, LAST_ANSWERS, NAP, await_answers, pace};
use crate::bench::cpu;
use crate::tally::unix_micros;

/// How long a crowd may take beyond its own rate.
const PATIENCE: Duration = Duration::from_secs(60);

/// When each user asked to join, in Unix microseconds, 0 before that; by user number.
pub(crate) type JoinClock = Arc<Vec<AtomicU64>>;

/// Carries out one order. The clock, if there is one, records when each join is sent.
pub(crate) fn carry_out(
    engine: &mut Engine,
    order: Order,
    clock: Option<&JoinClock>,
) -> io::Result<Outcome> {
    let cpu = cpu::this_thread();
    let sent = engine.sent;
    let answered = engine.answered;
    let lost = engine.lost;
    engine.latency = Default::default();
    engine.trouble = None;
    let began = Instant::now();
    let mut leaving = false;
    let done = match order {
        Order::Connect(crowd) => {
            engine.expect(crowd);
            connect(engine)?
        }
        Order::Join { per_second } => join(engine, per_second, clock)?,
        Order::Loop { seconds } => {
            run_loop(engine, seconds)?;
            true
        }
        Order::Pace { every_s, seconds } => pace(engine, every_s, seconds)?,
        Order::Large { per_second } => ask_at_length(engine, per_second)?,
        Order::Rest { seconds } => rest(engine, seconds)?,
        Order::Leave => {
            leaving = true;
            leave(engine)?
        }
    };
    let outcome = Outcome {
        sockets: engine.entered(),
        lost: if leaving { 0 } else { engine.lost - lost },
        sent: engine.sent - sent,
        answered: engine.answered - answered,
        seconds: began.elapsed().as_secs_f64(),
        cpu_seconds: cpu::this_thread() - cpu,
        latency: std::mem::take(&mut engine.latency),
        gave_up: None,
    };
    let gave_up = if done && outcome.lost == 0 {
        None
    } else {
        let trouble = engine.trouble.clone();
        Some(trouble.unwrap_or_else(|| "it took too long".to_owned()))
    };
    if leaving {
        engine.clear();
    }
    Ok(Outcome { gave_up, ..outcome })
}

fn connect(engine: &mut Engine) -> io::Result<bool> {
    let Some(crowd) = engine.crowd().cloned() else {
        return Ok(false);
    };
    let began = Instant::now();
    let slowest = crowd.per_second.map_or(Duration::ZERO, |rate| {
        Duration::from_secs_f64(crowd.count as f64 / rate)
    });
    while engine.entered() + engine.lost < crowd.count {
        let due = match crowd.per_second {
            Some(rate) => (began.elapsed().as_secs_f64() * rate) as usize + 1,
            None => crowd.count,
        };
        while engine.len() < due.min(crowd.count)
            && engine.len() - engine.entered() - engine.lost < crowd.in_flight
        {
            engine.connect_next();
        }
        engine.turn(NAP)?;
        if began.elapsed() > slowest + PATIENCE {
            return Ok(false);
        }
    }
    Ok(engine.lost == 0)
}

fn join(engine: &mut Engine, per_second: f64, clock: Option<&JoinClock>) -> io::Result<bool> {
    let began = Instant::now();
    let count = engine.len();
    let mut asked = 0;
    while engine.joined + engine.lost < count {
        let due = ((began.elapsed().as_secs_f64() * per_second) as usize + 1).min(count);
        while asked < due {
            if let (Some(number), Some(clock)) = (engine.join(asked), clock)
                && let Some(at) = clock.get(number)
            {
                at.store(unix_micros(), Ordering::Release);
            }
            asked += 1;
        }
        engine.turn(NAP)?;
        if began.elapsed() > Duration::from_secs_f64(count as f64 / per_second) + PATIENCE {
            return Ok(false);
        }
    }
    Ok(true)
}

fn run_loop(engine: &mut Engine, seconds: f64) -> io::Result<()> {
    engine.looping = true;
    (0..engine.len()).for_each(|position| engine.beat(position));
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

fn ask_at_length(engine: &mut Engine, per_second: f64) -> io::Result<bool> {
    let began = Instant::now();
    let count = engine.len();
    let before = engine.awaited();
    let mut asked = 0;
    while asked < count {
        let due = ((began.elapsed().as_secs_f64() * per_second) as usize + 1).min(count);
        while asked < due {
            engine.ask_at_length(asked);
            asked += 1;
        }
        engine.turn(NAP)?;
    }
    await_answers(engine, before)
}

fn rest(engine: &mut Engine, seconds: f64) -> io::Result<bool> {
    let until = Instant::now() + Duration::from_secs_f64(seconds);
    while Instant::now() < until {
        engine.turn(NAP * 50)?;
    }
    Ok(true)
}

fn leave(engine: &mut Engine) -> io::Result<bool> {
    (0..engine.len()).for_each(|position| engine.leave(position));
    let began = Instant::now();
    while engine.alive() > 0 && began.elapsed() < LAST_ANSWERS {
        engine.turn(NAP)?;
    }
    Ok(engine.alive() == 0)
}
