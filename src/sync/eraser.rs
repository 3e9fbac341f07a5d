//! Asks for erasures, and hears of those that others asked for. [`crate::sync::erasure`] carries
//! them out.
//!
//! A gateway that was cut off during a whole erasure may still hold something of the user: a socket,
//! a live, a ban. It asks for another erasure of the user then, before it writes anything under a
//! new id ([`crate::sync::lease`]). So whatever it brings back goes again.

use std::collections::HashSet;
use std::sync::Arc;

use crate::base::clock::{Clock, Moment, UnixMillis};
use crate::base::ids::{ErasureId, UserId};
use crate::base::metrics::Metrics;
use crate::presence::erasing::{ErasingUsers, Missed};
use crate::presence::{Room, Rooms};
use crate::store::{Store, StoreError, StoreResult};
use crate::sync::seen::SeenUsers;

/// How many users may be erased at a time. Each gateway erases one after the other, and looks every
/// two seconds who they are.
pub const MOST_AT_A_TIME: usize = 1_000;

/// Why an erasure did not begin.
#[derive(Debug, thiserror::Error)]
pub enum EraseError {
    #[error("{MOST_AT_A_TIME} users are being erased")]
    TooMany,
    #[error(transparent)]
    Store(#[from] StoreError),
}

pub struct Eraser {
    pub store: Arc<dyn Store>,
    pub store_for_clients: Arc<dyn Store>,
    pub erasing: Arc<ErasingUsers>,
    pub rooms: Arc<Rooms>,
    pub seen: Arc<SeenUsers>,
    pub metrics: Arc<Metrics>,
    pub clock: Clock,
    /// When this process began.
    pub started: UnixMillis,
}

impl Eraser {
    /// Begins the erasure of a user, unless one runs; answers the one that runs.
    ///
    /// # Errors
    /// Too many users are being erased, or the store failed.
    pub async fn erase(&self, user: &UserId) -> Result<ErasureId, EraseError> {
        if self.erasing.len() >= MOST_AT_A_TIME && !self.erasing.contains(user) {
            return Err(EraseError::TooMany);
        }
        let id = self.store_for_clients.ask_erasure(user).await?;
        self.erasing.ask(user, &id, self.clock.now());
        tracing::info!(erasure_id = %id, "a user is to be erased");
        Ok(id)
    }

    /// Hears which erasures run, and which ended.
    pub async fn hear(&self) -> StoreResult<()> {
        let read_at = self.clock.now();
        let heard = self.hear_since(read_at).await;
        if heard.is_err() {
            self.erasing.note_deaf(self.clock.now());
        }
        heard
    }

    async fn hear_since(&self, read_at: Moment) -> StoreResult<()> {
        let news = self.store.erasure_news(self.erasing.heard()).await?;
        self.metrics.erasures.set(news.running.len() as i64);
        let age = match news.oldest {
            Some(oldest) => news.at.saturating_sub(oldest) / 1_000,
            None => 0,
        };
        self.metrics.erasure_oldest_seconds.set(age as i64);
        let missed = self.erasing.missed(&news, self.started);
        for user in self.still_here(&missed).await {
            let id = self.store.ask_erasure(&user).await?;
            self.erasing.ask(&user, &id, self.clock.now());
            tracing::warn!(
                erasure_id = %id,
                "this gateway was cut off while a user was erased; the user is erased once more"
            );
        }
        let gone = self.erasing.hear(news, missed, read_at, self.clock.now());
        for user in gone {
            self.seen.forget_user(&user);
        }
        Ok(())
    }

    /// The users of missed erasures of whom this gateway holds something that it would write.
    async fn still_here(&self, missed: &Missed) -> HashSet<UserId> {
        let mut found = HashSet::new();
        if missed.is_empty() {
            return found;
        }
        for audience in self.rooms.audiences() {
            let mut users = match audience.room() {
                Some(room) => named_by(room, self.clock.now()),
                None => Vec::new(),
            };
            for slice in audience.slices() {
                users.extend(slice.users());
                found.extend(users.drain(..).filter(|user| missed.has(user)));
                // A digest takes its time, and there may be many users.
                tokio::task::yield_now().await;
            }
        }
        found
    }
}

/// The streamer of a room, and who is banned from it.
fn named_by(room: &Room, now: Moment) -> Vec<UserId> {
    let mut users = vec![room.record.streamer.clone()];
    for (banned, _) in room.seats.bans.active(now) {
        users.push(banned);
    }
    users
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::store::{Erasures, TakenErasure};
    use crate::testing::{self, FaultyStore, parts_on};

    /// An erasure that this gateway hears nothing of.
    async fn is_erased_elsewhere(store: &FaultyStore, user: &UserId) {
        let id = store.ask_erasure(user).await.unwrap();
        let worker = crate::base::ids::GatewayId::random();
        let TakenErasure { id: taken, .. } = store.take_erasure(&worker).await.unwrap().unwrap();
        assert_eq!(taken, id);
        let job = TakenErasure {
            job: String::new(),
            id,
            user: user.clone(),
            progress: Default::default(),
        };
        store.finish_erasure(&worker, &job).await.unwrap();
    }

    #[tokio::test]
    async fn who_is_still_here_after_a_missed_erasure_is_erased_once_more() {
        let store = Arc::new(FaultyStore::new());
        let parts = parts_on(&Config::default(), store.clone());
        let eraser = &parts.app.eraser;
        let [ann, bob, max] = ["ann", "bob", "max"].map(|id| UserId::parse(id).unwrap());
        let platform = parts.app.rooms.users.clone().unwrap();
        parts.app.rooms.enter(&platform, &ann);
        let room = testing::open_live(&parts.app.sessions, "42").await;
        room.seats.bans.set(
            &max,
            Some(std::time::Duration::from_secs(60)),
            eraser.clock.now(),
        );
        for user in [&ann, &bob, &max, &room.record.streamer] {
            is_erased_elsewhere(&store, user).await;
        }
        // What cannot be asked for now is asked for later.
        store.fails_once("ask_erasure", 0);
        assert!(eraser.hear().await.is_err());
        eraser.hear().await.unwrap();
        let mut running = Vec::new();
        for (user, _) in store.erasure_news(0).await.unwrap().running {
            assert!(eraser.erasing.contains(&user));
            running.push(user);
        }
        let mut expected = vec![ann, max, room.record.streamer.clone()];
        running.sort();
        expected.sort();
        assert_eq!(running, expected);
        assert!(!eraser.erasing.contains(&bob), "nothing is here of bob");
        eraser.hear().await.unwrap();
        assert_eq!(eraser.metrics.erasures.get(), 3);
    }

    fn user(n: usize) -> UserId {
        UserId::parse(&format!("u{n}")).unwrap()
    }

    #[tokio::test]
    async fn no_more_users_are_erased_at_a_time_than_may_be() {
        let store = Arc::new(FaultyStore::new());
        let eraser = parts_on(&Config::default(), store).app.eraser.clone();
        for n in 0..MOST_AT_A_TIME {
            eraser.erase(&user(n)).await.unwrap();
        }
        assert!(matches!(
            eraser.erase(&user(MOST_AT_A_TIME)).await,
            Err(EraseError::TooMany)
        ));
        assert!(eraser.erase(&user(7)).await.is_ok(), "it runs already");
    }
}
