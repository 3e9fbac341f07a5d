//! Every metric, declared once with its name and its line of help. A scrape renders the metrics in
//! the text format that the client asks for; the hot path only makes a relaxed atomic add.

use std::ops::Deref;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use tokio::runtime::Handle;

use super::identity::Role;
use super::process::ProcessMetrics;

mod text_format;

pub(crate) use text_format::TextFormat;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Why {
    /// The reason, one of a fixed few.
    pub(crate) why: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct OutcomeLabel {
    /// The result, one of a fixed few. Unlike a reason, it may be a success.
    pub(crate) result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct StoreCall {
    pub(crate) call: &'static str,
    pub(crate) error: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct OfRole {
    pub(crate) role: &'static str,
}

/// How a session without a WebSocket says that its client is there.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct OfWay {
    pub(crate) way: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Build {
    pub(crate) version: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct MediaCallback {
    /// The kind of the server.
    pub(crate) kind: &'static str,
    /// What became of the callback, one of a fixed few.
    pub(crate) result: &'static str,
}

const THIS_BUILD: Build = Build {
    version: env!("CARGO_PKG_VERSION"),
};

/// The senders of a webhook.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct OfWebhook {
    /// The name in the settings.
    pub(crate) webhook: String,
    /// What is sent: `stream` or `replay`.
    pub(crate) queue: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct WebhookResult {
    /// The name in the settings.
    pub(crate) webhook: String,
    /// What became of an attempt, one of a fixed few.
    pub(crate) result: &'static str,
}

/// Buckets from a call in the same machine to a call that takes the longest allowed time.
const CALL_TIMES: [f64; 11] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0,
];

/// Buckets for single commands.
const ROUND_TRIPS: [f64; 11] = [
    0.000_25, 0.000_5, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0,
];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct HttpAnswerLabels {
    /// The route's pattern, never the path that was asked for.
    pub(crate) route: String,
    /// One of those that HTTP has, or `other`: a client must not be able to make up labels.
    pub(crate) method: &'static str,
    pub(crate) status: u16,
}

/// As [`HttpAnswerLabels`].
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct HttpCall {
    pub(crate) route: String,
    pub(crate) method: &'static str,
}

/// Buckets from a look into memory to the longest allowed request.
fn request_times() -> Histogram {
    Histogram::new([
        0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
    ])
}

macro_rules! metrics {
    ($($(#[doc = $doc:literal])+ $field:ident : $type:ty $(= $new:expr)?),* $(,)?) => {
        /// Every metric of one gateway; handles are atomics and may be used from anywhere.
        #[derive(Debug)]
        pub struct Metrics {
            registry: Registry,
            /// The metrics of the process, whose names have no prefix.
            process: Registry,
            $($(#[doc = $doc])+ pub(crate) $field: $type,)*
        }

        impl Default for Metrics {
            fn default() -> Self {
                let mut registry = Registry::with_prefix("rollcall");
                $(
                    let $field: $type = metrics!(@new $($new)?);
                    registry.register(stringify!($field), concat!($($doc),+).trim(), $field.clone());
                )*
                let mut process = Registry::default();
                process.register_collector(Box::new(ProcessMetrics));
                let metrics = Self { registry, process, $($field),* };
                metrics.build_info.get_or_create(&THIS_BUILD).set(1);
                metrics
            }
        }

        /// Name, type and help of every metric, for the documentation's check.
        pub const ALL: &[(&str, &str, &str)] = &[$((stringify!($field), stringify!($type), concat!($($doc),+))),*];
    };
    (@new) => { Default::default() };
    (@new $new:expr) => { $new };
}

metrics! {
    /// WebSockets open now
    sockets: Gauge,
    /// WebSockets open now, by what their users may do
    sockets_by_role: Family<OfRole, Gauge>,
    /// WebSockets accepted since the start
    sockets_opened: Counter,
    /// WebSockets closed, by reason
    sockets_closed: Family<Why, Counter>,
    /// Connections that are not WebSockets, or not yet: handshakes and HTTP
    connections: Gauge,
    /// Connections closed to make room for others, or because their address holds too many
    connections_dropped: Counter,
    /// Connections closed before their first request, by reason
    connections_failed: Family<Why, Counter>,
    /// Handshakes waiting to be let in
    handshakes_waiting: Gauge,
    /// Handshakes let in after a wait
    handshakes_delayed: Counter,
    /// WebSocket upgrades refused, by reason
    upgrades_refused: Family<Why, Counter>,
    /// Time from the request for a WebSocket, including its wait to be let in, until the WebSocket
    /// is open, in seconds
    handshake_seconds: Histogram = Histogram::new([0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0]),
    /// Checks of tokens, by result
    token_checks: Family<OutcomeLabel, Counter>,
    /// Fetches of the key set that tokens are checked with, by result
    key_fetches: Family<OutcomeLabel, Counter>,
    /// Keys, secrets and certificates whose files could not be used when they were read last
    files_unusable: Gauge,
    /// Sessions without a WebSocket on this gateway now
    presences: Gauge,
    /// Beats of sessions without a WebSocket, by the way in which they came
    presence_beats: Family<OfWay, Counter>,
    /// Sessions without a WebSocket that another gateway began and that went on here
    presences_resumed: Counter,
    /// Sessions without a WebSocket that ended on this gateway, by reason
    presences_ended: Family<Why, Counter>,
    /// Requests to begin a session without a WebSocket that were refused, by code
    presences_refused: Family<Why, Counter>,
    /// Datagrams received, by what became of them
    datagrams: Family<OutcomeLabel, Counter>,
    /// Answers to datagrams that the kernel did not take
    datagrams_unsent: Counter,
    /// Streams of events open now
    event_streams: Gauge,
    /// Lives that this gateway holds in memory
    lives: Gauge,
    /// Viewers joined to lives on this gateway
    members: Gauge,
    /// Fans whom the store should hold for this gateway
    fans: Gauge,
    /// Users with a socket on this gateway, in a live or not
    online_users: Gauge,
    /// Frames that counted as a heartbeat
    heartbeats: Counter,
    /// Joins of a socket to a live
    joins: Counter,
    /// Leaves of a socket from a live, by reason
    leaves: Family<Why, Counter>,
    /// Error messages sent to WebSocket clients, by code
    client_errors: Family<Why, Counter>,
    /// What a limit refused or closed, by limit
    limited: Family<Why, Counter>,
    /// Messages with counts sent to dashboards
    counts_sent: Counter,
    /// Time from a change of a live's counts on this gateway until dashboards are told, in seconds
    counts_lag_seconds: Histogram = Histogram::new([0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0, 2.0, 5.0]),
    /// Messages with friends sent to viewers who asked for them
    friends_sent: Counter,
    /// Follows of viewers who asked for their friends that this gateway keeps in memory
    friends_followed: Gauge,
    /// Time to flush one slice, including its fan checks and calls to the store, in seconds
    flush_seconds: Histogram = Histogram::new(CALL_TIMES),
    /// Joins and leaves in one call to the store that writes a slice
    flush_batch_members: Histogram = Histogram::new([0.0, 1.0, 2.0, 5.0, 10.0, 25.0, 100.0, 250.0, 500.0, 1_000.0]),
    /// Members of slices sent to the store as joins or leaves
    flushed_members: Counter,
    /// Slices waiting to be flushed
    flush_queue: Gauge,
    /// Slices being flushed now
    flush_in_flight: Gauge,
    /// Users waiting for a fan check
    fan_check_queue: Gauge,
    /// Joins, by whether this gateway knew already whether the user is a fan
    fan_cache: Family<OutcomeLabel, Counter>,
    /// Users whose fan check got an answer
    fan_checks: Counter,
    /// Users whose fan check found that they follow the streamer
    fan_hits: Counter,
    /// Calls to a fan source outside the store, by result
    fan_source_calls: Family<OutcomeLabel, Counter>,
    /// Time of a call to a fan source outside the store, in seconds
    fan_source_seconds: Histogram = Histogram::new(CALL_TIMES),
    /// Circuit breaker of the fan source outside the store: 0 closed, all calls go; 1 half open,
    /// one call tries; 2 open
    fan_breaker: Gauge,
    /// Users named by a fan source that was not asked about them; they are ignored
    fan_strangers: Counter,
    /// Commands sent to the store
    store_calls: Counter,
    /// Time from sending a command to a node of the store, or several commands at once, until it
    /// answered, in seconds
    store_call_seconds: Histogram = Histogram::new(ROUND_TRIPS),
    /// Failed calls to the store, by call and error
    store_errors: Family<StoreCall, Counter>,
    /// 1 if the store answers, 0 if it does not
    store_up: Gauge,
    /// Times this gateway sent all its members of a slice again because the store had lost its
    /// entry
    reasserts: Counter,
    /// Checks of a live against the store, by result
    checks: Family<OutcomeLabel, Counter>,
    /// Events after which this gateway checked part or all of the store at once
    doubts: Counter,
    /// Times this gateway's lease was lost with the store's data, after which it checked everything
    lease_lost: Counter,
    /// Times this gateway found itself buried and took a new id
    buried_itself: Counter,
    /// Gateways that this gateway buried
    buried: Counter,
    /// Slices in a rebuild, or whose public sets differ from what the gateways hold
    slices_out_of_order: Gauge,
    /// Users found wrong in the store, by what was wrong
    drift_members: Family<Why, Counter>,
    /// Members of dead gateways removed from the store
    swept_members: Counter,
    /// Time from the burial of a gateway until its members were removed from a slice, in seconds
    ghost_age_seconds: Histogram = Histogram::new([0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0]),
    /// Age of the oldest burial whose gateway has not been swept from every live yet, in seconds; 0
    /// if there is none
    ghost_oldest_seconds: Gauge,
    /// Jobs that bring a status to the followers of its author, or take it from them, and are not
    /// done; of all gateways
    fanout_jobs: Gauge,
    /// Age of the oldest of these jobs, in seconds; 0 if there is none
    fanout_lag_seconds: Gauge,
    /// Rules of moderation that this gateway knows: bans that last, moderators, revoked tokens
    rules: Gauge,
    /// Users who are being erased, on all gateways
    erasures: Gauge,
    /// Age of the oldest of these erasures, in seconds; 0 if there is none
    erasure_oldest_seconds: Gauge,
    /// Erasures that ended on this gateway
    erasures_ended: Counter,
    /// Timelines of followers that this gateway wrote
    fanout_writes: Counter,
    /// Lives closed, by reason
    lives_closed: Family<Why, Counter>,
    /// Callbacks of media servers, by the kind of the server and by result
    media_callbacks: Family<MediaCallback, Counter>,
    /// Questions to media servers which sessions publish, by result
    media_polls: Family<OutcomeLabel, Counter>,
    /// Removals, bans, lifted bans and other rules of moderation made through this gateway, by kind
    removals: Family<Why, Counter>,
    /// Calls that write the counts of a live into its record, by result
    figures_written: Family<OutcomeLabel, Counter>,
    /// Attempts to send an event to a webhook, by result
    webhooks: Family<WebhookResult, Counter>,
    /// Time from an event until a webhook had taken it, in seconds
    webhook_lag_seconds: Histogram = Histogram::new([0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0, 300.0, 3600.0]),
    /// Events that a webhook has not taken yet, on the gateway that sends; 0 on others
    webhook_waiting: Family<OfWebhook, Gauge>,
    /// Age of the oldest event that the gateway has read and a webhook has not taken, in seconds; 0 if
    /// there is none
    webhook_oldest_seconds: Family<OfWebhook, Gauge>,
    /// Events that a webhook did not take and that were given up
    webhook_dead: Family<OfWebhook, Counter>,
    /// Events trimmed from the stream before a webhook had them
    events_trimmed: Family<OfWebhook, Counter>,
    /// Removals that no event tells of, because the stream could not be written and the record held
    /// too many
    removal_events_dropped: Counter,
    /// Fans whose coming or going was not written as an event, because too many waited
    fan_events_dropped: Counter,
    /// Follows and calls of the API that no event tells of, because too many events waited
    api_events_dropped: Counter,
    /// Messages sent to other gateways
    peer_messages_sent: Counter,
    /// Messages received from other gateways
    peer_messages_received: Counter,
    /// Messages between gateways that were ignored or dropped, by reason
    peer_messages_ignored: Family<Why, Counter>,
    /// Times messages were lost before this gateway read them, after which it checked everything
    peer_messages_lost: Counter,
    /// Gateways whose leases say that their own messages do not come back from some Redis server,
    /// this one included
    unheard_gateways: Gauge,
    /// Times the connection for messages from other gateways was made again
    resubscriptions: Counter,
    /// HTTP answers, by route, method and status
    http_answers: Family<HttpAnswerLabels, Counter>,
    /// Time from the end of an HTTP request's head until the head of its answer, by route and
    /// method, in seconds
    http_seconds: Family<HttpCall, Histogram> = Family::new_with_constructor(request_times),
    /// HTTP requests refused with 429, by what their budget belongs to
    http_limited: Family<Why, Counter>,
    /// Lines of the log that were left out, because whoever reads the log was too slow
    log_lines_dropped: Counter,
    /// 1 from the beginning of a graceful stop, 0 before
    draining: Gauge,
    /// Tasks of the program that have begun and not ended; read at each scrape
    tasks: Gauge,
    /// Always 1; the label is the version of the program
    build_info: Family<Build, Gauge>,
}

impl Metrics {
    /// The text of a scrape in a format.
    pub(crate) fn render_as(&self, format: TextFormat) -> Result<String, std::fmt::Error> {
        let text = self.render()?;
        Ok(match format {
            TextFormat::OpenMetrics => text,
            TextFormat::Prometheus => text_format::in_prometheus_format(&text),
        })
    }

    /// The OpenMetrics text. In practice writing to a string does not fail.
    pub fn render(&self) -> Result<String, std::fmt::Error> {
        if let Ok(runtime) = Handle::try_current() {
            self.tasks.set(runtime.metrics().num_alive_tasks() as i64);
        }
        let mut text = String::new();
        encode_registry(&mut text, &self.registry)?;
        encode_registry(&mut text, &self.process)?;
        encode_eof(&mut text)?;
        Ok(text)
    }

    pub(crate) fn count(family: &Family<Why, Counter>, why: &'static str) {
        family.get_or_create(&Why { why }).inc();
    }

    pub(crate) fn count_result(family: &Family<OutcomeLabel, Counter>, result: &'static str) {
        family.get_or_create(&OutcomeLabel { result }).inc();
    }

    pub(crate) fn count_way(family: &Family<OfWay, Counter>, way: &'static str) {
        family.get_or_create(&OfWay { way }).inc();
    }

    /// The open sockets of a role.
    pub(crate) fn sockets_of(&self, role: Role) -> impl Deref<Target = Gauge> + '_ {
        self.sockets_by_role.get_or_create(&OfRole {
            role: role.as_str(),
        })
    }

    /// Counts sockets that left their live for the same reason.
    pub(crate) fn leaves_by(&self, why: &'static str, sockets: u64) {
        self.leaves.get_or_create(&Why { why }).inc_by(sockets);
    }

    /// Counts users whom the store held wrongly.
    pub(crate) fn drifted(&self, why: &'static str, users: u64) {
        if users > 0 {
            self.drift_members.get_or_create(&Why { why }).inc_by(users);
        }
    }

    /// Counts the answers of fan checks, one per user.
    pub(crate) fn fans_checked(&self, answers: impl IntoIterator<Item = bool>) {
        for is_fan in answers {
            self.fan_checks.inc();
            self.fan_hits.inc_by(u64::from(is_fan));
        }
    }

    /// Counts a callback of a media server.
    pub(crate) fn media_callback(&self, kind: &'static str, result: &'static str) {
        self.media_callbacks
            .get_or_create(&MediaCallback { kind, result })
            .inc();
    }

    pub(crate) fn store_error(&self, call: &'static str, error: &'static str) {
        self.store_errors
            .get_or_create(&StoreCall { call, error })
            .inc();
    }
}
