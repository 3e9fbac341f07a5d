//! Viewers inside this process: a real gateway, its real sessions, rooms, flush and a real redis-server, but no file
//! descriptors, so that a million fit where sockets end at twenty thousand.
//!
//! Memory: the resident size of this process before the wires are made, with the wires, and with everybody joined; the
//! viewers' is the last difference. CPU: of this process without the one thread that plays the clients.

mod four_calls;
mod hosts;
mod many_gateways;
mod one;
mod small_lives;
mod wire;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use rollcall::base::identity::{Identity, Role};
use rollcall::base::ids::{LiveId, UserId};
use rollcall::base::secret::Secret;
use rollcall::config::Config;
use rollcall::gateway::OpenWish;
use rollcall::gateway::{self, Gateway};
use rollcall::session::Handshake;
use rollcall::store::OpenedBy;
use serde::{Deserialize, Serialize};

use crate::bench::cpu;
use crate::bench::generator::order::{live, streamer, user};
use wire::{Heard, Wire};

pub(crate) use hosts::child_main;
pub(super) use many_gateways::{NAME as MANY_GATEWAYS, run as run_many_gateways};
pub(super) use one::{NAME as ONE, run as run_one};
pub(super) use small_lives::{NAME as SMALL_LIVES, run as run_small_lives};

/// The row is given up beyond it, because other programs need memory, too.
const MOST_MEMORY: f64 = 12.0 * (1_u64 << 30) as f64;
const TICK: Duration = Duration::from_millis(5);
const JOIN_DEADLINE: Duration = Duration::from_secs(300);

/// Who sends heartbeats, and how often.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Crowd {
    viewers: usize,
    /// User n watches live n mod `lives`.
    lives: usize,
    /// Each viewer sends one in so long; they are spread evenly.
    every: Duration,
}

impl Crowd {
    fn per_live(&self) -> usize {
        self.viewers / self.lives
    }

    /// Heartbeats a second.
    fn due(&self) -> f64 {
        self.viewers as f64 / self.every.as_secs_f64()
    }
}

/// A gateway in this process, and its viewers.
struct InProcess {
    gateway: Gateway,
    heard: Arc<Heard>,
    wires: Arc<Vec<Arc<Wire>>>,
    /// How many of the wires have a session.
    seated: Arc<AtomicUsize>,
    lives: usize,
}

fn config(redis: String, heartbeat: Duration) -> Config {
    Config {
        listen: ([127, 0, 0, 1], 0).into(),
        redis: Some(Secret::new(redis)),
        heartbeat,
        // A busy machine may be late by more than a quick run's heartbeats.
        timeout: (heartbeat * 3).max(Duration::from_secs(3)),
        // A quick run, with its quick heartbeats, does not wait 30 s for the fan check.
        fan_ttl: Config::default().fan_ttl.min(heartbeat * 6),
        ..Config::default()
    }
}

impl InProcess {
    async fn start(redis: String, heartbeat: Duration, lives: usize) -> anyhow::Result<Self> {
        let gateway = gateway::start(config(redis, heartbeat)).await?;
        Ok(Self { gateway, heard: Arc::default(), wires: Arc::default(), seated: Arc::default(), lives })
    }

    async fn open(&self, number: usize, slices: Option<u32>) -> anyhow::Result<()> {
        let wish = OpenWish {
            live: LiveId::parse(&live(number))?,
            streamer: UserId::parse(&streamer(number))?,
            slices,
            by: OpenedBy::Service,
        };
        self.gateway.open_live(wish).await.context("opening a live")?;
        Ok(())
    }

    fn make_wires(&mut self, count: usize) {
        self.wires = Arc::new((0..count).map(|_| Wire::new(&self.heard)).collect());
    }

