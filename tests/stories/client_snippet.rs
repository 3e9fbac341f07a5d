//! The programs that `docs/client.md` shows for Node and for the command line, as a reader would run
//! them. The one for Node uses the `ws` package, whose sockets are event emitters: an error that
//! nobody hears ends the process. `tests/clients` has the packages.

use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::process::Stdio;

use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

use crate::support::link::Link;
use crate::support::running::Running;
use crate::support::stores::story;
use crate::support::tokens::{in_seconds, mint, with_tokens};
use crate::support::wait::PATIENCE;
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

#[test]
fn the_program_for_node_stays_in_its_live_until_the_live_closes() {
    story(async {
        let world = World::on_memory(|_| ()).await;
        world.open("42").await;
        let link = Link::to(world.addr).await;
        let folder = folder_of_an_app(world.addr).await;
        let url = format!("http://{}", link.addr());
        let mut app = node(&folder, &program("mjs"), &[&url, "u1", "42"]);
        assert!(app.prints("joined").await["viewers"].is_u64());

        // The connection breaks, and none can be made for a while: `ws` makes an error of each.
        link.cut();
        world.sockets_become("u1", 0).await;
        link.heal();
        world.sockets_become("u1", 1).await;
        app.prints("heartbeat_ack").await;

        world.backend().close("42").await;
        let (status, said) = app.ends().await;
        assert!(status.success(), "{status}: {said}");
        assert_eq!(said.lines().last(), Some("closed requested"), "{said}");
    });
}

#[test]
fn a_program_for_node_stays_in_its_live_without_a_websocket() {
    story(async {
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
        world.viewers_become(1, PATIENCE).await;

        link.cut();
        world.viewers_become(0, PATIENCE).await;
        link.heal();
        world.viewers_become(1, PATIENCE).await;
        app.prints("heartbeat_ack").await;

        // The process ends, so nothing of the client is left that could keep it.
        world.backend().close("42").await;
        let (status, said) = app.ends().await;
        assert!(status.success(), "{status}: {said}");
        assert_eq!(said.lines().last(), Some("closed requested"), "{said}");
    });
}

#[test]
fn no_socket_that_fails_ends_a_process_of_node() {
    story(async {
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
    });
}

#[test]
fn the_commands_say_what_the_document_says_of_them() {
    story(async {
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
    });
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
