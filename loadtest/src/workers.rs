//! The workers of a crowd as one: a thread of this process, or several child processes of the same program.
//!
//! A child gets its plan as the first line of its standard input and commands as the lines after it, and
//! writes events as lines; all of them JSON. It leaves when its input ends, so it never outlives the parent.

use std::process::{ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use crate::plan::CrowdPlan;
use crate::tally::{Latencies, Tally};
use crate::worker;
use crate::worker::messages::{Command, Event, Progress};

/// The first line to a child.
#[derive(Serialize, Deserialize)]
struct Assignment {
    plan: CrowdPlan,
    process: usize,
}

/// Commands all workers and adds up what they report.
pub(crate) struct Workers {
    commands: Vec<mpsc::Sender<Command>>,
    events: mpsc::Receiver<(usize, Event)>,
    progress: Vec<Progress>,
    on_progress: Box<dyn Fn(&Progress) + Send>,
}

impl Workers {
    /// Starts every worker; their ramps begin at once.
    pub(crate) fn start(plan: &CrowdPlan, on_progress: impl Fn(&Progress) + Send + 'static) -> anyhow::Result<Self> {
        let (to_coordinator, events) = mpsc::channel(64);
        let mut commands = Vec::new();
        for process in 0..plan.processes {
            let (to_worker, for_worker) = mpsc::channel(4);
            let (to_us, from_worker) = mpsc::channel(4);
            if plan.processes == 1 {
                spawn_thread(plan.clone(), for_worker, to_us)?;
            } else {
                spawn_child(Assignment { plan: plan.clone(), process }, for_worker, to_us)?;
            }
            tokio::spawn(forward(process, from_worker, to_coordinator.clone()));
            commands.push(to_worker);
        }
        let progress = vec![Progress::default(); plan.processes];
        Ok(Self { commands, events, progress, on_progress: Box::new(on_progress) })
    }

    /// Waits until the sum of all workers is as wished; false when `within` was over first.
    pub(crate) async fn until(&mut self, within: Duration, wished: impl Fn(&Progress) -> bool) -> anyhow::Result<bool> {
        let deadline = Instant::now() + within;
        loop {
            let sum = self.sum();
            (self.on_progress)(&sum);
            if wished(&sum) {
                return Ok(true);
            }
            let Ok(event) = timeout_at(deadline, self.next()).await else {
                return Ok(false);
            };
            if let (_, Event::Done(_) | Event::Counted(_) | Event::Acks(_)) = event? {
                bail!("a worker of the crowd spoke out of turn");
            }
        }
    }

    pub(crate) async fn tell(&self, command: Command) -> anyhow::Result<()> {
        for worker in &self.commands {
            worker.send(command).await.ok().context("a worker of the crowd is gone")?;
        }
        Ok(())
    }

    /// Viewers and fans by live, now.
    pub(crate) async fn counts(&mut self) -> anyhow::Result<Vec<[u32; 2]>> {
        self.tell(Command::Count).await?;
        let mut sum: Vec<[u32; 2]> = Vec::new();
        for _ in 0..self.commands.len() {
            let counts = loop {
                if let (_, Event::Counted(counts)) = self.next().await? {
                    break counts;
                }
            };
            sum.resize(counts.len(), [0; 2]);
            for (total, part) in sum.iter_mut().zip(counts) {
                total[0] += part[0];
                total[1] += part[1];
            }
        }
        Ok(sum)
    }

    /// The ack latencies since the last call, or since the measured phase began. They are not in the tally any more.
    pub(crate) async fn take_acks(&mut self) -> anyhow::Result<Latencies> {
        self.tell(Command::TakeAcks).await?;
        let mut sum = Latencies::default();
        for _ in 0..self.commands.len() {
            let acks = loop {
                if let (_, Event::Acks(acks)) = self.next().await? {
                    break acks;
                }
            };
            sum.merge(&acks);
        }
        Ok(sum)
    }

    /// Lets all viewers leave, and adds up what the workers counted.
    pub(crate) async fn finish(mut self) -> anyhow::Result<Tally> {
        self.tell(Command::Leave).await?;
        let mut sum = Tally::default();
        for _ in 0..self.commands.len() {
            let tally = loop {
                if let (_, Event::Done(tally)) = self.next().await? {
                    break tally;
                }
            };
            sum.merge(&tally);
        }
        Ok(sum)
    }

    async fn next(&mut self) -> anyhow::Result<(usize, Event)> {
        let (process, event) = self.events.recv().await.context("every worker of the crowd is gone")?;
        match &event {
            Event::Died(why) => bail!("worker {process} of the crowd died: {why}"),
            Event::Progress(progress) => self.progress[process] = *progress,
            Event::Counted(_) | Event::Acks(_) | Event::Done(_) => {}
        }
        Ok((process, event))
    }

    fn sum(&self) -> Progress {
        let nobody = Progress { cool: true, ..Progress::default() };
        self.progress.iter().fold(nobody, |sum, part| Progress {
            joined: sum.joined + part.joined,
            failed: sum.failed + part.failed,
            returned: sum.returned + part.returned,
            stranded: sum.stranded + part.stranded,
            lost: sum.lost + part.lost,
            sent: sum.sent + part.sent,
            acked: sum.acked + part.acked,
            pending: sum.pending + part.pending,
            cool: sum.cool && part.cool,
        })
    }
}

/// Hands a worker's events on with its number; an end without a tally is an event too.
async fn forward(process: usize, mut from: mpsc::Receiver<Event>, to: mpsc::Sender<(usize, Event)>) {
    while let Some(event) = from.recv().await {
        let last = matches!(event, Event::Done(_) | Event::Died(_));
        if to.send((process, event)).await.is_err() || last {
            return;
        }
    }
    let _ = to.send((process, Event::Died("it ended without a tally".to_owned()))).await;
}

fn spawn_thread(plan: CrowdPlan, commands: mpsc::Receiver<Command>, events: mpsc::Sender<Event>) -> anyhow::Result<()> {
    let runtime = worker_runtime()?;
    let body = move || runtime.block_on(worker::run(plan, 0, commands, events));
    std::thread::Builder::new().name("worker".to_owned()).spawn(body)?;
    Ok(())
}

fn spawn_child(
    assignment: Assignment,
    commands: mpsc::Receiver<Command>,
    events: mpsc::Sender<Event>,
) -> anyhow::Result<()> {
    let program = std::env::current_exe().context("this program's own path")?;
    let mut child = tokio::process::Command::new(program)
        .arg("crowd-share")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .context("a child process")?;
    let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        bail!("a child process without pipes");
    };
    tokio::spawn(command_child(assignment, commands, input));
    tokio::spawn(async move {
        if let Err(error) = hear_child(output, &events).await {
            let _ = events.send(Event::Died(format!("{error:#}"))).await;
        }
        // The child's events say how it ended; this only reaps it.
        let _ = child.wait().await;
    });
    Ok(())
}

