//! The values of all settings, and their defaults. [`load`](super::load) fills them in and checks
//! them; the whole gateway reads them.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use reqwest::Url;

use super::media::server::MediaServer;
use super::webhook_endpoint::WebhookEndpoint;
use crate::base::event_kind::EventKind;
use crate::base::http_client::Proxy;
use crate::base::ids::{GatewayId, UserId};
use crate::base::key_prefix::KeyPrefix;
use crate::base::secret::Secret;
use crate::base::telemetry::{LogFormat, Traces};

/// The value of every setting; [`SETTINGS`](super::SETTINGS) describes each.
#[allow(missing_docs, reason = "the table describes them")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    pub listen: SocketAddr,
    /// `None`: the public address serves everything.
    pub admin_listen: Option<SocketAddr>,
    /// `None`: the memory store.
    pub redis: Option<Secret>,
    pub key_prefix: KeyPrefix,
    /// `None`: the certificate authorities of the system.
    pub redis_ca: Option<PathBuf>,
    pub auth: AuthMode,
    pub jwt_hs256_secret_file: Option<PathBuf>,
    pub jwt_public_key: Option<PathBuf>,
    /// A path, or an `http://` or `https://` URL.
    pub jwt_jwks: Option<Jwks>,
    pub jwt_audience: Option<String>,
    pub jwt_issuer: Option<String>,
    pub proxy_from_env: bool,
    pub api_keys: Option<PathBuf>,
    pub tls_cert: Option<PathBuf>,
    pub tls_key: Option<PathBuf>,
    pub trusted_proxies: Vec<IpNet>,
    pub proxy_protocol: bool,
    /// In lower case; `*` allows every origin, and `null` pages without one.
    pub origins: Vec<String>,
    /// Per second and socket. This and the limits below: 0 is no limit.
    pub message_rate: u32,
    pub sockets_per_user: u32,
    pub sockets_per_ip: u32,
    pub watches_per_socket: u32,
    pub opens_per_socket: u32,
    /// Whether tokens of streamers open lives.
    pub streamers_open: bool,
    /// Maximum open lives among those that the streamer's tokens opened.
    pub lives_per_streamer: u32,
    /// Opened by the streamer's tokens.
    pub opens_per_day: u32,
    /// Per second and live.
    pub join_rate: u32,
    /// Per second and key, or address.
    pub http_rate: u32,
    /// Per user, over all sockets.
    pub user_rate: u32,
    pub heartbeat: Duration,
    pub timeout: Duration,
    pub flush: Duration,
    pub lease: Duration,
    pub lease_refresh: Duration,
    pub check_every: Duration,
    pub closed_ttl: Duration,
    pub track_online: bool,
    /// Whether to count how many different users come to each live.
    pub uniques: bool,
    /// How long it is remembered when a user was seen last.
    pub remember: Duration,
    pub last_seen_ids: SeenIds,
    pub attendance: AttendanceForm,
    /// The statuses of users with more followers are pulled.
    pub fanout_limit: u64,
    pub fan_source: FanSource,
    pub fan_key: FanKey,
    /// Of a service or a database; it may hold a password.
    pub fan_url: Option<Secret>,
    pub fan_secret_file: Option<PathBuf>,
    /// `None`: the usual certificate authorities.
    pub fan_ca: Option<PathBuf>,
    /// For one call.
    pub fan_timeout: Duration,
    pub fan_calls: usize,
    /// `None`: the statement that fits the database.
    pub fan_sql: Option<String>,
    pub fan_sql_ids: SqlIds,
    pub fan_ttl: Duration,
    /// `None`: a streamer may stay away for ever.
    pub streamer_timeout: Option<Duration>,
    /// How long a live that a stream opened outlives the end of the stream.
    pub stream_grace: Duration,
    /// The media servers of the settings file.
    pub media: Vec<MediaServer>,
    /// Of each stream: that of events, the audit trail, and that of events given up.
    pub events_kept: u64,
    pub events_max_age: Duration,
    pub audit_max_age: Duration,
    pub count_events: bool,
    pub fan_events: bool,
    pub follow_events: bool,
    pub audit_events: bool,
    /// `None`: events are sent nowhere.
    pub webhook_url: Option<Secret>,
    pub webhook_secret_file: Option<PathBuf>,
    /// Empty: all.
    pub webhook_events: Vec<EventKind>,
    /// The further webhooks, of the settings file.
    pub webhooks: Vec<WebhookEndpoint>,
    /// This and the settings below are about all webhooks.
    pub webhook_allow_private: bool,
    pub webhook_timeout: Duration,
    pub webhook_patience: Duration,
    pub drain: Duration,
    pub handshake_timeout: Duration,
    /// 0: no limit.
    pub handshake_rate: u32,
    pub max_handshakes: usize,
    /// `None`: as many as the open-file limit allows.
    pub max_sockets: Option<usize>,
    pub max_presences: usize,
    pub presence_secret_file: Option<PathBuf>,
    pub udp: Option<SocketAddr>,
    pub udp_advertise: Vec<String>,
    pub wait_for_store: Duration,
    pub log_format: LogFormat,
    pub log: String,
    /// `None`: no spans are sent.
    pub otlp_endpoint: Option<String>,
    pub otlp_one_in: u32,
    /// The settings file, if it has a password. This is no setting: [`load`](super::load) notes it.
    pub file_with_secrets: Option<PathBuf>,
}

