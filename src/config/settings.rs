//! The settings. A field of [`Config`] declares one: its name, type, default, bounds and help. Flags,
//! variables, keys of the file, `--help` and the table in `docs/operations.md` follow from it.

use std::any::TypeId;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

use clap::ArgAction::Set;
use clap::builder::{Resettable, StyledStr, ValueParser};
use clap::{Arg, ArgAction, Args, ValueHint};
use ipnet::IpNet;

use super::declared;
use super::given::Given;
use super::media::MediaServer;
use super::values::{
    AttendanceForm, AuthMode, FanKey, FanSource, Jwks, OrNever, SeenIds, SqlIds, address,
    collector, duration, duration_or_never, event_kind, fan_url, host_and_port, jwks, log_filter,
    ms, network, number, origin, redis_url, s, switch, webhook_url,
};
use super::webhooks::WebhookEndpoint;
use crate::base::event_kind::EventKind;
use crate::base::http_client::Proxy;
use crate::base::ids::GatewayId;
use crate::base::key_prefix::KeyPrefix;
use crate::base::secret::Secret;
use crate::base::telemetry::{LogFormat, Traces};
use crate::base::webhook_name::WebhookName;

/// The value of every setting. The first paragraph about a field is its help in one line. A heading
/// of the help goes on until the next one.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
#[group(skip)]
#[allow(
    rustdoc::bare_urls,
    rustdoc::broken_intra_doc_links,
    reason = "the help is for people at a terminal"
)]
pub struct Config {
    /// The public address; port 0 picks a free port
    #[arg(long, help_heading = "Addresses", default_value = "127.0.0.1:8080")]
    #[arg(value_parser = address)]
    pub listen: SocketAddr,
    /// A second, internal address for /v1 and /metrics; on the public one, /v1 then takes tokens only
    #[arg(long, value_parser = address)]
    pub admin_listen: Option<SocketAddr>,
    /// How long a connection may take to send its whole request before it is closed
    #[arg(long, default_value = "10s", value_parser = duration(ms(100)..=s(300)))]
    pub handshake_timeout: Duration,
    /// WebSockets accepted per second; beyond that, clients get 503 with Retry-After; 0: no limit
    ///
    /// Below the rate no handshake waits. Beyond it, a handshake waits half a second at most, or is
    /// refused.
    #[arg(long, value_name = "PER_SECOND", default_value = "4000")]
    #[arg(value_parser = number::<u32>(0..=1_000_000))]
    pub handshake_rate: u32,
    /// Non-WebSocket connections per port, an eighth of them from one address; who holds most gives way
    ///
    /// At most an eighth of the files that the process may open. The internal port has no bound per
    /// address.
    #[arg(long, value_name = "CONNECTIONS", default_value = "1024")]
    #[arg(value_parser = number::<usize>(1..=1_000_000))]
    pub max_handshakes: usize,
    /// WebSockets open at a time; beyond that, 503. Default: what the open-file limit (ulimit -n) allows
    #[arg(long, value_name = "SOCKETS", value_parser = number::<usize>(1..=100_000_000))]
    pub max_sockets: Option<usize>,
    /// Sessions without a WebSocket at a time (POST /v1/presence); beyond that, 503
    #[arg(long, value_name = "SESSIONS", default_value = "1000000")]
    #[arg(value_parser = number::<usize>(0..=100_000_000))]
    pub max_presences: usize,
    /// A file with the secret behind sessions without a WebSocket, or two while it changes, a line each
    ///
    /// The same for all gateways, so that any of them goes on with a session when another one is
    /// gone. Without it, gateways share a random secret in Redis. Read again on change.
    #[arg(long)]
    pub presence_secret_file: Option<PathBuf>,
    /// An address for heartbeats by datagram, of sessions without a WebSocket; default: none are taken
    ///
    /// Port 0 picks a free port. docs/datagrams.md says what clients send.
    #[arg(long, value_parser = address)]
    pub udp: Option<SocketAddr>,
    /// Where clients send datagrams, all gateways or their balancer; default: the address of udp
    ///
    /// A client goes to the next one when a gateway does not answer. :PORT stands for the host that
    /// the client reached over HTTP, and so does an address of udp that is 0.0.0.0 or [::].
    #[arg(long, value_name = "HOST:PORT,…", value_delimiter = ',', value_parser = host_and_port)]
    pub udp_advertise: Vec<String>,
    /// A PEM file with the certificate chain; the public address then speaks TLS only; read again on change
    ///
    /// Needs tls-key.
    #[arg(long)]
    pub tls_cert: Option<PathBuf>,
    /// A PEM file with the private key of tls-cert; read again on change
    #[arg(long)]
    pub tls_key: Option<PathBuf>,
    /// Networks of proxies whose Forwarded or X-Forwarded-For names the client, such as 10.0.0.0/8,::1
    #[arg(long, value_name = "NETWORKS", value_delimiter = ',', value_parser = network)]
    pub trusted_proxies: Vec<IpNet>,
    /// Whether each connection to the public address begins with a PROXY protocol header, version 1 or 2
    #[arg(long, action = Set, default_value = "off", value_parser = switch())]
    pub proxy_protocol: bool,
    /// Origins whose pages may connect, as https://example.org,app://localhost; default: its own pages only
    ///
    /// A comma-separated list of scheme://host[:port]; * allows every origin, and null pages without one, as
    /// in sandboxed frames. Pages inside apps have origins too. Other clients send none.
    #[arg(long, value_name = "ORIGINS", value_delimiter = ',')]
    #[arg(value_parser = origin, verbatim_doc_comment)]
    pub origins: Vec<String>,
    /// The Redis that gateways share, redis://[user:password@]host[:port][/db]; default: this process's memory
    ///
    /// rediss:// uses TLS. redis-cluster://…host[:port],… names some nodes of a cluster, and
    /// redis-sentinel://…host[:port],…[/service] names sentinels; both have a rediss- form. A gateway with
    /// the memory store shares nothing with other gateways. Put a password in the environment or the file:
    /// every user of the machine can see flags.
    #[arg(long, help_heading = "Store", value_name = "URL")]
    #[arg(value_parser = redis_url, verbatim_doc_comment)]
    pub redis: Option<Secret>,
    /// What all keys and channels in Redis begin with, for a Redis that several installations share
    ///
    /// Up to 64 bytes of A-Z a-z 0-9 _ . : - such as app1: (none by default). Every gateway of an
    /// installation, and its audits, need the same prefix.
    #[arg(long, value_name = "PREFIX", default_value = "")]
    #[arg(value_parser = KeyPrefix::parse, verbatim_doc_comment)]
    pub key_prefix: KeyPrefix,
    /// A PEM file of certificate authorities to trust for Redis over TLS; default: the system's
    #[arg(long)]
    pub redis_ca: Option<PathBuf>,
    /// How long to wait at startup for a store, or the URL of jwt-jwks, that does not answer yet
    #[arg(long, default_value = "0s", value_parser = duration(ms(0)..=s(3600)))]
    pub wait_for_store: Duration,
    /// How often joins and leaves are written to the store
    ///
    /// At most lease-refresh.
    #[arg(long, default_value = "250ms", value_parser = duration(ms(10)..=s(10)))]
    pub flush: Duration,
    /// How long a gateway may go without renewing its lease before it is buried and its fans are removed
    ///
    /// At least five times lease-refresh.
    #[arg(long, default_value = "15s", value_parser = duration(ms(250)..=s(600)))]
    pub lease: Duration,
    /// How often a gateway renews its lease
    ///
    /// At most a fifth of lease.
    #[arg(long, default_value = "2s", value_parser = duration(ms(50)..=s(120)))]
    pub lease_refresh: Duration,
    /// How often a gateway compares the store with what it should hold; after lost data or a reconnect, at once
    ///
    /// At least lease-refresh.
    #[arg(long, default_value = "60s", value_parser = duration(ms(100)..=s(600)))]
    pub check_every: Duration,
    /// How long the record of a closed live is kept
    #[arg(long, default_value = "30d", value_parser = duration(s(60)..=s(366 * 24 * 3600)))]
    pub closed_ttl: Duration,
    /// How long it is remembered when a user who is not online was seen last
    #[arg(long, default_value = "30d", value_parser = duration(s(60)..=s(10 * 366 * 24 * 3600)))]
    pub remember: Duration,
    /// How Redis keeps the ids of users seen: as text, or, if all are decimal numbers below 2^32, in 4 bytes
    ///
    /// Fixed by the first gateway that uses a Redis; a gateway with the other form does not start.
    #[arg(long, value_enum, default_value = "text")]
    pub last_seen_ids: SeenIds,
    /// How Redis keeps which fans came to a live with attendance: their ids or, for dense numbers, bits
    ///
    /// Fixed by the first gateway that uses a Redis; a gateway with the other form does not start.
    /// `bitmap` needs last-seen-ids u32.
    #[arg(long, value_enum, default_value = "set")]
    pub attendance: AttendanceForm,
    /// How often clients should send a heartbeat; the gateway pings a socket that is silent for longer
    #[arg(long, help_heading = "Presence", default_value = "5s")]
    #[arg(value_parser = duration(ms(100)..=s(300)))]
    pub heartbeat: Duration,
    /// How long a socket may be silent before it is closed and its user counts as gone
    ///
    /// At least a second more than heartbeat. Three times heartbeat survives two lost heartbeats.
    #[arg(long, default_value = "15s", value_parser = duration(ms(200)..=s(900)))]
    pub timeout: Duration,
    /// How long a streamer may be gone before a live opened over the streamer's socket closes; 0: never
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = duration_or_never)]
    pub streamer_timeout: OrNever,
    /// How long a moderator may ban a user from a streamer's lives at most
    #[arg(long, value_name = "DURATION", default_value = "1d", value_parser = duration(s(1)..=s(366 * 24 * 3600)))]
    pub moderator_ban: Duration,
    /// Whether the store knows who has a socket, in a live or not, and when the others were last seen
    ///
    /// The same for all gateways.
    #[arg(long, action = Set, default_value = "on", value_parser = switch())]
    pub track_online: bool,
    /// Whether POST /v1/guests gives out tokens to viewers without an account
    ///
    /// The same for all gateways. docs/how-users-work.md says what guests may do.
    #[arg(long, action = Set, default_value = "off", value_parser = switch())]
    pub guests: bool,
    /// Guests per second that one address may become (POST /v1/guests); beyond that, 429; 0: no limit
    #[arg(long, value_name = "PER_SECOND", default_value = "5")]
    #[arg(value_parser = number::<u32>(0..=1_000_000))]
    pub guest_rate: u32,
    /// Whether the summary of a closed live says how many different viewers and fans came
    ///
    /// The same for all gateways. Costs a call to the store for each live and flush in which
    /// somebody came.
    #[arg(long, action = Set, default_value = "on", value_parser = switch())]
    pub uniques: bool,
    /// How users prove who they are; off: not at all, and only loopback addresses are allowed; jwt: by tokens
    ///
    /// jwt needs jwt-hs256-secret-file, jwt-public-key or jwt-jwks.
    #[arg(
        long,
        help_heading = "Users and fans",
        value_enum,
        default_value = "off"
    )]
    pub auth: AuthMode,
    /// The secret that signs HS256 tokens, 32 bytes or more; read again on change
    #[arg(long)]
    pub jwt_hs256_secret_file: Option<PathBuf>,
    /// A PEM file with one or more public keys of RS256, ES256 or EdDSA tokens; read again on change
    #[arg(long)]
    pub jwt_public_key: Option<PathBuf>,
    /// A JSON Web Key Set: a file, read again on change, or a URL, fetched again in the background
    ///
    /// The URL is fetched at start, which waits for it as long as wait-for-store says, then about
    /// every 5 min.
    #[arg(long, value_name = "FILE|URL", value_parser = jwks)]
    pub jwt_jwks: Option<Jwks>,
    /// The aud that each token must have; default: aud is not checked
    #[arg(long, value_name = "TEXT")]
    pub jwt_audience: Option<String>,
    /// The iss that each token must have; default: iss is not checked
    #[arg(long, value_name = "TEXT")]
    pub jwt_issuer: Option<String>,
    /// Whether jwt-jwks and fan-url are asked through the proxy that HTTPS_PROXY or HTTP_PROXY names
    #[arg(long, action = Set, default_value = "off", value_parser = switch())]
    #[arg(num_args = 0..=1, default_missing_value = "on")]
    pub proxy_from_env: bool,
    /// The keys of back ends for /v1, a line each: name, scopes, SHA-256 in hex; read again on change
    ///
    /// Scopes are a comma-separated list of read, write and moderate. `rollcall key` makes a key
    /// and its line.
    #[arg(long)]
    pub api_keys: Option<PathBuf>,
    /// What users with more followers do is not written to each follower; followers look at such users instead
    ///
    /// The same for all gateways.
    #[arg(long, value_name = "FOLLOWERS", default_value = "1000000")]
    #[arg(value_parser = number::<u64>(0..=1_000_000_000_000))]
    pub fanout_limit: u64,
    /// Where followers are looked up: in the store, in the viewer's token, at an HTTP service, in a database
    ///
    /// http and sql need fan-url.
    #[arg(long, value_enum, default_value = "redis")]
    pub fan_source: FanSource,
    /// With fan-source redis: whether the streamer's followers: or each viewer's own following: is read
    ///
    /// following spreads the work over the nodes of a cluster, for streamers with millions of
    /// followers.
    #[arg(long, value_enum, default_value = "followers")]
    pub fan_key: FanKey,
    /// With fan-source http: https://…; with sql: postgres://user@host/database, or mysql://…
    ///
    /// Put a password in fan-secret-file, the environment or the file: every user of the machine
    /// sees flags.
    #[arg(long, value_name = "URL", value_parser = fan_url)]
    pub fan_url: Option<Secret>,
    /// The bearer token of fan-source http, or the password of sql; read again on change
    #[arg(long)]
    pub fan_secret_file: Option<PathBuf>,
    /// A PEM file of certificate authorities to trust at fan-url; a database must then prove its name, too
    #[arg(long)]
    pub fan_ca: Option<PathBuf>,
    /// How long one call to fan-url may take, with up to 1,000 users in it
    #[arg(long, default_value = "2s", value_parser = duration(ms(50)..=s(60)))]
    pub fan_timeout: Duration,
    /// Calls to fan-url under way at a time; with sql, as many connections
    #[arg(long, value_name = "CALLS", default_value = "8", value_parser = number::<usize>(1..=256))]
    pub fan_calls: usize,
    /// The statement of fan-source sql; default: that of docs/fan-sources.md for a table named follows
    ///
    /// PostgreSQL: $1 is the streamer, $2 the array of users. MySQL: the first ? is the streamer, and (?), in
    /// parentheses of its own, the list of users. The first column of each row is a user who is a fan.
    #[arg(long, value_name = "STATEMENT", verbatim_doc_comment)]
    pub fan_sql: Option<String>,
    /// The type of the columns with the ids of users that fan-sql compares
    #[arg(long, value_enum, default_value = "text")]
    pub fan_sql_ids: SqlIds,
    /// How long the result of a fan check is valid
    #[arg(long, default_value = "30s", value_parser = duration(ms(100)..=s(86_400)))]
    pub fan_ttl: Duration,
    /// How long a live that a stream opened outlives the end of its stream, see docs/media-servers.md
    ///
    /// A streamer who comes back in that time goes on with the same live. The same for all
    /// gateways.
    #[arg(long, default_value = "20s", value_parser = duration(s(1)..=s(3_600)))]
    pub stream_grace: Duration,
    /// About how many events the stream rollcall:events keeps; older ones are trimmed, delivered or not
    ///
    /// An event of a live takes some 150 to 300 bytes. As many events that were given up are kept.
    #[arg(
        long,
        help_heading = "Events",
        value_name = "EVENTS",
        default_value = "250000"
    )]
    #[arg(value_parser = number::<u64>(100..=100_000_000))]
    pub events_kept: u64,
    /// How old an event in rollcall:events becomes; older ones are trimmed, delivered or not
    ///
    /// At least webhook-patience. The same for all gateways.
    #[arg(long, default_value = "7d", value_parser = duration(s(3_600)..=s(3_650 * 86_400)))]
    pub events_max_age: Duration,
    /// How old an entry of the audit trail becomes; older ones are trimmed
    ///
    /// The trail also keeps no more entries than events-kept. The same for all gateways.
    #[arg(long, default_value = "90d", value_parser = duration(s(3_600)..=s(3_650 * 86_400)))]
    pub audit_max_age: Duration,
    /// Whether live.counts are events: on change, at most one per 10 s and live
    ///
    /// The same for all gateways.
    #[arg(long, action = Set, default_value = "on", value_parser = switch())]
    pub count_events: bool,
    /// Whether fan.joined and fan.left are events: at most one of each per second, live and gateway
    ///
    /// The same for all gateways.
    #[arg(long, action = Set, default_value = "off", value_parser = switch())]
    #[arg(num_args = 0..=1, default_missing_value = "on")]
    pub fan_events: bool,
    /// Whether user.followed and user.unfollowed are events
    ///
    /// The same for all gateways.
    #[arg(long, action = Set, default_value = "off", value_parser = switch())]
    #[arg(num_args = 0..=1, default_missing_value = "on")]
    pub follow_events: bool,
    /// Whether audit.recorded is an event: who changed what over the HTTP API
    ///
    /// The same for all gateways.
    #[arg(long, action = Set, default_value = "off", value_parser = switch())]
    #[arg(num_args = 0..=1, default_missing_value = "on")]
    pub audit_events: bool,
    /// Where events are sent, each as a signed POST, as in https://example.org/hooks; default: nowhere
    ///
    /// Needs webhook-secret-file. The same for all gateways; one of them sends at a time. The
    /// settings file may have further webhooks, see docs/events.md.
    #[arg(long, value_name = "URL", value_parser = webhook_url)]
    pub webhook_url: Option<Secret>,
    /// A file with the secret that signs events, or two while it changes, a line each; read again on change
    #[arg(long)]
    pub webhook_secret_file: Option<PathBuf>,
    /// Which events are sent to the webhook, as in live.opened,live.closed; default: all in the stream
    #[arg(long, value_name = "EVENTS", value_delimiter = ',', value_parser = event_kind)]
    pub webhook_events: Vec<EventKind>,
    /// Whether events may be sent to private and loopback addresses
    #[arg(long, action = Set, default_value = "off", value_parser = switch())]
    #[arg(num_args = 0..=1, default_missing_value = "on")]
    pub webhook_allow_private: bool,
    /// How long the webhook may take to answer
    #[arg(long, default_value = "10s", value_parser = duration(ms(100)..=s(60)))]
    pub webhook_timeout: Duration,
    /// How old an event that the webhook does not take may become before it is given up
    ///
    /// It is sent again after half a second at first, and after a minute at most. See rollcall
    /// events.
    #[arg(long, default_value = "1h", value_parser = duration(s(1)..=s(30 * 24 * 3600)))]
    pub webhook_patience: Duration,
    /// Messages per second and socket, twice as many at once; beyond that, rate_limited, then 4008; 0: no limit
    #[arg(
        long,
        help_heading = "Limits",
        value_name = "PER_SECOND",
        default_value = "10"
    )]
    #[arg(value_parser = number::<u32>(0..=1_000_000))]
    pub message_rate: u32,
    /// Sockets of one user on this gateway; beyond that, the oldest is closed with 4009; 0: no limit
    #[arg(long, value_name = "SOCKETS", default_value = "20")]
    #[arg(value_parser = number::<u32>(0..=1_000_000))]
    pub sockets_per_user: u32,
    /// Sockets from one address that is not loopback; beyond that, 429; 0: no limit
    #[arg(long, value_name = "SOCKETS", default_value = "1000")]
    #[arg(value_parser = number::<u32>(0..=100_000_000))]
    pub sockets_per_ip: u32,
    /// Lives that one socket may watch; beyond that, rate_limited; 0: no limit
    #[arg(long, value_name = "LIVES", default_value = "1000")]
    #[arg(value_parser = number::<u32>(0..=1_000_000))]
    pub watches_per_socket: u32,
    /// Lives that one socket may have opened and not seen closed; beyond that, rate_limited; 0: no limit
    #[arg(long, value_name = "LIVES", default_value = "100")]
    #[arg(value_parser = number::<u32>(0..=1_000_000))]
    pub opens_per_socket: u32,
    /// Whether streamers open lives with tokens of their own; off: only back ends open lives
    ///
    /// The same for all gateways. A token's claim `lives` says which lives a streamer may open.
    #[arg(long, action = Set, default_value = "on", value_parser = switch())]
    pub streamers_open: bool,
    /// Open lives that one streamer's tokens opened, on all gateways; beyond that, rate_limited; 0: no limit
    ///
    /// Lives that a back end opens do not count.
    #[arg(long, value_name = "LIVES", default_value = "20")]
    #[arg(value_parser = number::<u32>(0..=1_000_000))]
    pub lives_per_streamer: u32,
    /// Lives that one streamer's tokens may open in a day, on all gateways, and at once; 0: no limit
    ///
    /// A closed live is remembered for closed-ttl. To open a live again that is open already does
    /// not count.
    #[arg(long, value_name = "LIVES", default_value = "100")]
    #[arg(value_parser = number::<u32>(0..=1_000_000))]
    pub opens_per_day: u32,
    /// Joins per second and live on this gateway; beyond that, rate_limited; 0: no limit
    #[arg(long, value_name = "PER_SECOND", default_value = "5000")]
    #[arg(value_parser = number::<u32>(0..=10_000_000))]
    pub join_rate: u32,
    /// What one user may ask of the store per second, over all sockets on this gateway; 0: no limit
    ///
    /// Four times as much at once. A join, a switch to another live, a watch or a question for friends counts
    /// one, a close two, an open five, or one if this gateway has the live open already; beyond that,
    /// rate_limited. Over HTTP, a streamer's open counts five, and what changes, closes or moderates a
    /// live two. What is read to find friends, a thousand users a unit, has as much again; beyond that,
    /// it comes later. The role service has no limit.
    #[arg(long, value_name = "PER_SECOND", default_value = "10")]
    #[arg(value_parser = number::<u32>(0..=1_000_000), verbatim_doc_comment)]
    pub user_rate: u32,
    /// HTTP requests per second of one API key or user, or from one address; beyond that, 429; 0: no limit
    #[arg(long, value_name = "PER_SECOND", default_value = "200")]
    #[arg(value_parser = number::<u32>(0..=1_000_000))]
    pub http_rate: u32,
    /// Time for a graceful stop; clients are told to reconnect over the first two thirds; 0: closed at once
    ///
    /// Give the process a little longer than this before you kill it. However short it is, 4.5 s remain for
    /// closing sockets and the last flush. With less than 5 s, counts may dip while viewers
    /// move. A second signal ends the process at once.
    #[arg(long, help_heading = "Process", default_value = "30s")]
    #[arg(value_parser = duration(ms(0)..=s(600)), verbatim_doc_comment)]
    pub drain: Duration,
    /// What to log: a level, or a comma-separated list of target=level
    ///
    /// For example rollcall=debug,warn. Levels: off, error, warn, info, debug, trace.
    #[arg(long, value_name = "FILTER", default_value = "info", value_parser = log_filter)]
    pub log: String,
    /// Log format: text for people, or one JSON object per line
    #[arg(long, value_enum, default_value = "text")]
    pub log_format: LogFormat,
    /// The OpenTelemetry collector to send spans to, over OTLP/HTTP; needs a build with the feature otlp
    ///
    /// For example http://127.0.0.1:4318; the gateway adds /v1/traces.
    #[arg(long, value_name = "URL", value_parser = collector)]
    pub otlp_endpoint: Option<Secret>,
    /// One trace in so many is sent; a request whose traceparent says that it is sampled always is
    #[arg(long, value_name = "TRACES", default_value = "100")]
    #[arg(value_parser = number::<u32>(1..=1_000_000_000))]
    pub otlp_one_in: u32,
    /// A TOML file with settings, such as heartbeat = "5s"; it cannot name another file
    #[arg(long = "config")]
    pub file_with_secrets: Option<PathBuf>,
    /// The media servers of the settings file.
    #[arg(skip)]
    pub media: Vec<MediaServer>,
    /// The further webhooks, of the settings file.
    #[arg(skip)]
    pub webhooks: Vec<WebhookEndpoint>,
}

