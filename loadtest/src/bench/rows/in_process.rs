//! A gateway inside this process: real sessions, rooms and flushes and a real redis-server, but
//! sockets in memory. A million viewers fit, where file descriptors end at twenty thousand.
//!
//! The memory of the viewers is the growth of this process from the moment its sockets exist until
//! all viewers have joined. The CPU time is that of this process without the thread that plays the
//! clients.

mod four_calls;
mod hosts;
mod many_lives;
mod memory_socket;
mod one_live;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use rollcall::base::address_prefix::AddressPrefix;
use rollcall::base::identity::{Identity, Role};
use rollcall::base::ids::{LiveId, UserId};
use rollcall::base::secret::Secret;
use rollcall::config::Config;
use rollcall::gateway::{self, Gateway, OpenRequest};
use rollcall::session::Handshake;
use rollcall::store::{OpenedBy, Terms};
use serde::{Deserialize, Serialize};

use crate::bench::generator::order::{live, streamer, user};
use crate::proc_stats::{ProcStats, cpu_seconds, cpu_seconds_of_this_thread};
use memory_socket::{MemorySocket, ReceivedTotals};

pub(crate) use hosts::child_main;
pub(super) use many_lives::{many_gateways, small_lives};
pub(super) use one_live::run as run_one_live;

/// A row that needs more is given up, because other programs need memory, too.
const MOST_MEMORY: f64 = 12.0 * (1_u64 << 30) as f64;
const TICK: Duration = Duration::from_millis(5);
const JOIN_DEADLINE: Duration = Duration::from_secs(900);

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct LocalCrowd {
    viewers: usize,
    /// User n watches live n mod `lives`.
    lives: usize,
    /// The interval of each viewer's heartbeats, which are spread evenly.
    every: Duration,
    /// Whether gateways track who is online on the platform.
    track_online: bool,
}

impl LocalCrowd {
    fn per_live(&self) -> usize {
        self.viewers / self.lives
    }

    /// Heartbeats per second.
    fn due(&self) -> f64 {
        self.viewers as f64 / self.every.as_secs_f64()
    }
}

struct InProcessGateway {
    inner: Gateway,
    received: Arc<ReceivedTotals>,
    sockets: Arc<Vec<Arc<MemorySocket>>>,
    /// How many of the sockets have a session; they are the first ones.
    serving: Arc<AtomicUsize>,
    lives: usize,
}

fn config(redis: String, crowd: &LocalCrowd) -> Config {
    let heartbeat = crowd.every;
    Config {
        listen: ([127, 0, 0, 1], 0).into(),
        redis: Some(Secret::new(redis)),
        heartbeat,
        // A busy machine may be late by more than the short interval of a quick run.
        timeout: (heartbeat * 3).max(Duration::from_secs(3)),
        // A quick run cannot wait 30 s for the fan check.
        fan_ttl: Config::default().fan_ttl.min(heartbeat * 6),
        // How fast a million can join one live is the question.
        join_rate: 0,
        // Presence is measured, and not how fast followers are told of it.
        fanout_limit: 0,
        track_online: crowd.track_online,
        ..Config::default()
    }
}

impl InProcessGateway {
    async fn start(redis: String, crowd: &LocalCrowd) -> anyhow::Result<Self> {
        let inner = gateway::start(config(redis, crowd)).await?;
        let (received, sockets, serving) = Default::default();
        Ok(Self {
            inner,
            received,
            sockets,
            serving,
            lives: crowd.lives,
        })
    }

    async fn open(&self, number: usize, slices: Option<u32>) -> anyhow::Result<()> {
        let wish = OpenRequest {
            live: LiveId::parse(&live(number))?,
            streamer: UserId::parse(&streamer(number))?,
            slices,
            by: OpenedBy::Service,
            terms: Terms::default(),
        };
        self.inner.open_live(wish).await.context("opening a live")?;
        Ok(())
    }

    fn make_sockets(&mut self, count: usize) {
        self.sockets = Arc::new(
            (0..count)
                .map(|_| MemorySocket::new(&self.received))
                .collect(),
        );
    }

