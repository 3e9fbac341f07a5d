//! Asks for erasures, and hears of those that others asked for. [`crate::features::erasure::worker`] carries
//! them out.
//!
//! A gateway that was cut off during a whole erasure may still hold something of the user: a socket,
//! a live, a ban. It asks for another erasure of the user then, before it writes anything under a
//! new id ([`crate::sync::lease`]). So whatever it brings back goes again.

use crate::features::erasure::store::ErasureStore;
use crate::peers::core::Core;
use crate::sync::features::Feature;
use std::collections::HashSet;
use std::sync::Arc;

use crate::base::clock::{Moment, UnixMillis};
use crate::base::ids::{ErasureId, UserId};
use crate::presence::Room;
use crate::presence::erasing::Missed;
use crate::store::{StoreError, StoreResult};
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
    pub core: Arc<Core>,
    pub store: Arc<dyn ErasureStore>,
    pub store_for_clients: Arc<dyn ErasureStore>,
    pub seen: Arc<SeenUsers>,
    /// When this process began.
    pub started: UnixMillis,
}

impl Eraser {
    /// Begins the erasure of a user, unless one runs; answers the one that runs.
    ///
    /// # Errors
    /// Too many users are being erased, or the store failed.
    pub async fn erase(&self, user: &UserId) -> Result<ErasureId, EraseError> {
        if self.core.erasing.len() >= MOST_AT_A_TIME && !self.core.erasing.contains(user) {
            return Err(EraseError::TooMany);
        }
        let id = self.store_for_clients.ask_erasure(user).await?;
        self.core.erasing.ask(user, &id, self.core.clock.now());
        tracing::info!(erasure_id = %id, "a user is to be erased");
        Ok(id)
    }

    /// Hears which erasures run, and which ended.
    pub async fn hear(&self) -> StoreResult<()> {
        let read_at = self.core.clock.now();
        let heard = self.hear_since(read_at).await;
        if heard.is_err() {
            self.core.erasing.note_deaf(self.core.clock.now());
        }
        heard
    }

    async fn hear_since(&self, read_at: Moment) -> StoreResult<()> {
        let news = self.store.erasure_news(self.core.erasing.heard()).await?;
        self.core.metrics.erasures.set(news.running.len() as i64);
        let age = match news.oldest {
            Some(oldest) => news.at.saturating_sub(oldest) / 1_000,
            None => 0,
        };
        self.core.metrics.erasure_oldest_seconds.set(age as i64);
        let missed = self.core.erasing.missed(&news, self.started);
        for user in self.still_here(&missed).await {
            let id = self.store.ask_erasure(&user).await?;
            self.core.erasing.ask(&user, &id, self.core.clock.now());
            tracing::warn!(
                erasure_id = %id,
                "this gateway was cut off while a user was erased; the user is erased once more"
            );
        }
        let gone = self
            .core
            .erasing
            .hear(news, missed, read_at, self.core.clock.now());
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
        for audience in self.core.rooms.audiences() {
            let mut users = match audience.room() {
                Some(room) => named_by(room, self.core.clock.now()),
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

#[async_trait::async_trait]
impl Feature for Eraser {
    async fn buried(&self) {
        if let Err(why) = self.hear().await {
            // Whom it still has then, although erased, is erased once more when it hears.
            tracing::warn!(error = %why, "this gateway could not hear who was erased meanwhile");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::features::erasure::store::{Erasures, TakenErasure};
    use crate::testing;
    use crate::testing::{FaultyStore, parts_on};

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
        let eraser = &parts.app.of::<Arc<Eraser>>();
        let [ann, bob, max] = ["ann", "bob", "max"].map(|id| UserId::parse(id).unwrap());
        let platform = parts.app.core.rooms.users.clone().unwrap();
        parts.app.core.rooms.enter(&platform, &ann);
        let room = testing::open_live(&parts.app.sessions, "42").await;
        room.seats.bans.set(
            &max,
            Some(std::time::Duration::from_secs(60)),
            eraser.core.clock.now(),
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
            assert!(eraser.core.erasing.contains(&user));
            running.push(user);
        }
        let mut expected = vec![ann, max, room.record.streamer.clone()];
        running.sort();
        expected.sort();
        assert_eq!(running, expected);
        assert!(
            !eraser.core.erasing.contains(&bob),
            "nothing is here of bob"
        );
        eraser.hear().await.unwrap();
        assert_eq!(eraser.core.metrics.erasures.get(), 3);
    }

    fn user(n: usize) -> UserId {
        UserId::parse(&format!("u{n}")).unwrap()
    }

    #[tokio::test]
    async fn no_more_users_are_erased_at_a_time_than_may_be() {
        let store = Arc::new(FaultyStore::new());
        let eraser = parts_on(&Config::default(), store)
            .app
            .of::<Arc<Eraser>>()
            .clone();
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
