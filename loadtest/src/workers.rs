//! The workers of a crowd as one: a thread of this process, several child processes of the same
//! program, or programs on other machines. All of them get the same commands and answer with the
//! same events.
//!
//! A worker that dies, falls silent or says what makes no sense is *lost*: its viewers count as
//! failed, and the others go on. Without any worker left, the run ends.

mod child;
mod joiner;
mod lines;
pub(crate) mod machines;
mod share;

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

pub(crate) use self::child::child_main;
pub(crate) use self::joiner::{JoinArgs, join_main};
use self::machines::JoinedMachine;
use self::share::{Assignment, Ends, runtime};
use crate::plan::CrowdPlan;
use crate::tally::{Latencies, Tally};
use crate::worker;
use crate::worker::messages::{Progress, WorkerCommand, WorkerEvent};

/// Commands all workers and adds up what they report.
pub(crate) struct Workers {
    /// `None`: lost.
    commands: Vec<Option<mpsc::Sender<WorkerCommand>>>,
    to_us: mpsc::Sender<(usize, WorkerEvent)>,
    events: mpsc::Receiver<(usize, WorkerEvent)>,
    progress: Vec<Progress>,
    /// How many viewers each has.
    shares: Vec<u64>,
    /// A worker that takes longer for an answer is lost.
    patience: Duration,
    lost: BTreeMap<usize, String>,
    on_progress: Box<dyn Fn(&Progress) + Send>,
}

impl Workers {
    /// Starts every worker on this machine; their ramps begin at once.
    pub(crate) fn start(
        plan: &CrowdPlan,
        on_progress: impl Fn(&Progress) + Send + 'static,
    ) -> anyhow::Result<Self> {
        let mut workers = Self::none(plan, on_progress);
        for process in 0..plan.processes {
            let ends = workers.add();
            if plan.processes == 1 {
                spawn_thread(plan.clone(), ends)?;
            } else {
                child::spawn(
                    Assignment {
                        plan: plan.clone(),
                        process,
                    },
                    ends,
                )?;
            }
        }
        Ok(workers)
    }

    /// Gives each machine its share; their ramps begin at the same time.
    pub(crate) fn on_machines(
        plan: &CrowdPlan,
        machines: Vec<JoinedMachine>,
        on_progress: impl Fn(&Progress) + Send + 'static,
    ) -> Self {
        let mut workers = Self::none(plan, on_progress);
        for (process, machine) in machines.into_iter().enumerate() {
            let ends = workers.add();
            machine.begin(
                Assignment {
                    plan: plan.clone(),
                    process,
                },
                ends,
            );
        }
        workers
    }

    fn none(plan: &CrowdPlan, on_progress: impl Fn(&Progress) + Send + 'static) -> Self {
        let (to_us, events) = mpsc::channel(64);
        let shares = (0..plan.processes)
            .map(|process| plan.share(process).count() as u64)
            .collect();
        let commands = Vec::new();
        let progress = vec![Progress::default(); plan.processes];
        // To leave takes as long as the ramp, and twice the timeout of an ack.
        let ramp = Duration::from_secs_f64(plan.viewers as f64 / plan.ramp_per_second);
        let patience = ramp + plan.ack_timeout * 2 + Duration::from_secs(60);
        let lost = BTreeMap::new();
        let on_progress = Box::new(on_progress);
        Self {
            commands,
            to_us,
            events,
            progress,
            shares,
            patience,
            lost,
            on_progress,
        }
    }

    fn add(&mut self) -> Ends {
        let (to_worker, commands) = mpsc::channel(4);
        let (events, from_worker) = mpsc::channel(4);
        tokio::spawn(forward(
            self.commands.len(),
            from_worker,
            self.to_us.clone(),
        ));
        self.commands.push(Some(to_worker));
        Ends { commands, events }
    }

