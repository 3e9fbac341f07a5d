//! Flocks of clients whose connections are cut, whose processes are suspended and whose tokens end,
//! two hundred times each: all of them are in their live again afterwards, with one socket each.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::apps::{NodeApp, PythonApp, read, story};
use crate::support::link::Link;
use crate::support::tokens::{SECRET, in_seconds, mint, with_tokens};
use crate::support::wait::{PATIENCE, fits, same, until};
use crate::support::world::World;

const CLIENTS: u64 = 20;
const ROUNDS: u64 = 4;
const FLAPS: u64 = CLIENTS * ROUNDS;

/// How many seconds a token lasts. It is renewed within its last quarter, for which a busy machine
/// must not stand still.
const TOKEN_LASTS: &str = "6";

/// How long clients may take to come back: their waits double with each connection that was short.
const COMEBACK: Duration = Duration::from_secs(40);

/// A process with [`CLIENTS`] clients, which are all in the same live.
struct Flock {
    live: &'static str,
    child: Child,
    /// How often the process said each word.
    heard: Arc<Mutex<BTreeMap<String, u64>>>,
}

impl Flock {
    /// Starts the process, and waits until all of its clients are in the live.
    async fn comes(
        mut command: Command,
        live: &'static str,
        watcher: &Watcher,
        link: &Link,
    ) -> Self {
        command.arg(format!("http://{}", link.addr()));
        command.args([live, &CLIENTS.to_string(), TOKEN_LASTS]);
        command.arg(std::str::from_utf8(SECRET).unwrap());
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let heard = Arc::new(Mutex::new(BTreeMap::new()));
        let hearing = heard.clone();
        tokio::spawn(async move {
            while let Ok(Some(word)) = lines.next_line().await {
                *hearing.lock().unwrap().entry(word).or_default() += 1;
            }
        });
        let flock = Self { live, child, heard };
        flock.is_whole(watcher).await;
        flock
    }

    /// How often the process said this word.
    fn said(&self, word: &str) -> u64 {
        let heard = self.heard.lock().unwrap();
        heard.get(word).copied().unwrap_or(0)
    }

    async fn says(&self, word: &str, times: u64, within: Duration) {
        until(word, within, async || {
            fits(self.said(word), |said| *said >= times)
        })
        .await;
    }

    /// Waits until every client is in the live, over exactly one socket each.
    async fn is_whole(&self, watcher: &Watcher) {
        watcher.sees(self.live, CLIENTS, COMEBACK).await;
    }

    /// Waits until every client is in the live again after so many losses, and was told so. A client
    /// that lost its next connection before would not have heard of it.
    async fn is_back(&self, losses: u64, watcher: &Watcher) {
        self.is_whole(watcher).await;
        self.says("joined", CLIENTS * (losses + 1), PATIENCE).await;
    }

