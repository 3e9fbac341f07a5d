//! What a run found, step by step: broken promises, lost sockets, and how long each wrong member
//! took to be right.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use serde::Serialize;
use tokio::time::Instant;

use simulation::expectation::{Live, User, Wrong};

/// Maximum broken promises that a report tells one by one. It counts all of them.
const TOLD: usize = 40;

/// Which promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Promise {
    /// A user in the set who should be out.
    Ghost,
    /// A user out of the set who should be in.
    Miss,
    /// Users of a gateway that is away were not swept by its peers.
    NotSwept,
    /// At rest, a set, a figure or a key is not what it should be.
    Drift,
    /// A key of a closed live or epoch.
    Resurrected,
    /// Redis names a gateway that no longer exists.
    NotForgotten,
    /// A dashboard showed what cannot be, or called old figures exact.
    Dashboard,
    /// A socket ended that nothing was done to.
    SocketLost,
    /// A gateway did not know a session without a socket, or took a beat of one for another.
    SessionLost,
    /// A socket was not told that its live closed, or told so of an open one.
    CloseUntold,
    /// Not right again within the fault's bound.
    TooSlow,
}

/// One broken promise.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Broken {
    pub(crate) promise: Promise,
    pub(crate) user: Option<String>,
    pub(crate) live: Option<String>,
    pub(crate) gateway: Option<usize>,
    /// What should have been, and what was.
    pub(crate) detail: String,
}

impl Broken {
    pub(crate) fn new(promise: Promise, detail: impl Into<String>) -> Self {
        Self {
            promise,
            user: None,
            live: None,
            gateway: None,
            detail: detail.into(),
        }
    }

    pub(crate) fn user(self, user: String) -> Self {
        Self {
            user: Some(user),
            ..self
        }
    }

    pub(crate) fn live(self, live: String) -> Self {
        Self {
            live: Some(live),
            ..self
        }
    }

    pub(crate) fn gateway(self, gateway: usize) -> Self {
        Self {
            gateway: Some(gateway),
            ..self
        }
    }
}

/// What was found since the step began.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// By promise, how often.
    pub(crate) counts: BTreeMap<Promise, u64>,
    /// The first ones.
    pub(crate) broken: Vec<Broken>,
    /// The users who are already reported, so that each counts once per step.
    pub(crate) known: HashSet<(Live, User, Wrong)>,
    /// Sockets that ended through the fault.
    pub(crate) sockets_cut: u64,
    /// Members that were wrong and became right: when.
    pub(crate) corrected: Vec<Instant>,
    /// How late our own timers were at most: what a machine that is too busy adds to every figure.
    pub(crate) lag: Duration,
    /// Dashboards' messages.
    pub(crate) shown: u64,
}

impl Findings {
    pub(crate) fn broke(&mut self, broken: Broken) {
        *self.counts.entry(broken.promise).or_default() += 1;
        if self.broken.len() < TOLD {
            self.broken.push(broken);
        }
    }

    /// The times from a mark to each correction after it.
    pub(crate) fn since(&self, mark: Instant) -> Vec<Duration> {
        self.corrected
            .iter()
            .filter_map(|at| at.checked_duration_since(mark))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn corrections_before_the_mark_do_not_count() {
        let t = Instant::now();
        let second = Duration::from_secs(1);
        let findings = Findings {
            corrected: vec![t, t + second, t + 3 * second],
            ..Findings::default()
        };
        assert_eq!(findings.since(t + second), [Duration::ZERO, 2 * second]);
    }
}
