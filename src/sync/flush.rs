//! The flusher brings the state in memory to the store: dirty slices take turns, each with one job
//! at a time and one call in flight.
//!
//! A slice is dirty when a fan check is due, when the store must note who was seen, or when its
//! desired state is unsettled. A quiet gateway flushes at once; a busy one every `flush`. At most
//! [`MAX_JOBS`] slices are worked on at a time, which bounds the calls that wait for the store. Users
//! who are said again wait for their time under the [`ResyncLimit`]. A job that fails leaves the
//! slice queued; the next attempt starts from the state at that time.

use crate::peers::core::Core;
use crate::sync::features::Features;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tokio_util::time::DelayQueue;
use tracing::Instrument;

use crate::base::backoff::Backoff;
use crate::base::clock::{Millis, Moment, UnixMillis, millis};
use crate::base::ids::{GatewayId, LiveId, OnlineSet, UserId};
use crate::base::slow_jobs::SlowJobs;
use crate::presence::desired_state::{ApplyVerdict, Draft};
use crate::presence::turn::{TurnContext, TurnStep};
use crate::presence::{Slice, SliceRef};
use crate::store::fans::FanError;
use crate::store::{Apply, ApplyReply, MAX_BATCH, StoreError, StoreResult};
use crate::sync::events::fan_events::FanEvents;
use crate::sync::fan_check::FanCheck;
use crate::sync::keep::Keeper;
use crate::sync::pass::Passer;
use crate::sync::resync_limit::ResyncLimit;
use crate::sync::streamer_timeout::StreamerTimeout;

/// Maximum slices that are worked on at the same time. Slices whose job has taken longer than
/// [`SLOW`] do not count: they wait for a node that hangs, and the slices on other nodes must not
/// wait behind them.
pub const MAX_JOBS: usize = 128;

/// A job that takes this long is waiting for a node that hangs.
const SLOW: Duration = Duration::from_millis(500);

/// Maximum jobs at the same time, slow ones included.
const MAX_ALL_JOBS: usize = 1_024;

/// The longest wait before the flusher retries a failed slice, in ms. The waits grow from the flush
/// interval to 32 times the flush interval.
const MAX_RETRY: Millis = 2_000;

/// The same for the last flush, in ms: little time is left, and the store may be back any moment.
const LAST_RETRY: Millis = 250;

/// How long a slice that needs a new entry waits for this gateway's lease before it looks again, in
/// ms.
const REGISTER_WAIT: Millis = 500;

/// Why a job did not do all it could.
#[derive(Debug, thiserror::Error)]
enum FlushError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the fan check: {0}")]
    Fans(#[from] FanError),
}

/// How a job ended; a time if the slice has to wait until then.
type JobOutcome = Result<Option<Moment>, FlushError>;

pub struct Flusher {
    pub core: Arc<Core>,
    pub fans: Arc<FanCheck>,
    pub keeper: Arc<Keeper>,
    pub resync_limit: Arc<ResyncLimit>,
    pub passer: Arc<Passer>,
    pub features: Features,
    pub streamer_timeout: Arc<StreamerTimeout>,
    /// `None` if fans are no events.
    pub fan_events: Option<Arc<FanEvents>>,
}

/// A slice that waits for a job or has one.
struct FlushAttempt {
    slice: SliceRef,
    /// How many attempts at it have failed.
    tries: u32,
}

