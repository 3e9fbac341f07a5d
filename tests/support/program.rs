//! Owns the real program as a process: started, killed, stopped for a while, or asked to end.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rollcall::config::Config;
use tokio::sync::oneshot;

use super::redis_server::faketime;
use super::wait::{PATIENCE, until};

/// A running program. Dropped, it is killed; what it logged is shown if the story failed.
pub struct Program {
    /// Where it listens.
    pub addr: SocketAddr,
    child: Child,
    log: tempfile::NamedTempFile,
    /// What no flag can say.
    _settings: Option<tempfile::NamedTempFile>,
}

impl Program {
    /// Starts the program with these settings, and waits for the line that says that it listens.
    pub async fn start(config: &Config) -> Self {
        Self::run(config, Command::new(env!("CARGO_BIN_EXE_rollcall")), None).await
    }

    /// The same with its log written to somewhere else.
    pub async fn start_logging_to(config: &Config, log: Stdio, options: &str) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rollcall"));
        command.args(options.split(' '));
        Self::run(config, command, Some(log)).await
    }

    /// The same with more on the command line, as one types it.
    pub async fn start_with(config: &Config, options: &str) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rollcall"));
        command.args(options.split(' '));
        Self::run(config, command, None).await
    }

    /// The same with more in its environment.
    pub async fn start_under(config: &Config, env: &[(&str, &str)]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rollcall"));
        command.envs(env.iter().copied());
        Self::run(config, command, None).await
    }

    /// The same with a wall clock that is wrong by so much, as in `+1h`; its timers run as they
    /// should.
    pub async fn start_at(config: &Config, offset: &str) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rollcall"));
        let library = faketime().expect("libfaketime is missing: ./tests/run installs it");
        command
            .env("LD_PRELOAD", library)
            .env("FAKETIME", offset)
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        Self::run(config, command, None).await
    }

    async fn run(config: &Config, mut command: Command, stderr: Option<Stdio>) -> Self {
        let log = tempfile::NamedTempFile::new().unwrap();
        command.args(["--listen", "127.0.0.1:0"]);
        let times = [
            ("--heartbeat", config.heartbeat),
            ("--timeout", config.timeout),
            ("--flush", config.flush),
            ("--lease", config.lease),
            ("--lease-refresh", config.lease_refresh),
            ("--wait-for-store", config.wait_for_store),
            ("--drain", config.drain),
            ("--stream-grace", config.stream_grace),
        ];
        for (name, time) in times {
            command.args([name, &format!("{}ms", time.as_millis())]);
        }
        for (name, switch) in [
            ("--track-online", config.track_online),
            ("--uniques", config.uniques),
            ("--guests", config.guests),
        ] {
            command.args([name, if switch { "on" } else { "off" }]);
        }
        command.args(["--attendance", config.attendance.as_str()]);
        command.args(["--last-seen-ids", config.last_seen_ids.as_str()]);
        command.args(["--fanout-limit", &config.fanout_limit.to_string()]);
        if let Some(redis) = &config.redis {
            command.args(["--redis", redis.reveal()]);
        }
        if let Some(udp) = config.udp {
            command.args(["--udp", &udp.to_string()]);
        }
        if let Some(secret) = &config.presence_secret_file {
            command.args(["--presence-secret-file", &secret.display().to_string()]);
        }
        if let (Some(url), Some(secret)) = (&config.webhook_url, &config.webhook_secret_file) {
            command.args(["--webhook-allow-private", "--webhook-url", url.reveal()]);
            command.args(["--webhook-secret-file", &secret.display().to_string()]);
            command.args([
                "--webhook-timeout",
                &format!("{}ms", config.webhook_timeout.as_millis()),
            ]);
            command.args([
                "--webhook-patience",
                &format!("{}ms", config.webhook_patience.as_millis()),
            ]);
        }
        let mut settings = None;
        if !config.webhooks.is_empty() {
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), tables(config)).unwrap();
            command.arg("--config").arg(file.path());
            settings = Some(file);
        }
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(stderr.unwrap_or_else(|| log.reopen().unwrap().into()));
        let mut child = command.spawn().unwrap();
        let stdout = child.stdout.take().unwrap();
        let (tell, told) = oneshot::channel();
        std::thread::spawn(move || {
            let mut lines = BufReader::new(stdout).lines().map_while(Result::ok);
            let _ = tell.send(
                lines.find_map(|line| line.strip_prefix("listening on http://")?.parse().ok()),
            );
            lines.for_each(drop);
        });
        let addr = SocketAddr::from(([0, 0, 0, 0], 0));
        let mut program = Self {
            addr,
            child,
            log,
            _settings: settings,
        };
        let told = tokio::time::timeout(PATIENCE, told).await;
        program.addr = told
            .expect("the program listens in time")
            .unwrap()
            .expect("a line that says where it listens");
        program
    }

    /// What it logged so far.
    pub fn said(&self) -> String {
        std::fs::read_to_string(self.log.path()).unwrap()
    }

    /// Waits for a line of its log with all these words; the line.
    pub async fn logs(&self, words: &[&str]) -> String {
        until(&format!("a line with {words:?}"), PATIENCE, async || {
            let said = self.said();
            let mut lines = said.lines();
            let found = lines.find(|line| words.iter().all(|word| line.contains(word)));
            found.map(str::to_owned).ok_or(said)
        })
        .await
    }

    /// kill -9.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Stops the whole process, as a VM move does.
    pub fn freeze(&self) {
        self.signal("-STOP");
    }

    /// Lets a frozen process go on.
    pub fn thaw(&self) {
        self.signal("-CONT");
    }

    /// Asks it to end.
    pub fn terminate(&self) {
        self.signal("-TERM");
    }

    /// Tells it that its terminal is gone, or to read its settings again: SIGHUP.
    pub fn hang_up(&self) {
        self.signal("-HUP");
    }

    /// Waits for it to end by itself.
    pub async fn exit(&mut self, within: Duration) -> ExitStatus {
        let child = std::sync::Mutex::new(&mut self.child);
        until("the program ends", within, || async {
            child
                .lock()
                .unwrap()
                .try_wait()
                .unwrap()
                .ok_or("it still runs")
        })
        .await
    }

    /// Sends it a signal, such as `-QUIT`.
    pub fn signal(&self, signal: &str) {
        let done = Command::new("kill")
            .args([signal, &self.child.id().to_string()])
            .status()
            .unwrap();
        assert!(done.success(), "kill {signal}");
    }
}

/// The tables of the settings file.
fn tables(config: &Config) -> String {
    let mut text = String::new();
    for webhook in &config.webhooks {
        let url = webhook.url.reveal();
        let secret = webhook.secret_file.display();
        let lines = format!(
            "[webhooks.{}]\nurl = '{url}'\nsecret-file = '{secret}'\n",
            webhook.name
        );
        text.push_str(&lines);
        if !webhook.events.is_empty() {
            let events: Vec<&str> = webhook.events.iter().map(|kind| kind.as_str()).collect();
            text.push_str(&format!("events = '{}'\n", events.join(",")));
        }
    }
    text
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let log = std::fs::read_to_string(self.log.path()).unwrap_or_default();
            let tail: Vec<_> = log.lines().rev().take(40).collect();
            eprintln!("the program logged:");
            tail.iter().rev().for_each(|line| eprintln!("    {line}"));
        }
    }
}
