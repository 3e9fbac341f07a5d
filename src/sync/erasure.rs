//! Erases users. Each gateway reads every two seconds who is being erased: it keeps these users out,
//! closes their sockets, and lifts their bans in its rooms. One gateway at a time works on a job, as
//! with the jobs for followers: if it dies, another goes on where it was.
//!
//! The worker waits until every gateway knows, and no write can arrive that began before. Then it
//! goes over the store in passes, and ends the job after a pass that found nothing. What gateways
//! have to take away themselves, a user who is online on a gateway that just died, say, makes the
//! next pass wait a little. Between its steps the worker rests for as long as they took, so that
//! joins find the store free at least half of the time.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::base::clock::{Clock, Millis};
use crate::base::ids::{ErasureId, GatewayId, LiveId, UserId};
use crate::base::metrics::Metrics;
use crate::presence::Rooms;
use crate::presence::erasing::ErasingUsers;
use crate::store::{CloseReason, Store, StoreResult, TakenErasure};
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

/// Asks for erasures.
pub struct Eraser {
    pub store: Arc<dyn Store>,
    pub erasing: Arc<ErasingUsers>,
    pub clock: Clock,
}

impl Eraser {
    /// Begins the erasure of a user, unless one runs; answers the one that runs.
    pub async fn erase(&self, user: &UserId) -> StoreResult<ErasureId> {
        let id = self.store.ask_erasure(user).await?;
        self.erasing.ask(user, self.clock.now());
        tracing::info!(erasure_id = %id, "a user is to be erased");
        Ok(id)
    }
}

/// Keeps users out who are being erased, and works on the jobs.
pub struct Erasing {
    pub store: Arc<dyn Store>,
    pub erasing: Arc<ErasingUsers>,
    pub rooms: Arc<Rooms>,
    pub lives: Arc<Lives>,
    pub metrics: Arc<Metrics>,
    pub clock: Clock,
}

impl Erasing {
    /// Runs until told to stop. Other gateways then take over the job.
    pub async fn run(self, stop: CancellationToken) {
        tokio::select! {
            () = stop.cancelled() => {}
            () = self.watch() => {}
            () = self.work() => {}
        }
    }

    /// Looks who is being erased.
    async fn watch(&self) {
        loop {
            let read_at = self.clock.now();
            match self.store.being_erased().await {
                Ok(users) => {
                    self.metrics.erasures.set(users.len() as i64);
                    self.erasing.replace(users, read_at, self.clock.now());
                }
                Err(error) => tracing::debug!(%error, "could not look who is being erased"),
            }
            self.clear_rooms().await;
            tokio::select! {
                () = self.erasing.asked() => {}
                () = sleep(LOOK_EVERY) => {}
            }
        }
    }

    /// Forgets the bans of the users in the rooms here, and closes their own lives: a gateway gives
    /// bans and records back to a store that has none.
    async fn clear_rooms(&self) {
        let users = self.erasing.all();
        if users.is_empty() {
            return;
        }
        for user in &users {
            for room in self.rooms.of_streamer(user) {
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
        let now = self.clock.now();
        for room in self.rooms.all() {
            for user in &users {
                if room.bans.remaining(user, now).is_some() {
                    room.bans.set(user, None, now);
                }
            }
        }
    }

    async fn work(&self) {
        let worker = GatewayId::random();
        loop {
            sleep(LOOK_EVERY).await;
            while !self.erasing.all().is_empty() {
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
                    tracing::debug!(
                        erasure_id = %taken.id, %error,
                        "a step of an erasure failed, will try again"
                    );
                    sleep(REST).await;
                }
            }
        }
    }

    fn all_know(&self, user: &UserId) -> bool {
        let since = self.erasing.since(user);
        since.is_some_and(|since| self.clock.now() >= since + ALL_KNOW_AFTER)
    }

    async fn step(&self, worker: &GatewayId, taken: &mut TakenErasure) -> StoreResult<Next> {
        let began = Instant::now();
        let place = taken.progress.place.clone();
        let step = self.store.erase_some(&taken.user, &place).await?;
        taken.progress.add(&step);
        for live in &step.open_lives {
            self.close(live, &taken.user).await?;
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
        self.metrics.erasures_ended.inc();
        tracing::info!(erasure_id = %taken.id, found = ?taken.progress.found, "a user was erased");
        Ok(Next::Done)
    }

    /// Closes a live that the user owns. The next pass erases its record.
    async fn close(&self, live: &LiveId, user: &UserId) -> StoreResult<()> {
        let record = match self.store.load_live(live).await? {
            Some(record) if record.streamer == *user => record,
            _ => return Ok(()),
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
    use crate::store::{Edge, Erasures, Follows, OnlineUsers};
    use crate::testing::{FaultyStore, parts_on};

    #[tokio::test(start_paused = true)]
    async fn a_job_goes_on_after_an_error_and_its_user_comes_back_as_a_new_one() {
        let store = Arc::new(FaultyStore::new());
        let parts = parts_on(&Config::default(), store.clone());
        let [ann, bob] = ["ann", "bob"].map(|id| UserId::parse(id).unwrap());
        store.follow(&ann, &bob).await.unwrap();
        let eraser = &parts.app.eraser;
        let id = eraser.erase(&ann).await.unwrap();
        assert_eq!(eraser.erase(&ann).await.unwrap(), id, "it runs already");
        assert!(eraser.erasing.contains(&ann));
        store.fails_once("erase_some", 0);
        let stop = CancellationToken::new();
        let running = tokio::spawn(parts.erasing.run(stop.clone()));
        let report = loop {
            sleep(Duration::from_secs(1)).await;
            if let Some(ended) = store.erasure(&id).await.unwrap().unwrap().ended {
                break ended;
            }
        };
        assert_eq!(
            serde_json::to_string(&report.found).unwrap(),
            r#"{"following":1}"#
        );
        assert_eq!(store.follow_count(&bob, Edge::Followers).await, Ok(0));
        sleep(LOOK_EVERY * 2).await;
        assert!(!eraser.erasing.contains(&ann));
        assert_ne!(eraser.erase(&ann).await.unwrap(), id, "the next erasure");
        stop.cancel();
        running.await.unwrap();
        assert!(
            store.presence_of(&[ann]).await.unwrap()[0]
                .last_seen
                .is_none()
        );
    }
}