    fn signal(&self, signal: Signal) {
        let id = self.child.id().expect("the process runs");
        let pid = Pid::from_raw(i32::try_from(id).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Lets the clients close. Nothing of them keeps the process, and none ended for another reason.
    async fn goes(mut self, watcher: &Watcher) {
        drop(self.child.stdin.take());
        let mut said = String::new();
        let mut stderr = self.child.stderr.take().unwrap();
        let end = async {
            stderr.read_to_string(&mut said).await.unwrap();
            self.child.wait().await.unwrap()
        };
        let status = tokio::time::timeout(PATIENCE, end).await;
        let status = status.expect("the process ends when its clients are closed");
        assert!(status.success() && said.is_empty(), "{status}: {said}");
        self.says("closed", CLIENTS, PATIENCE).await;
        watcher.sees(self.live, 0, PATIENCE).await;
    }
}

/// What a back end sees of the gateway.
struct Watcher {
    world: World,
    http: reqwest::Client,
    token: String,
}

impl Watcher {
    fn of(world: World) -> Self {
        let http = reqwest::Client::builder().no_proxy().timeout(PATIENCE);
        let claims = json!({"sub": "office", "role": "service", "exp": in_seconds(3_600)});
        Self {
            world,
            http: http.build().unwrap(),
            token: mint(&claims),
        }
    }

    async fn reads(&self, path: &str) -> String {
        let url = format!("http://{}{path}", self.world.addr);
        let answer = self.http.get(url).bearer_auth(&self.token).send().await;
        let answer = answer.unwrap().error_for_status();
        answer.unwrap().text().await.unwrap()
    }

    async fn viewers(&self, live: &str) -> u64 {
        let live = self.reads(&format!("/v1/lives/{live}")).await;
        let live: Value = serde_json::from_str(&live).unwrap();
        live["viewers"].as_u64().unwrap()
    }

    /// What a dashboard is told.
    async fn counts(&self, live: &str) -> Value {
        let claims = json!({"sub": "office", "role": "service"});
        let mut dashboard = self.world.bearer(claims).await;
        dashboard
            .ask(json!({"type": "watch", "live_id": live}))
            .await
    }

    /// The sockets of viewers that the gateway holds.
    async fn sockets(&self) -> u64 {
        let metrics = self.reads("/metrics").await;
        let name = "rollcall_sockets_by_role{role=\"viewer\"} ";
        let value = metrics.lines().find_map(|line| line.strip_prefix(name));
        // It is there once somebody came.
        value.map_or(0, |value| value.parse().unwrap())
    }

    /// Waits until so many viewers are in the live, over one socket each.
    async fn sees(&self, live: &str, wanted: u64, within: Duration) {
        until("the viewers", within, async || {
            let viewers = self.viewers(live).await;
            same((viewers, self.sockets().await), (wanted, wanted))
        })
        .await;
    }
}

/// A gateway with a live, and the way to it.
async fn gateway(live: &str) -> (Watcher, Link) {
    let world = World::on_memory(with_tokens).await;
    let claims = json!({"sub": "s1", "role": "streamer"});
    let mut streamer = world.bearer(claims).await;
    streamer.open(live).await;
    let link = Link::to(world.addr).await;
    (Watcher::of(world), link)
}

/// Tokens end all the time, and nobody notices. Then connections are cut.
async fn tokens_end_and_connections_are_cut(command: Command, live: &'static str) {
    let (watcher, link) = gateway(live).await;
    let flock = Flock::comes(command, live, &watcher, &link).await;
    flock.says("refreshed", FLAPS, COMEBACK).await;
    assert_eq!(flock.said("waiting"), 0);
    let counts = watcher.counts(live).await;
    assert_eq!(
        (&counts["joins"], &counts["leaves"]),
        (&json!(CLIENTS), &json!(0))
    );
    for round in 1..=ROUNDS {
        link.cut();
        until("the gateway notices", PATIENCE, async || {
            same(watcher.sockets().await, 0)
        })
        .await;
        link.heal();
        flock.is_back(round, &watcher).await;
    }
    flock.says("waiting", FLAPS, PATIENCE).await;
    flock.goes(&watcher).await;
}

/// The process stands still for so long that its viewers are gone, as a suspended machine does.
async fn processes_are_suspended(command: Command, live: &'static str) {
    let (watcher, link) = gateway(live).await;
    let flock = Flock::comes(command, live, &watcher, &link).await;
    for round in 1..=ROUNDS {
        flock.signal(Signal::STOP);
        watcher.sees(live, 0, PATIENCE).await;
        flock.signal(Signal::CONT);
        flock.is_back(round, &watcher).await;
    }
    flock.goes(&watcher).await;
}

async fn node() -> (NodeApp, Command) {
    let app = NodeApp::new().await;
    app.has("flock.mjs", &read("tests/clients/programs/flock.mjs"));
    let command = app.node("flock.mjs");
    (app, command)
}

async fn python() -> (PythonApp, Command) {
    let app = PythonApp::new().await;
    for name in ["flock.py", "signing.py"] {
        app.has(name, &read(&format!("tests/clients/programs/{name}")));
    }
    let command = app.python("flock.py");
    (app, command)
}

#[test]
fn clients_in_javascript_stay_over_ends_of_tokens_and_come_back_after_cuts() {
    story(async {
        let (_app, command) = node().await;
        tokens_end_and_connections_are_cut(command, "js").await;
    });
}

#[test]
fn clients_in_javascript_come_back_after_their_process_was_suspended() {
    story(async {
        let (_app, command) = node().await;
        processes_are_suspended(command, "js").await;
    });
}

#[test]
fn clients_in_python_stay_over_ends_of_tokens_and_come_back_after_cuts() {
    story(async {
        let (_app, command) = python().await;
        tokens_end_and_connections_are_cut(command, "py").await;
    });
}

#[test]
fn clients_in_python_come_back_after_their_process_was_suspended() {
    story(async {
        let (_app, command) = python().await;
        processes_are_suspended(command, "py").await;
    });
}