    /// These users join on the next free wires, so many at once; user n the live n mod `lives`. Joins are given up when
    /// they take too long since `began`.
    async fn join(&self, users: impl IntoIterator<Item = usize>, at_once: u64, began: Instant) -> anyhow::Result<()> {
        for number in users {
            let place = self.seated.load(Ordering::Acquire);
            let wire = self.wires.get(place).context("more viewers than wires")?;
            let identity = Identity { user: UserId::parse(&user(number))?, role: Role::Viewer, counted: true };
            let handshake = Handshake { identity, join: Some(live(number % self.lives)), watch: None, permit: None };
            tokio::spawn(self.gateway.serve(wire.server_end(), handshake));
            self.seated.store(place + 1, Ordering::Release);
            while place as u64 + 1 > self.heard.joined.load(Ordering::Relaxed) + at_once {
                self.check(began)?;
                tokio::time::sleep(Duration::from_micros(200)).await;
            }
            if place.is_multiple_of(10_000) {
                self.check(began)?;
            }
        }
        Ok(())
    }

    /// Waits until every viewer has joined.
    async fn all_joined(&self, began: Instant) -> anyhow::Result<()> {
        while self.heard.joined.load(Ordering::Relaxed) < self.wires.len() as u64 {
            self.check(began)?;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Ok(())
    }

    fn check(&self, began: Instant) -> anyhow::Result<()> {
        let joined = self.heard.joined.load(Ordering::Relaxed);
        ensure!(
            began.elapsed() < JOIN_DEADLINE,
            "{joined} of {} viewers joined within {JOIN_DEADLINE:?}",
            self.wires.len()
        );
        let errors = self.heard.errors.load(Ordering::Relaxed);
        let first = self.heard.error.get();
        ensure!(errors == 0, "{errors} viewers were refused: {}", first.map_or("", String::as_str));
        let memory = own_rss()?;
        ensure!(memory < MOST_MEMORY, "given up at {:.1} GiB", memory / (1_u64 << 30) as f64);
        Ok(())
    }

    /// Plays the clients: each that is seated sends a heartbeat at this interval, spread evenly.
    fn beat(&self, every: Duration) -> Clients {
        let (wires, seated) = (self.wires.clone(), self.seated.clone());
        let stop = Arc::new(AtomicBool::new(false));
        let cpu_nanos = Arc::new(AtomicUsize::new(0));
        let (stopped, noted) = (stop.clone(), cpu_nanos.clone());
        let thread = std::thread::spawn(move || {
            let began = Instant::now();
            let mut done = 0_u64;
            while !stopped.load(Ordering::Relaxed) {
                let due = (began.elapsed().as_secs_f64() / every.as_secs_f64() * wires.len() as f64) as u64;
                for beat in due_positions(done..due, wires.len()) {
                    if beat < seated.load(Ordering::Acquire) {
                        wires[beat].beat();
                    }
                }
                done = due;
                noted.store((cpu::this_thread() * 1e9) as usize, Ordering::Relaxed);
                std::thread::sleep(TICK);
            }
        });
        Clients { stop, cpu_nanos, thread: Some(thread) }
    }

    /// Ends all viewers and stops the gateway.
    async fn end(self) {
        self.wires.iter().for_each(|wire| wire.end());
        // The ended viewers keep their seats until the timeout or the stop.
        let _ = tokio::time::timeout(Duration::from_secs(20), self.gateway.stop()).await;
    }
}

/// Positions of the beats from `done` to `due`, at most once round.
fn due_positions(beats: Range<u64>, count: usize) -> impl Iterator<Item = usize> {
    let start = beats.start.max(beats.end.saturating_sub(count as u64));
    (start..beats.end).map(move |beat| (beat % count as u64) as usize)
}

/// The thread that plays the clients; it stops when this is dropped.
struct Clients {
    stop: Arc<AtomicBool>,
    cpu_nanos: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

impl Clients {
    fn cpu(&self) -> f64 {
        self.cpu_nanos.load(Ordering::Relaxed) as f64 / 1e9
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn own_rss() -> anyhow::Result<f64> {
    cpu::rss(std::process::id()).context("this process's memory")
}

fn own_cpu() -> anyhow::Result<f64> {
    cpu::process(std::process::id()).context("this process's CPU time")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beats_that_were_missed_for_rounds_are_sent_once() {
        assert_eq!(due_positions(3..6, 4).collect::<Vec<_>>(), [3, 0, 1]);
        assert_eq!(due_positions(0..100, 4).count(), 4);
        assert_eq!(due_positions(5..5, 4).count(), 0);
    }
}