    /// Lets these users join on the next free sockets, user n the live n mod `lives`, at most
    /// `at_once` at a time. Gives up when the joins take too long since `began`.
    async fn join(
        &self,
        users: impl IntoIterator<Item = usize>,
        at_once: u64,
        began: Instant,
    ) -> anyhow::Result<()> {
        for number in users {
            let place = self.serving.load(Ordering::Acquire);
            let socket = self
                .sockets
                .get(place)
                .context("more viewers than sockets")?;
            let user = UserId::parse(&user(number))?;
            let identity = Identity {
                user,
                role: Role::Viewer,
                counted: true,
                network: AddressPrefix::default(),
            };
            let handshake = Handshake {
                identity,
                claims: None,
                join: Some(live(number % self.lives)),
                watch: None,
                permit: None,
            };
            tokio::spawn(self.inner.serve(socket.server_end(), handshake));
            self.serving.store(place + 1, Ordering::Release);
            while place as u64 + 1 > self.received.joined.load(Ordering::Relaxed) + at_once {
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
        while self.received.joined.load(Ordering::Relaxed) < self.sockets.len() as u64 {
            self.check(began)?;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Ok(())
    }

    fn check(&self, began: Instant) -> anyhow::Result<()> {
        let joined = self.received.joined.load(Ordering::Relaxed);
        ensure!(
            began.elapsed() < JOIN_DEADLINE,
            "{joined} of {} viewers joined within {JOIN_DEADLINE:?}",
            self.sockets.len()
        );
        let errors = self.received.errors.load(Ordering::Relaxed);
        let first = self.received.error.get();
        ensure!(
            errors == 0,
            "{errors} viewers were refused: {}",
            first.map_or("", String::as_str)
        );
        let memory = own_rss()?;
        ensure!(
            memory < MOST_MEMORY,
            "given up at {:.1} GiB",
            memory / (1_u64 << 30) as f64
        );
        Ok(())
    }

    /// Plays the clients: each viewer with a session sends a heartbeat at this interval, spread
    /// evenly.
    fn beat(&self, every: Duration) -> ClientThread {
        let sockets = self.sockets.clone();
        let serving = self.serving.clone();
        let stop = Arc::new(AtomicBool::new(false));
        let cpu_nanos = Arc::new(AtomicUsize::new(0));
        let stopped = stop.clone();
        let noted = cpu_nanos.clone();
        let thread = std::thread::spawn(move || {
            let began = Instant::now();
            let mut done = 0_u64;
            while !stopped.load(Ordering::Relaxed) {
                let due = (began.elapsed().as_secs_f64() / every.as_secs_f64()
                    * sockets.len() as f64) as u64;
                for viewer in due_viewers(done..due, sockets.len()) {
                    if viewer < serving.load(Ordering::Acquire) {
                        sockets[viewer].beat();
                    }
                }
                done = due;
                noted.store(
                    (cpu_seconds_of_this_thread() * 1e9) as usize,
                    Ordering::Relaxed,
                );
                std::thread::sleep(TICK);
            }
        });
        ClientThread {
            stop,
            cpu_nanos,
            thread: Some(thread),
        }
    }

    /// Ends all viewers and stops the gateway.
    async fn end(self) {
        self.sockets.iter().for_each(|socket| socket.end());
        // Viewers whose socket is gone keep their seats until the timeout or the stop.
        let _ = tokio::time::timeout(Duration::from_secs(20), self.inner.stop()).await;
    }
}

/// The viewers whose heartbeats are due, each at most once.
fn due_viewers(beats: Range<u64>, count: usize) -> impl Iterator<Item = usize> {
    let start = beats.start.max(beats.end.saturating_sub(count as u64));
    (start..beats.end).map(move |beat| (beat % count as u64) as usize)
}

/// The thread that plays the clients. It stops when this is dropped.
struct ClientThread {
    stop: Arc<AtomicBool>,
    cpu_nanos: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

impl ClientThread {
    fn cpu(&self) -> f64 {
        self.cpu_nanos.load(Ordering::Relaxed) as f64 / 1e9
    }
}

impl Drop for ClientThread {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn own_rss() -> anyhow::Result<f64> {
    let stats = ProcStats::read(std::process::id()).context("the memory of this process")?;
    Ok(stats.rss_bytes as f64)
}

fn own_cpu() -> anyhow::Result<f64> {
    cpu_seconds(std::process::id()).context("the CPU time of this process")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beats_that_were_missed_for_rounds_are_sent_once() {
        assert_eq!(due_viewers(3..6, 4).collect::<Vec<_>>(), [3, 0, 1]);
        assert_eq!(due_viewers(0..100, 4).count(), 4);
        assert_eq!(due_viewers(5..5, 4).count(), 0);
    }
}
