//! The programs that `docs/client.md` shows for Python, for Node and for the command line, as a
//! reader would run them. The one for Node uses the `ws` package, whose sockets are event emitters:
//! an error that nobody hears ends the process.

use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::TcpListener;
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Message;

use crate::support::link::Link;
use crate::support::stores::within_deadline;
use crate::support::tokens::{in_seconds, mint, with_tokens};
use crate::support::wait::{PATIENCE, same, until};
use crate::support::world::World;

/// Debian's Python, which has Debian's `websockets`.
const PYTHON: &str = "/usr/bin/python3";

/// Where Debian's `node-ws` is.
const WS: &str = "/usr/share/nodejs/ws";

/// The first program of this language in the document.
fn program(language: &str) -> String {
    let document =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/client.md")).unwrap();
    let (_, rest) = document
        .split_once(&format!("```{language}\n"))
        .expect("the document has a program");
    rest.split_once("```").unwrap().0.to_owned()
}

/// A program that runs, and what it prints.
struct Running {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Running {
    fn start(mut command: Command) -> Self {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let mut child = command
            .spawn()
            .expect("the interpreter is missing: ./tests/run installs it");
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// The program in Python, which connects to this address, with a token in its environment.
    fn python(url: &str, token: Option<&str>) -> Self {
        let mut command = Command::new(PYTHON);
        command.args(["-c", &program("python"), url]);
        match token {
            Some(token) => command.env("TOKEN", token),
            None => command.env_remove("TOKEN"),
        };
        Self::start(command)
    }

    /// The next message of this type that the program prints.
    async fn prints(&mut self, kind: &str) -> Value {
        let find = async {
            while let Some(line) = self.lines.next_line().await.unwrap() {
                let message: Value = serde_json::from_str(&line).unwrap();
                if message["type"] == kind {
                    return message;
                }
            }
            panic!("the program ended before it printed {kind}");
        };
        tokio::time::timeout(PATIENCE, find)
            .await
            .unwrap_or_else(|_| panic!("the program printed no {kind} in time"))
    }

    /// How the program ends by itself, and what it said to its standard error.
    async fn ends(mut self) -> (ExitStatus, String) {
        let mut said = String::new();
        let mut stderr = self.child.stderr.take().unwrap();
        let end = async {
            stderr.read_to_string(&mut said).await.unwrap();
            self.child.wait().await.unwrap()
        };
        let status = tokio::time::timeout(PATIENCE, end)
            .await
            .expect("the program ends in time");
        (status, said)
    }
}

/// Waits until the connection of this viewer is known to be lost.
async fn is_lost(world: &World, live: &str, user: &str) {
    until("the connection is lost", PATIENCE, async || {
        let known = world
            .backend()
            .get(&format!("/v1/gateway/lives/{live}/viewers/{user}"))
            .await
            .is(200);
        same(known.body["sockets"].as_u64().unwrap_or(0), 0)
    })
    .await;
}

/// Answers each request like a gateway that has no room, and tells when each one came.
async fn refuses_with(retry_after: u64) -> (SocketAddr, tokio::sync::mpsc::Receiver<Instant>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let addr = listener.local_addr().unwrap();
    let (tell, told) = tokio::sync::mpsc::channel(8);
    tokio::spawn(async move {
        while let Ok((mut connection, _)) = listener.accept().await {
            let mut request = [0; 4_096];
            let _ = connection.read(&mut request).await;
            let answer = format!(
                "HTTP/1.1 503 Service Unavailable\r\nretry-after: {retry_after}\r\ncontent-length: 0\r\n\
                 connection: close\r\n\r\n"
            );
            let _ = connection.write_all(answer.as_bytes()).await;
            if tell.send(Instant::now()).await.is_err() {
                return;
            }
        }
    });
    (addr, told)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_program_in_python_stays_in_its_live_until_it_is_removed() {
    within_deadline(async {
        let world = World::on_memory(|_| ()).await;
        world.open("42").await;
        let link = Link::to(world.addr).await;
        let mut python = Running::python(
            &format!("ws://{}/ws?user_id=u1&live_id=42", link.addr()),
            None,
        );
        assert_eq!(python.prints("joined").await["viewers"], 1);

        // It comes back over a connection that was lost, and is the same viewer.
        link.cut();
        is_lost(&world, "42", "u1").await;
        link.heal();
        assert_eq!(python.prints("joined").await["viewers"], 1);

        world.backend().remove("42", "u1").await.is(200);
        let (status, said) = python.ends().await;
        assert_eq!(status.code(), Some(1), "{said}");
        assert_eq!(
            said.lines().last(),
            Some("removed by a moderator"),
            "{said}"
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_program_in_python_ends_where_another_try_is_of_no_use() {
    within_deadline(async {
        let world = World::on_memory(with_tokens).await;
        let url = format!("ws://{}/ws?live_id=42", world.addr);
        let token = |seconds| mint(&json!({"sub": "u1", "exp": in_seconds(seconds)}));

        let (status, said) = Running::python(&url, Some("no token")).ends().await;
        assert_eq!(
            (status.code(), said.trim()),
            (
                Some(1),
                "refused with 401: the address or the token is wrong"
            )
        );

        // `rollcall token` ends its line.
        let (status, said) = Running::python(&url, Some(&format!("{}\n", token(60))))
            .ends()
            .await;
        assert_eq!(
            (status.code(), said.trim()),
            (Some(1), "live_not_open: live 42 is not open")
        );

        let mut streamer = world.bearer(json!({"sub": "s1", "role": "streamer"})).await;
        streamer.open("42").await;
        let mut python = Running::python(&url, Some(&token(60)));
        python.prints("joined").await;
        streamer.close_live("42").await;
        python.prints("closed").await;
        let (status, said) = python.ends().await;
        assert!(status.success() && said.is_empty(), "{status}: {said}");

        // The gateway accepts a token until 30 s after its end.
        streamer.open("43").await;
        let mut python = Running::python(
            &format!("ws://{}/ws?live_id=43", world.addr),
            Some(&token(-24)),
        );
        python.prints("joined").await;
        let (status, said) = python.ends().await;
        assert_eq!(
            (status.code(), said.trim()),
            (Some(1), "the token has ended")
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_program_in_python_waits_as_long_as_it_is_told() {
    within_deadline(async {
        let (addr, mut asked) = refuses_with(2).await;
        let _python = Running::python(&format!("ws://{addr}/ws?user_id=u1&live_id=42"), None);
        let mut times = Vec::new();
        for _ in 0..3 {
            times.push(
                tokio::time::timeout(PATIENCE, asked.recv())
                    .await
                    .expect("it asks again")
                    .unwrap(),
            );
        }
        for pair in times.windows(2) {
            assert!(
                pair[1] - pair[0] >= Duration::from_secs(2),
                "it came back after {:?}",
                pair[1] - pair[0]
            );
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_program_in_python_joins_again_when_the_store_was_away() {
    within_deadline(async {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let addr = listener.local_addr().unwrap();
        let mut python = Running::python(&format!("ws://{addr}/ws?user_id=u1&live_id=42"), None);
        let (connection, _) = listener.accept().await.unwrap();
        let mut gateway = tokio_tungstenite::accept_async(connection).await.unwrap();
        let error = json!({"type": "error", "code": "store_unavailable", "message": "the store does not answer now"});
        gateway.send(Message::text(error.to_string())).await.unwrap();
        assert_eq!(python.prints("error").await["code"], "store_unavailable");
        let asked = tokio::time::timeout(PATIENCE, gateway.next()).await.expect("it asks again").unwrap().unwrap();
        let asked: Value = serde_json::from_str(asked.to_text().unwrap()).unwrap();
        assert_eq!(asked, json!({"type": "join", "live_id": "42"}));
    })
    .await;
}

/// A folder as an app's author has it: the client from the gateway, and the package `ws`.
async fn folder_of_an_app(gateway: SocketAddr) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let client = reqwest::get(format!("http://{gateway}/rollcall.js"))
        .await
        .unwrap()
        .text()
        .await
        .unwrap();
    std::fs::write(folder.path().join("rollcall.mjs"), client).unwrap();
    let packages = folder.path().join("node_modules");
    std::fs::create_dir(&packages).unwrap();
    assert!(
        std::path::Path::new(WS).join("wrapper.mjs").exists(),
        "node-ws is missing: ./tests/run installs it"
    );
    symlink(WS, packages.join("ws")).unwrap();
    folder
}

fn node(folder: &tempfile::TempDir, script: &str, arguments: &[&str]) -> Running {
    let name = "viewer.mjs";
    std::fs::write(folder.path().join(name), script).unwrap();
    let mut command = Command::new("node");
    command.arg(name).args(arguments).current_dir(folder.path());
    Running::start(command)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_program_for_node_stays_in_its_live_until_the_live_closes() {
    within_deadline(async {
        let world = World::on_memory(|_| ()).await;
        world.open("42").await;
        let link = Link::to(world.addr).await;
        let folder = folder_of_an_app(world.addr).await;
        let url = format!("http://{}", link.addr());
        let mut app = node(&folder, &program("mjs"), &[&url, "u1", "42"]);
        assert!(app.prints("joined").await["viewers"].is_u64());

        // The connection breaks, and none can be made for a while: `ws` makes an error of each.
        link.cut();
        is_lost(&world, "42", "u1").await;
        link.heal();
        until("the viewer is back", PATIENCE, async || {
            let known = world
                .backend()
                .get("/v1/gateway/lives/42/viewers/u1")
                .await
                .is(200);
            same(known.body["sockets"].as_u64().unwrap_or(0), 1)
        })
        .await;
        app.prints("heartbeat_ack").await;

        world.backend().close("42").await;
        let (status, said) = app.ends().await;
        assert!(status.success(), "{status}: {said}");
        assert_eq!(said.lines().last(), Some("closed requested"), "{said}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_for_node_stays_in_its_live_without_a_websocket() {
    within_deadline(async {
        let world = World::on_memory(|_| ()).await;
        world.open("42").await;
        let link = Link::to(world.addr).await;
        let folder = folder_of_an_app(world.addr).await;
        let url = format!("http://{}", link.addr());
        let program = program("mjs").replace("WebSocket });", "way: \"http\" });");
        assert!(program.contains("way: \"http\""), "{program}");
        let mut app = node(&folder, &program, &[&url, "u1", "42"]);
        assert!(app.prints("joined").await["viewers"].is_u64());
        app.prints("heartbeat_ack").await;
        has_viewers(&world, 1).await;

        link.cut();
        has_viewers(&world, 0).await;
        link.heal();
        has_viewers(&world, 1).await;
        app.prints("heartbeat_ack").await;

        // The process ends, so nothing of the client is left that could keep it.
        world.backend().close("42").await;
        let (status, said) = app.ends().await;
        assert!(status.success(), "{status}: {said}");
        assert_eq!(said.lines().last(), Some("closed requested"), "{said}");
    })
    .await;
}

async fn has_viewers(world: &World, wanted: u64) {
    until("the viewers of the live", PATIENCE, async || {
        let live = world.backend().live("42").await;
        same(live["viewers"].as_u64().unwrap(), wanted)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_socket_that_fails_ends_a_process_of_node() {
    within_deadline(async {
        let world = World::on_memory(|_| ()).await;
        let folder = folder_of_an_app(world.addr).await;
        let app = node(&folder, include_str!("failing_sockets.mjs"), &[]);
        let (status, said) = app.ends().await;
        assert!(status.success(), "{status}: {said}");
        assert_eq!(
            said.lines().last(),
            Some("alive after all of them"),
            "{said}"
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_commands_say_what_the_document_says_of_them() {
    within_deadline(async {
        let world = World::on_memory(|_| ()).await;
        let guarded = World::on_memory(with_tokens).await;
        world.open("42").await;
        let mut streamer = guarded
            .bearer(json!({"sub": "s1", "role": "streamer"}))
            .await;
        streamer.open("42").await;
        let document =
            std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/client.md"))
                .unwrap();
        let (_, section) = document.split_once("\n## The command line\n").unwrap();
        let commands = section
            .split("```sh\n")
            .nth(1)
            .unwrap()
            .split("```")
            .next()
            .unwrap();
        let expected = ["HTTP/1.1 204", r#""type":"joined""#, r#""type":"counts""#];
        assert_eq!(commands.lines().count(), expected.len(), "{commands}");
        for (command, expected) in commands.lines().zip(expected) {
            assert!(command.contains("127.0.0.1:8080"), "{command}");
            let addr = if command.contains("$TOKEN") {
                guarded.addr
            } else {
                world.addr
            };
            let command = command
                .replace("127.0.0.1:8080", &addr.to_string())
                .replace("python3", PYTHON);
            let mut bash = Command::new("bash");
            let token = mint(&json!({"sub": "office", "role": "service", "exp": in_seconds(60)}));
            bash.args(["-c", &command])
                .env("TOKEN", token)
                .kill_on_drop(true);
            // It ends when there is nothing more to type.
            bash.stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::null());
            let mut running = bash.spawn().unwrap();
            let mut lines = BufReader::new(running.stdout.take().unwrap()).lines();
            let find = async {
                let mut said = Vec::new();
                while let Some(line) = lines.next_line().await.unwrap() {
                    if line.contains(expected) {
                        return;
                    }
                    said.push(line);
                }
                panic!("{command}: {said:?}");
            };
            tokio::time::timeout(PATIENCE, find)
                .await
                .unwrap_or_else(|_| panic!("{command}: no {expected} in time"));
        }
    })
    .await;
}

/// No compiler of these languages is at hand: their programs are only read.
#[test]
fn the_programs_for_phones_know_what_ends_a_client_and_what_makes_it_wait() {
    for language in ["kotlin", "swift"] {
        let program = program(language);
        for word in [
            "rollcall.v1",
            "Authorization",
            "Retry-After",
            "reconnect",
            "after_ms",
            "closed",
            "error",
            "400",
            "401",
            "403",
            "4003",
            "4009",
            "1001",
            "store_unavailable",
            "rate_limited",
            "trim",
        ] {
            assert!(
                program.contains(word),
                "the program in {language} has no {word}"
            );
        }
    }
}