/// A pipe that broke shows on the child's output, which is where it is reported.
async fn command_child(assignment: Assignment, mut commands: mpsc::Receiver<Command>, mut input: ChildStdin) {
    let Ok(mut line) = serde_json::to_string(&assignment) else {
        return;
    };
    line.push('\n');
    if input.write_all(line.as_bytes()).await.is_err() {
        return;
    }
    while let Some(command) = commands.recv().await {
        let Ok(mut line) = serde_json::to_string(&command) else {
            return;
        };
        line.push('\n');
        if input.write_all(line.as_bytes()).await.is_err() {
            return;
        }
    }
}

async fn hear_child(output: ChildStdout, events: &mpsc::Sender<Event>) -> anyhow::Result<()> {
    let mut lines = BufReader::new(output).lines();
    while let Some(line) = lines.next_line().await? {
        let event = serde_json::from_str(&line).context("an event that is not one")?;
        if events.send(event).await.is_err() {
            return Ok(());
        }
    }
    Ok(())
}

/// The whole of a child process.
pub(crate) fn child_main() -> ExitCode {
    match child_run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("loadtest: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn child_run() -> anyhow::Result<()> {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    let Assignment { plan, process } = serde_json::from_str(&line).context("an assignment on standard input")?;
    let runtime = worker_runtime()?;
    runtime.block_on(async {
        let (to_worker, commands) = mpsc::channel(4);
        let (events, mut from_worker) = mpsc::channel(4);
        // Ctrl-C reaches the whole process group: the parent alone decides what it means.
        tokio::spawn(async { while tokio::signal::ctrl_c().await.is_ok() {} });
        tokio::spawn(async move {
            let mut lines = BufReader::new(tokio::io::stdin()).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                let Ok(command) = serde_json::from_str(&line) else {
                    return;
                };
                if to_worker.send(command).await.is_err() {
                    return;
                }
            }
        });
        tokio::spawn(worker::run(plan, process, commands, events));
        let mut output = tokio::io::stdout();
        while let Some(event) = from_worker.recv().await {
            let mut line = serde_json::to_string(&event)?;
            line.push('\n');
            output.write_all(line.as_bytes()).await?;
            output.flush().await?;
        }
        anyhow::Ok(())
    })?;
    // The read of standard input cannot be cancelled and would hold the runtime open.
    runtime.shutdown_background();
    Ok(())
}

fn worker_runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().context("a runtime")
}
