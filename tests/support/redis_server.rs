//! Owns a real redis-server for one test: its own port, its own empty directory, nothing written to
//! disk. It can be stopped in its tracks, killed and started again with nothing in it, and is gone
//! when dropped. A machine without redis-server fails the test; it never skips it.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "several test binaries share this file, none uses all of it"
)]

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use tempfile::TempDir;
use tokio::time::{Instant, sleep};

#[path = "resp.rs"]
pub mod resp;

const START_DEADLINE: Duration = Duration::from_secs(10);
/// How long a command may take: a frozen server answers only once it is let go on.
const ANSWER_DEADLINE: Duration = Duration::from_secs(60);
/// A clock that was set is read once a second.
const CLOCK_DEADLINE: Duration = Duration::from_secs(5);

/// A running redis-server.
pub struct RedisServer {
    child: Child,
    port: u16,
    dir: TempDir,
    extra: Vec<String>,
    clock: Option<Clock>,
}

/// A wall clock that can be set.
struct Clock {
    /// What puts it in the place of the machine's.
    library: PathBuf,
    /// Seconds ahead of the machine's.
    ahead: i64,
}

impl RedisServer {
    /// Starts a server on a free port and waits until it answers.
    pub async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// Starts a server with more of its own options, such as `--requirepass secret`.
    pub async fn start_with(options: &[&str]) -> Self {
        Self::start_by(options, None).await
    }

    /// Starts a server whose wall clock can be set while it runs, by this library: see
    /// [`faketime`].
    pub async fn start_with_clock(library: PathBuf) -> Self {
        Self::start_by(&[], Some(Clock { library, ahead: 0 })).await
    }

    async fn start_by(options: &[&str], clock: Option<Clock>) -> Self {
        let extra: Vec<String> = options.iter().map(|o| (*o).to_owned()).collect();
        let dir = tempfile::tempdir().expect("a directory for redis-server");
        loop {
            let port = free_port();
            let mut child = spawn(port, &dir, &extra, clock.as_ref());
            if is_ready(port, &mut child, &dir).await {
                return Self {
                    child,
                    port,
                    dir,
                    extra,
                    clock,
                };
            }
            // Another process took the port in between: try the next one.
        }
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The URL that a gateway is given.
    pub fn url(&self) -> String {
        format!("redis://{}", self.addr())
    }

    /// Stops it in its tracks: connections stay, nothing is answered.
    pub fn freeze(&self) {
        self.signal("STOP");
    }

    /// Lets it go on.
    pub fn thaw(&self) {
        self.signal("CONT");
    }

    /// Ends it at once, as a crash does.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if self.clock.is_some() {
            // The library shares these with processes of the server's own; who is killed leaves
            // them behind.
            for shared in ["faketime_shm", "sem.faketime_sem"] {
                let _ = std::fs::remove_file(format!("/dev/shm/{shared}_{}", self.child.id()));
            }
        }
    }

    /// Whether its wall clock can be set.
    pub fn has_clock(&self) -> bool {
        self.clock.is_some()
    }

    /// Sets its wall clock so many seconds ahead of the machine's; returns when it goes by that.
    /// Timers that do not go by the wall clock are not touched.
    pub async fn set_clock(&mut self, ahead: i64) {
        let clock = self
            .clock
            .as_mut()
            .expect("a server that was started with a clock");
        let step = ahead - std::mem::replace(&mut clock.ahead, ahead);
        let (before, asked) = (self.time(), Instant::now());
        write_clock(&self.dir, ahead);
        loop {
            let should = before + step + asked.elapsed().as_secs() as i64;
            if (self.time() - should).abs() <= 1 {
                return;
            }
            assert!(
                asked.elapsed() < CLOCK_DEADLINE,
                "redis-server does not go by the clock that was set"
            );
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Its wall clock, in seconds.
    fn time(&self) -> i64 {
        let said = self.cli(&["TIME"]);
        said.lines()
            .next()
            .and_then(|seconds| seconds.parse().ok())
            .unwrap_or_default()
    }

    /// Starts it again on the same port, with nothing in it but what a cluster's node knows of the
    /// others, unless a snapshot was taken. Kills it first if it still runs.
    pub async fn restart_empty(&mut self) {
        self.kill();
        let deadline = Instant::now() + START_DEADLINE;
        loop {
            self.child = spawn(self.port, &self.dir, &self.extra, self.clock.as_ref());
            if is_ready(self.port, &mut self.child, &self.dir).await {
                return;
            }
            assert!(
                Instant::now() < deadline,
                "redis-server does not come back on port {}",
                self.port
            );
        }
    }

    /// Writes what it holds to a file, from which [`Self::restart_from_snapshot`] can start it
    /// again.
    pub fn save_snapshot(&self) {
        assert_eq!(self.cli(&["SAVE"]), "OK");
    }

    /// Starts it again on the same port, with what it held at the last snapshot. Kills it first if
    /// it still runs.
    pub async fn restart_from_snapshot(&mut self) {
        assert!(self.snapshot_file().exists(), "a snapshot was taken");
        // A server reads the snapshot in its folder whenever it starts.
        self.restart_empty().await;
    }

    /// Where the snapshot is, if one was taken.
    pub fn snapshot_file(&self) -> PathBuf {
        self.dir.path().join("dump.rdb")
    }

    /// Runs one command and answers what redis-cli would print, one line per element; or the
    /// error's text.
    pub fn cli(&self, command: &[&str]) -> String {
        cli(self.port, &[command])
    }

    /// Runs one command with a password.
    pub fn cli_as(&self, password: &str, command: &[&str]) -> String {
        cli(self.port, &[&["AUTH", password], command])
    }

    fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.child.id());
        let done = Command::new("sh")
            .args(["-c", &kill])
            .status()
            .expect("sh runs");
        assert!(done.success(), "{kill}");
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Runs commands at the server on this port, as [`RedisServer::cli`].
pub fn cli(port: u16, commands: &[&[&str]]) -> String {
    let said = resp::ask(
        (Ipv4Addr::LOCALHOST, port).into(),
        commands,
        ANSWER_DEADLINE,
    );
    said.map_or_else(
        |error| error,
        |answer| resp::lines(&answer).trim_end().to_owned(),
    )
}

/// A port that nobody has now.
///
/// It is below those that the system gives out by itself, so that nobody takes it while a server is
/// down.
pub fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let is_free = |port: u16| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
    let first = (std::process::id() % 100) as u16 * 100;
    loop {
        let port = 12_000 + first.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % 10_000;
        // A node of a cluster has a second one.
        if is_free(port) && is_free(port + 10_000) {
            return port;
        }
    }
}

