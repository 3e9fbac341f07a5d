//! The table of settings. It declares each setting once, with its name, default, bounds and help.
//! Flags, variables, file keys, `--help` and the table in `docs/operations.md` follow from it.

use std::fmt::Display;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use ipnet::IpNet;
use reqwest::Url;

use super::values::{AttendanceForm, AuthMode, Config, FanKey, FanSource, Jwks, SeenIds, SqlIds};
use crate::base::event_kind::EventKind;
use crate::base::key_prefix::KeyPrefix;
use crate::base::redis_address::Address;
use crate::base::secret::Secret;
use crate::base::telemetry::{self, LogFormat};
use crate::base::web_origin::{NO_ORIGIN, WebOrigin};

/// The placeholder for the value of a setting that is on or off. It may be `true` or `false` too.
const ON_OR_OFF: &str = "off|on";

/// The prefix of the environment variables.
pub(super) const ENV_PREFIX: &str = "ROLLCALL_";

/// One setting.
#[derive(Debug)]
pub struct Setting {
    /// The key in the file and, after `--`, the flag.
    pub name: &'static str,
    /// The heading in the help.
    pub group: &'static str,
    /// A placeholder for the value, such as `DURATION`.
    pub hint: &'static str,
    /// `None` if the setting has no value by default.
    pub default: Option<&'static str>,
    /// What the flag means if it is given without a value; `None` if it needs one.
    pub bare: Option<&'static str>,
    /// Help in one line.
    pub doc: &'static str,
    /// More help; may be empty.
    pub more: &'static str,
    /// Whether messages may show the value.
    pub shown: Shown,
    /// Checks a value and stores it; the error says what would be right.
    pub(super) take: fn(&mut Config, &str) -> Result<(), String>,
}

/// Whether messages may show a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    /// They may.
    Plain,
    /// They must not: it may hold a password.
    Never,
}

impl Setting {
    /// The environment variable: `ROLLCALL_LEASE_REFRESH` for `lease-refresh`.
    #[must_use]
    pub fn env_name(&self) -> String {
        env_name(self.name)
    }
}

/// The environment variable of the setting with this name.
pub(super) fn env_name(name: &str) -> String {
    format!(
        "{ENV_PREFIX}{}",
        name.to_ascii_uppercase().replace('-', "_")
    )
}

/// The name of each setting.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    SETTINGS.iter().map(|setting| setting.name)
}

const ADDRESSES: &str = "Addresses";
const STORE: &str = "Store";
const PRESENCE: &str = "Presence";
const WHO: &str = "Users and fans";
const EVENTS: &str = "Events";
const LIMITS: &str = "Limits";
const PROCESS: &str = "Process";

/// Fills in what an entry of the table leaves out.
const PLAIN: Setting = Setting {
    name: "",
    group: "",
    hint: "",
    default: None,
    bare: None,
    doc: "",
    more: "",
    shown: Shown::Plain,
    take: |_, _| Ok(()),
};

