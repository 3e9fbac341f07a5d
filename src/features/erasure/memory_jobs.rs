//! The jobs of erasures in the embedded store, as plain data.

use std::collections::BTreeMap;

use crate::base::clock::{UnixMillis, millis};
use crate::base::ids::{ErasureId, UserId};
use crate::base::user_digest::UserDigest;
use crate::features::erasure::store::{EndedErasure, Erasure, REPORT_KEPT, TakenErasure};
use crate::presence::erasing::ErasureNews;
use crate::store::ERASED_KEPT;
use crate::store::memory::states::{State, StateErasure};

/// A job.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    id: ErasureId,
    is_taken: bool,
}

/// The jobs, and what is left of erasures that ended.
#[derive(Debug, Clone, Default)]
pub(crate) struct ErasureJobs {
    pub(crate) jobs: BTreeMap<UserId, Job>,
    reports: BTreeMap<ErasureId, Erasure>,
    /// When the erasure of a user ended.
    ended: BTreeMap<UserDigest, UnixMillis>,
}

impl State for ErasureJobs {
    /// A job names its user until it is done, and what is left then does not.
    fn erase(&mut self, _: &mut StateErasure<'_>) {}
}

impl ErasureJobs {
    pub(crate) fn ask(&mut self, user: &UserId, now: UnixMillis) -> ErasureId {
        if let Some(job) = self.jobs.get(user) {
            return job.id.clone();
        }
        self.forget(now);
        let id = ErasureId::random();
        let report = Erasure {
            asked_at: now,
            ended: None,
        };
        self.reports.insert(id.clone(), report);
        let job = Job {
            id: id.clone(),
            is_taken: false,
        };
        self.jobs.insert(user.clone(), job);
        id
    }

    /// Drops what is left of erasures that ended long ago.
    fn forget(&mut self, now: UnixMillis) {
        self.reports.retain(|_, report| is_kept(report, now));
        self.ended
            .retain(|_, at| now.saturating_sub(*at) < millis(ERASED_KEPT));
    }

    pub(crate) fn report(&self, id: &ErasureId, now: UnixMillis) -> Option<Erasure> {
        let report = self.reports.get(id)?;
        if is_kept(report, now) {
            Some(report.clone())
        } else {
            None
        }
    }

    pub(crate) fn news(&self, after: UnixMillis, now: UnixMillis) -> ErasureNews {
        let mut news = ErasureNews {
            at: now,
            ..ErasureNews::default()
        };
        for (user, job) in &self.jobs {
            news.running.push((user.clone(), job.id.clone()));
            if let Some(report) = self.reports.get(&job.id) {
                let oldest = news.oldest.get_or_insert(report.asked_at);
                *oldest = report.asked_at.min(*oldest);
            }
        }
        let after = after.max(now.saturating_sub(millis(ERASED_KEPT)));
        for (digest, at) in &self.ended {
            if *at > after {
                news.ended.push((*digest, *at));
            }
        }
        news
    }

    pub(crate) fn take(&mut self) -> Option<TakenErasure> {
        let (user, job) = self.jobs.iter_mut().find(|(_, job)| !job.is_taken)?;
        job.is_taken = true;
        Some(TakenErasure {
            job: job.id.to_string(),
            id: job.id.clone(),
            user: user.clone(),
            progress: Default::default(),
        })
    }

    pub(crate) fn finish(&mut self, taken: &TakenErasure, now: UnixMillis) {
        self.jobs.remove(&taken.user);
        self.ended.insert(UserDigest::of(&taken.user), now);
        if let Some(report) = self.reports.get_mut(&taken.id) {
            report.ended = Some(EndedErasure {
                at: now,
                found: taken.progress.found.clone(),
            });
        }
    }
}

fn is_kept(report: &Erasure, now: UnixMillis) -> bool {
    match &report.ended {
        Some(ended) => now.saturating_sub(ended.at) < millis(REPORT_KEPT),
        None => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_of_an_erasure_ends_after_its_time() {
        let mut jobs = ErasureJobs::default();
        let user = UserId::parse("u1").unwrap();
        let id = jobs.ask(&user, 1);
        let taken = jobs.take().unwrap();
        jobs.finish(&taken, 10);
        let ended = [(UserDigest::of(&user), 10)];
        assert_eq!(jobs.news(0, 20).ended, ended);
        assert!(jobs.news(10, 20).ended.is_empty(), "it is known");
        let day = 10 + millis(ERASED_KEPT);
        assert_eq!(jobs.news(0, day - 1).ended, ended);
        assert!(jobs.news(0, day).ended.is_empty());
        let month = 10 + millis(REPORT_KEPT);
        assert!(jobs.report(&id, month - 1).is_some());
        assert!(jobs.report(&id, month).is_none());
        jobs.ask(&user, month);
        assert_eq!((jobs.reports.len(), jobs.ended.len()), (1, 0));
    }
}
