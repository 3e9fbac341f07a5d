//! A worker in another process, over any pair of byte streams: pipes to a child, or a connection to
//! another machine.
//!
//! A worker gets its assignment as the first line and commands as the lines after it, and writes
//! events as lines; all of them JSON. Lines have a length that they may not exceed. A worker leaves
//! when its input ends, so it never outlives whoever commands it, and one that says nothing for a
//! while is given up.

use std::time::Duration;

use anyhow::{Context, ensure};
use futures_util::{SinkExt, StreamExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::codec::{FramedRead, FramedWrite, LinesCodec};

use super::share::Assignment;
use crate::plan::CrowdPlan;
use crate::tally::Tally;
use crate::worker;
use crate::worker::messages::{WorkerCommand, WorkerEvent};

/// The longest event is the counts of very many lives.
pub(super) const LONGEST_LINE: usize = 32 << 20;

/// A worker reports its progress every 50 ms.
const SILENCE: Duration = Duration::from_secs(15);

pub(super) type LineReader<R> = FramedRead<R, LinesCodec>;
pub(super) type Write<W> = FramedWrite<W, LinesCodec>;

pub(super) fn reader<R: AsyncRead>(from: R, longest: usize) -> LineReader<R> {
    FramedRead::new(from, LinesCodec::new_with_max_length(longest))
}

pub(super) fn writer<W: AsyncWrite>(to: W) -> Write<W> {
    FramedWrite::new(to, LinesCodec::new())
}

pub(super) async fn say<W: AsyncWrite + Unpin>(
    to: &mut Write<W>,
    what: &impl Serialize,
) -> anyhow::Result<()> {
    Ok(to.send(serde_json::to_string(what)?).await?)
}

/// The next line; `None` at the end.
pub(super) async fn hear<R, T>(from: &mut LineReader<R>) -> anyhow::Result<Option<T>>
where
    R: AsyncRead + Unpin,
    T: DeserializeOwned,
{
    let Some(line) = from.next().await else {
        return Ok(None);
    };
    serde_json::from_str(&line?)
        .context("a line that makes no sense")
        .map(Some)
}

/// Hands on what a worker is told. A stream that broke shows in the worker's events, which is where
/// it is reported.
pub(super) async fn command<W>(
    assignment: Assignment,
    mut commands: mpsc::Receiver<WorkerCommand>,
    mut to: Write<W>,
) where
    W: AsyncWrite + Unpin,
{
    let mut sent = say(&mut to, &assignment).await;
    while sent.is_ok() {
        let Some(command) = commands.recv().await else {
            break;
        };
        sent = say(&mut to, &command).await;
    }
    let _ = SinkExt::<String>::close(&mut to).await;
}

/// Hands on what a worker says, and why it ended if that was early.
pub(super) async fn listen<R: AsyncRead + Unpin>(
    mut from: LineReader<R>,
    events: mpsc::Sender<WorkerEvent>,
) {
    loop {
        let event = match timeout(SILENCE, hear(&mut from)).await {
            Ok(Ok(Some(event))) => event,
            Ok(Ok(None)) => return,
            Ok(Err(error)) => WorkerEvent::Died(format!("{error:#}")),
            Err(_) => WorkerEvent::Died(format!("it said nothing for {SILENCE:?}")),
        };
        let last = matches!(event, WorkerEvent::Done(_) | WorkerEvent::Died(_));
        if events.send(event).await.is_err() || last {
            return;
        }
    }
}

/// The whole of a worker once it has its assignment, which `check` may refuse or change: it obeys
/// until its viewers have left, and returns its tally.
pub(super) async fn obey<R, W>(
    Assignment { plan, process }: Assignment,
    (mut from, mut to): (LineReader<R>, Write<W>),
    check: impl FnOnce(CrowdPlan) -> anyhow::Result<CrowdPlan>,
) -> anyhow::Result<Tally>
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin,
{
    let fits = plan.check().and_then(|()| {
        ensure!(process < plan.processes, "there is no share {process}");
        check(plan)
    });
    let plan = match fits {
        Ok(plan) => plan,
        Err(error) => {
            // The coordinator should know. This process tells its own user.
            let _ = say(&mut to, &WorkerEvent::Died(format!("{error:#}"))).await;
            return Err(error);
        }
    };
    let (to_worker, commands) = mpsc::channel(4);
    let (events, mut from_worker) = mpsc::channel(4);
    tokio::spawn(async move {
        while let Ok(Some(command)) = hear(&mut from).await {
            if to_worker.send(command).await.is_err() {
                return;
            }
        }
    });
    tokio::spawn(worker::run(plan, process, commands, events));
    let mut done = None;
    while let Some(event) = from_worker.recv().await {
        say(&mut to, &event).await?;
        if let WorkerEvent::Done(tally) = event {
            done = Some(*tally);
        }
    }
    done.context("there is no tally")
}
/// What another program said, for people: short, and without control characters.
pub(super) fn legible(text: &str) -> String {
    text.chars()
        .take(300)
        .flat_map(char::escape_debug)
        .collect()
}
