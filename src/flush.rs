//! Owns the way from memory to the store: dirty slices take turns, each with one job at a time and one call under way.
//!
//! A slice is dirty when a fan check is due, or when what the store should hold is not settled. Dirty slices queue up once each, so the queue is bounded by the number of slices. A quiet gateway flushes
//! at once; a busy one every `flush`. At most [`MAX_JOBS`] slices are worked on at a time, which bounds the calls that
//! wait for the store. A slice that must be sent or read as a whole waits for its place in [`WHOLE_RATE`]. A job that fails leaves the slice queued and is tried again, from the state of then.

pub mod turn;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::clock::{Millis, millis};
use crate::core::Core;
use crate::ids::GatewayId;
use crate::pace::Pace;
use crate::rooms::Room;
use crate::rooms::ledger::{Difference, Draft, Verdict};
use crate::rooms::slice::Slice;
use crate::store::slice::Fence;
use crate::store::{Apply, ApplyReply, HeldMembers, MAX_BATCH, StoreError, StoreResult};
use crate::upkeep;
use turn::{Occasion, Step, Turn};

/// Slices worked on at a time, those aside whose job has been under way for [`SLOW`]: they wait for a node that hangs, and
/// the slices on other nodes must not wait behind them.
pub const MAX_JOBS: usize = 128;

/// A job that takes so long waits for a node that hangs.
const SLOW: Duration = Duration::from_millis(500);

/// All jobs, the slow ones among them.
const MAX_ALL_JOBS: usize = 1_024;

/// Members per second that this gateway sends or reads again because the store lost them, or may hold others: a Redis that
/// has just come back has better to do than this. A member costs it some 2 µs, so a gateway takes a twentieth of its
/// time at most. Joins and leaves, which go by themselves, do not count: they wait for nobody.
pub const WHOLE_RATE: u32 = 20_000;

/// What goes at once after a quiet time, as a time at the rate.
const WHOLE_BURST: Duration = Duration::from_millis(250);

/// Longest wait before a failed slice is tried again, in ms; the waits grow from the flush interval on and are
/// jittered, so that slices do not come back in step.
const MAX_RETRY: Millis = 2_000;

/// The same for the last flush, in ms: its time is short, and the store may be back any moment.
const LAST_RETRY: Millis = 250;

/// A slice in which an entry is to be made waits so long, in ms, for this gateway's lease.
const REGISTER_WAIT: Millis = 500;

/// One slice of one room, by its place.
type Place = (Arc<Room>, usize);

/// The slices that wait for the flusher.
#[derive(Debug)]
pub struct FlushQueue {
    dirty: Mutex<Vec<Place>>,
    notify: Notify,
    whole: Mutex<Pace>,
}

impl Default for FlushQueue {
    fn default() -> Self {
        let whole = Mutex::new(Pace::new(WHOLE_RATE, WHOLE_BURST));
        Self { dirty: Mutex::default(), notify: Notify::new(), whole }
    }
}

impl FlushQueue {
    /// Queues a slice, unless it is queued.
    pub fn mark(&self, room: &Arc<Room>, place: usize) {
        if room.slices()[place].lock().ask_turn(Instant::now()) {
            self.push((room.clone(), place));
        }
    }

    /// Asks to send or read all that is wanted in a slice: `None` is now, else when. A slice keeps its place until then.
    fn whole_at(&self, slice: &Slice, now: Millis) -> Option<Millis> {
        let mut slice = slice.lock();
        let members = u32::try_from(slice.ledger.wanted()).unwrap_or(u32::MAX);
        let at = match slice.whole_at.take() {
            Some(at) => at,
            None if members == 0 => now,
            None => now + millis(self.whole.lock().book(members, Instant::now())),
        };
        (at > now).then(|| *slice.whole_at.insert(at))
    }

    fn push(&self, place: Place) {
        self.dirty.lock().push(place);
        self.notify.notify_one();
    }
}

