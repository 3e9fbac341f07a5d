//! Every metric, declared once with its name and its line of help. A scrape renders them in the OpenMetrics text
//! format; the hot path only makes a relaxed atomic add.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// Content type of [`Metrics::render`].
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A label named `why`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Why {
    /// The reason, one of a fixed few.
    pub why: &'static str,
}

/// A label named `call`, with the outcome.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct StoreCall {
    /// Which call of the store.
    pub call: &'static str,
    /// The error's label.
    pub error: &'static str,
}

/// Labels of an HTTP answer.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct HttpAnswer {
    /// The route's pattern, never the path that was asked for.
    pub route: String,
    /// The status code.
    pub status: u16,
}

macro_rules! metrics {
    ($($(#[doc = $doc:literal])+ $field:ident : $type:ty = $name:literal $new:expr),* $(,)?) => {
        /// Every metric of one gateway; handles are atomics and may be used from anywhere.
        #[derive(Debug)]
        pub struct Metrics {
            registry: Registry,
            $($(#[doc = $doc])+ pub $field: $type,)*
        }

        impl Default for Metrics {
            fn default() -> Self {
                let mut registry = Registry::with_prefix("rollcall");
                $(
                    let $field: $type = $new;
                    registry.register($name, concat!($($doc),+).trim(), $field.clone());
                )*
                Self { registry, $($field),* }
            }
        }

        /// Name, type and help of every metric, for the documentation's check.
        pub const ALL: &[(&str, &str, &str)] = &[$(($name, stringify!($type), concat!($($doc),+))),*];
    };
}

fn seconds(buckets: &[f64]) -> Histogram {
    Histogram::new(buckets.iter().copied())
}

metrics! {
    /// WebSockets open now
    sockets: Gauge = "sockets" Gauge::default(),
    /// WebSockets accepted since the start
    sockets_opened: Counter = "sockets_opened" Counter::default(),
    /// WebSockets closed, by reason
    sockets_closed: Family<Why, Counter> = "sockets_closed" Family::default(),
    /// Connections that are not WebSockets, or not yet: handshakes and HTTP
    connections: Gauge = "connections" Gauge::default(),
    /// Idle connections closed to make room for new ones
    connections_dropped: Counter = "connections_dropped" Counter::default(),
    /// Connections closed before their first request, by reason
    connections_failed: Family<Why, Counter> = "connections_failed" Family::default(),
    /// Handshakes waiting to be let in
    handshakes_waiting: Gauge = "handshakes_waiting" Gauge::default(),
    /// Handshakes let in after a wait
    handshakes_delayed: Counter = "handshakes_delayed" Counter::default(),
    /// WebSocket upgrades refused, by reason
    upgrades_refused: Family<Why, Counter> = "upgrades_refused" Family::default(),
    /// Lives that this gateway holds in memory
    lives: Gauge = "lives" Gauge::default(),
    /// Viewers joined to lives on this gateway
    members: Gauge = "members" Gauge::default(),
    /// Fans whom the store should hold for this gateway
    fans: Gauge = "fans" Gauge::default(),
    /// Frames that counted as a heartbeat
    heartbeats: Counter = "heartbeats" Counter::default(),
    /// Joins of a socket to a live
    joins: Counter = "joins" Counter::default(),
    /// Leaves of a socket from a live, by reason
    leaves: Family<Why, Counter> = "leaves" Family::default(),
    /// Error messages sent to WebSocket clients, by code
    client_errors: Family<Why, Counter> = "client_errors" Family::default(),
    /// Messages with counts sent to dashboards
    counts_sent: Counter = "counts_sent" Counter::default(),
    /// Time to flush one slice, including its fan checks and calls to the store, in seconds
    flush_seconds: Histogram = "flush_seconds"
        seconds(&[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0]),
    /// Fans sent to the store as joins or leaves
    flushed_members: Counter = "flushed_members" Counter::default(),
    /// Slices waiting to be flushed
    flush_queue: Gauge = "flush_queue" Gauge::default(),
    /// Slices being flushed now
    flush_in_flight: Gauge = "flush_in_flight" Gauge::default(),
    /// Users waiting for a fan check
    fan_check_queue: Gauge = "fan_check_queue" Gauge::default(),
    /// Users whose fan check got an answer
    fan_checks: Counter = "fan_checks" Counter::default(),
    /// Commands sent to the store
    store_calls: Counter = "store_calls" Counter::default(),
    /// Failed calls to the store, by call and error
    store_errors: Family<StoreCall, Counter> = "store_errors" Family::default(),
    /// 1 if the store answers, 0 if it does not
    store_up: Gauge = "store_up" Gauge::default(),
    /// Times this gateway sent all its fans of a slice again because the store had lost its entry
    reasserts: Counter = "reasserts" Counter::default(),
    /// Checks of a live against the store, by result
    checks: Family<Why, Counter> = "checks" Family::default(),
    /// Events after which this gateway checked part or all of the store at once
    doubts: Counter = "doubts" Counter::default(),
    /// Times this gateway's lease was lost with the store's data, after which it checked everything
    lease_lost: Counter = "lease_lost" Counter::default(),
    /// Times this gateway found itself buried and took a new id
    buried_itself: Counter = "buried_itself" Counter::default(),
    /// Gateways that this gateway buried
    buried: Counter = "buried" Counter::default(),
    /// Slices whose content in the store differed from what this gateway holds and was repaired
    reconciled: Counter = "reconciled" Counter::default(),
    /// Users found wrong in the store and not repaired yet
    drift: Gauge = "drift" Gauge::default(),
    /// Users found wrong in the store, by what was wrong
    drift_members: Family<Why, Counter> = "drift_members" Family::default(),
    /// Members of dead gateways removed from the store
    swept_members: Counter = "swept_members" Counter::default(),
    /// Time from the burial of a gateway until its members were removed from a slice, in seconds
    ghost_age_seconds: Histogram = "ghost_age_seconds"
        seconds(&[0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0]),
    /// Age of the oldest burial whose gateway has not been swept from every live yet, in seconds; 0 if there is none
    ghost_oldest_seconds: Gauge = "ghost_oldest_seconds" Gauge::default(),
    /// Lives closed, by reason
    lives_closed: Family<Why, Counter> = "lives_closed" Family::default(),
    /// Removals, bans and lifted bans requested through this gateway, by kind
    removals: Family<Why, Counter> = "removals" Family::default(),
    /// Messages sent to other gateways
    words_sent: Counter = "words_sent" Counter::default(),
    /// Messages received from other gateways
    words_heard: Counter = "words_heard" Counter::default(),
    /// Messages between gateways that were ignored or dropped, by reason
    words_ignored: Family<Why, Counter> = "words_ignored" Family::default(),
    /// Times messages were lost before this gateway read them, after which it checked everything
    words_lost: Counter = "words_lost" Counter::default(),
    /// Times the connection for messages from other gateways was made again
    resubscriptions: Counter = "resubscriptions" Counter::default(),
    /// HTTP answers, by route and status
    http_answers: Family<HttpAnswer, Counter> = "http_answers" Family::default(),
}

impl Metrics {
    /// The OpenMetrics text.
    ///
    /// # Errors
    /// Never in practice: writing to a string does not fail.
    pub fn render(&self) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }

    /// Counts one `why` in a family.
    pub fn count(family: &Family<Why, Counter>, why: &'static str) {
        family.get_or_create(&Why { why }).inc();
    }

    /// Counts sockets that left their live for the same reason.
    pub fn leaves_by(&self, why: &'static str, sockets: u64) {
        self.leaves.get_or_create(&Why { why }).inc_by(sockets);
    }

    /// Counts users whom the store was found to hold wrongly.
    pub fn drifted(&self, why: &'static str, users: u64) {
        if users > 0 {
            self.drift_members.get_or_create(&Why { why }).inc_by(users);
        }
    }

    /// Counts a check of a live.
    pub fn checked(&self, why: &'static str) {
        self.checks.get_or_create(&Why { why }).inc();
    }

    /// Counts a store call that failed.
    pub fn store_error(&self, call: &'static str, error: &'static str) {
        self.store_errors.get_or_create(&StoreCall { call, error }).inc();
    }
}