/// Every setting, in the order of the help.
pub const SETTINGS: &[Setting] = &[
    Setting {
        name: "listen",
        group: ADDRESSES,
        hint: "ADDR:PORT",
        default: Some("127.0.0.1:8080"),
        doc: "The public address; port 0 picks a free port",
        take: |c, text| set(&mut c.listen, address(text)),
        ..PLAIN
    },
    Setting {
        name: "admin-listen",
        group: ADDRESSES,
        hint: "ADDR:PORT",
        doc: "A second, internal address for /v1 and /metrics; on the public one, /v1 then takes tokens only",
        take: |c, text| set(&mut c.admin_listen, address(text).map(Some)),
        ..PLAIN
    },
    Setting {
        name: "handshake-timeout",
        group: ADDRESSES,
        hint: "DURATION",
        default: Some("10s"),
        doc: "How long a connection may take to send its whole request before it is closed",
        take: |c, text| set(&mut c.handshake_timeout, duration(text, ms(100)..=s(300))),
        ..PLAIN
    },
    Setting {
        name: "handshake-rate",
        group: ADDRESSES,
        hint: "PER_SECOND",
        default: Some("4000"),
        doc: "WebSockets accepted per second; beyond that, clients get 503 with Retry-After; 0: no limit",
        more: "Below the rate no handshake waits. Beyond it, a handshake waits half a second at most, or is refused.",
        take: |c, text| set(&mut c.handshake_rate, number(text, 0..=1_000_000)),
        ..PLAIN
    },
    Setting {
        name: "max-handshakes",
        group: ADDRESSES,
        hint: "CONNECTIONS",
        default: Some("1024"),
        doc: "Non-WebSocket connections per port, an eighth of them from one address; who holds most gives way",
        more: "At most an eighth of the files that the process may open. The internal port has no bound per address.",
        take: |c, text| set(&mut c.max_handshakes, number(text, 1..=1_000_000)),
        ..PLAIN
    },
    Setting {
        name: "max-sockets",
        group: ADDRESSES,
        hint: "SOCKETS",
        doc: "WebSockets open at a time; beyond that, 503. Default: what the open-file limit (ulimit -n) allows",
        take: |c, text| set(&mut c.max_sockets, number(text, 1..=100_000_000).map(Some)),
        ..PLAIN
    },
    Setting {
        name: "max-presences",
        group: ADDRESSES,
        hint: "SESSIONS",
        default: Some("1000000"),
        doc: "Sessions without a WebSocket at a time (POST /v1/presence); beyond that, 503",
        take: |c, text| set(&mut c.max_presences, number(text, 0..=100_000_000)),
        ..PLAIN
    },
    Setting {
        name: "presence-secret-file",
        group: ADDRESSES,
        hint: "FILE",
        doc: "A file with the secret behind sessions without a WebSocket, or two while it changes, a line each",
        more: "The same for all gateways, so that any of them goes on with a session when another one is gone. Without \
               it, gateways share a random secret in Redis. Read again on change.",
        take: |c, text| set(&mut c.presence_secret_file, Ok(Some(PathBuf::from(text)))),
        ..PLAIN
    },
    Setting {
        name: "udp",
        group: ADDRESSES,
        hint: "ADDR:PORT",
        doc: "An address for heartbeats by datagram, of sessions without a WebSocket; default: none are taken",
        more: "Port 0 picks a free port. docs/datagrams.md says what clients send.",
        take: |c, text| set(&mut c.udp, address(text).map(Some)),
        ..PLAIN
    },
    Setting {
        name: "udp-advertise",
        group: ADDRESSES,
        hint: "HOST:PORT,…",
        doc: "Where clients send datagrams, all gateways or their balancer; default: the address of udp",
        more: "A client goes to the next one when a gateway does not answer. :PORT stands for the host that the client \
               reached over HTTP, and so does an address of udp that is 0.0.0.0 or [::].",
        take: |c, text| set(&mut c.udp_advertise, list(text, host_and_port)),
        ..PLAIN
    },
    Setting {
        name: "tls-cert",
        group: ADDRESSES,
        hint: "FILE",
        doc: "A PEM file with the certificate chain; the public address then speaks TLS only; read again on change",
        more: "Needs tls-key.",
        take: |c, text| set(&mut c.tls_cert, Ok(Some(PathBuf::from(text)))),
        ..PLAIN
    },
    Setting {
        name: "tls-key",
        group: ADDRESSES,
        hint: "FILE",
        doc: "A PEM file with the private key of tls-cert; read again on change",
        take: |c, text| set(&mut c.tls_key, Ok(Some(PathBuf::from(text)))),
        ..PLAIN
    },
    Setting {
        name: "trusted-proxies",
        group: ADDRESSES,
        hint: "NETWORKS",
        doc: "Networks of proxies whose Forwarded or X-Forwarded-For names the client, such as 10.0.0.0/8,::1",
        take: |c, text| set(&mut c.trusted_proxies, list(text, network)),
        ..PLAIN
    },
    Setting {
        name: "proxy-protocol",
        group: ADDRESSES,
        hint: ON_OR_OFF,
        default: Some("off"),
        doc: "Whether each connection to the public address begins with a PROXY protocol header, version 1 or 2",
        take: |c, text| set(&mut c.proxy_protocol, switch(text)),
        ..PLAIN
    },
    Setting {
        name: "origins",
        group: ADDRESSES,
        hint: "ORIGINS",
        doc: "Origins whose pages may connect, as https://example.org,app://localhost; default: its own pages only",
        more: "A comma-separated list of scheme://host[:port]; * allows every origin, and null pages without one, as\n\
               in sandboxed frames. Pages inside apps have origins too. Other clients send none.",
        take: |c, text| set(&mut c.origins, list(text, origin)),
        ..PLAIN
    },
    Setting {
        name: "redis",
        group: STORE,
        hint: "URL",
        doc: "The Redis that gateways share, redis://[user:password@]host[:port][/db]; default: this process's memory",
        more: "rediss:// uses TLS. redis-cluster://…host[:port],… names some nodes of a cluster, and\n\
               redis-sentinel://…host[:port],…[/service] names sentinels; both have a rediss- form. A gateway with\n\
               the memory store shares nothing with other gateways. Put a password in the environment or the file:\n\
               every user of the machine can see flags.",
        shown: Shown::Never,
        take: |c, text| set(&mut c.redis, redis_url(text).map(Some)),
        ..PLAIN
    },
    Setting {
        name: "key-prefix",
        group: STORE,
        hint: "PREFIX",
        doc: "What all keys and channels in Redis begin with, for a Redis that several installations share",
        more: "Up to 64 bytes of A-Z a-z 0-9 _ . : - such as app1: (none by default). Every gateway of an\n\
               installation, and its audits, need the same prefix.",
        take: |c, text| {
            set(
                &mut c.key_prefix,
                KeyPrefix::parse(text).map_err(|why| why.to_string()),
            )
        },
        ..PLAIN
    },
    Setting {
        name: "redis-ca",
        group: STORE,
        hint: "FILE",
        doc: "A PEM file of certificate authorities to trust for Redis over TLS; default: the system's",
        take: |c, text| set(&mut c.redis_ca, Ok(Some(PathBuf::from(text)))),
        ..PLAIN
    },
    Setting {
        name: "wait-for-store",
        group: STORE,
        hint: "DURATION",
        default: Some("0s"),
        doc: "How long to wait at startup for a store, or the URL of jwt-jwks, that does not answer yet",
        take: |c, text| set(&mut c.wait_for_store, duration(text, ms(0)..=s(3600))),
        ..PLAIN
    },
    Setting {
        name: "flush",
        group: STORE,
        hint: "DURATION",
        default: Some("250ms"),
        doc: "How often joins and leaves are written to the store",
        more: "At most lease-refresh.",
        take: |c, text| set(&mut c.flush, duration(text, ms(10)..=s(10))),
        ..PLAIN
    },
    Setting {
        name: "lease",
        group: STORE,
        hint: "DURATION",
        default: Some("15s"),
        doc: "How long a gateway may go without renewing its lease before it is buried and its fans are removed",
        more: "At least five times lease-refresh.",
        take: |c, text| set(&mut c.lease, duration(text, ms(250)..=s(600))),
        ..PLAIN
    },
    Setting {
        name: "lease-refresh",
        group: STORE,
        hint: "DURATION",
        default: Some("2s"),
        doc: "How often a gateway renews its lease",
        more: "At most a fifth of lease.",
        take: |c, text| set(&mut c.lease_refresh, duration(text, ms(50)..=s(120))),
        ..PLAIN
    },
    Setting {
        name: "check-every",
        group: STORE,
        hint: "DURATION",
        default: Some("60s"),
        doc: "How often a gateway compares the store with what it should hold; after lost data or a reconnect, at once",
        more: "At least lease-refresh.",
        take: |c, text| set(&mut c.check_every, duration(text, ms(100)..=s(600))),
        ..PLAIN
    },
    Setting {
        name: "closed-ttl",
        group: STORE,
        hint: "DURATION",
        default: Some("30d"),
        doc: "How long the record of a closed live is kept",
        take: |c, text| {
            set(
                &mut c.closed_ttl,
                duration(text, s(60)..=s(366 * 24 * 3600)),
            )
        },
        ..PLAIN
    },
    Setting {
        name: "remember",
        group: STORE,
        hint: "DURATION",
        default: Some("30d"),
        doc: "How long it is remembered when a user who is not online was seen last",
        take: |c, text| {
            set(
                &mut c.remember,
                duration(text, s(60)..=s(10 * 366 * 24 * 3600)),
            )
        },
        ..PLAIN
    },
    Setting {
        name: "last-seen-ids",
        group: STORE,
        hint: "text|u32",
        default: Some("text"),
        doc: "How Redis keeps the ids of users seen: as text, or, if all are decimal numbers below 2^32, in 4 bytes",
        more: "Fixed by the first gateway that uses a Redis; a gateway with the other form does not start.",
        take: |c, text| {
            set(
                &mut c.last_seen_ids,
                word(text, &[("text", SeenIds::Text), ("u32", SeenIds::U32)]),
            )
        },
        ..PLAIN
    },
    Setting {
        name: "attendance",
        group: STORE,
        hint: "set|bitmap",
        default: Some("set"),
        doc: "How Redis keeps which fans came to a live with attendance: their ids or, for dense numbers, bits",
        more: "Fixed by the first gateway that uses a Redis; a gateway with the other form does not start. `bitmap` \
               needs last-seen-ids u32.",
        take: |c, text| {
            let forms = [
                ("set", AttendanceForm::Set),
                ("bitmap", AttendanceForm::Bitmap),
            ];
            set(&mut c.attendance, word(text, &forms))
        },
        ..PLAIN
    },
    Setting {
        name: "heartbeat",
        group: PRESENCE,
        hint: "DURATION",
        default: Some("5s"),
        doc: "How often clients should send a heartbeat; the gateway pings a socket that is silent for longer",
        take: |c, text| set(&mut c.heartbeat, duration(text, ms(100)..=s(300))),
        ..PLAIN
    },
    Setting {
        name: "timeout",
        group: PRESENCE,
        hint: "DURATION",
        default: Some("15s"),
        doc: "How long a socket may be silent before it is closed and its user counts as gone",
        more: "At least a second more than heartbeat. Three times heartbeat survives two lost heartbeats.",
        take: |c, text| set(&mut c.timeout, duration(text, ms(200)..=s(900))),
        ..PLAIN
    },
    Setting {
        name: "streamer-timeout",
        group: PRESENCE,
        hint: "DURATION",
        default: Some("60s"),
        doc: "How long a streamer may be gone before a live opened over the streamer's socket closes; 0: never",
        take: |c, text| {
            let wanted = match humantime::parse_duration(text) {
                Ok(Duration::ZERO) => Ok(None),
                _ => duration(text, ms(200)..=s(86_400))
                    .map(Some)
                    .map_err(|right| format!("{right}, or 0 for never")),
            };
            set(&mut c.streamer_timeout, wanted)
        },
        ..PLAIN
    },
    Setting {
        name: "track-online",
        group: PRESENCE,
        hint: ON_OR_OFF,
        default: Some("on"),
        doc: "Whether the store knows who has a socket, in a live or not, and when the others were last seen",
        more: "The same for all gateways.",
        take: |c, text| set(&mut c.track_online, switch(text)),
        ..PLAIN
    },
    Setting {
        name: "uniques",
        group: PRESENCE,
        hint: ON_OR_OFF,
        default: Some("on"),
        doc: "Whether the summary of a closed live says how many different viewers and fans came",
        more: "The same for all gateways. Costs a call to the store for each live and flush in which somebody came.",
        take: |c, text| set(&mut c.uniques, switch(text)),
        ..PLAIN
    },
    Setting {
        name: "auth",
        group: WHO,
        hint: "off|jwt",
        default: Some("off"),
        doc: "How users prove who they are; off: not at all, and only loopback addresses are allowed; jwt: by tokens",
        more: "jwt needs jwt-hs256-secret-file, jwt-public-key or jwt-jwks.",
        take: |c, text| {
            set(
                &mut c.auth,
                word(text, &[("off", AuthMode::Off), ("jwt", AuthMode::Jwt)]),
            )
        },
        ..PLAIN
    },
    Setting {
        name: "jwt-hs256-secret-file",
        group: WHO,
        hint: "FILE",
        doc: "The secret that signs HS256 tokens, 32 bytes or more; read again on change",
        take: |c, text| set(&mut c.jwt_hs256_secret_file, Ok(Some(PathBuf::from(text)))),
        ..PLAIN
    },
    Setting {
        name: "jwt-public-key",
        group: WHO,
        hint: "FILE",
        doc: "A PEM file with one or more public keys of RS256, ES256 or EdDSA tokens; read again on change",
        take: |c, text| set(&mut c.jwt_public_key, Ok(Some(PathBuf::from(text)))),
        ..PLAIN
    },
    Setting {
        name: "jwt-jwks",
        group: WHO,
        hint: "FILE|URL",
        doc: "A JSON Web Key Set: a file, read again on change, or a URL, fetched again in the background",
        more: "The URL is fetched at start, which waits for it as long as wait-for-store says, then about every 5 min.",
        shown: Shown::Never,
        take: |c, text| set(&mut c.jwt_jwks, jwks(text).map(Some)),
        ..PLAIN
    },
    Setting {
        name: "jwt-audience",
        group: WHO,
        hint: "TEXT",
        doc: "The aud that each token must have; default: aud is not checked",
        take: |c, text| set(&mut c.jwt_audience, Ok(Some(text.to_owned()))),
        ..PLAIN
    },
    Setting {
        name: "jwt-issuer",
        group: WHO,
        hint: "TEXT",
        doc: "The iss that each token must have; default: iss is not checked",
        take: |c, text| set(&mut c.jwt_issuer, Ok(Some(text.to_owned()))),
        ..PLAIN
    },
    Setting {
        name: "proxy-from-env",
        group: WHO,
        hint: "off|on",
        default: Some("off"),
        bare: Some("on"),
        doc: "Whether jwt-jwks and fan-url are asked through the proxy that HTTPS_PROXY or HTTP_PROXY names",
        take: |c, text| set(&mut c.proxy_from_env, switch(text)),
        ..PLAIN
    },
    Setting {
        name: "api-keys",
        group: WHO,
        hint: "FILE",
        doc: "The keys of back ends for /v1, a line each: name, scopes, SHA-256 in hex; read again on change",
        more: "Scopes are a comma-separated list of read, write and moderate. `rollcall key` makes a key and its line.",
        take: |c, text| set(&mut c.api_keys, Ok(Some(PathBuf::from(text)))),
        ..PLAIN
    },
    Setting {
        name: "fanout-limit",
        group: WHO,
        hint: "FOLLOWERS",
        default: Some("1000000"),
        doc: "What users with more followers do is not written to each follower; followers look at such users instead",
        more: "The same for all gateways.",
        take: |c, text| set(&mut c.fanout_limit, number(text, 0..=1_000_000_000_000)),
        ..PLAIN
    },
    Setting {
        name: "fan-source",
        group: WHO,
        hint: "redis|token|http|sql",
        default: Some("redis"),
        doc: "Where followers are looked up: in the store, in the viewer's token, at an HTTP service, in a database",
        more: "http and sql need fan-url.",
        take: |c, text| {
            let all = [
                FanSource::Redis,
                FanSource::Token,
                FanSource::Http,
                FanSource::Sql,
            ];
            let known = all.map(|source| (source.as_str(), source));
            set(&mut c.fan_source, word(text, &known))
        },
        ..PLAIN
    },
    Setting {
        name: "fan-key",
        group: WHO,
        hint: "followers|following",
        default: Some("followers"),
        doc: "With fan-source redis: whether the streamer's followers: or each viewer's own following: is read",
        more: "following spreads the work over the nodes of a cluster, for streamers with millions of followers.",
        take: |c, text| {
            let known = [
                ("followers", FanKey::Followers),
                ("following", FanKey::Following),
            ];
            set(&mut c.fan_key, word(text, &known))
        },
        ..PLAIN
    },
    Setting {
        name: "fan-url",
        group: WHO,
        hint: "URL",
        doc: "With fan-source http: https://…; with sql: postgres://user@host/database, or mysql://…",
        more: "Put a password in fan-secret-file, the environment or the file: every user of the machine sees flags.",
        shown: Shown::Never,
        take: |c, text| set(&mut c.fan_url, fan_url(text).map(Some)),
        ..PLAIN
    },
    Setting {
        name: "fan-secret-file",
        group: WHO,
        hint: "FILE",
        doc: "The bearer token of fan-source http, or the password of sql; read again on change",
        take: |c, text| set(&mut c.fan_secret_file, Ok(Some(PathBuf::from(text)))),
        ..PLAIN
    },
    Setting {
        name: "fan-ca",
        group: WHO,
        hint: "FILE",
        doc: "A PEM file of certificate authorities to trust at fan-url; a database must then prove its name, too",
        take: |c, text| set(&mut c.fan_ca, Ok(Some(PathBuf::from(text)))),
        ..PLAIN
    },
    Setting {
        name: "fan-timeout",
        group: WHO,
        hint: "DURATION",
        default: Some("2s"),
        doc: "How long one call to fan-url may take, with up to 1,000 users in it",
        take: |c, text| set(&mut c.fan_timeout, duration(text, ms(50)..=s(60))),
        ..PLAIN
    },
    Setting {
        name: "fan-calls",
        group: WHO,
        hint: "CALLS",
        default: Some("8"),
        doc: "Calls to fan-url under way at a time; with sql, as many connections",
        take: |c, text| set(&mut c.fan_calls, number(text, 1..=256)),
        ..PLAIN
    },
    Setting {
        name: "fan-sql",
        group: WHO,
        hint: "STATEMENT",
        doc: "The statement of fan-source sql; default: that of docs/fan-sources.md for a table named follows",
        more: "PostgreSQL: $1 is the streamer, $2 the array of users. MySQL: the first ? is the streamer, and (?), in\n\
               parentheses of its own, the list of users. The first column of each row is a user who is a fan.",
        take: |c, text| set(&mut c.fan_sql, Ok(Some(text.to_owned()))),
        ..PLAIN
    },
    Setting {
        name: "fan-sql-ids",
        group: WHO,
        hint: "text|integer",
        default: Some("text"),
        doc: "The type of the columns with the ids of users that fan-sql compares",
        take: |c, text| {
            set(
                &mut c.fan_sql_ids,
                word(
                    text,
                    &[("text", SqlIds::Text), ("integer", SqlIds::Integer)],
                ),
            )
        },
        ..PLAIN
    },
    Setting {
        name: "fan-ttl",
        group: WHO,
        hint: "DURATION",
        default: Some("30s"),
        doc: "How long the result of a fan check is valid",
        take: |c, text| set(&mut c.fan_ttl, duration(text, ms(100)..=s(86_400))),
        ..PLAIN
    },
    Setting {
        name: "stream-grace",
        group: WHO,
        hint: "DURATION",
        default: Some("20s"),
        doc: "How long a live that a stream opened outlives the end of its stream, see docs/media-servers.md",
        more: "A streamer who comes back in that time goes on with the same live. The same for all gateways.",
        take: |c, text| set(&mut c.stream_grace, duration(text, s(1)..=s(3_600))),
        ..PLAIN
    },
    Setting {
        name: "events-kept",
        group: EVENTS,
        hint: "EVENTS",
        default: Some("250000"),
        doc: "About how many events the stream rollcall:events keeps; older ones are trimmed, delivered or not",
        more: "An event of a live takes some 150 to 300 bytes. As many events that were given up are kept.",
        take: |c, text| set(&mut c.events_kept, number(text, 100..=100_000_000)),
        ..PLAIN
    },
    Setting {
        name: "events-max-age",
        group: EVENTS,
        hint: "DURATION",
        default: Some("7d"),
        doc: "How old an event in rollcall:events becomes; older ones are trimmed, delivered or not",
        more: "At least webhook-patience. The same for all gateways.",
        take: |c, text| {
            set(
                &mut c.events_max_age,
                duration(text, s(3_600)..=s(3_650 * 86_400)),
            )
        },
        ..PLAIN
    },
    Setting {
        name: "audit-max-age",
        group: EVENTS,
        hint: "DURATION",
        default: Some("90d"),
        doc: "How old an entry of the audit trail becomes; older ones are trimmed",
        more: "The trail also keeps no more entries than events-kept. The same for all gateways.",
        take: |c, text| {
            set(
                &mut c.audit_max_age,
                duration(text, s(3_600)..=s(3_650 * 86_400)),
            )
        },
        ..PLAIN
    },
    Setting {
        name: "count-events",
        group: EVENTS,
        hint: ON_OR_OFF,
        default: Some("on"),
        doc: "Whether live.counts are events: on change, at most one per 10 s and live",
        more: "The same for all gateways.",
        take: |c, text| set(&mut c.count_events, switch(text)),
        ..PLAIN
    },
    Setting {
        name: "fan-events",
        group: EVENTS,
        hint: ON_OR_OFF,
        default: Some("off"),
        bare: Some("on"),
        doc: "Whether fan.joined and fan.left are events: at most one of each per second, live and gateway",
        more: "The same for all gateways.",
        take: |c, text| set(&mut c.fan_events, switch(text)),
        ..PLAIN
    },
    Setting {
        name: "follow-events",
        group: EVENTS,
        hint: ON_OR_OFF,
        default: Some("off"),
        bare: Some("on"),
        doc: "Whether user.followed and user.unfollowed are events",
        more: "The same for all gateways.",
        take: |c, text| set(&mut c.follow_events, switch(text)),
        ..PLAIN
    },
    Setting {
        name: "audit-events",
        group: EVENTS,
        hint: ON_OR_OFF,
        default: Some("off"),
        bare: Some("on"),
        doc: "Whether audit.recorded is an event: who changed what over the HTTP API",
        more: "The same for all gateways.",
        take: |c, text| set(&mut c.audit_events, switch(text)),
        ..PLAIN
    },
    Setting {
        name: "webhook-url",
        group: EVENTS,
        hint: "URL",
        doc: "Where events are sent, each as a signed POST, as in https://example.org/hooks; default: nowhere",
        more: "Needs webhook-secret-file. The same for all gateways; one of them sends at a time. The settings \
               file may have further webhooks, see docs/events.md.",
        shown: Shown::Never,
        take: |c, text| set(&mut c.webhook_url, webhook(text).map(Some)),
        ..PLAIN
    },
    Setting {
        name: "webhook-secret-file",
        group: EVENTS,
        hint: "FILE",
        doc: "A file with the secret that signs events, or two while it changes, a line each; read again on change",
        take: |c, text| set(&mut c.webhook_secret_file, Ok(Some(PathBuf::from(text)))),
        ..PLAIN
    },
    Setting {
        name: "webhook-events",
        group: EVENTS,
        hint: "EVENTS",
        doc: "Which events are sent to the webhook, as in live.opened,live.closed; default: all in the stream",
        take: |c, text| set(&mut c.webhook_events, events(text)),
        ..PLAIN
    },
    Setting {
        name: "webhook-allow-private",
        group: EVENTS,
        hint: ON_OR_OFF,
        default: Some("off"),
        bare: Some("on"),
        doc: "Whether events may be sent to private and loopback addresses",
        take: |c, text| set(&mut c.webhook_allow_private, switch(text)),
        ..PLAIN
    },
    Setting {
        name: "webhook-timeout",
        group: EVENTS,
        hint: "DURATION",
        default: Some("10s"),
        doc: "How long the webhook may take to answer",
        take: |c, text| set(&mut c.webhook_timeout, duration(text, ms(100)..=s(60))),
        ..PLAIN
    },
    Setting {
        name: "webhook-patience",
        group: EVENTS,
        hint: "DURATION",
        default: Some("1h"),
        doc: "How old an event that the webhook does not take may become before it is given up",
        more: "It is sent again after half a second at first, and after a minute at most. See rollcall events.",
        take: |c, text| {
            set(
                &mut c.webhook_patience,
                duration(text, s(1)..=s(30 * 24 * 3600)),
            )
        },
        ..PLAIN
    },
    Setting {
        name: "message-rate",
        group: LIMITS,
        hint: "PER_SECOND",
        default: Some("10"),
        doc: "Messages per second and socket, twice as many at once; beyond that, rate_limited, then 4008; 0: no limit",
        take: |c, text| set(&mut c.message_rate, number(text, 0..=1_000_000)),
        ..PLAIN
    },
    Setting {
        name: "sockets-per-user",
        group: LIMITS,
        hint: "SOCKETS",
        default: Some("20"),
        doc: "Sockets of one user on this gateway; beyond that, the oldest is closed with 4009; 0: no limit",
        take: |c, text| set(&mut c.sockets_per_user, number(text, 0..=1_000_000)),
        ..PLAIN
    },
    Setting {
        name: "sockets-per-ip",
        group: LIMITS,
        hint: "SOCKETS",
        default: Some("1000"),
        doc: "Sockets from one address that is not loopback; beyond that, 429; 0: no limit",
        take: |c, text| set(&mut c.sockets_per_ip, number(text, 0..=100_000_000)),
        ..PLAIN
    },
    Setting {
        name: "watches-per-socket",
        group: LIMITS,
        hint: "LIVES",
        default: Some("1000"),
        doc: "Lives that one socket may watch; beyond that, rate_limited; 0: no limit",
        take: |c, text| set(&mut c.watches_per_socket, number(text, 0..=1_000_000)),
        ..PLAIN
    },
    Setting {
        name: "opens-per-socket",
        group: LIMITS,
        hint: "LIVES",
        default: Some("100"),
        doc: "Lives that one socket may have opened and not seen closed; beyond that, rate_limited; 0: no limit",
        take: |c, text| set(&mut c.opens_per_socket, number(text, 0..=1_000_000)),
        ..PLAIN
    },
    Setting {
        name: "streamers-open",
        group: LIMITS,
        hint: "off|on",
        default: Some("on"),
        doc: "Whether streamers open lives with tokens of their own; off: only back ends open lives",
        more: "The same for all gateways. A token's claim `lives` says which lives a streamer may open.",
        take: |c, text| set(&mut c.streamers_open, switch(text)),
        ..PLAIN
    },
    Setting {
        name: "lives-per-streamer",
        group: LIMITS,
        hint: "LIVES",
        default: Some("20"),
        doc: "Open lives that one streamer's tokens opened, on all gateways; beyond that, rate_limited; 0: no limit",
        more: "Lives that a back end opens do not count.",
        take: |c, text| set(&mut c.lives_per_streamer, number(text, 0..=1_000_000)),
        ..PLAIN
    },
    Setting {
        name: "opens-per-day",
        group: LIMITS,
        hint: "LIVES",
        default: Some("100"),
        doc: "Lives that one streamer's tokens may open in a day, on all gateways, and at once; 0: no limit",
        more: "A closed live is remembered for closed-ttl. To open a live again that is open already does not count.",
        take: |c, text| set(&mut c.opens_per_day, number(text, 0..=1_000_000)),
        ..PLAIN
    },
    Setting {
        name: "join-rate",
        group: LIMITS,
        hint: "PER_SECOND",
        default: Some("5000"),
        doc: "Joins per second and live on this gateway; beyond that, rate_limited; 0: no limit",
        take: |c, text| set(&mut c.join_rate, number(text, 0..=10_000_000)),
        ..PLAIN
    },
    Setting {
        name: "user-rate",
        group: LIMITS,
        hint: "PER_SECOND",
        default: Some("10"),
        doc: "What one user may ask of the store per second, over all sockets on this gateway; 0: no limit",
        more: "Four times as much at once. A join, a switch to another live, a watch or a question for friends counts\n\
               one, a close two, an open five, or one if this gateway has the live open already; beyond that,\n\
               rate_limited. Over HTTP, a streamer's open counts five, and what changes, closes or moderates a\n\
               live two. What is read to find friends, a thousand users a unit, has as much again; beyond that,\n\
               it comes later. The role service has no limit.",
        take: |c, text| set(&mut c.user_rate, number(text, 0..=1_000_000)),
        ..PLAIN
    },
    Setting {
        name: "http-rate",
        group: LIMITS,
        hint: "PER_SECOND",
        default: Some("200"),
        doc: "HTTP requests per second of one API key or user, or from one address; beyond that, 429; 0: no limit",
        take: |c, text| set(&mut c.http_rate, number(text, 0..=1_000_000)),
        ..PLAIN
    },
    Setting {
        name: "drain",
        group: PROCESS,
        hint: "DURATION",
        default: Some("30s"),
        doc: "Time for a graceful stop; clients are told to reconnect over the first two thirds; 0: closed at once",
        more: "Give the process a little longer than this before you kill it. However short it is, 4.5 s remain for\n\
               closing sockets and the last flush. With less than 5 s, counts may dip while viewers\n\
               move. A second signal ends the process at once.",
        take: |c, text| set(&mut c.drain, duration(text, ms(0)..=s(600))),
        ..PLAIN
    },
    Setting {
        name: "log",
        group: PROCESS,
        hint: "FILTER",
        default: Some("info"),
        doc: "What to log: a level, or a comma-separated list of target=level",
        more: "For example rollcall=debug,warn. Levels: off, error, warn, info, debug, trace.",
        take: |c, text| set(&mut c.log, telemetry::filter(text).map(|_| text.to_owned())),
        ..PLAIN
    },
    Setting {
        name: "log-format",
        group: PROCESS,
        hint: "text|json",
        default: Some("text"),
        doc: "Log format: text for people, or one JSON object per line",
        take: |c, text| {
            set(
                &mut c.log_format,
                word(
                    text,
                    &[("text", LogFormat::Text), ("json", LogFormat::Json)],
                ),
            )
        },
        ..PLAIN
    },
    Setting {
        name: "otlp-endpoint",
        group: PROCESS,
        hint: "URL",
        doc: "The OpenTelemetry collector to send spans to, over OTLP/HTTP; needs a build with the feature otlp",
        more: "For example http://127.0.0.1:4318; the gateway adds /v1/traces.",
        shown: Shown::Never,
        take: |c, text| set(&mut c.otlp_endpoint, collector(text).map(Some)),
        ..PLAIN
    },
    Setting {
        name: "otlp-one-in",
        group: PROCESS,
        hint: "TRACES",
        default: Some("100"),
        doc: "One trace in so many is sent; a request whose traceparent says that it is sampled always is",
        take: |c, text| set(&mut c.otlp_one_in, number(text, 1..=1_000_000_000)),
        ..PLAIN
    },
    Setting {
        name: "config",
        group: PROCESS,
        hint: "FILE",
        doc: "A TOML file with settings, such as heartbeat = \"5s\"; it cannot name another file",
        // `load` reads it before all others, so there is nothing to take.
        ..PLAIN
    },
];

