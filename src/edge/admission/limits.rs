//! The limits on connections. They follow from the number of descriptors that this process may
//! open.

use rustix::process::{Resource, getrlimit, setrlimit};

use crate::config::Config;

/// Descriptors kept for Redis (a few for each node), listening sockets, the runtime, files and name
/// resolution.
const RESERVED: usize = 128;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AdmissionLimits {
    pub(crate) sockets: usize,
    /// Connections of one port that are not WebSockets: handshakes, HTTP.
    pub(crate) pending: usize,
}

impl AdmissionLimits {
    /// Divides the descriptors. The settings can lower the limits, never raise them.
    pub(crate) fn new(config: &Config, files: usize) -> Self {
        let files = files.saturating_sub(RESERVED.min(files / 4));
        let ports = 1 + usize::from(config.admin_listen.is_some());
        let pending = config.max_handshakes.min(files / 8).max(1);
        let possible = files.saturating_sub(pending * ports).max(1);
        let sockets = match config.max_sockets {
            Some(most) => most.min(possible),
            None => possible,
        };
        Self { sockets, pending }
    }
}

/// How many descriptors this process may have open.
pub(crate) fn open_files() -> usize {
    // The most that a semaphore counts.
    let unlimited = usize::MAX >> 4;
    match getrlimit(Resource::Nofile).current {
        Some(files) => usize::try_from(files).unwrap_or(unlimited),
        None => unlimited,
    }
}

/// Raises the soft limit on open files to the hard one: the soft one exists for programs that use
/// `select`.
pub fn raise_open_files() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::debug!(%error, "the limit on open files cannot be raised");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_open_at_once_fits_into_the_descriptors() {
        let both = Config {
            admin_listen: Some(([127, 0, 0, 1], 0).into()),
            ..Config::default()
        };
        for config in [Config::default(), both] {
            let ports = 1 + usize::from(config.admin_listen.is_some());
            for files in [64, 256, 1_024, 4_096, 20_000, 1_000_000] {
                let AdmissionLimits { sockets, pending } = AdmissionLimits::new(&config, files);
                assert!(
                    sockets + pending * ports + RESERVED.min(files / 4) <= files,
                    "{files}: {sockets} + {pending}"
                );
                assert!(sockets >= files / 3, "{files}: {sockets}");
            }
        }
        assert!(AdmissionLimits::new(&Config::default(), 20_000).sockets > 18_500);
    }

    #[test]
    fn settings_lower_the_limits_but_never_raise_them() {
        let few = Config {
            max_sockets: Some(7),
            max_handshakes: 3,
            ..Config::default()
        };
        assert_eq!(
            AdmissionLimits::new(&few, 20_000),
            AdmissionLimits {
                sockets: 7,
                pending: 3
            }
        );
        let many = Config {
            max_sockets: Some(1 << 40),
            max_handshakes: 1 << 20,
            ..Config::default()
        };
        let AdmissionLimits { sockets, pending } = AdmissionLimits::new(&many, 20_000);
        assert!(
            sockets + pending + RESERVED <= 20_000,
            "{sockets} + {pending}"
        );
    }
}