/// A bound that no count reaches.
const NO_LIMIT: u64 = 1 << 40;

/// The bound of a setting that means no limit by 0.
fn bound_of(limit: u32) -> u64 {
    if limit == 0 { NO_LIMIT } else { limit.into() }
}

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

    /// Every webhook: first the one of `webhook-url`, then those of the settings file.
    pub fn webhook_endpoints(&self) -> Vec<WebhookEndpoint> {
        let mut endpoints = Vec::new();
        if let Some(url) = &self.webhook_url
            && let Some(secret_file) = &self.webhook_secret_file
        {
            endpoints.push(WebhookEndpoint {
                name: WebhookName::default(),
                url: url.clone(),
                secret_file: secret_file.clone(),
                events: self.webhook_events.clone(),
            });
        }
        endpoints.extend(self.webhooks.iter().cloned());
        endpoints
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
        let endpoint = self.otlp_endpoint.as_ref()?;
        Some(Traces {
            endpoint: endpoint.reveal().to_owned(),
            one_in: self.otlp_one_in,
            gateway: gateway.to_string(),
        })
    }
}

impl Default for Config {
    fn default() -> Self {
        static DEFAULTS: LazyLock<Config> =
            LazyLock::new(|| declared::read(&[]).expect("the defaults are right"));
        DEFAULTS.clone()
    }
}