/// The table of settings in `docs/operations.md`.
#[must_use]
pub fn markdown_table() -> String {
    let mut table = "| setting | default | what |\n| --- | --- | --- |\n".to_owned();
    for Setting {
        name,
        hint,
        default,
        doc,
        ..
    } in SETTINGS
    {
        let default = match default {
            Some(default) => format!("`{default}`"),
            None => String::new(),
        };
        table += &format!(
            "| `--{name} {}` | {default} | {} |\n",
            hint.replace('|', "\\|"),
            doc.replace('|', "\\|")
        );
    }
    table
}

fn set<T>(target: &mut T, value: Result<T, String>) -> Result<(), String> {
    *target = value?;
    Ok(())
}

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

const fn s(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn duration(text: &str, bounds: RangeInclusive<Duration>) -> Result<Duration, String> {
    let least = humantime::format_duration(*bounds.start());
    let most = humantime::format_duration(*bounds.end());
    match humantime::parse_duration(text) {
        Ok(duration) if bounds.contains(&duration) => Ok(duration),
        Ok(_) => Err(format!("must be from {least} to {most}")),
        Err(_) if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) => Err(format!(
            "has no unit; use {text}s or {text}ms, from {least} to {most}"
        )),
        Err(_) => Err(format!(
            "is not a duration; use one like 5s, 250ms or 1m30s, from {least} to {most}"
        )),
    }
}

