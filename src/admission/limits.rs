//! Owns how many connections this process has room for, from the descriptors that it may open.

use rustix::process::{Resource, getrlimit, setrlimit};

use crate::config::Config;

/// Descriptors that are not clients': Redis (a few for each node), listening sockets, the runtime, files, names.
const KEPT: usize = 128;

/// What there is room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// WebSockets.
    pub sockets: usize,
    /// Connections to a port that are no WebSocket (yet): handshakes, HTTP. Each port has so many for itself.
    pub others: usize,
}

impl Limits {
    /// Divides the descriptors. Settings can make it less, never more.
    #[must_use]
    pub fn new(config: &Config, files: usize) -> Self {
        let files = files.saturating_sub(KEPT.min(files / 4));
        let ports = 1 + usize::from(config.admin_listen.is_some());
        let others = config.max_handshakes.min(files / 8).max(1);
        let sockets = files.saturating_sub(others * ports).max(1);
        Self { sockets: config.max_sockets.map_or(sockets, |most| most.min(sockets)), others }
    }
}

/// How many descriptors this process may have open.
#[must_use]
pub fn open_files() -> usize {
    // No bound is as good as the most that a semaphore counts.
    getrlimit(Resource::Nofile)
        .current
        .map_or(usize::MAX >> 4, |files| usize::try_from(files).unwrap_or(usize::MAX >> 4))
}

/// Raises the soft bound on open files to the hard one: the soft one is for programs that use `select`.
pub fn raise_open_files() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::debug!(%error, "the bound on open files stays as it is");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_open_at_once_fits_into_the_descriptors() {
        let both = Config { admin_listen: Some(([127, 0, 0, 1], 0).into()), ..Config::default() };
        for config in [Config::default(), both] {
            let ports = 1 + usize::from(config.admin_listen.is_some());
            for files in [64, 256, 1_024, 4_096, 20_000, 1_000_000] {
                let Limits { sockets, others } = Limits::new(&config, files);
                assert!(sockets + others * ports + KEPT.min(files / 4) <= files, "{files}: {sockets} + {others}");
                assert!(sockets >= files / 3, "{files}: {sockets}");
            }
        }
        assert!(Limits::new(&Config::default(), 20_000).sockets > 18_500);
    }

    #[test]
    fn settings_make_it_less_but_never_more() {
        let few = Config { max_sockets: Some(7), max_handshakes: 3, ..Config::default() };
        assert_eq!(Limits::new(&few, 20_000), Limits { sockets: 7, others: 3 });
        let many = Config { max_sockets: Some(1 << 40), max_handshakes: 1 << 20, ..Config::default() };
        let Limits { sockets, others } = Limits::new(&many, 20_000);
        assert!(sockets + others + KEPT <= 20_000, "{sockets} + {others}");
    }
}