/// The prefix of the environment variables.
pub(super) const ENV_PREFIX: &str = "ROLLCALL_";

/// Every setting, in the order of the help.
pub static SETTINGS: LazyLock<Vec<Setting>> = LazyLock::new(|| {
    let command = declared::command::<Config>();
    let mut settings = Vec::new();
    let mut group = "";
    for arg in command.get_arguments() {
        group = arg.get_help_heading().unwrap_or(group);
        settings.push(Setting::new(arg, group));
    }
    settings
});

/// A setting, for people.
#[derive(Debug)]
pub struct Setting {
    /// The key in the file and, after `--`, the flag.
    pub name: String,
    /// The heading in the help.
    pub group: String,
    /// A placeholder for the value, such as `DURATION`.
    pub hint: String,
    /// `None` if the setting has no value by default.
    pub default: Option<String>,
    /// Help in one line.
    pub doc: String,
    /// More help; may be empty.
    more: String,
    /// Whether the value may hold a password, which messages must not show.
    pub(super) may_hold_secret: bool,
    declared: Arg,
}

impl Setting {
    fn new(declared: &Arg, group: &str) -> Self {
        let holds = declared.get_value_parser().type_id();
        let default = match declared.get_default_values() {
            [text] if !text.is_empty() => Some(text.to_string_lossy().into_owned()),
            _ => None,
        };
        let doc = text(declared.get_help());
        let long = text(declared.get_long_help());
        let more = long.strip_prefix(&doc).unwrap_or_default();
        Self {
            name: declared.get_long().unwrap_or_default().to_owned(),
            group: group.to_owned(),
            hint: hint(declared),
            default,
            more: more.trim_start().to_owned(),
            doc,
            may_hold_secret: holds == TypeId::of::<Secret>() || holds == TypeId::of::<Jwks>(),
            declared: declared.clone(),
        }
    }