fn number<T: FromStr + PartialOrd + Display>(
    text: &str,
    bounds: RangeInclusive<T>,
) -> Result<T, String> {
    match text.parse() {
        Ok(number) if bounds.contains(&number) => Ok(number),
        _ => Err(format!(
            "must be a whole number from {} to {}",
            bounds.start(),
            bounds.end()
        )),
    }
}

fn address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    // The example has the port of the text, if the text ends with one.
    let after_colon = text.rsplit(':').next().unwrap_or_default();
    let port: u16 = after_colon.parse().unwrap_or(8080);
    Err(format!(
        "is not an address; use an IP address with a port, such as 127.0.0.1:{port} or [::1]:{port}"
    ))
}

/// What clients are told: the host is a name or an address, or empty.
fn host_and_port(text: &str) -> Result<String, String> {
    let wrong = "is not a list of host:port, such as gw1.example.org:8081,gw2.example.org:8081";
    let Some((host, port)) = text.rsplit_once(':') else {
        return Err(wrong.to_owned());
    };
    let in_brackets = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    let is_ipv6 = in_brackets.is_some_and(|host| host.parse::<Ipv6Addr>().is_ok());
    let is_name = host
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
    let has_port = port.parse::<u16>().is_ok_and(|port| port > 0);
    if has_port && (is_ipv6 || is_name) {
        Ok(text.to_owned())
    } else {
        Err(wrong.to_owned())
    }
}

