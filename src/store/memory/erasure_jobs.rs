//! The jobs of erasures in the embedded store, as plain data.

use std::collections::BTreeMap;

use crate::base::clock::UnixMillis;
use crate::base::ids::{ErasureId, UserId};
use crate::store::{Erasure, TakenErasure};

/// A job.
#[derive(Debug)]
pub(super) struct Job {
    id: ErasureId,
    is_taken: bool,
}

/// The jobs, and the reports of all erasures of this process.
#[derive(Debug, Default)]
pub(super) struct ErasureJobs {
    pub(super) jobs: BTreeMap<UserId, Job>,
    pub(super) reports: BTreeMap<ErasureId, Erasure>,
}

impl ErasureJobs {
    pub(super) fn ask(&mut self, user: &UserId, now: UnixMillis) -> ErasureId {
        if let Some(job) = self.jobs.get(user) {
            return job.id.clone();
        }
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

    pub(super) fn take(&mut self) -> Option<TakenErasure> {
        let (user, job) = self.jobs.iter_mut().find(|(_, job)| !job.is_taken)?;
        job.is_taken = true;
        Some(TakenErasure {
            job: job.id.to_string(),
            id: job.id.clone(),
            user: user.clone(),
            progress: Default::default(),
        })
    }
}