impl Flusher {
    /// Runs until told to stop, and then until everything is flushed. It retries until the last
    /// slice succeeds, so the caller that stops the flusher gives it a deadline.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        let flush = millis(self.core.config.flush);
        let mut pending: VecDeque<FlushAttempt> = VecDeque::new();
        let mut retries: DelayQueue<FlushAttempt> = DelayQueue::new();
        let mut jobs: JoinSet<(FlushAttempt, JobOutcome)> = JoinSet::new();
        let mut next_round = Moment::START;
        let mut woken = false;
        let mut stopping = false;
        let slow = Arc::new(SlowJobs::new(SLOW));
        loop {
            if !stopping && stop.is_cancelled() {
                stopping = true;
                next_round = Moment::START;
                // Slices that wait for a retry are tried now.
                while let Some(key) = retries.peek() {
                    pending.push_back(retries.remove(&key).into_inner());
                }
            }
            while jobs.len() < MAX_ALL_JOBS.min(MAX_JOBS + slow.count()) {
                let Some(next) = pending.pop_front() else {
                    break;
                };
                let this = self.clone();
                let slow = slow.clone();
                jobs.spawn(async move {
                    let id = &next.slice.id;
                    let span = tracing::debug_span!("flush", set = %id.set, slice = id.index);
                    let outcome = slow.watch(this.job(&next.slice)).instrument(span).await;
                    (next, outcome)
                });
            }
            self.core
                .metrics
                .flush_queue
                .set((pending.len() + retries.len()) as i64);
            self.core.metrics.flush_in_flight.set(jobs.len() as i64);

            let is_idle = jobs.is_empty() && pending.is_empty() && retries.is_empty();
            if stopping && is_idle && self.core.rooms.to_flush.len() == 0 {
                return;
            }
            tokio::select! {
                () = stop.cancelled(), if !stopping => {}
                Some(done) = jobs.join_next(), if !jobs.is_empty() => {
                    // A job that panicked has lost its slice's turn. That is a bug, and the wiring
                    // stops the process.
                    let Ok((attempt, outcome)) = done else { return };
                    let FlushAttempt { slice, tries } = attempt;
                    if let Some(room) = slice.room() {
                        // What waits for the store bears on the quality of the figures.
                        self.core.rooms.show(room);
                    }
                    let (wait, tries) = match outcome {
                        Ok(None) => {
                            if slice.lock().end_job() {
                                self.core.rooms.to_flush.push(slice);
                            }
                            continue;
                        }
                        Ok(Some(at)) => (at.since(self.core.clock.now()), tries),
                        Err(_) => (self.retry_delay(tries, stopping), tries + 1),
                    };
                    slice.lock().postpone_job();
                    let attempt = FlushAttempt { slice, tries };
                    retries.insert(attempt, Duration::from_millis(wait));
                }
                () = slow.more() => {}
                () = self.core.rooms.to_flush.wait(), if !woken => woken = true,
                // After a quiet time the round comes at once; in a busy time, once per flush
                // interval.
                () = self.core.clock.sleep_until(next_round), if woken => {
                    woken = false;
                    next_round = self.core.clock.now() + if stopping { 0 } else { flush };
                    for slice in self.core.rooms.to_flush.take() {
                        pending.push_back(FlushAttempt { slice, tries: 0 });
                    }
                }
                Some(due) = retries.next(), if !retries.is_empty() => {
                    pending.push_back(due.into_inner());
                }
            }
        }
    }

    /// The wait before the flusher retries a slice after `tries` failed attempts, in ms.
    fn retry_delay(&self, tries: u32, stopping: bool) -> Millis {
        let longest = if stopping { LAST_RETRY } else { MAX_RETRY };
        let first = millis(self.core.config.flush).max(1);
        let backoff = Backoff {
            first,
            longest: longest.min(first * 32),
        };
        backoff.jittered(tries, rand::random())
    }

    async fn job(&self, slice: &SliceRef) -> JobOutcome {
        slice.lock().start_job();
        slice.turn_begins();
        let started = self.core.clock.now();
        let outcome = self.work(slice).await;
        for (slice, size) in slice.turn_ends() {
            self.passer.note_size(&slice, size);
        }
        match &outcome {
            Ok(None) => {
                slice.lock().confirm_job();
            }
            Ok(Some(_)) => {}
            Err(why) => {
                tracing::debug!(
                    set = %slice.id.set, slice = slice.id.index, error = %why,
                    "flush failed, will try again"
                );
            }
        }
        self.core
            .metrics
            .flush_seconds
            .observe(self.core.clock.now().since(started) as f64 / 1_000.0);
        outcome
    }

    async fn work(&self, slice: &SliceRef) -> JobOutcome {
        let checked = self.check_fans(slice).await;
        let own = self.core.gateways.own.life();
        let confirmed = slice.confirmed_open_at();
        let refused = slice.lock().refused_at();
        let context = TurnContext {
            // A refusal may mean that the epoch is over.
            known_open: self.core.clock.now().since(confirmed) < millis(self.core.config.lease)
                && (refused == Moment::START || confirmed > refused),
            most_users: slice.most_users_a_call(),
        };
        let mut turn = slice.lock().begin_turn(own.number, context);
        while !slice.has_ended() {
            let now = self.core.clock.now();
            if self.core.gateways.own.life().number != own.number {
                // The gateway was buried meanwhile: nothing more may be registered under the old
                // id.
                return Ok(Some(now));
            }
            if slice.lock().registers_next() && !self.may_register(slice) {
                return Ok(Some(now + REGISTER_WAIT));
            }
            if !turn.may_say_again()
                && slice.lock().desired().says_again()
                && self.resync_limit.at(slice, now).is_none()
            {
                turn.allow_to_say_again();
            }
            // The guard lives in this statement only: the lock is free again before the step is
            // taken.
            let step = slice.lock().next_step(&mut turn);
            match step {
                TurnStep::CheckRecord => self.keep(slice).await?,
                TurnStep::Complain(incarnation) => {
                    self.passer
                        .complain(&slice.id, slice.epoch(), incarnation)
                        .await?;
                    slice.lock().complained();
                }
                TurnStep::Call(draft) => {
                    let verdict = self.apply(slice, &own.id, &draft).await?;
                    turn.note_verdict(verdict, slice.lock().desired());
                }
                TurnStep::Over => self.fence_says_over(slice).await?,
                TurnStep::GiveUp => {
                    let what = "the store refuses one call after the other";
                    return Err(StoreError::Nonsense(what.to_owned()).into());
                }
                TurnStep::Done => break,
            }
        }
        checked?;
        self.record_attendance(slice).await;
        if slice.unrecorded() > 0 && !slice.has_ended() {
            let part = "a part of the store that keeps attendance";
            return Err(StoreError::Lost(part.to_owned()).into());
        }
        self.note_seen(slice).await?;
        // Who is said again waits for a time; who comes or leaves meanwhile does not.
        if slice.lock().desired().says_again() && !slice.has_ended() {
            return Ok(Some(
                self.core.clock.now() + millis(self.core.config.flush).max(1),
            ));
        }
        // Changes that came meanwhile have the next turn, so that no slice keeps the flusher to
        // itself.
        if slice.is_dirty() && !slice.has_ended() {
            self.core.rooms.flush(slice);
        }
        Ok(None)
    }

    /// Asks which of the new and the expired users are fans. The next turn asks again about users
    /// without an answer.
    async fn check_fans(&self, slice: &SliceRef) -> Result<(), FanError> {
        let Some(room) = slice.room() else {
            return Ok(());
        };
        // Only users who wait now: users who join during the check have the next turn.
        let mut waiting = slice.due_in_turn();
        let mut all_known = true;
        while waiting > 0 && !slice.has_ended() {
            waiting = waiting.saturating_sub(MAX_BATCH);
            let users = slice.take_unchecked();
            if users.is_empty() {
                break;
            }
            match self.fans.ask(&room.record.streamer, &users).await {
                Ok(answers) => {
                    all_known =
                        slice.fans_answered(&users, &answers, self.core.clock.now()) && all_known;
                }
                Err(why) => {
                    slice.return_unchecked(&users);
                    return Err(why);
                }
            }
        }
        if all_known {
            Ok(())
        } else {
            Err(FanError::Partly)
        }
    }

    /// Notes when users were here last who came and went between two calls, so that no change of the
    /// set tells it. It notes users in the store, and streamers for their timeouts.
    async fn note_seen(&self, slice: &SliceRef) -> StoreResult<()> {
        loop {
            let seen = slice.take_seen();
            if seen.is_empty() {
                return Ok(());
            }
            if slice.id.set == OnlineSet::Streamers {
                for (streamer, at) in &seen {
                    self.streamer_timeout.left(streamer, Some(*at));
                }
                continue;
            }
            let told: Vec<_> = seen
                .iter()
                .map(|(user, at)| (user.clone(), self.unix(*at)))
                .collect();
            if let Err(why) = self.core.store.note_seen(&told, Duration::ZERO).await {
                slice.note_seen(seen);
                return Err(why);
            }
        }
    }

    /// Tells the store which fans come. Fans whose part of the store is away wait, and do not hold
    /// up the others.
    async fn record_attendance(&self, slice: &SliceRef) {
        let Some(room) = slice.room() else {
            return;
        };
        let mut waiting = slice.unrecorded();
        while waiting > 0 {
            let users = slice.take_unrecorded();
            waiting = waiting.saturating_sub(users.len().max(1));
            let missed = self
                .features
                .fans_come(&room.record.live_epoch(), &users)
                .await;
            slice.add_unrecorded(&missed);
            if !missed.is_empty() {
                return;
            }
        }
    }

    /// The Unix times of moments on this gateway's clock. An unknown moment counts as now.
    fn unix_times(&self, at: &[Option<Moment>]) -> Vec<UnixMillis> {
        let now = self.core.clock.now();
        at.iter().map(|at| self.unix(at.unwrap_or(now))).collect()
    }

    /// The Unix time of a moment on this gateway's clock.
    fn unix(&self, at: Moment) -> UnixMillis {
        self.core
            .clock
            .unix()
            .saturating_sub(self.core.clock.now().since(at))
    }

    /// Whether this gateway may make an entry in a slice now. After the slice refused a call, the
    /// gateway must first have renewed its lease: it may have been buried.
    fn may_register(&self, slice: &Slice) -> bool {
        let own = &self.core.gateways.own;
        let refused = slice.lock().refused_at();
        if refused != Moment::START && own.renewed_at() <= refused {
            own.renew_now();
            return false;
        }
        own.may_register(
            self.core.clock.now(),
            self.core.config.lease_refresh * 5 / 2,
        )
    }

    async fn apply(
        &self,
        slice: &SliceRef,
        own: &GatewayId,
        draft: &Draft,
    ) -> StoreResult<ApplyVerdict> {
        // The attendance comes before the set: every fan who was in the set is in the attendance,
        // even if this gateway dies now.
        slice.add_unrecorded(&draft.fans);
        self.record_attendance(slice).await;
        // The gateway may have been frozen, or buried, since it was asked whether it may make
        // entries.
        let present = self.core.gateways.own.life().id == *own;
        if !present || (draft.follows.is_none() && !self.may_register(slice)) {
            slice.lock().failed(draft, self.core.clock.now());
            return Err(StoreError::Lost(
                "the lease, before an entry was made".to_owned(),
            ));
        }
        let left = slice.left(&draft.leaves);
        let telling = slice.telling(draft);
        let call = Apply {
            slice: slice.id.clone(),
            epoch: slice.epoch(),
            gateway: own.clone(),
            number: draft.number,
            follows: draft.follows,
            known: slice.size(),
            more: draft.more,
            bye: draft.bye,
            joins: draft.joins.clone(),
            fans: draft.fans.clone(),
            since: slice.since(
                draft.joins.iter().chain(&draft.fans),
                self.core.clock.unix(),
            ),
            lives: telling.lives.clone(),
            leaves: draft.leaves.clone(),
            left: left.as_deref().map(|left| self.unix_times(left)),
            uniques: slice.room().is_some_and(|room| room.uniques),
        };
        self.core
            .metrics
            .flush_batch_members
            .observe(draft.len() as f64);
        let asked = self.core.clock.now();
        let reply = self.core.store.apply(&call).await;
        let verdict = match &reply {
            Ok(reply) => slice.lock().answered(draft, reply, self.core.clock.now()),
            Err(_) => {
                slice.lock().failed(draft, self.core.clock.now());
                ApplyVerdict::Settled
            }
        };
        if matches!(reply, Ok(ApplyReply::Done(_))) {
            self.pass_on(telling.moved, slice.take_anybody_moved());
        } else {
            slice.not_told(telling);
        }
        match reply? {
            ApplyReply::Done(size) => {
                self.core.metrics.flushed_members.inc_by(draft.len() as u64);
                slice.note_left_told(&draft.leaves, left.as_deref());
                if !slice.hold_back(size) {
                    self.passer.note_size(slice, size);
                }
                if slice.id.set == OnlineSet::Streamers {
                    let heard = left.unwrap_or_default();
                    for (streamer, heard) in draft.leaves.iter().zip(heard) {
                        self.streamer_timeout.left(streamer, heard);
                    }
                }
                self.core.rooms.note_proven(slice, asked);
                if let Some(events) = &self.fan_events
                    && let Some(room) = slice.room()
                {
                    events.note(room, draft);
                }
            }
            ApplyReply::Refused(refusal) => {
                if let Some(size) = refusal.size {
                    self.passer.note_size(slice, size);
                }
                self.claims_lost(slice);
            }
            ApplyReply::Over | ApplyReply::Late(_) => {}
        }
        Ok(verdict)
    }

    /// Has the gateways that want to know told who came to lives and who left them, as the store
    /// knows by now.
    fn pass_on(&self, moved: Vec<(LiveId, UserId)>, anybody: bool) {
        if anybody {
            self.core.rooms.anybody_moved();
        }
        // This gateway has no room of these lives, so it does not know whether anybody listens
        // there.
        let mut elsewhere: HashMap<LiveId, Vec<UserId>> = HashMap::new();
        for (live, user) in self.core.rooms.moved(moved) {
            elsewhere.entry(live).or_default().push(user);
        }
        for (live, users) in elsewhere {
            self.core.to_peers.moved(&live, &users);
        }
    }

    /// Makes sure that the epoch is still open. The platform's always is, and has no record.
    async fn keep(&self, slice: &SliceRef) -> StoreResult<()> {
        match slice.room() {
            Some(room) => self.keeper.keep(room).await,
            None => Ok(()),
        }
    }

    async fn fence_says_over(&self, slice: &SliceRef) -> StoreResult<()> {
        match slice.room() {
            Some(room) => self.keeper.fence_says_over(room).await,
            None => Err(StoreError::Nonsense(
                "a fence ends a set of the platform".to_owned(),
            )),
        }
    }

    /// Notes that the store lost what this gateway claims in a slice, unless it only followed
    /// another call than this gateway thought.
    fn claims_lost(&self, slice: &SliceRef) {
        let says_again = slice.lock().desired().must_register();
        if !says_again {
            return;
        }
        self.core.metrics.reasserts.inc();
        self.core.gateways.own.note_entry_lost();
        match slice.room() {
            // The peers may have lost their entries too, and need not find out one by one.
            Some(room) => self.core.to_peers.doubt(&room.record.live),
            None => slice.forget_moves(),
        }
    }
}
