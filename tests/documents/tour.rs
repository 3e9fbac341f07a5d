//! The commands of the README's tour and of its example with a token, as a reader types them. Each
//! answer has the fields that the document shows, and the same values, save for ids and times.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rollcall::config::Config;
use serde_json::Value;
use tokio::time::Instant;

use super::{between, read, shell};
use crate::program::Program;
use crate::redis_server::free_port;
use crate::wait::{PATIENCE, until};

/// Debian's Python, which has Debian's `websockets`.
const PYTHON: &str = "/usr/bin/python3";

/// What differs from one run to the next: only its kind must be the same.
const VOLATILE: &[&str] = &[
    "epoch",
    "gateway_id",
    "socket_id",
    "opened_at",
    "closed_at",
    "as_of",
    "duration_ms",
    "request_id",
];

/// A command, and what the document shows below it: an answer, or what a WebSocket client hears
/// (`<`) and is told (`>`).
struct Step {
    command: String,
    shown: Vec<String>,
}

/// The commands in a section of a document, in order.
fn steps(document: &str, heading: &str) -> Vec<Step> {
    let section = shell::section(document, heading);
    let mut steps: Vec<Step> = Vec::new();
    for block in section.split("```\n").skip(1).step_by(2) {
        for line in block.lines() {
            match (line.strip_prefix("$ "), steps.last_mut()) {
                (Some(command), _) => steps.push(Step {
                    command: command.to_owned(),
                    shown: Vec::new(),
                }),
                (None, Some(step)) => step.shown.push(line.to_owned()),
                (None, None) => panic!("{heading}: {line:?} stands before the first command"),
            }
        }
    }
    steps
}

/// Puts the kinds of what differs from one run to the next in the places of the values.
fn without_volatile(value: &mut Value) {
    for (name, value) in value.as_object_mut().into_iter().flatten() {
        if VOLATILE.contains(&name.as_str()) {
            *value = format!("{:?}", std::mem::discriminant(value)).into();
        } else {
            without_volatile(value);
        }
    }
}

/// Whether an answer is the one that the document shows.
fn compare(shown: &str, answer: &str) -> Result<(), String> {
    let plain = |text: &str| match serde_json::from_str(text) {
        Ok(mut value) => {
            without_volatile(&mut value);
            value
        }
        Err(_) => Value::from(text),
    };
    if plain(shown) == plain(answer) {
        Ok(())
    } else {
        Err(format!("{answer}, and the document has {shown}"))
    }
}

/// A terminal in which `python3 -m websockets` runs.
struct Terminal {
    child: Child,
    typed: ChildStdin,
    heard: Receiver<String>,
}