/// Where Debian puts the library that changes a program's clock; `None` if it is not installed.
pub fn faketime() -> Option<PathBuf> {
    let folders = std::fs::read_dir("/usr/lib").ok()?.flatten();
    let mut places = folders.map(|folder| folder.path().join("faketime/libfaketimeMT.so.1"));
    places.find(|place| place.exists())
}

fn spawn(port: u16, dir: &TempDir, extra: &[String], clock: Option<&Clock>) -> Child {
    // What an earlier one wrote says nothing of this one.
    let log = File::create(log_of(dir)).expect("a log for redis-server");
    let mut command = Command::new("redis-server");
    if let Some(Clock { library, ahead }) = clock {
        write_clock(dir, *ahead);
        // With libc's allocator: Redis's own asks for the time before the library can answer, and
        // the server hangs.
        command.env("LD_PRELOAD", format!("{} libc.so.6", library.display()));
        command
            .env("FAKETIME_TIMESTAMP_FILE", clock_of(dir))
            .env("FAKETIME_CACHE_DURATION", "1");
        command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    }
    command
        .args([
            "--port",
            &port.to_string(),
            "--bind",
            "127.0.0.1",
            "--save",
            "",
            "--appendonly",
            "no",
        ])
        .arg("--dir")
        .arg(dir.path())
        .args(extra)
        .stdin(Stdio::null())
        .stdout(log)
        .stderr(Stdio::null())
        .spawn()
        .unwrap_or_else(|e| panic!("redis-server cannot be started ({e}): ./tests/run installs it"))
}

fn log_of(dir: &TempDir) -> PathBuf {
    dir.path().join("log")
}

fn clock_of(dir: &TempDir) -> PathBuf {
    dir.path().join("clock")
}

/// In one step, for the server may read it at any moment.
fn write_clock(dir: &TempDir, ahead: i64) {
    let new = dir.path().join("clock.new");
    std::fs::write(&new, format!("{ahead:+}s")).expect("a clock for redis-server");
    std::fs::rename(new, clock_of(dir)).expect("a clock for redis-server");
}

/// Waits until the server says by itself that it listens; false if it ended instead. An answer at
/// the port would not do: it may be that of another test's server, which was quicker.
async fn is_ready(port: u16, child: &mut Child, dir: &TempDir) -> bool {
    let deadline = Instant::now() + START_DEADLINE;
    while Instant::now() < deadline {
        if child.try_wait().expect("the server's state").is_some() {
            return false;
        }
        if std::fs::read_to_string(log_of(dir))
            .is_ok_and(|log| log.contains("Ready to accept connections"))
        {
            return true;
        }
        sleep(Duration::from_millis(5)).await;
    }
    panic!("redis-server on port {port} does not start");
}