    /// The environment variable: `ROLLCALL_LEASE_REFRESH` for `lease-refresh`.
    #[must_use]
    pub fn env_name(&self) -> String {
        env_name(&self.name)
    }

    /// The subject of a mistake, such as `heartbeat (flag --heartbeat) is "5"`. `given` is `None` for
    /// a setting that has its default.
    pub(super) fn subject(&self, given: Option<&Given>) -> String {
        let (place, value) = match given {
            Some(given) => (given.place.as_str(), given.text.as_deref().ok()),
            None => ("default", self.default.as_deref()),
        };
        let subject = format!("{} ({place})", self.name);
        match value {
            Some(value) if !value.is_empty() && self.may_show(value) => {
                format!("{subject} is {value:?}")
            }
            _ => subject,
        }
    }

    /// Whether a message may show the value. A value of any setting may be a URL with a password,
    /// given in the wrong place.
    pub(super) fn may_show(&self, value: &str) -> bool {
        !self.may_hold_secret && value.len() <= 120 && !value.contains('@')
    }

    /// The flag of the command line, which takes any text.
    pub(super) fn flag(&self) -> Arg {
        let default = self.default.as_deref().unwrap_or("none");
        let details = if self.more.is_empty() {
            String::new()
        } else {
            format!(".\n{}", self.more)
        };
        let long = format!(
            "{}{details}\n[default: {default}] [env: {}]",
            self.doc,
            self.env_name()
        );
        let value_hint = if self.hint.starts_with("FILE") {
            ValueHint::FilePath
        } else {
            ValueHint::Unknown
        };
        self.declared
            .clone()
            .id(self.name.clone())
            .global(true)
            .value_hint(value_hint)
            .value_name(self.hint.clone())
            .value_parser(ValueParser::os_string())
            .value_delimiter(None)
            .default_value(Resettable::Reset)
            .action(ArgAction::Append)
            .help_heading(self.group.clone())
            .help(format!("{} [default: {default}]", self.doc))
            .long_help(long)
    }
}