impl Terminal {
    fn open(command: &str) -> Self {
        let mut bash = Command::new("bash");
        bash.args([
            "-c",
            &format!("exec {}", command.replacen("python3", PYTHON, 1)),
        ]);
        let mut child = bash
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let typed = child.stdin.take().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (tell, heard) = channel();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                // The program moves the cursor before each line.
                if let Some((_, message)) = line.split_once("< ") {
                    let _ = tell.send(message.to_owned());
                }
            }
        });
        Self {
            child,
            typed,
            heard,
        }
    }

    /// The next message, if one comes soon.
    fn hears(&self, within: Duration) -> Option<String> {
        self.heard.recv_timeout(within).ok()
    }

    fn types(&mut self, line: &str) {
        writeln!(self.typed, "{line}").unwrap();
    }

    /// Goes through what the document shows. A reader takes some time to type, so the gateway knows
    /// more by then than when a test asks at once: a test types again.
    async fn follows(&mut self, shown: &[String]) {
        let mut typed = None;
        for line in shown {
            if let Some(message) = line.strip_prefix("> ") {
                self.types(message);
                typed = Some(message);
                continue;
            }
            let wanted = line
                .strip_prefix("< ")
                .unwrap_or_else(|| panic!("{line:?} is neither heard nor typed"));
            let deadline = Instant::now() + PATIENCE;
            loop {
                let heard = self
                    .hears(PATIENCE)
                    .unwrap_or_else(|| panic!("nothing is heard; expected {wanted}"));
                match (compare(wanted, &heard), typed) {
                    (Ok(()), _) => break,
                    (Err(_), Some(message)) if Instant::now() < deadline => {
                        tokio::time::sleep(Duration::from_millis(100)).await;
                        self.types(message);
                    }
                    (Err(why), _) => panic!("{why}\nheard: {heard}"),
                }
            }
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a command prints.
fn prints(command: &str) -> String {
    let done = Command::new("bash")
        .args(["-c", command])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(
        done.status.success(),
        "{command}: {}",
        String::from_utf8_lossy(&done.stderr)
    );
    String::from_utf8(done.stdout).unwrap()
}

/// A call that changes nothing may come before the gateway knows what was said a moment ago: it is
/// made again.
async fn answers_as_shown(command: &str, shown: &[String]) {
    let patience = if command.contains(" -sX ") {
        Duration::ZERO
    } else {
        PATIENCE
    };
    until(command, patience, async || {
        let printed = prints(command);
        let lines: Vec<&str> = printed.lines().collect();
        if lines.len() != shown.len() {
            return Err(format!(
                "{} lines, and the document has {}: {printed}",
                lines.len(),
                shown.len()
            ));
        }
        lines
            .iter()
            .zip(shown)
            .try_for_each(|(line, shown)| compare(shown, line))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tour_of_the_readme_answers_as_it_says() {
    let gateway = Program::start(&Config::default()).await;
    let SocketAddr::V4(addr) = gateway.addr else {
        panic!("{}", gateway.addr)
    };
    let steps = steps(&read("README.md"), "Five-minute tour");
    assert!(steps.len() >= 7, "the tour has {} commands", steps.len());
    let mut terminals = Vec::new();
    for Step { command, shown } in &steps {
        assert!(command.contains("127.0.0.1:8080"), "{command}");
        assert!(!shown.is_empty(), "{command}: the document shows no answer");
        let command = command.replace("127.0.0.1:8080", &addr.to_string());
        if command.starts_with("python3 ") {
            let mut terminal = Terminal::open(&command);
            terminal.follows(shown).await;
            terminals.push(terminal);
        } else {
            answers_as_shown(&command, shown).await;
        }
    }
    // Who looked on was told of everything, the end included.
    assert_eq!(terminals.len(), 2);
    for terminal in &terminals {
        let mut heard = Vec::new();
        while !heard
            .iter()
            .any(|message: &String| message.contains(r#""type":"closed""#))
        {
            heard.push(
                terminal
                    .hears(PATIENCE)
                    .unwrap_or_else(|| panic!("no end is heard: {heard:?}")),
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_example_with_a_token_works_beside_the_gateway_of_the_tour() {
    let tour = Program::start(&Config::default()).await;
    let document = read("README.md");
    let from = "$ head -c 32 /dev/urandom";
    let example = between(&document, from, "```").unwrap();
    let port = free_port().to_string();
    let mut script = String::new();
    let mut shown = Vec::new();
    for line in format!("{from} {example}").lines() {
        let Some(command) = line.strip_prefix("$ ") else {
            shown.push(line.to_owned());
            continue;
        };
        // A reader waits until the gateway says that it listens.
        if command.starts_with("curl") {
            script +=
                "until curl -s -o /dev/null http://127.0.0.1:8081/healthz; do sleep 0.1; done\n";
        }
        script += command;
        script += "\n";
    }
    assert!(
        script.contains("127.0.0.1:8081") && !script.contains("8080"),
        "{script}"
    );
    let script = script
        .replace("8081", &port)
        .replace("cargo run --release -- ", "rollcall ");
    let said = shell::succeeds(&script).await;
    for line in shown {
        assert!(said.lines().any(|said| said == line), "{line}: {said}");
    }
    drop(tour);
}

#[test]
fn an_answer_differs_by_its_fields_and_by_what_is_the_same_in_each_run() {
    let shown = r#"{"type":"joined","viewers":1,"epoch":7,"closed_at":null}"#;
    assert_eq!(
        compare(
            shown,
            r#"{"type":"joined","viewers":1,"epoch":9,"closed_at":null}"#
        ),
        Ok(())
    );
    for other in [
        r#"{"type":"joined","viewers":2,"epoch":7,"closed_at":null}"#,
        r#"{"type":"joined","viewers":1,"epoch":"7","closed_at":null}"#,
        r#"{"type":"joined","viewers":1,"epoch":7,"closed_at":5}"#,
        r#"{"type":"joined","viewers":1,"closed_at":null}"#,
        r#"{"type":"joined","viewers":1,"epoch":7,"closed_at":null,"away":0}"#,
    ] {
        assert!(compare(shown, other).is_err(), "{other}");
    }
}