/// The bound of a setting that means no limit by 0.
fn bound_of(limit: u32) -> u64 {
    if limit == 0 { NO_LIMIT } else { limit.into() }
}

/// A bound that no count reaches.
const NO_LIMIT: u64 = 1 << 40;

impl Config {
    /// How many lives a streamer's own tokens may have open, and may open in a day. `None` if they
    /// may open none.
    pub(crate) fn opened_by_streamers(&self) -> Option<(u64, u64)> {
        if !self.streamers_open {
            return None;
        }
        Some((
            bound_of(self.lives_per_streamer),
            bound_of(self.opens_per_day),
        ))
    }

    /// The proxy through which a gateway fetches keys and looks up fans.
    pub(crate) fn proxy(&self) -> Proxy {
        if self.proxy_from_env {
            Proxy::OfEnvironment
        } else {
            Proxy::Never
        }
    }

    /// Which spans this gateway sends, and where. `None` if it sends none.
    pub fn traces(&self, gateway: &GatewayId) -> Option<Traces> {
        let endpoint = self.otlp_endpoint.clone()?;
        Some(Traces {
            endpoint,
            one_in: self.otlp_one_in,
            gateway: gateway.to_string(),
        })
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 8080)),
            admin_listen: None,
            redis: None,
            key_prefix: KeyPrefix::default(),
            redis_ca: None,
            auth: AuthMode::Off,
            jwt_hs256_secret_file: None,
            jwt_public_key: None,
            jwt_jwks: None,
            jwt_audience: None,
            jwt_issuer: None,
            proxy_from_env: false,
            api_keys: None,
            tls_cert: None,
            tls_key: None,
            trusted_proxies: Vec::new(),
            proxy_protocol: false,
            origins: Vec::new(),
            message_rate: 10,
            sockets_per_user: 20,
            sockets_per_ip: 1_000,
            watches_per_socket: 1_000,
            opens_per_socket: 100,
            streamers_open: true,
            lives_per_streamer: 20,
            opens_per_day: 100,
            join_rate: 5_000,
            http_rate: 200,
            user_rate: 10,
            heartbeat: Duration::from_secs(5),
            timeout: Duration::from_secs(15),
            flush: Duration::from_millis(250),
            lease: Duration::from_secs(15),
            lease_refresh: Duration::from_secs(2),
            check_every: Duration::from_secs(60),
            closed_ttl: Duration::from_secs(30 * 24 * 3600),
            track_online: true,
            uniques: true,
            remember: Duration::from_secs(30 * 24 * 3600),
            last_seen_ids: SeenIds::Text,
            attendance: AttendanceForm::Set,
            fanout_limit: 1_000_000,
            fan_source: FanSource::Redis,
            fan_key: FanKey::Followers,
            fan_url: None,
            fan_secret_file: None,
            fan_ca: None,
            fan_timeout: Duration::from_secs(2),
            fan_calls: 8,
            fan_sql: None,
            fan_sql_ids: SqlIds::Text,
            fan_ttl: Duration::from_secs(30),
            streamer_timeout: Some(Duration::from_secs(60)),
            stream_grace: Duration::from_secs(20),
            media: Vec::new(),
            events_kept: 250_000,
            events_max_age: Duration::from_secs(7 * 86_400),
            audit_max_age: Duration::from_secs(90 * 86_400),
            count_events: true,
            fan_events: false,
            follow_events: false,
            audit_events: false,
            webhook_url: None,
            webhook_secret_file: None,
            webhook_events: Vec::new(),
            webhooks: Vec::new(),
            webhook_allow_private: false,
            webhook_timeout: Duration::from_secs(10),
            webhook_patience: Duration::from_secs(3_600),
            drain: Duration::from_secs(30),
            handshake_timeout: Duration::from_secs(10),
            handshake_rate: 4_000,
            max_handshakes: 1_024,
            max_sockets: None,
            max_presences: 1_000_000,
            presence_secret_file: None,
            udp: None,
            udp_advertise: Vec::new(),
            wait_for_store: Duration::ZERO,
            log_format: LogFormat::Text,
            log: "info".to_owned(),
            otlp_endpoint: None,
            otlp_one_in: 100,
            file_with_secrets: None,
        }
    }
}

