//! The settings of one `loadtest bench`, which every row reads.

use std::path::Path;
use std::time::Duration;

use tempfile::NamedTempFile;

use super::servers::Programs;

pub(crate) struct Bench {
    pub(crate) programs: Programs,
    /// The secret of the heartbeat rows' tokens; `None`: they measure a gateway with `--auth off`,
    /// as all others do.
    pub(crate) secret: Option<NamedTempFile>,
    pub(super) quick: bool,
    pub(crate) rounds: usize,
    pub(crate) in_process: usize,
    pub(crate) gateways: Vec<usize>,
    pub(crate) shared_lives: usize,
    pub(crate) shared_viewers: usize,
    pub(crate) lives: usize,
    pub(crate) per_live: usize,
    /// Whether the gateways of the small-lives row track who is online on the platform; all others
    /// do not.
    pub(crate) track_online: bool,
}

impl Bench {
    /// The file of the secret.
    pub(crate) fn secret(&self) -> Option<&Path> {
        self.secret.as_ref().map(NamedTempFile::path)
    }

    /// One number for a real run, another for a quick one.
    pub(crate) fn pick<T>(&self, real: T, quick: T) -> T {
        if self.quick { quick } else { real }
    }

    /// Between two heartbeats of a viewer in memory.
    pub(crate) fn heartbeat(&self) -> Duration {
        self.pick(Duration::from_secs(5), Duration::from_millis(150))
    }

    /// How long a row measures work that comes once a minute: more than a minute.
    pub(crate) fn measured(&self) -> Duration {
        self.pick(Duration::from_secs(60), Duration::from_millis(400))
    }
}