fn switch(text: &str) -> Result<bool, String> {
    match text {
        "on" | "true" => Ok(true),
        "off" | "false" => Ok(false),
        _ => Err("is not known; use off or on".to_owned()),
    }
}

/// Reads one of the known words.
fn word<T: Copy>(text: &str, known: &[(&str, T)]) -> Result<T, String> {
    if let Some((_, value)) = known.iter().find(|(word, _)| *word == text) {
        return Ok(*value);
    }
    let right = known
        .iter()
        .map(|(word, _)| *word)
        .collect::<Vec<_>>()
        .join(" or ");
    Err(format!("is not known; use {right}"))
}

/// Reads a comma-separated list.
fn list<T>(text: &str, item: impl Fn(&str) -> Result<T, String>) -> Result<Vec<T>, String> {
    text.split(',').map(|part| item(part.trim())).collect()
}

/// A network, or an address as a network of its own.
fn network(text: &str) -> Result<IpNet, String> {
    if let Ok(network) = text.parse::<IpNet>() {
        return Ok(network);
    }
    if let Ok(address) = text.parse::<IpAddr>() {
        return Ok(IpNet::from(address));
    }
    Err("is not a list of networks; use addresses such as 10.0.0.0/8,192.0.2.7,::1".to_owned())
}

/// An origin, as browsers write it; or a word for all, or for none.
fn origin(text: &str) -> Result<String, String> {
    if ["*", NO_ORIGIN].contains(&text) || WebOrigin::parse(text).is_some() {
        return Ok(text.to_ascii_lowercase());
    }
    let problem = "is not a list of origins; use ones like https://example.org, http://localhost:3000 or \
                   capacitor://localhost, with no path and no slash at the end";
    Err(problem.to_owned())
}

