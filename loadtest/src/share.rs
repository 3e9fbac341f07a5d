//! One process's share of the crowd: a single-threaded runtime that lets viewers in at the ramp's rate, wakes
//! each when its heartbeat is due, and does what the [`crate::team`] commands.
//!
//! Heartbeats come from one ticker that walks a wheel of 5 ms slots once per interval. A viewer's slot follows
//! from its number, so the whole crowd is spread evenly over the interval, whatever the ramp was.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout};

use crate::error_kind::{self, Kind};
use crate::plan::{CrowdPlan, Role};
use crate::proc_stats;
use crate::tally::Tally;
use crate::viewer::{Seat, attend};

const SLOT: Duration = Duration::from_millis(5);
const PROGRESS_EVERY: Duration = Duration::from_millis(50);

/// What a share is told. The ramp begins by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Command {
    /// The measured phase begins.
    Steady,
    /// The measured phase ends: no new heartbeats, acks still count.
    Cool,
    /// Everybody but the bystanders loses the connection and comes back.
    Cut,
    /// Say who is in which live now.
    Roll,
    /// Everybody closes and goes; then the tally.
    Leave,
}

/// What a share says.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Event {
    /// Now and then.
    Progress(Progress),
    /// The answer to [`Command::Roll`]: viewers and fans by live.
    Rolled(Vec<[u32; 2]>),
    /// The last event.
    Done(Box<Tally>),
    /// The share ended without a tally.
    Died(String),
}

/// Where a share is.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct Progress {
    pub(crate) joined: u64,
    pub(crate) failed: u64,
    /// Back after a cut.
    pub(crate) returned: u64,
    /// Gave up coming back.
    pub(crate) stranded: u64,
    pub(crate) lost: u64,
    pub(crate) sent: u64,
    pub(crate) acked: u64,
    pub(crate) pending: u64,
    /// No heartbeat is sent any more, so `pending` can only fall.
    pub(crate) cool: bool,
}

const RAMP: u8 = 0;
const STEADY: u8 = 1;
const COOL: u8 = 2;

/// What the share's viewers and its own tasks have in common.
pub(crate) struct Share {
    pub(crate) plan: CrowdPlan,
    process: usize,
    roster: Vec<Role>,
    phase: AtomicU8,
    /// Viewers with a socket that has joined.
    seated: AtomicU64,
    wheel: Mutex<Vec<Vec<Arc<Seat>>>>,
    roll: Mutex<Vec<[u32; 2]>>,
    tally: Mutex<Tally>,
}

/// Runs a share to its end on the current thread's runtime, which must be its own.
pub(crate) async fn run(
    plan: CrowdPlan,
    process: usize,
    mut commands: mpsc::Receiver<Command>,
    events: mpsc::Sender<Event>,
) {
    let share = Arc::new(Share::new(plan, process));
    let ramp = tokio::spawn(ramp(share.clone()));
    tokio::spawn(tick(share.clone()));
    let reporter = tokio::spawn(report(share.clone(), events.clone()));

    let mut steady_began = None;
    // A team that is gone (the channel is closed) means leaving, too.
    while let Some(command) = commands.recv().await {
        match command {
            Command::Steady => {
                share.phase.store(STEADY, Ordering::Relaxed);
                steady_began = Some((Instant::now(), own_cpu()));
                if share.plan.closed_loop {
                    lock(&share.wheel).iter().flatten().for_each(|seat| seat.beat());
                }
            }
            Command::Cool => {
                share.phase.store(COOL, Ordering::Relaxed);
                if let Some((began, cpu)) = steady_began.take() {
                    share.tally(|tally| {
                        tally.steady_seconds = began.elapsed().as_secs_f64();
                        tally.steady_cpu_seconds = own_cpu() - cpu;
                    });
                }
            }
            Command::Cut => lock(&share.wheel).iter().flatten().for_each(|seat| seat.cut()),
            Command::Roll => {
                let roll = lock(&share.roll).clone();
                if events.send(Event::Rolled(roll)).await.is_err() {
                    break;
                }
            }
            Command::Leave => break,
        }
    }
    share.phase.store(COOL, Ordering::Relaxed);
    ramp.abort();
    empty_the_hall(&share).await;
    reporter.abort();
    let tally = lock(&share.tally).clone();
    // Nobody left to tell: nothing to do about it.
    let _ = events.send(Event::Done(Box::new(tally))).await;
}

impl Share {
    fn new(plan: CrowdPlan, process: usize) -> Self {
        let slots = (plan.heartbeat.as_millis() / SLOT.as_millis()).max(1) as usize;
        Self {
            process,
            roster: plan.roster(),
            phase: AtomicU8::new(RAMP),
            seated: AtomicU64::new(0),
            wheel: Mutex::new(vec![Vec::new(); slots]),
            roll: Mutex::new(vec![[0; 2]; plan.lives]),
            tally: Mutex::default(),
            plan,
        }
    }

    pub(crate) fn role(&self, number: usize) -> Role {
        self.roster[number]
    }

    /// The only way to the counters; short, and never over an await.
    pub(crate) fn tally<T>(&self, change: impl FnOnce(&mut Tally) -> T) -> T {
        change(&mut lock(&self.tally))
    }

    pub(crate) fn is_steady(&self) -> bool {
        self.phase.load(Ordering::Relaxed) == STEADY
    }

    pub(crate) fn is_cool(&self) -> bool {
        self.phase.load(Ordering::Relaxed) == COOL
    }

    pub(crate) fn is_looping(&self) -> bool {
        self.plan.closed_loop && self.is_steady()
    }

