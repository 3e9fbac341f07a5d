//! Erasures in the embedded store. There is one gateway, so no other gateway takes a job over, and
//! one step is a whole pass. What features keep they erase themselves, see
//! [`crate::store::memory::states::State`].

use async_trait::async_trait;
use std::collections::HashSet;

use crate::base::clock::UnixMillis;
use crate::base::ids::{ErasureId, GatewayId, Group, UserId};
use crate::features::erasure::memory_jobs::ErasureJobs;
use crate::features::erasure::store::{Erasure, Erasures, TakenErasure, json_names};
use crate::presence::erasing::ErasureNews;
use crate::store::memory::MemoryStore;
use crate::store::memory::states::StateErasure;
use crate::store::{ERASED_ANSWER, ErasedSome, LiveState, PersonalData, StoreResult};

impl MemoryStore {
    /// Erases the lives that the user owned, and what the lives of others note of the user.
    fn erase_from_lives(&self, erasure: &mut StateErasure<'_>) {
        let user = erasure.user;
        let step = &mut erasure.step;
        let mut lives = self.lives.lock();
        for (live, kept) in &mut lives.kept {
            step.add(PersonalData::Bans, kept.book.erase(user));
            if kept.record.terms.hosts.contains(user) {
                kept.record.terms.hosts.retain(|host| host != user);
                kept.record.version += u64::from(kept.record.state == LiveState::Open);
                step.add(PersonalData::HostPlaces, 1);
            }
            if kept.record.streamer != *user {
                continue;
            }
            erasure.lives.insert(live.clone());
            if kept.record.state == LiveState::Closed {
                erasure.closed.push(live.clone());
            } else {
                step.is_dirty = true;
                step.open_lives.push(live.clone());
            }
        }
        lives.erase(&erasure.closed, self.now());
        drop(lives);
        step.add(PersonalData::Lives, erasure.closed.len() as u64);
        step.is_dirty |= self.claims.lock().remove(user).is_some();
    }

    fn erase_from_slices(&self, erasure: &mut StateErasure<'_>) {
        let user = erasure.user;
        let step = &mut erasure.step;
        for mut slice in self.slices.iter_mut() {
            let live = slice.key().set.live().cloned();
            for of in &erasure.forgotten {
                if live.as_ref() == Some(&of.live) {
                    slice.forget_stays(of.epoch);
                }
            }
            step.add(PersonalData::Sessions, slice.erase_stays(user));
            step.is_dirty |= slice.contains(Group::All, user);
        }
        for slice in &self.user_slices {
            let mut known = slice.lock();
            let was_seen = known.seen.contains_key(user);
            step.add(PersonalData::LastSeen, u64::from(was_seen));
            known.forget(user);
        }
    }

    fn erase_texts(&self, user: &UserId, step: &mut ErasedSome) {
        let erased = ERASED_ANSWER.to_owned();
        let gone = self
            .answers
            .lock()
            .replace(&erased, |text| json_names(text, user));
        step.add(PersonalData::Answers, gone);
        let gone = self.events.lock().erase(|data| json_names(data, user));
        step.add(PersonalData::WebhookEvents, gone);
    }
}

#[async_trait]
impl Erasures for MemoryStore {
    async fn ask_erasure(&self, user: &UserId) -> StoreResult<ErasureId> {
        let now = self.now();
        Ok(self.states.lock::<ErasureJobs>().ask(user, now))
    }

    async fn erasure(&self, id: &ErasureId) -> StoreResult<Option<Erasure>> {
        let now = self.now();
        Ok(self.states.lock::<ErasureJobs>().report(id, now))
    }

    async fn erasure_news(&self, after: UnixMillis) -> StoreResult<ErasureNews> {
        let now = self.now();
        Ok(self.states.lock::<ErasureJobs>().news(after, now))
    }

    async fn take_erasure(&self, _: &GatewayId) -> StoreResult<Option<TakenErasure>> {
        Ok(self.states.lock::<ErasureJobs>().take())
    }

    async fn keep_erasure(&self, _: &GatewayId, taken: &TakenErasure) -> StoreResult<bool> {
        Ok(self
            .states
            .lock::<ErasureJobs>()
            .jobs
            .contains_key(&taken.user))
    }

    async fn finish_erasure(&self, _: &GatewayId, taken: &TakenErasure) -> StoreResult<()> {
        let now = self.now();
        self.states.lock::<ErasureJobs>().finish(taken, now);
        Ok(())
    }

    async fn erase_some(&self, user: &UserId, _: &str) -> StoreResult<ErasedSome> {
        let mut erasure = StateErasure {
            user,
            lives: HashSet::new(),
            closed: Vec::new(),
            forgotten: Vec::new(),
            step: ErasedSome::default(),
        };
        let (following, followers) = self.graph.lock().erase(user);
        erasure.step.add(PersonalData::Following, following);
        erasure.step.add(PersonalData::Followers, followers);
        self.erase_from_lives(&mut erasure);
        self.states.erase(&mut erasure);
        self.erase_from_slices(&mut erasure);
        self.erase_texts(user, &mut erasure.step);
        Ok(erasure.step)
    }
}