/// A file, or a URL of http or https. Everybody may read such a set, so a URL with a password is a
/// mistake.
fn jwks(text: &str) -> Result<Jwks, String> {
    if !text.contains("://") {
        return Ok(Jwks::File(PathBuf::from(text)));
    }
    match Url::parse(text) {
        Ok(url) if !["http", "https"].contains(&url.scheme()) => {
            Err("must be a file, or a URL of https".to_owned())
        }
        Ok(url) if !url.username().is_empty() || url.password().is_some() => {
            Err("must have no password".to_owned())
        }
        Ok(url) => Ok(Jwks::Url(url)),
        Err(_) => {
            Err("is not a URL; use one like https://example.org/.well-known/jwks.json".to_owned())
        }
    }
}

/// The events that a text names, separated by commas.
pub(super) fn events(text: &str) -> Result<Vec<EventKind>, String> {
    list(text, event_kind)
}

fn event_kind(text: &str) -> Result<EventKind, String> {
    if let Some(kind) = EventKind::from_name(text) {
        return Ok(kind);
    }
    let names: Vec<_> = EventKind::ALL.iter().map(|kind| kind.as_str()).collect();
    Err(format!(
        "is not a list of events; use ones of {}",
        names.join(",")
    ))
}

/// Checks a URL, which no error quotes: it may hold a password.
pub(super) fn webhook(text: &str) -> Result<Secret, String> {
    match Url::parse(text) {
        Ok(url) if ["http", "https"].contains(&url.scheme()) && url.has_host() => {
            Ok(Secret::new(text))
        }
        _ => {
            Err("is not a URL of https or http; use one like https://example.org/hooks".to_owned())
        }
    }
}

