//! The program in Python that `docs/client.md` shows, as a reader would run it.

use std::process::Stdio;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{ChildStdout, Command};

use crate::support::link::Link;
use crate::support::stores::within_deadline;
use crate::support::wait::{PATIENCE, same, until};
use crate::support::world::World;

/// Debian's Python, which has Debian's `websockets`.
const PYTHON: &str = "/usr/bin/python3";

/// The first program of this language in the document.
fn program(language: &str) -> String {
    let document = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/client.md")).unwrap();
    let (_, rest) = document.split_once(&format!("```{language}\n")).expect("the document has a program");
    rest.split_once("```").unwrap().0.to_owned()
}

/// The next message of this type that the program prints.
async fn prints(lines: &mut Lines<BufReader<ChildStdout>>, kind: &str) -> Value {
    let find = async {
        while let Some(line) = lines.next_line().await.unwrap() {
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["type"] == kind {
                return message;
            }
        }
        panic!("the program ended before it printed {kind}");
    };
    tokio::time::timeout(PATIENCE, find).await.unwrap_or_else(|_| panic!("the program printed no {kind} in time"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_program_in_python_stays_in_its_live_until_it_is_removed() {
    within_deadline(story()).await;
}

async fn story() {
    let world = World::on_memory(|_| ()).await;
    world.open("42").await;
    let link = Link::to(world.addr).await;
    let url = format!("ws://{}/ws?user_id=u1&live_id=42", link.addr());
    let mut python = Command::new(PYTHON);
    python.args(["-c", &program("python"), &url]).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut running = python.spawn().expect("python3 is missing: ./tests/run installs it");
    let mut lines = BufReader::new(running.stdout.take().unwrap()).lines();
    assert_eq!(prints(&mut lines, "joined").await["viewers"], 1);

    // It comes back over a connection that was lost, and is the same viewer.
    link.cut();
    until("the connection is lost", PATIENCE, async || {
        let known = world.backend().get("/v1/gateway/lives/42/viewers/u1").await.is(200);
        same(known.body["sockets"].as_u64().unwrap_or(0), 0)
    })
    .await;
    link.heal();
    assert_eq!(prints(&mut lines, "joined").await["viewers"], 1);

    world.backend().remove("42", "u1", None).await.is(200);
    let ended = tokio::time::timeout(PATIENCE, running.wait_with_output()).await;
    let ended = ended.expect("the program ends in time").unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.code() == Some(1) && said.trim() == "closed with 4003", "{}: {said}", ended.status);
}
