//! Owns the settings: their names, defaults, units and the relations between them. Every timeout of the program is here.

use std::net::SocketAddr;
use std::time::Duration;

/// Every setting of a gateway, read and checked.
#[derive(Debug, Clone)]
pub struct Config {
    /// The public address; port 0 picks one.
    pub listen: SocketAddr,
    /// A second, internal address that takes `/v1`, `/metrics` and the pages off the public one.
    pub admin_listen: Option<SocketAddr>,
    /// The Redis URL; absent: the memory store.
    pub redis: Option<Secret>,
    /// Who may connect.
    pub auth: AuthMode,
    /// How often viewers are asked to send a heartbeat; a socket silent for so long is pinged.
    pub heartbeat: Duration,
    /// A socket silent for so long is closed, and its user gone.
    pub timeout: Duration,
    /// How often joins and leaves go to the store.
    pub flush: Duration,
    /// A gateway not heard of for so long is swept out of the store.
    pub lease: Duration,
    /// How often a gateway renews its leases.
    pub lease_refresh: Duration,
    /// Who knows the followers.
    pub fan_source: FanSource,
    /// How long an answer of the fan check holds.
    pub fan_ttl: Duration,
    /// A live opened over its streamer's socket closes when the streamer is silent for so long; `None`: never.
    pub streamer_timeout: Option<Duration>,
    /// A connection that has not sent its whole request by then is closed.
    pub handshake_timeout: Duration,
    /// How long to wait at start for a store that does not answer yet.
    pub wait_for_store: Duration,
    /// How logs look.
    pub log_format: LogFormat,
    /// Which logs are written, as in `RUST_LOG`: `info`, `rollcall=debug,warn`.
    pub log: String,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 8080)),
            admin_listen: None,
            redis: None,
            auth: AuthMode::Off,
            heartbeat: Duration::from_secs(5),
            timeout: Duration::from_secs(15),
            flush: Duration::from_millis(250),
            lease: Duration::from_secs(15),
            lease_refresh: Duration::from_secs(5),
            fan_source: FanSource::Redis,
            fan_ttl: Duration::from_secs(30),
            streamer_timeout: Some(Duration::from_secs(60)),
            handshake_timeout: Duration::from_secs(10),
            wait_for_store: Duration::ZERO,
            log_format: LogFormat::Text,
            log: "info".to_owned(),
        }
    }
}

/// Who may connect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthMode {
    /// Everybody is who they say they are; for loopback only.
    Off,
}

/// Who knows the followers of a streamer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FanSource {
    /// `followers:<streamer_id>` in the store (with the memory store: its own follow graph).
    Redis,
    /// The viewer's own token; until tokens are read, nothing is known of anybody.
    Token,
}

/// How logs look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// A string that is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a secret.
    pub fn new(secret: impl Into<String>) -> Self {
        Self(secret.into())
    }

    /// The secret itself; for the one place that needs it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("(secret)")
    }
}