/// The jobs under way that are slow.
#[derive(Debug, Default)]
struct SlowJobs {
    count: AtomicUsize,
    /// There is one more.
    more: Notify,
}

impl SlowJobs {
    /// Runs a job, and counts it while it is slow.
    async fn watch<T>(&self, job: impl Future<Output = T>) -> T {
        let mut job = std::pin::pin!(job);
        if let Ok(done) = tokio::time::timeout(SLOW, &mut job).await {
            return done;
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        self.more.notify_one();
        let done = job.await;
        self.count.fetch_sub(1, Ordering::Relaxed);
        done
    }
}

/// How a job ended.
enum Outcome {
    Done,
    Failed,
    /// It has to wait for its place.
    Wait(Millis),
}

/// Runs until told to stop, and then until everything is flushed. What fails then is tried again until it succeeds:
/// whoever stops the flusher gives it a deadline.
pub async fn run(core: Arc<Core>, stop: CancellationToken) {
    let flush = millis(core.config.flush);
    let mut pending: VecDeque<(Place, u32)> = VecDeque::new();
    let mut retries: BinaryHeap<Reverse<(Millis, u64)>> = BinaryHeap::new();
    let mut waiting: HashMap<u64, (Place, u32)> = HashMap::new();
    let mut jobs: JoinSet<(Place, u32, Outcome)> = JoinSet::new();
    let mut ticket = 0;
    let mut next_turn: Millis = 0;
    let mut woken = false;
    let mut stopping = false;
    let slow = Arc::new(SlowJobs::default());
    loop {
        if !stopping && stop.is_cancelled() {
            stopping = true;
            // What waits for a retry is tried now.
            next_turn = 0;
            retries.clear();
            pending.extend(waiting.drain().map(|(_, place)| place));
        }
        while jobs.len() < MAX_ALL_JOBS.min(MAX_JOBS + slow.count.load(Ordering::Relaxed)) {
            let Some((place, tries)) = pending.pop_front() else { break };
            let (core, slow) = (core.clone(), slow.clone());
            jobs.spawn(async move {
                let outcome = slow.watch(job(&core, &place.0, place.1)).await;
                (place, tries, outcome)
            });
        }
        core.metrics.flush_queue.set((pending.len() + waiting.len()) as i64);
        core.metrics.flush_in_flight.set(jobs.len() as i64);

        if stopping && jobs.is_empty() && pending.is_empty() && waiting.is_empty() && core.flush.dirty.lock().is_empty()
        {
            return;
        }
        let retry_at = retries.peek().map(|Reverse((at, _))| *at);
        let retry_due = async {
            match retry_at {
                Some(at) => core.clock.sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = stop.cancelled(), if !stopping => {}
            Some(done) = jobs.join_next(), if !jobs.is_empty() => {
                // A job that panicked has lost its slice's turn: that is a bug, and the wiring stops the process.
                let Ok((place, tries, outcome)) = done else { return };
                match outcome {
                    Outcome::Done => {
                        if place.0.slices()[place.1].lock().end_turn() {
                            core.flush.push(place);
                        }
                    }
                    Outcome::Wait(at) => {
                        place.0.slices()[place.1].lock().postpone_turn();
                        ticket += 1;
                        retries.push(Reverse((at, ticket)));
                        waiting.insert(ticket, (place, tries));
                    }
                    Outcome::Failed => {
                        place.0.slices()[place.1].lock().postpone_turn();
                        let longest = if stopping { LAST_RETRY } else { MAX_RETRY };
                        let wait = (flush.max(1) << tries.min(5)).min(longest);
                        let at = core.clock.now() + wait / 2 + rand::random_range(0..=wait / 2);
                        ticket += 1;
                        retries.push(Reverse((at, ticket)));
                        waiting.insert(ticket, (place, tries + 1));
                    }
                }
            }
            () = slow.more.notified() => {}
            () = core.flush.notify.notified(), if !woken => woken = true,
            // After a quiet time the turn is now; in a busy one it comes once per flush interval.
            () = core.clock.sleep_until(next_turn), if woken => {
                woken = false;
                next_turn = core.clock.now() + if stopping { 0 } else { flush };
                pending.extend(std::mem::take(&mut *core.flush.dirty.lock()).into_iter().map(|place| (place, 0)));
            }
            () = retry_due => {
                let now = core.clock.now();
                while let Some(Reverse((at, number))) = retries.peek().copied() {
                    if at > now { break }
                    retries.pop();
                    pending.extend(waiting.remove(&number));
                }
            }
        }
    }
}

/// One slice's turn.
async fn job(core: &Core, room: &Arc<Room>, place: usize) -> Outcome {
    let slice = &room.slices()[place];
    slice.lock().start_turn();
    let started = core.clock.now();
    let outcome = match work(core, room, slice).await {
        Ok(None) => Outcome::Done,
        Ok(Some(at)) => Outcome::Wait(at),
        Err(why) => {
            tracing::debug!(live_id = %room.record.live, slice = slice.id.index, error = %why, "flush failed, will try again");
            Outcome::Failed
        }
    };
    match outcome {
        // Dashboards may wait for it, whether or not it changed a figure.
        Outcome::Done => {
            slice.lock().unconfirmed.confirm();
            core.changed.mark(room);
        }
        Outcome::Failed | Outcome::Wait(_) => slice.lock().unconfirmed.put_back(),
    }
    core.metrics.flush_seconds.observe((core.clock.now() - started) as f64 / 1_000.0);
    outcome
}

/// Answers until when the slice has to wait, if it could not be finished for that.
async fn work(core: &Core, room: &Arc<Room>, slice: &Slice) -> StoreResult<Option<Millis>> {
    let checked = check_fans(core, room, slice).await;
    let own = core.own_lease.incarnation();
    let occasion = Occasion {
        knows_open: core.clock.now().saturating_sub(room.last_touch()) < millis(core.config.lease),
        leaves: core.removals_a_call(),
    };
    let mut turn = {
        let mut state = slice.lock();
        if std::mem::replace(&mut state.incarnation, own.number) != own.number {
            // Under a new id the store holds nobody.
            state.ledger.lose();
        }
        Turn::new(occasion, &state.ledger)
    };
    while room.end().is_none() {
        let now = core.clock.now();
        if slice.lock().registers_next() && !core.own_lease.may_register(now, core.config.lease_refresh * 5 / 2) {
            return Ok(Some(now + REGISTER_WAIT));
        }
        // The lock is let go of before the step is taken: the guard lives in this statement only.
        let step = turn.next(&mut slice.lock().ledger);
        match step {
            Step::Touch => upkeep::touch(core, room).await?,
            Step::Call(draft) => turn.heard(apply(core, room, slice, (&own.id, &draft)).await?),
            // Nothing can be sent to a slice that lost everything, or before it was read; so nothing is held up.
            Step::Confirm | Step::ReadBack => match core.flush.whole_at(slice, core.clock.now()) {
                None if step == Step::Confirm => assert_again(core, room, slice).await?,
                None => read_back(core, room, slice, &own.id).await?,
                Some(at) => return Ok(Some(at)),
            },
            Step::Over => upkeep::over(core, room).await?,
            Step::GiveUp => {
                return Err(StoreError::Nonsense("members keep changing that only this gateway may change".to_owned()));
            }
            Step::Done => break,
        }
    }
    checked?;
    // What came up meanwhile has a turn of its own: no slice keeps the flusher to itself.
    let mut state = slice.lock();
    if !state.ledger.is_dirty() {
        state.drift = 0;
    }
    let more = room.end().is_none() && state.is_dirty();
    drop(state);
    if more {
        core.flush.mark(room, slice.id.index as usize - 1);
    }
    Ok(None)
}

/// Asks who of the new and the expired are fans. What has no answer is asked again with the next turn.
async fn check_fans(core: &Core, room: &Room, slice: &Slice) -> StoreResult<()> {
    // Those who wait now; who comes while they are asked about has the next turn.
    let mut waiting = slice.lock().unchecked();
    while waiting > 0 && room.end().is_none() {
        waiting = waiting.saturating_sub(MAX_BATCH);
        let users = slice.lock().take_unchecked();
        if users.is_empty() {
            break;
        }
        match core.fan_check.ask(&room.record.streamer, &users).await {
            Ok(Some(answers)) => {
                core.metrics.fan_checks.inc_by(users.len() as u64);
                let now = core.clock.now();
                let mut state = slice.lock();
                for (user, is_fan) in users.iter().zip(answers) {
                    state.fan_answered(user, is_fan, now);
                }
            }
            Ok(None) => {}
            Err(why) => {
                slice.lock().return_unchecked(&users);
                return Err(why);
            }
        }
    }
    Ok(())
}

/// Makes one call and takes in its answer.
async fn apply(
    core: &Core,
    room: &Arc<Room>,
    slice: &Slice,
    (own, draft): (&GatewayId, &Draft),
) -> StoreResult<Verdict> {
    let call = Apply {
        slice: slice.id.clone(),
        epoch: room.record.epoch,
        gateway: own.clone(),
        number: draft.number,
        follows: draft.follows,
        joins: draft.joins.clone(),
        leaves: draft.leaves.clone(),
    };
    let reply = core.store.apply(&call).await;
    let verdict = {
        let mut state = slice.lock();
        match &reply {
            Ok(reply) => state.ledger.answered(draft, reply),
            Err(_) => {
                state.ledger.failed(draft);
                Verdict::Settled
            }
        }
    };
    match reply? {
        ApplyReply::Done(view) => {
            core.metrics.flushed_members.inc_by((draft.joins.len() + draft.leaves.len()) as u64);
            slice.lock().written = core.clock.now();
            core.note_card(room, slice.id.index as usize - 1, (view.card, view.version));
        }
        // The others may have lost as much, and need not learn it one by one.
        ApplyReply::Unknown => {
            core.own_lease.doubt();
            core.gossip.doubt(&room.record.live);
        }
        ApplyReply::Closed | ApplyReply::Newer(_) | ApplyReply::Old | ApplyReply::Late(_) => {}
    }
    Ok(verdict)
}

/// The entry is gone. The record is read first: only an open epoch is asserted again.
async fn assert_again(core: &Core, room: &Arc<Room>, slice: &Slice) -> StoreResult<()> {
    upkeep::touch(core, room).await?;
    let mut state = slice.lock();
    if room.end().is_none() && state.ledger.is_lost() {
        core.metrics.reasserts.inc();
        state.ledger.assert_again();
    }
    Ok(())
}

/// Reads what the store holds for this gateway in the slice and puts the difference on the list.
async fn read_back(core: &Core, room: &Arc<Room>, slice: &Slice, own: &GatewayId) -> StoreResult<()> {
    // The entry first: a call that is carried out while the pages are read moves its number, and the next call is refused.
    let reading = core.store.read_slice(&slice.id, own).await?;
    let fenced = reading.fence == Some(Fence::Open(room.record.epoch));
    let HeldMembers { users: held, missing: unseen } = core.store.held_members(&slice.id, own).await?;
    let difference = {
        let mut state = slice.lock();
        let mut difference = state.ledger.reconcile(reading.entry.filter(|_| fenced), &held);
        difference.missing += state.ledger.send_again(&unseen);
        state.drift = difference.total();
        difference
    };
    if difference.total() > 0 {
        core.metrics.reconciled.inc();
        core.metrics.drifted("missing", difference.missing as u64);
        core.metrics.drifted("extra", difference.extra as u64);
        let Difference { missing, extra } = difference;
        tracing::warn!(slice = slice.id.index, live_id = %slice.id.live, missing, extra, "the store held other users than wanted; putting it right");
    }
    Ok(())
}

#[cfg(test)]
mod tests;
