//! Carries out erasures. Each gateway hears every two seconds who is being erased
//! ([`crate::features::erasure::eraser`]): it keeps these users out, closes their sockets, and lifts their bans in
//! its rooms. One gateway at a time works on a job, as with the jobs for followers: if it dies,
//! another goes on where it was.
//!
//! The worker waits until every gateway knows, and no write can arrive that began before. Then it
//! goes over the store in passes, and ends the job after a pass that found nothing. What gateways
//! have to take away themselves, a user who is online on a gateway that just died, say, makes the
//! next pass wait a little. So does an error: nobody knows what the store did, or lost, with it.
//! Between its steps the worker rests for as long as they took, so that joins find the store free at
//! least half of the time.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::base::clock::Millis;
use crate::base::ids::{GatewayId, LiveId, UserId};
use crate::features::erasure::eraser::Eraser;
use crate::features::erasure::store::ErasureStore;
use crate::features::erasure::store::TakenErasure;
use crate::peers::core::Core;
use crate::store::{CloseReason, StoreError, StoreResult};
use crate::sync::lives::{LiveError, Lives};

/// How often a gateway looks who is being erased.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// This long after one gateway learned of an erasure, every gateway that reaches the store has
/// learned of it, and no write can arrive any more that a gateway began before: a change of the
/// follow graph or of a login holds for 8 s.
const ALL_KNOW_AFTER: Millis = 10_000;
/// The rest before another pass, if the last one found what it could not erase itself, or was cut
/// short by an error.
const REST: Duration = Duration::from_secs(1);
/// The longest rest after a step.
const MAX_REST: Duration = Duration::from_millis(200);
/// How often a gateway says of a job that it fails.
const COMPLAIN_EVERY: Duration = Duration::from_secs(60);

/// Keeps users out who are being erased, and works on the jobs.
pub struct ErasureWorker {
    pub core: Arc<Core>,
    pub store: Arc<dyn ErasureStore>,
    pub eraser: Arc<Eraser>,
    pub lives: Arc<Lives>,
}

impl ErasureWorker {
    /// Runs until told to stop. Other gateways then take over the job.
    pub async fn run(self, stop: CancellationToken) {
        tokio::select! {
            () = stop.cancelled() => {}
            () = self.watch() => {}
            () = self.clear() => {}
            () = self.work() => {}
        }
    }

    /// Hears who is being erased.
    async fn watch(&self) {
        loop {
            if let Err(error) = self.eraser.hear().await {
                tracing::debug!(%error, "could not look who is being erased");
            }
            tokio::select! {
                () = self.core.erasing.asked() => {}
                () = sleep(LOOK_EVERY) => {}
            }
        }
    }

    /// Clears the rooms here of users, beside [`Self::watch`]: it waits for the store.
    async fn clear(&self) {
        loop {
            let users = self.core.erasing.to_clear().await;
            self.lift_bans(&users).await;
            for user in &users {
                if self.core.erasing.contains(user) {
                    self.close_own_lives(user).await;
                }
            }
        }
    }

    /// Forgets the bans of users in the rooms here: a gateway gives bans back to a store that has
    /// none. It does so once more when the erasure has ended, because a room may have read a ban
    /// from the store meanwhile.
    async fn lift_bans(&self, users: &[UserId]) {
        for room in self.core.rooms.all() {
            let now = self.core.clock.now();
            for user in users {
                if room.seats.bans.remaining(user, now).is_some() {
                    room.seats.bans.set(user, None, now);
                }
            }
            tokio::task::yield_now().await;
        }
    }

    /// Closes the lives of a user who is being erased. The passes close those of which this fails.
    async fn close_own_lives(&self, user: &UserId) {
        for room in self.core.rooms.of_streamer(user) {
            let record = room.record_now();
            if let Err(error) = self
                .lives
                .close_quietly(&record, CloseReason::Requested)
                .await
            {
                tracing::debug!(live_id = %record.live, %error, "a live was not closed");
            }
        }
    }

    async fn work(&self) {
        let worker = GatewayId::random();
        loop {
            sleep(LOOK_EVERY).await;
            while !self.core.erasing.is_empty() {
                match self.store.take_erasure(&worker).await {
                    Ok(Some(taken)) => self.erase(&worker, taken).await,
                    Ok(None) => break,
                    Err(error) => {
                        tracing::debug!(%error, "could not look for erasures");
                        break;
                    }
                }
            }
        }
    }

    /// Works on a job until it is done, or another gateway has taken it over.
    async fn erase(&self, worker: &GatewayId, mut taken: TakenErasure) {
        let mut complained: Option<Instant> = None;
        loop {
            let next = match self.store.keep_erasure(worker, &taken).await {
                Ok(false) => return,
                Ok(true) if !self.all_know(&taken.user) => Ok(Next::After(REST)),
                Ok(true) => self.step(worker, &mut taken).await,
                Err(error) => Err(error),
            };
            match next {
                Ok(Next::Done) => return,
                Ok(Next::After(rest)) => sleep(rest).await,
                Err(error) => {
                    taken.progress.is_dirty = true;
                    let is_due = complained.is_none_or(|at| at.elapsed() >= COMPLAIN_EVERY);
                    if is_due {
                        complained = Some(Instant::now());
                        tracing::warn!(
                            erasure_id = %taken.id, %error,
                            "a step of an erasure failed, will try again until it works"
                        );
                    }
                    sleep(REST).await;
                }
            }
        }
    }