/// How users prove who they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthMode {
    /// Not at all: a client may claim any user id. Allowed on loopback addresses only.
    Off,
    /// By signed tokens.
    Jwt,
}

/// Where a JSON Web Key Set is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Jwks {
    /// In a file.
    File(PathBuf),
    /// At a URL of http or https, without a password.
    Url(Url),
}

/// The system in which a gateway looks up whether a viewer follows the streamer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FanSource {
    /// The store: `followers:<streamer_id>` in Redis, or the follow graph of the memory store.
    #[default]
    Redis,
    /// The viewer's own token: its `fan_of` lists the streamers whom the viewer follows.
    Token,
    /// The platform's own service, by HTTP.
    Http,
    /// A PostgreSQL or MySQL database.
    Sql,
}

impl FanSource {
    /// The word of the setting.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Redis => "redis",
            Self::Token => "token",
            Self::Http => "http",
            Self::Sql => "sql",
        }
    }

    /// Whether the gateway asks another system, which may be slow or away while the store is well.
    pub fn is_elsewhere(self) -> bool {
        matches!(self, Self::Http | Self::Sql)
    }
}

/// Which end of a follow in the store the fan check reads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FanKey {
    /// `followers:<streamer_id>`: one key and one command for all viewers of a live.
    #[default]
    Followers,
    /// `following:<user_id>`: a key and a command for each viewer, spread over the nodes of a
    /// cluster.
    Following,
}

/// How a database writes the ids of users.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SqlIds {
    /// In a column of text.
    #[default]
    Text,
    /// In a column of integers. A user whose id is no integer follows nobody.
    Integer,
}

/// How the store writes the ids of users in its record of when each was last seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SeenIds {
    /// As they are.
    #[default]
    Text,
    /// As numbers of four bytes. Every user id must be one.
    U32,
}

impl SeenIds {
    /// The word of the setting, which the store keeps too.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::U32 => "u32",
        }
    }

    /// Whether a user id can be written in this form.
    pub fn fits(self, user: &UserId) -> bool {
        self == Self::Text || number_of(user).is_some()
    }
}

/// How the store keeps which fans came to a live.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AttendanceForm {
    /// In sets of ids.
    #[default]
    Set,
    /// In bitmaps, a bit for each number. Every user id must be one.
    Bitmap,
}

impl AttendanceForm {
    /// The word of the setting, which the store keeps too.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Set => "set",
            Self::Bitmap => "bitmap",
        }
    }
}

/// The number that a user id is. The id must be written as numbers usually are, because `7` and
/// `007` are two users.
pub(crate) fn number_of(user: &UserId) -> Option<u32> {
    let id = user.as_str();
    let usual = id == "0" || (!id.starts_with('0') && id.bytes().all(|b| b.is_ascii_digit()));
    if usual { id.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_below_two_to_the_32_written_in_the_usual_way_fits_four_bytes() {
        let fits = |id: &str| SeenIds::U32.fits(&UserId::parse(id).unwrap());
        for id in ["0", "7", "4294967295"] {
            assert!(fits(id), "{id}");
        }
        for id in [
            "007",
            "00",
            "4294967296",
            "u1",
            "-1",
            "1.5",
            "99999999999999999999",
        ] {
            assert!(
                !fits(id) && SeenIds::Text.fits(&UserId::parse(id).unwrap()),
                "{id}"
            );
        }
    }
}