/// Checks a URL, which no error quotes: it may hold a password.
fn collector(text: &str) -> Result<String, String> {
    let wrong = "is not a URL of https or http; use one like http://127.0.0.1:4318";
    let Ok(url) = Url::parse(text) else {
        return Err(wrong.to_owned());
    };
    if !["http", "https"].contains(&url.scheme()) || !url.has_host() {
        return Err(wrong.to_owned());
    }
    if !url.username().is_empty() || url.password().is_some() {
        let problem = "has a user or password, which would not be sent; set OTEL_EXPORTER_OTLP_HEADERS instead";
        return Err(problem.to_owned());
    }
    if url.query().is_some() {
        return Err(wrong.to_owned());
    }
    Ok(text.to_owned())
}

/// Checks a URL, which no error quotes: it may hold a password.
fn fan_url(text: &str) -> Result<Secret, String> {
    let known = [
        "http",
        "https",
        "postgres",
        "postgresql",
        "mysql",
        "mariadb",
    ];
    match Url::parse(text) {
        Ok(url) if known.contains(&url.scheme()) && text.contains("://") => Ok(Secret::new(text)),
        _ => {
            let problem = "is not a URL; use one like https://example.org/fans, \
                           postgres://rollcall@db.example.org/platform or mysql://rollcall@db.example.org/platform";
            Err(problem.to_owned())
        }
    }
}

/// As [`fan_url`].
fn redis_url(text: &str) -> Result<Secret, String> {
    Address::parse(text).map(|_| Secret::new(text))
}
