//! A child process of this program that carries out orders: each order and each outcome is a line
//! of JSON. The process ends when its input does, so it never outlives the bench.

use std::marker::PhantomData;
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{ChildStdin, ChildStdout, Command};

use crate::args::ArgError;

/// How a process of the bench ends.
pub(super) fn end(done: anyhow::Result<()>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => ArgError::exit(&error),
    }
}

/// The process; it ends when this is dropped.
pub(crate) struct Child<Order, Outcome> {
    /// The subcommand that it runs.
    name: &'static str,
    _process: tokio::process::Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    kinds: PhantomData<fn(Order) -> Outcome>,
}

impl<Order: Serialize, Outcome: DeserializeOwned> Child<Order, Outcome> {
    /// Runs this subcommand of the program.
    pub(crate) fn start(name: &'static str) -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("this program's own path")?;
        let mut process = Command::new(program)
            .arg(name)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("a process for {name}"))?;
        let (Some(input), Some(output)) = (process.stdin.take(), process.stdout.take()) else {
            bail!("a process for {name} without pipes");
        };
        Ok(Self {
            name,
            _process: process,
            input,
            output: BufReader::new(output).lines(),
            kinds: PhantomData,
        })
    }

    /// Gives an order; the process carries out one after another.
    pub(crate) async fn tell(&mut self, order: &Order) -> anyhow::Result<()> {
        let mut line = serde_json::to_string(order)?;
        line.push('\n');
        self.input
            .write_all(line.as_bytes())
            .await
            .with_context(|| self.gone())
    }

    /// Waits for what came of the next order.
    pub(crate) async fn hear(&mut self, within: Duration) -> anyhow::Result<Outcome> {
        let line = tokio::time::timeout(within, self.output.next_line()).await;
        let line =
            line.with_context(|| format!("the process for {} does not answer", self.name))??;
        serde_json::from_str(&line.with_context(|| self.gone())?).context("the outcome of an order")
    }

    fn gone(&self) -> String {
        format!("the process for {} is gone", self.name)
    }
}
