//! Erasures in the embedded store. There is one gateway, so no other gateway takes a job over, and
//! one step is a whole pass.

use crate::features::attendance::attended::AttendanceOfLives;
use crate::features::erasure::memory_jobs::ErasureJobs;
use crate::features::feeds::memory::timelines::StoredFeeds;
use crate::features::history::memory::PastOfStreamers;
use crate::features::media::memory_records::StreamRecords;
use crate::features::profiles::stored::StoredProfiles;
use async_trait::async_trait;

use crate::base::clock::UnixMillis;
use crate::base::ids::{ErasureId, GatewayId, Group, LiveId, UserId};
use crate::features::erasure::store::{
    ErasedSome, Erasure, Erasures, PersonalData, TakenErasure, json_names,
};
use crate::features::feeds::store::statuses::StatusId;
use crate::presence::erasing::ErasureNews;
use crate::store::LiveEpoch;
use crate::store::memory::MemoryStore;
use crate::store::{ERASED_ANSWER, LiveState, StoreResult};

impl MemoryStore {
    fn erase_social(&self, user: &UserId, step: &mut ErasedSome) {
        let (profiles, logins) = self.states.lock::<StoredProfiles>().erase(user);
        step.add(PersonalData::Profiles, profiles);
        step.add(PersonalData::Logins, logins);
        let (following, followers) = self.graph.lock().erase(user);
        step.add(PersonalData::Following, following);
        step.add(PersonalData::Followers, followers);
        let mut feeds = self.states.lock::<StoredFeeds>();
        let mut entries = 0;
        feeds.timelines.retain(|timeline, there| {
            let before = there.len();
            if timeline.owner() == user {
                there.clear();
            }
            there.retain(|entry| entry.id.author() != user);
            entries += (before - there.len()) as u64;
            !there.is_empty()
        });
        step.add(PersonalData::TimelineEntries, entries);
        let before = feeds.posts.len();
        feeds.posts.retain(|id, _| match StatusId::parse(id) {
            Some(id) => id.author() != user,
            None => true,
        });
        step.add(
            PersonalData::Announcements,
            (before - feeds.posts.len()) as u64,
        );
        let before = feeds.lists.len();
        feeds.lists.retain(|(owner, _), _| owner != user);
        step.add(PersonalData::Lists, (before - feeds.lists.len()) as u64);
        let mut places = 0;
        feeds.lists.retain(|_, members| {
            places += u64::from(members.remove(user));
            !members.is_empty()
        });
        step.add(PersonalData::ListPlaces, places);
        step.is_dirty |= feeds.jobs.pulled.remove(user).is_some();
        step.is_dirty |= feeds
            .jobs
            .unfinished()
            .any(|there| there.job.job.entry.id.author() == user);
    }

    /// Erases the lives that the user owned, and what open lives of others note of the user.
    fn erase_from_lives(&self, user: &UserId, step: &mut ErasedSome) {
        let mut lives = self.lives.lock();
        let mut closed: Vec<LiveId> = Vec::new();
        for (live, kept) in &mut lives.kept {
            step.add(PersonalData::Bans, kept.book.erase(user));
            if kept.record.streamer != *user {
                continue;
            }
            if kept.record.state == LiveState::Closed {
                closed.push(live.clone());
            } else {
                step.is_dirty = true;
                step.open_lives.push(live.clone());
            }
        }
        let mut keys = Vec::new();
        let mut streams = self.states.lock::<StreamRecords>();
        for (digest, kept) in &streams.keys {
            let owner = lives.kept.get(&kept.value.live);
            let owner = owner.map(|owner| &owner.record.streamer);
            let granted = kept.value.publisher.as_ref();
            if owner == Some(user) || granted.is_some_and(|granted| granted.streamer == *user) {
                keys.push(digest.clone());
            }
        }
        step.add(PersonalData::StreamKeys, keys.len() as u64);
        for digest in keys {
            streams.keys.remove(&digest);
        }
        for live in &closed {
            streams.streams.remove(live);
        }
        drop(streams);
        lives.erase(&closed, self.now());
        step.add(PersonalData::Lives, closed.len() as u64);
        let past = self.states.lock::<PastOfStreamers>().lives.remove(user);
        step.add(
            PersonalData::PastLives,
            past.map_or(0, |past| past.len() as u64),
        );
        drop(lives);
        step.is_dirty |= self.claims.lock().remove(user).is_some();
    }

    fn erase_stays(&self, user: &UserId, step: &mut ErasedSome) {
        let mut own: Vec<LiveEpoch> = Vec::new();
        let mut attended = 0;
        let mut all = self.states.lock::<AttendanceOfLives>();
        for (of, kept) in all.iter_mut() {
            if let Some(facts) = &kept.attended
                && facts.streamer == *user
            {
                own.push(of.clone());
            }
            kept.fans.retain(|_, fans| {
                attended += u64::from(fans.remove(user));
                !fans.is_empty()
            });
        }
        for of in &own {
            all.remove(of);
        }
        drop(all);
        step.add(PersonalData::Attendance, attended);
        step.is_dirty |= !own.is_empty();
        for mut slice in self.slices.iter_mut() {
            let live = slice.key().set.live().cloned();
            for of in &own {
                if live.as_ref() == Some(&of.live) {
                    slice.forget_stays(of.epoch);
                }
            }
            step.add(PersonalData::Sessions, slice.erase_stays(user));
            step.is_dirty |= slice.contains(Group::All, user);
        }
        for slice in &self.user_slices {
            let mut known = slice.lock();
            step.add(
                PersonalData::LastSeen,
                u64::from(known.seen.contains_key(user)),
            );
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
        let mut step = ErasedSome::default();
        self.erase_social(user, &mut step);
        self.erase_from_lives(user, &mut step);
        self.erase_stays(user, &mut step);
        self.erase_texts(user, &mut step);
        Ok(step)
    }
}