    fn all_know(&self, user: &UserId) -> bool {
        let since = self.core.erasing.known_since(user);
        since.is_some_and(|since| self.core.clock.now() >= since + ALL_KNOW_AFTER)
    }

    async fn step(&self, worker: &GatewayId, taken: &mut TakenErasure) -> StoreResult<Next> {
        let began = Instant::now();
        let place = taken.progress.place.clone();
        let step = self.store.erase_some(&taken.user, &place).await?;
        taken.progress.add(&step);
        for live in &step.open_lives {
            self.close(live, &taken.user).await?;
        }
        if let Some(why) = step.failed {
            return Err(why);
        }
        let rest = Next::After(began.elapsed().min(MAX_REST));
        if let Some(next) = step.next {
            taken.progress.place = next;
            return Ok(rest);
        }
        if taken.progress.is_dirty {
            // The next pass begins at the beginning.
            taken.progress.place = String::new();
            taken.progress.is_dirty = false;
            return Ok(Next::After(REST));
        }
        self.store.finish_erasure(worker, taken).await?;
        self.core.metrics.erasures_ended.inc();
        tracing::info!(erasure_id = %taken.id, found = ?taken.progress.found, "a user was erased");
        Ok(Next::Done)
    }

    /// Closes a live that the user owns. The next pass erases its record.
    async fn close(&self, live: &LiveId, user: &UserId) -> StoreResult<()> {
        let record = match self.store.load_live(live).await {
            Ok(Some(record)) if record.streamer == *user => record,
            // The next pass erases a record that nobody can read.
            Ok(_) | Err(StoreError::Nonsense(_)) => return Ok(()),
            Err(why) => return Err(why),
        };
        match self
            .lives
            .close_epoch(&record, CloseReason::Requested)
            .await
        {
            Err(LiveError::Store(why)) => Err(why),
            _ => Ok(()),
        }
    }
}

/// What comes after a step.
enum Next {
    Done,
    After(Duration),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::features::erasure::store::{EndedErasure, Erasures};
    use crate::store::{Edge, Follows, OnlineUsers};
    use crate::testing::{FaultyStore, parts_on, run_task_of_feature};

    async fn report(store: &FaultyStore, user: &UserId) -> EndedErasure {
        let id = store.ask_erasure(user).await.unwrap();
        loop {
            sleep(Duration::from_millis(50)).await;
            if let Some(ended) = store.erasure(&id).await.unwrap().unwrap().ended {
                return ended;
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_job_goes_on_after_an_error_and_its_user_comes_back_as_a_new_one() {
        let store = Arc::new(FaultyStore::new());
        let parts = parts_on(&Config::default(), store.clone());
        let [ann, bob] = ["ann", "bob"].map(|id| UserId::parse(id).unwrap());
        store.follow(&ann, &bob).await.unwrap();
        let eraser = parts.app.of::<Arc<Eraser>>().clone();
        let id = eraser.erase(&ann).await.unwrap();
        assert_eq!(eraser.erase(&ann).await.unwrap(), id, "it runs already");
        assert!(eraser.core.erasing.contains(&ann));
        store.fails_once("erase_some", 0);
        let stop = CancellationToken::new();
        let running = tokio::spawn(run_task_of_feature(parts, "erasure", stop.clone()));
        let report = report(&store, &ann).await;
        assert_eq!(
            serde_json::to_string(&report.found).unwrap(),
            r#"{"following":1}"#
        );
        assert_eq!(store.follow_count(&bob, Edge::Followers).await, Ok(0));
        sleep(LOOK_EVERY * 2).await;
        assert!(!eraser.core.erasing.contains(&ann));
        assert_ne!(eraser.erase(&ann).await.unwrap(), id, "the next erasure");
        stop.cancel();
        running.await.unwrap();
        assert!(
            store.presence_of(&[ann]).await.unwrap()[0]
                .last_seen
                .is_none()
        );
    }

    /// How long an erasure of nobody takes that a fault of the store meets after this time.
    async fn lasts(call: &'static str, fault_after: Duration) -> Duration {
        let store = Arc::new(FaultyStore::new());
        let parts = parts_on(&Config::default(), store.clone());
        let ann = UserId::parse("ann").unwrap();
        let began = Instant::now();
        parts.app.of::<Arc<Eraser>>().erase(&ann).await.unwrap();
        let stop = CancellationToken::new();
        let running = tokio::spawn(run_task_of_feature(parts, "erasure", stop.clone()));
        sleep(fault_after).await;
        store.fails_once(call, 0);
        report(&store, &ann).await;
        stop.cancel();
        running.await.unwrap();
        began.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn an_error_needs_another_pass_and_who_cannot_hear_holds_an_erasure_up() {
        // A call of another name never fails.
        let undisturbed = lasts("none", Duration::ZERO).await;
        assert!(
            undisturbed >= Duration::from_millis(ALL_KNOW_AFTER),
            "{undisturbed:?}"
        );
        let with_error = lasts("finish_erasure", Duration::ZERO).await;
        assert!(
            with_error >= undisturbed + REST * 2,
            "{with_error:?}: the error, and the rest before the pass"
        );
        let deaf = Duration::from_secs(5);
        let unheard = lasts("erasure_news", deaf).await;
        assert!(
            unheard >= deaf + Duration::from_millis(ALL_KNOW_AFTER),
            "{unheard:?}: whoever cannot hear now may not have heard at all"
        );
    }
}
