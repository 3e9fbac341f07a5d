//! PINGs to Redis, one after another over a connection of their own, to see how long others are
//! made to wait.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use crate::tally::Latencies;

/// Between two: they watch, and are no load of their own.
const PAUSE: Duration = Duration::from_micros(200);

/// Pings until it is asked what it saw, or dropped.
pub(crate) struct Pinger {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<anyhow::Result<Latencies>>,
}

impl Pinger {
    pub(crate) fn start(redis: SocketAddr) -> anyhow::Result<Self> {
        let mut stream = TcpStream::connect(redis).context("a connection to Redis")?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut latency = Latencies::default();
            let mut answer = [0; 7];
            while !stopped.load(Ordering::Relaxed) {
                let asked = Instant::now();
                stream.write_all(b"PING\r\n")?;
                stream.read_exact(&mut answer)?;
                ensure!(
                    &answer == b"+PONG\r\n",
                    "Redis answered a PING with something else"
                );
                latency.record(asked.elapsed());
                std::thread::sleep(PAUSE);
            }
            Ok(latency)
        });
        Ok(Self { stop, thread })
    }

    /// What was seen since the start.
    pub(crate) async fn seen(self) -> anyhow::Result<Latencies> {
        self.stop.store(true, Ordering::Relaxed);
        tokio::task::spawn_blocking(move || self.thread.join())
            .await?
            .ok()
            .context("the pinging thread")?
    }
}
