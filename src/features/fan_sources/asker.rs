//! Asks a source of fans outside the store, in a loop of its own, so that a slow or broken source
//! holds up nothing else, neither leaves nor the checks of the store.
//!
//! The loop makes batches of the users whose fan check is due, and asks with a bounded number of
//! calls at a time. After a failed call it asks about the same users again, after a jittered wait.
//! While the source is down, a circuit breaker lets one call try from time to time. No user is
//! turned away meanwhile: known answers stay, unknown users are viewers.

pub mod breaker;
mod waiting;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tokio_util::time::DelayQueue;

use self::breaker::{Breaker, BreakerState, Permit};
use self::waiting::{FanBatch, WaitingSlice, WaitingViewers};
use crate::base::backoff::Backoff;
use crate::base::clock::{Moment, millis};
use crate::base::ids::UserId;
use crate::base::metrics::Metrics;
use crate::peers::core::Core;
use crate::store::fans::{FanAnswers, FanError, FanLookup};

/// The users of a failed call are asked about again.
const BACKOFF: Backoff = Backoff {
    first: 250,
    longest: 4_000,
};

pub struct FanAsker {
    pub core: Arc<Core>,
    pub source: Arc<dyn FanLookup>,
    /// How many calls may be under way.
    pub calls: usize,
}

/// A call that has ended.
struct EndedCall {
    batch: FanBatch,
    answers: Result<FanAnswers, FanError>,
}

/// What the loop remembers.
#[derive(Default)]
struct AskerWork {
    waiting: WaitingViewers,
    retries: DelayQueue<WaitingSlice>,
    breaker: Breaker,
}

impl FanAsker {
    pub async fn run(self, stop: CancellationToken) {
        let mut work = AskerWork::default();
        let mut calls: JoinSet<EndedCall> = JoinSet::new();
        let mut woken = false;
        let mut next_round = Moment::START;
        loop {
            let try_at = self.start_calls(&mut work, &mut calls);
            tokio::select! {
                () = stop.cancelled() => return,
                Some(asked) = calls.join_next(), if !calls.is_empty() => {
                    // A call that panicked is a bug, and the wiring stops the process.
                    let Ok(asked) = asked else { return };
                    self.take_in(&mut work, asked);
                }
                () = self.core.rooms.to_ask.wait(), if !woken => woken = true,
                // After a quiet time the round comes at once; in a busy time, once per flush
                // interval.
                () = self.core.clock.sleep_until(next_round), if woken => {
                    woken = false;
                    next_round = self.core.clock.now() + millis(self.core.config.flush);
                    for slice in self.core.rooms.to_ask.take() {
                        work.waiting.push(WaitingSlice { slice, tries: 0 });
                    }
                }
                Some(due) = work.retries.next(), if !work.retries.is_empty() => {
                    work.waiting.push(due.into_inner());
                }
                () = self.core.clock.sleep_until(try_at.unwrap_or_default()), if try_at.is_some() => {}
            }
        }
    }

    /// Starts as many calls as may go. The time at which the next one may, if the breaker knows it.
    fn start_calls(&self, work: &mut AskerWork, calls: &mut JoinSet<EndedCall>) -> Option<Moment> {
        while calls.len() < self.calls && !work.waiting.is_empty() {
            let now = self.core.clock.now();
            match work.breaker.ask(now) {
                Permit::Go => {}
                Permit::At(then) => return Some(then),
                Permit::AfterTheTrial => return None,
            }
            let Some(batch) = work.waiting.next() else {
                work.breaker.unused(now);
                break;
            };
            self.show(&work.breaker);
            let source = self.source.clone();
            let metrics = self.core.metrics.clone();
            let clock = self.core.clock;
            calls.spawn(async move {
                let started = clock.now();
                let answers = source.ask(&batch.streamer, &batch.users).await;
                metrics
                    .fan_source_seconds
                    .observe(clock.now().since(started) as f64 / 1_000.0);
                let result = match &answers {
                    Ok(_) => "ok",
                    Err(why) => why.label(),
                };
                Metrics::count_result(&metrics.fan_source_calls, result);
                EndedCall { batch, answers }
            });
        }
        None
    }

    fn take_in(&self, work: &mut AskerWork, EndedCall { batch, answers }: EndedCall) {
        work.waiting.ended(&batch);
        let before = work.breaker.state();
        match answers {
            Ok(answers) => {
                work.breaker.answered();
                self.tell_rooms(&batch, &answers);
            }
            Err(why) => {
                work.breaker.failed(self.core.clock.now(), rand::random());
                if before == BreakerState::Closed && work.breaker.state() != BreakerState::Closed {
                    tracing::warn!(
                        error = %why,
                        "the fan source does not answer; who is a known fan stays one"
                    );
                } else {
                    tracing::debug!(
                        error = %why,
                        "a call to the fan source failed, will try again"
                    );
                }
                self.ask_again(work, batch);
            }
        }
        if before != BreakerState::Closed && work.breaker.state() == BreakerState::Closed {
            tracing::info!("the fan source is back");
        }
        self.show(&work.breaker);
    }

    fn tell_rooms(&self, batch: &FanBatch, answers: &FanAnswers) {
        let now = self.core.clock.now();
        self.core
            .metrics
            .fans_checked(answers.iter().flatten().copied());
        let known: HashMap<&UserId, Option<bool>> =
            batch.users.iter().zip(answers.iter().copied()).collect();
        for (WaitingSlice { slice, .. }, users) in &batch.parts {
            let answers = users
                .iter()
                .map(|user| known.get(user).copied().flatten())
                .collect();
            slice.fans_answered(users, &answers, now);
            if slice.is_dirty() && !slice.has_ended() {
                self.core.rooms.flush(slice);
            }
            self.core.rooms.check_fans(slice);
        }
    }

    /// Has the users of a failed call asked about again after a while.
    fn ask_again(&self, work: &mut AskerWork, batch: FanBatch) {
        for (WaitingSlice { slice, tries }, users) in batch.parts {
            slice.return_unchecked(&users);
            // A slice that is queued already takes them along.
            if !slice.has_ended() && slice.queue_ask() {
                let wait = BACKOFF.jittered(tries, rand::random());
                let tries = tries + 1;
                work.retries
                    .insert(WaitingSlice { slice, tries }, Duration::from_millis(wait));
            }
        }
    }

    fn show(&self, breaker: &Breaker) {
        self.core.metrics.fan_breaker.set(match breaker.state() {
            BreakerState::Closed => 0,
            BreakerState::HalfOpen => 1,
            BreakerState::Open(_) => 2,
        });
    }
}

#[cfg(test)]
mod tests;