    /// A viewer has joined.
    pub(crate) fn sit_down(&self, number: usize, role: Role) -> Arc<Seat> {
        self.tally(|tally| {
            tally.joined += 1;
            tally.joins.mark();
        });
        self.count_in_roll(role, |count| *count += 1);
        self.take_seat(number)
    }

    /// A viewer that was cut off is back; it was in the roll all the time.
    pub(crate) fn sit_back(&self, number: usize, after: Duration) -> Arc<Seat> {
        self.tally(|tally| {
            tally.storm.returned += 1;
            tally.storm.returns.mark();
            tally.storm.back.record(after);
        });
        self.take_seat(number)
    }

    fn take_seat(&self, number: usize) -> Arc<Seat> {
        self.seated.fetch_add(1, Ordering::Relaxed);
        let seat = Arc::new(Seat::new(self.plan.stays(number)));
        let mut wheel = lock(&self.wheel);
        let slot = (number as u128 * wheel.len() as u128 / self.plan.viewers as u128) as usize;
        wheel[slot].push(seat.clone());
        seat
    }

    /// A viewer that had joined is gone; `why` writes the end down.
    pub(crate) fn stood_up(&self, role: Role, why: impl FnOnce(&mut Tally)) {
        self.count_in_roll(role, |count| *count -= 1);
        self.tally(why);
        self.seated.fetch_sub(1, Ordering::Relaxed);
    }

    /// A viewer's connection was cut, as told; it keeps its place in the roll.
    pub(crate) fn was_cut(&self, unanswered: u64) {
        // What became of heartbeats that were under way nobody knows: they are no heartbeats of this run.
        self.tally(|tally| tally.sent -= unanswered);
        self.seated.fetch_sub(1, Ordering::Relaxed);
    }

    /// A viewer that was cut off gave up coming back.
    pub(crate) fn is_stranded(&self, role: Role, kind: Kind) {
        self.count_in_roll(role, |count| *count -= 1);
        self.tally(|tally| {
            tally.storm.stranded += 1;
            tally.error(kind, 1);
        });
    }

    /// A viewer did not get in.
    pub(crate) fn turned_away(&self, kind: Kind) {
        self.tally(|tally| {
            tally.failed += 1;
            tally.error(kind, 1);
        });
    }

    fn count_in_roll(&self, role: Role, change: impl Fn(&mut u32)) {
        let mut roll = lock(&self.roll);
        let [viewers, fans] = &mut roll[role.live as usize];
        change(viewers);
        if role.fan {
            change(fans);
        }
    }

    fn rate(&self) -> f64 {
        self.plan.ramp_per_second / self.plan.processes as f64
    }
}

/// Lets the viewers in, at the share's part of the rate, with a bounded number on their way.
async fn ramp(share: Arc<Share>) {
    let in_flight = (share.plan.in_flight / share.plan.processes).max(1);
    let gate = Arc::new(Semaphore::new(in_flight));
    let began = Instant::now();
    for (position, number) in share.plan.share(share.process).enumerate() {
        sleep_until(began + Duration::from_secs_f64(position as f64 / share.rate())).await;
        let Ok(permit) = gate.clone().acquire_owned().await else {
            return;
        };
        tokio::spawn(attend(share.clone(), number, permit));
    }
}

/// Walks the wheel; after a delay it walks every slot that was missed, and the delay is recorded.
async fn tick(share: Arc<Share>) {
    let began = Instant::now();
    let mut clock = interval(SLOT);
    clock.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut next: u32 = 0;
    loop {
        clock.tick().await;
        if share.is_cool() {
            return;
        }
        let elapsed = began.elapsed();
        while SLOT * next <= elapsed {
            let wheel = lock(&share.wheel);
            let due = &wheel[next as usize % wheel.len()];
            due.iter().for_each(|seat| seat.beat());
            if !due.is_empty() {
                share.tally(|tally| tally.lag.record(elapsed - SLOT * next));
            }
            next += 1;
        }
    }
}

async fn report(share: Arc<Share>, events: mpsc::Sender<Event>) {
    let mut clock = interval(PROGRESS_EVERY);
    clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        clock.tick().await;
        let progress = share.tally(|tally| Progress {
            joined: tally.joined,
            failed: tally.failed,
            returned: tally.storm.returned,
            stranded: tally.storm.stranded,
            lost: tally.lost,
            sent: tally.sent,
            acked: tally.acked,
            pending: tally.pending(),
            cool: share.is_cool(),
        });
        if events.send(Event::Progress(progress)).await.is_err() {
            return;
        }
    }
}

/// Everybody leaves, at the rate they came in; who cannot is given up with the runtime.
async fn empty_the_hall(share: &Share) {
    let seats: Vec<Arc<Seat>> = lock(&share.wheel).iter().flatten().cloned().collect();
    let began = Instant::now();
    for (position, seat) in seats.iter().enumerate() {
        sleep_until(began + Duration::from_secs_f64(position as f64 / share.rate())).await;
        seat.leave();
    }
    let empty = async {
        while share.seated.load(Ordering::Relaxed) > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let stuck = timeout(share.plan.ack_timeout * 2, empty).await.is_err();
    share.tally(|tally| {
        let stuck = if stuck { share.seated.load(Ordering::Relaxed) } else { 0 };
        tally.lost += stuck;
        tally.error("stuck_socket".into(), stuck);
        tally.error(error_kind::MISSING_ACK, tally.sent - tally.acked);
    });
}

/// A counter stays usable when a task panicked while it held the lock.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn own_cpu() -> f64 {
    proc_stats::cpu_seconds(std::process::id()).unwrap_or_default()
}
