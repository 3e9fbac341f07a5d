//! One worker of the crowd: a single-threaded runtime with its share of the viewers. It lets them
//! in at the ramp's rate, wakes each when its heartbeat is due, and obeys the commands of
//! [`crate::workers`].
//!
//! One ticker wakes all viewers: it visits a slot of 5 ms after the other, and all of them once per
//! interval.

mod line;
pub(crate) mod messages;
mod reconnect;
mod state;
mod viewer;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout};

use self::line::{ViewerLine, ViewerLines};
use self::messages::{WorkerCommand, WorkerEvent};
use self::state::WorkerState;
use self::viewer::{StayEnd, Viewer};
use crate::error_kind;
use crate::plan::CrowdPlan;
use crate::proc_stats;

const SLOT: Duration = Duration::from_millis(5);
const PROGRESS_EVERY: Duration = Duration::from_millis(50);

/// Runs a worker to its end on the current thread's runtime, which must be its own.
pub(crate) async fn run(
    plan: CrowdPlan,
    process: usize,
    mut commands: mpsc::Receiver<WorkerCommand>,
    events: mpsc::Sender<WorkerEvent>,
) {
    let slots = (plan.heartbeat.as_millis() / SLOT.as_millis()).max(1) as usize;
    let lines = match ViewerLines::open(&plan).await {
        Ok(lines) => lines,
        Err(error) => {
            let why = format!("its sockets for datagrams: {error}");
            // Without a coordinator nobody needs to know.
            let _ = events.send(WorkerEvent::Died(why)).await;
            return;
        }
    };
    let state = Arc::new(WorkerState::new(plan, lines, slots));
    let ramp = tokio::spawn(ramp(state.clone(), process));
    tokio::spawn(tick(state.clone()));
    let reporter = tokio::spawn(report(state.clone(), events.clone()));

    let mut steady_began = None;
    // A closed channel means that the coordinator is gone: the viewers leave then, too.
    while let Some(command) = commands.recv().await {
        match command {
            WorkerCommand::Steady => {
                state.start_steady();
                steady_began = Some((Instant::now(), own_cpu()));
            }
            WorkerCommand::Cool => {
                state.cool_down();
                if let Some((began, cpu)) = steady_began.take() {
                    state.tally(|tally| {
                        tally.steady_seconds = began.elapsed().as_secs_f64();
                        tally.steady_cpu_seconds = own_cpu() - cpu;
                    });
                }
            }
            WorkerCommand::Cut => state.handles().iter().for_each(|viewer| viewer.cut()),
            WorkerCommand::Count => {
                if events
                    .send(WorkerEvent::Counted(state.counts()))
                    .await
                    .is_err()
                {
                    break;
                }
            }
            WorkerCommand::TakeAcks => {
                let acks = state.tally(|tally| std::mem::take(&mut tally.ack));
                if events.send(WorkerEvent::Acks(acks)).await.is_err() {
                    break;
                }
            }
            WorkerCommand::Leave => break,
        }
    }
    state.cool_down();
    ramp.abort();
    leave_all(&state).await;
    reporter.abort();
    let tally = state.tally(|tally| tally.clone());
    // Without a coordinator nobody needs the tally.
    let _ = events.send(WorkerEvent::Done(Box::new(tally))).await;
}

/// Lets the viewers in at this worker's part of the rate, with a bounded number on their way.
async fn ramp(state: Arc<WorkerState>, process: usize) {
    let in_flight = (state.plan.in_flight / state.plan.processes).max(1);
    let gate = Arc::new(Semaphore::new(in_flight));
    let began = Instant::now();
    for (position, number) in state.plan.share(process).enumerate() {
        sleep_until(began + nth_of_ramp(&state.plan, position)).await;
        let Ok(permit) = gate.clone().acquire_owned().await else {
            return;
        };
        tokio::spawn(admit(state.clone(), number, permit));
    }
}

fn nth_of_ramp(plan: &CrowdPlan, position: usize) -> Duration {
    let per_second = plan.ramp_per_second / plan.processes as f64;
    Duration::from_secs_f64(position as f64 / per_second)
}

/// Connects one viewer. The permit bounds how many are between connect and `joined`.
async fn admit(state: Arc<WorkerState>, number: usize, permit: OwnedSemaphorePermit) {
    // Boxed, and dropped before the long stay: the handshake's state is larger than all else of a
    // viewer.
    let entered = Box::pin(viewer::enter(&state, number)).await;
    drop(permit);
    match entered {
        // A task of its own, so that the memory of this one is given back.
        Ok(line) => drop(tokio::spawn(Box::pin(attend(state, number, line)))),
        Err(failure) => state.viewer_refused(failure.kind),
    }
}

/// The life of a viewer that has joined, with a new connection after each cut.
async fn attend(state: Arc<WorkerState>, number: usize, line: ViewerLine) {
    let mut viewer = Viewer::new(state.clone(), state.viewer_joined(number), number, line);
    while let StayEnd::Cut = Box::pin(viewer.stay()).await {
        let cut = Instant::now();
        match Box::pin(reconnect::reconnect(&state, number)).await {
            Ok(socket) => {
                let handle = state.viewer_returned(number, cut.elapsed());
                let line = ViewerLine::Socket(Box::new(socket));
                viewer = Viewer::new(state.clone(), handle, number, line);
            }
            Err(kind) => return state.viewer_stranded(state.role(number), kind),
        }
    }
}

/// Wakes slot after slot. After a delay it wakes every slot that was missed, and records the delay.
async fn tick(state: Arc<WorkerState>) {
    let began = Instant::now();
    let mut clock = interval(SLOT);
    clock.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut next: u32 = 0;
    loop {
        clock.tick().await;
        if state.is_cool() {
            return;
        }
        let elapsed = began.elapsed();
        while SLOT * next <= elapsed {
            if state.wake_slot(next) > 0 {
                state.tally(|tally| tally.lag.record(elapsed - SLOT * next));
            }
            next += 1;
        }
    }
}

async fn report(state: Arc<WorkerState>, events: mpsc::Sender<WorkerEvent>) {
    let mut clock = interval(PROGRESS_EVERY);
    clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        clock.tick().await;
        if events
            .send(WorkerEvent::Progress(state.progress()))
            .await
            .is_err()
        {
            return;
        }
    }
}

/// Lets all viewers leave at the rate at which they came. Viewers that cannot leave are counted as
/// lost.
async fn leave_all(state: &WorkerState) {
    let began = Instant::now();
    for (position, viewer) in state.handles().iter().enumerate() {
        sleep_until(began + nth_of_ramp(&state.plan, position)).await;
        viewer.leave();
    }
    let empty = async {
        while state.connected() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let stuck = timeout(state.plan.ack_timeout * 2, empty).await.is_err();
    state.tally(|tally| {
        let stuck = if stuck { state.connected() } else { 0 };
        tally.lost += stuck;
        tally.error("stuck_socket".into(), stuck);
        tally.error(error_kind::MISSING_ACK, tally.sent - tally.acked);
    });
}

fn own_cpu() -> f64 {
    proc_stats::cpu_seconds(std::process::id()).unwrap_or_default()
}
