//! Owns the programs of apps: one that runs, and the messages that it prints, a line each.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "several test binaries share this file, none uses all of it"
)]

use std::process::{ExitStatus, Stdio};

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use super::wait::PATIENCE;

/// A program that runs. Dropped, it is killed.
pub struct Running {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Running {
    /// Starts a program that gets no input.
    pub fn start(mut command: Command) -> Self {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let mut child = command
            .spawn()
            .unwrap_or_else(|why| panic!("{command:?}: {why}: ./tests/run installs it"));
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// The next message of this type that the program prints.
    pub async fn prints(&mut self, kind: &str) -> Value {
        let find = async {
            while let Some(line) = self.lines.next_line().await.unwrap() {
                let message: Value = serde_json::from_str(&line).unwrap();
                if message["type"] == kind {
                    return message;
                }
            }
            let mut said = String::new();
            let mut stderr = self.child.stderr.take().unwrap();
            stderr.read_to_string(&mut said).await.unwrap();
            panic!("the program ended before it printed {kind}: {said}");
        };
        tokio::time::timeout(PATIENCE, find)
            .await
            .unwrap_or_else(|_| panic!("the program printed no {kind} in time"))
    }

    /// How the program ends by itself, and what it said to its standard error.
    pub async fn ends(mut self) -> (ExitStatus, String) {
        let mut said = String::new();
        let mut stderr = self.child.stderr.take().unwrap();
        let end = async {
            stderr.read_to_string(&mut said).await.unwrap();
            self.child.wait().await.unwrap()
        };
        let status = tokio::time::timeout(PATIENCE * 2, end)
            .await
            .expect("the program ends in time");
        (status, said)
    }
}