fn text(help: Option<&StyledStr>) -> String {
    help.map(ToString::to_string).unwrap_or_default()
}

/// The placeholder for the value: its words, or what its type or its declaration says.
fn hint(declared: &Arg) -> String {
    let holds = declared.get_value_parser().type_id();
    let words = declared.get_possible_values();
    let declared = declared.get_value_names().and_then(<[_]>::first);
    if !words.is_empty() {
        let words: Vec<&str> = words.iter().map(|word| word.get_name()).collect();
        words.join("|")
    } else if holds == TypeId::of::<Duration>() {
        "DURATION".to_owned()
    } else if holds == TypeId::of::<PathBuf>() {
        "FILE".to_owned()
    } else if holds == TypeId::of::<SocketAddr>() {
        "ADDR:PORT".to_owned()
    } else {
        declared.map(ToString::to_string).unwrap_or_default()
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
    SETTINGS.iter().map(|setting| setting.name.as_str())
}

/// The table of settings in `docs/operations.md`.
#[must_use]
pub fn markdown_table() -> String {
    let mut table = "| setting | default | what |\n| --- | --- | --- |\n".to_owned();
    for setting in SETTINGS.iter() {
        let default = match &setting.default {
            Some(default) => format!("`{default}`"),
            None => String::new(),
        };
        table += &format!(
            "| `--{} {}` | {default} | {} |\n",
            setting.name,
            setting.hint.replace('|', "\\|"),
            setting.doc.replace('|', "\\|")
        );
    }
    table
}