    /// Waits until the sum of all workers is as wished; false when `within` was over first.
    pub(crate) async fn until(
        &mut self,
        within: Duration,
        wished: impl Fn(&Progress) -> bool,
    ) -> anyhow::Result<bool> {
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
            if let Some((
                process,
                WorkerEvent::Done(_) | WorkerEvent::Counted(_) | WorkerEvent::Acks(_),
            )) = event?
            {
                self.lose(process, "it spoke out of turn")?;
            }
        }
    }

    pub(crate) async fn tell(&self, command: WorkerCommand) -> anyhow::Result<()> {
        for worker in self.commands.iter().flatten() {
            // One that has just ended is found lost by its events.
            let _ = worker.send(command).await;
        }
        Ok(())
    }

    /// Viewers, fans and guests by live, now.
    pub(crate) async fn counts(&mut self) -> anyhow::Result<Vec<[u32; 3]>> {
        let each = self.ask(WorkerCommand::Count, |event| {
            if let WorkerEvent::Counted(counts) = event {
                Some(counts)
            } else {
                None
            }
        });
        let mut sum: Vec<[u32; 3]> = Vec::new();
        for counts in each.await? {
            sum.resize(sum.len().max(counts.len()), [0; 3]);
            for (total, part) in sum.iter_mut().zip(counts) {
                for (total, part) in total.iter_mut().zip(part) {
                    *total = total.saturating_add(part);
                }
            }
        }
        Ok(sum)
    }

    /// The ack latencies since the last call, or since the measured phase began. They are not in
    /// the tally any more.
    pub(crate) async fn take_acks(&mut self) -> anyhow::Result<Latencies> {
        let each = self.ask(WorkerCommand::TakeAcks, |event| {
            if let WorkerEvent::Acks(acks) = event {
                Some(acks)
            } else {
                None
            }
        });
        let mut sum = Latencies::default();
        each.await?.iter().for_each(|acks| sum.merge(acks));
        Ok(sum)
    }

    /// Ends the measured phase. Acks that do not come within this time are missing; the workers
    /// count them so.
    pub(crate) async fn cool(&mut self, within: Duration) -> anyhow::Result<()> {
        self.tell(WorkerCommand::Cool).await?;
        self.until(within, |sum| sum.cool && sum.pending == 0)
            .await?;
        Ok(())
    }

    /// Lets all viewers leave, and adds up what the workers counted. A lost worker is an error.
    pub(crate) async fn finish(self) -> anyhow::Result<Tally> {
        let (tally, lost) = self.finish_without_lost().await?;
        match lost.iter().next() {
            Some((process, why)) => bail!("worker {process} of the crowd: {why}"),
            None => Ok(tally),
        }
    }

    /// The same without the lost workers, and why each of them was lost.
    pub(crate) async fn finish_without_lost(
        mut self,
    ) -> anyhow::Result<(Tally, BTreeMap<usize, String>)> {
        let each = self.ask(WorkerCommand::Leave, |event| {
            if let WorkerEvent::Done(tally) = event {
                Some(tally)
            } else {
                None
            }
        });
        let mut sum = Tally::default();
        each.await?.iter().for_each(|tally| sum.merge(tally));
        Ok((sum, self.lost))
    }

    /// Tells all workers something, and waits until each of them has answered or is lost.
    async fn ask<T>(
        &mut self,
        command: WorkerCommand,
        answer: impl Fn(WorkerEvent) -> Option<T>,
    ) -> anyhow::Result<Vec<T>> {
        let deadline = Instant::now() + self.patience;
        self.tell(command).await?;
        let mut answers: BTreeMap<usize, T> = BTreeMap::new();
        while !self.without_answer(&answers).is_empty() {
            let Ok(event) = timeout_at(deadline, self.next()).await else {
                for process in self.without_answer(&answers) {
                    self.lose(process, "it did not answer")?;
                }
                break;
            };
            let Some((process, event)) = event? else {
                continue;
            };
            match answer(event) {
                Some(answer) => {
                    answers.insert(process, answer);
                }
                None => self.lose(process, "it spoke out of turn")?,
            }
        }
        // An answer of one that was lost afterwards does not count.
        answers.retain(|process, _| !self.lost.contains_key(process));
        Ok(answers.into_values().collect())
    }

    /// The workers that are not lost and have not answered yet.
    fn without_answer<T>(&self, answers: &BTreeMap<usize, T>) -> Vec<usize> {
        (0..self.commands.len())
            .filter(|process| !self.lost.contains_key(process) && !answers.contains_key(process))
            .collect()
    }

    /// The next event; `None` if it is only to be noted.
    async fn next(&mut self) -> anyhow::Result<Option<(usize, WorkerEvent)>> {
        let (process, event) = self
            .events
            .recv()
            .await
            .context("every worker of the crowd is gone")?;
        match event {
            _ if self.lost.contains_key(&process) => {}
            WorkerEvent::Died(why) => self.lose(process, &why)?,
            WorkerEvent::Progress(progress) if progress.makes_sense() => {
                self.progress[process] = progress
            }
            WorkerEvent::Progress(_) => self.lose(process, "it sent impossible figures")?,
            WorkerEvent::Done(tally) if !tally.makes_sense() => {
                self.lose(process, "it sent an impossible tally")?
            }
            event => return Ok(Some((process, event))),
        }
        Ok(None)
    }

    fn lose(&mut self, process: usize, why: &str) -> anyhow::Result<()> {
        let why = lines::legible(why);
        // Without its commands it ends, if it still runs.
        self.commands[process] = None;
        self.progress[process] = Progress {
            failed: self.shares[process],
            cool: true,
            ..Progress::default()
        };
        eprintln!("loadtest: worker {process} of the crowd is lost: {why}");
        self.lost.insert(process, why);
        match self.commands.iter().any(Option::is_some) {
            true => Ok(()),
            false => bail!(
                "every worker of the crowd is lost; worker {process}: {}",
                self.lost[&process]
            ),
        }
    }

    fn sum(&self) -> Progress {
        let nobody = Progress {
            cool: true,
            ..Progress::default()
        };
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
async fn forward(
    process: usize,
    mut from: mpsc::Receiver<WorkerEvent>,
    to: mpsc::Sender<(usize, WorkerEvent)>,
) {
    while let Some(event) = from.recv().await {
        let last = matches!(event, WorkerEvent::Done(_) | WorkerEvent::Died(_));
        if to.send((process, event)).await.is_err() || last {
            return;
        }
    }
    let _ = to
        .send((
            process,
            WorkerEvent::Died("it ended without a tally".to_owned()),
        ))
        .await;
}

fn spawn_thread(plan: CrowdPlan, ends: Ends) -> anyhow::Result<()> {
    let runtime = runtime()?;
    let body = move || runtime.block_on(worker::run(plan, 0, ends.commands, ends.events));
    std::thread::Builder::new()
        .name("worker".to_owned())
        .spawn(body)?;
    Ok(())
}
