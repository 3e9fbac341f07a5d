//! Owns the list of settings: each declared once, with its name, its default, its bounds and what is said of it. Flags,
//! variables, file keys, help and the README's table follow from it.

use std::fmt::Display;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use super::{AuthMode, Config, FanSource, LogFormat, Secret, environment};
use crate::store::redis::Address;
use crate::telemetry;

/// One setting.
#[derive(Debug)]
pub struct Setting {
    /// Its name, with dashes: the flag without `--`, the key of the file.
    pub name: &'static str,
    /// The heading it stands under in the help.
    pub group: &'static str,
    /// What a value looks like.
    pub hint: &'static str,
    /// The value when none is given; `None`: nothing.
    pub default: Option<&'static str>,
    /// What it is, in one line.
    pub doc: &'static str,
    /// What else there is to know; may be empty.
    pub more: &'static str,
    /// Whether its value may be printed.
    pub shown: Shown,
    /// Judges a value and puts it in its place; the error says what would be right.
    pub(super) take: fn(&mut Config, &str) -> Result<(), String>,
}

/// Whether a value may be printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    /// It may.
    Plain,
    /// It may hold a password.
    Never,
}

impl Setting {
    /// Its variable: `ROLLCALL_LEASE_REFRESH` for `lease-refresh`.
    #[must_use]
    pub fn env_name(&self) -> String {
        format!("{}{}", environment::PREFIX, self.name.to_ascii_uppercase().replace('-', "_"))
    }
}

const ADDRESSES: &str = "Addresses";
const STORE: &str = "Store";
const PRESENCE: &str = "Presence";
const WHO: &str = "Users and fans";
const PROCESS: &str = "Process";

/// Every setting, in the order in which they are shown.
pub const SETTINGS: &[Setting] = &[
    Setting {
        name: "listen",
        group: ADDRESSES,
        hint: "ADDR:PORT",
        default: Some("127.0.0.1:8080"),
        doc: "The public address; port 0 picks a free port",
        more: "",
        shown: Shown::Plain,
        take: |c, text| put(&mut c.listen, address(text)),
    },
    Setting {
        name: "admin-listen",
        group: ADDRESSES,
        hint: "ADDR:PORT",
        default: None,
        doc: "A second, internal address; /v1, /metrics and the pages are then served there and not on the public one",
        more: "",
        shown: Shown::Plain,
        take: |c, text| put(&mut c.admin_listen, address(text).map(Some)),
    },
    Setting {
        name: "handshake-timeout",
        group: ADDRESSES,
        hint: "DURATION",
        default: Some("10s"),
        doc: "How long a connection may take to send its whole request before it is closed",
        more: "",
        shown: Shown::Plain,
        take: |c, text| put(&mut c.handshake_timeout, duration(text, ms(100)..=s(300))),
    },
    Setting {
        name: "handshake-rate",
        group: ADDRESSES,
        hint: "PER_SECOND",
        default: Some("4000"),
        doc: "WebSockets accepted per second; beyond that, clients get 503 with Retry-After; 0: no limit",
        more: "Below the rate no handshake waits. Beyond it, a handshake waits half a second at most, or is refused.",
        shown: Shown::Plain,
        take: |c, text| put(&mut c.handshake_rate, number(text, 0..=1_000_000)),
    },
    Setting {
        name: "max-handshakes",
        group: ADDRESSES,
        hint: "CONNECTIONS",
        default: Some("1024"),
        doc: "Non-WebSocket connections per port; beyond that, the one idle longest, for a second or more, is closed",
        more: "At most an eighth of the files that the process may open.",
        shown: Shown::Plain,
        take: |c, text| put(&mut c.max_handshakes, number(text, 1..=1_000_000)),
    },
    Setting {
        name: "max-sockets",
        group: ADDRESSES,
        hint: "SOCKETS",
        default: None,
        doc: "WebSockets open at a time; beyond that, 503. Default: what the open-file limit (ulimit -n) allows",
        more: "",
        shown: Shown::Plain,
        take: |c, text| put(&mut c.max_sockets, number(text, 1..=100_000_000).map(Some)),
    },
    Setting {
        name: "redis",
        group: STORE,
        hint: "URL",
        default: None,
        doc: "The Redis that gateways share, redis://[user:password@]host[:port][/db]; default: this process's memory",
        more: "rediss:// uses TLS. redis-cluster://…host[:port],… names some nodes of a cluster, and\n\
               redis-sentinel://…host[:port],…[/service] names sentinels; both have a rediss- form. A gateway with\n\
               the memory store shares nothing with other gateways. Put a password in the environment or the file:\n\
               every user of the machine can see flags.",
        shown: Shown::Never,
        take: |c, text| put(&mut c.redis, redis_url(text).map(Some)),
    },
    Setting {
        name: "redis-ca",
        group: STORE,
        hint: "FILE",
        default: None,
        doc: "A PEM file of certificate authorities to trust for Redis over TLS; default: the system's",
        more: "",
        shown: Shown::Plain,
        take: |c, text| put(&mut c.redis_ca, Ok(Some(PathBuf::from(text)))),
    },
    Setting {
        name: "wait-for-store",
        group: STORE,
        hint: "DURATION",
        default: Some("0s"),
        doc: "How long to wait at startup for a store that does not answer yet",
        more: "",
        shown: Shown::Plain,
        take: |c, text| put(&mut c.wait_for_store, duration(text, ms(0)..=s(3600))),
    },
    Setting {
        name: "flush",
        group: STORE,
        hint: "DURATION",
        default: Some("250ms"),
        doc: "How often joins and leaves are written to the store",
        more: "At most lease-refresh.",
        shown: Shown::Plain,
        take: |c, text| put(&mut c.flush, duration(text, ms(10)..=s(10))),
    },
    Setting {
        name: "lease",
        group: STORE,
        hint: "DURATION",
        default: Some("15s"),
        doc: "How long a gateway may go without renewing its lease before it is buried and its fans are removed",
        more: "At least five times lease-refresh.",
        shown: Shown::Plain,
        take: |c, text| put(&mut c.lease, duration(text, ms(250)..=s(600))),
    },
    Setting {
        name: "lease-refresh",
        group: STORE,
        hint: "DURATION",
        default: Some("2s"),
        doc: "How often a gateway renews its lease",
        more: "At most a fifth of lease.",
        shown: Shown::Plain,
        take: |c, text| put(&mut c.lease_refresh, duration(text, ms(50)..=s(120))),
    },
    Setting {
        name: "check-every",
        group: STORE,
        hint: "DURATION",
        default: Some("60s"),
        doc: "How often a gateway compares the store with what it should hold; after lost data or a reconnect, at once",
        more: "At least lease-refresh.",
        shown: Shown::Plain,
        take: |c, text| put(&mut c.check_every, duration(text, ms(100)..=s(600))),
    },
    Setting {
        name: "closed-ttl",
        group: STORE,
        hint: "DURATION",
        default: Some("30d"),
        doc: "How long the record of a closed live is kept",
        more: "",
        shown: Shown::Plain,
        take: |c, text| put(&mut c.closed_ttl, duration(text, s(60)..=s(366 * 24 * 3600))),
    },
    Setting {
        name: "heartbeat",
        group: PRESENCE,
        hint: "DURATION",
        default: Some("5s"),
        doc: "How often clients should send a heartbeat; the gateway pings a socket that is silent for longer",
        more: "",
        shown: Shown::Plain,
        take: |c, text| put(&mut c.heartbeat, duration(text, ms(100)..=s(300))),
    },
    Setting {
        name: "timeout",
        group: PRESENCE,
        hint: "DURATION",
        default: Some("15s"),
        doc: "How long a socket may be silent before it is closed and its user counts as gone",
        more: "At least a second more than heartbeat. Three times heartbeat survives two lost heartbeats.",
        shown: Shown::Plain,
        take: |c, text| put(&mut c.timeout, duration(text, ms(200)..=s(900))),
    },
    Setting {
        name: "streamer-timeout",
        group: PRESENCE,
        hint: "DURATION",
        default: Some("60s"),
        doc: "How long a streamer may be gone before a live opened over the streamer's socket closes; 0: never",
        more: "",
        shown: Shown::Plain,
        take: |c, text| {
            let wanted = match humantime::parse_duration(text) {
                Ok(Duration::ZERO) => Ok(None),
                _ => duration(text, ms(200)..=s(86_400)).map(Some).map_err(|right| format!("{right}, or 0 for never")),
            };
            put(&mut c.streamer_timeout, wanted)
        },
    },
    Setting {
        name: "auth",
        group: WHO,
        hint: "off",
        default: Some("off"),
        doc: "How users prove who they are; off: not at all, and only loopback addresses are allowed",
        more: "",
        shown: Shown::Plain,
        take: |c, text| put(&mut c.auth, word(text, &[("off", AuthMode::Off)], &["jwt"])),
    },
    Setting {
        name: "fan-source",
        group: WHO,
        hint: "redis|token",
        default: Some("redis"),
        doc: "Where followers are looked up: in the store, or in the viewer's own token",
        more: "",
        shown: Shown::Plain,
        take: |c, text| {
            let known = [("redis", FanSource::Redis), ("token", FanSource::Token)];
            put(&mut c.fan_source, word(text, &known, &["http", "sql"]))
        },
    },
    Setting {
        name: "fan-ttl",
        group: WHO,
        hint: "DURATION",
        default: Some("30s"),
        doc: "How long the result of a fan check is valid",
        more: "",
        shown: Shown::Plain,
        take: |c, text| put(&mut c.fan_ttl, duration(text, ms(100)..=s(86_400))),
    },
    Setting {
        name: "drain",
        group: PROCESS,
        hint: "DURATION",
        default: Some("30s"),
        doc: "Time for a graceful stop; clients are told to reconnect over the first two thirds; 0: closed at once",
        more: "Give the process a little longer than this before you kill it. However short it is, 4.5 s remain for\n\
               closing sockets and the last flush. A second signal ends the process at once.",
        shown: Shown::Plain,
        take: |c, text| put(&mut c.drain, duration(text, ms(0)..=s(600))),
    },
    Setting {
        name: "log",
        group: PROCESS,
        hint: "FILTER",
        default: Some("info"),
        doc: "What to log: a level, or a comma-separated list of target=level",
        more: "For example rollcall=debug,warn. Levels: off, error, warn, info, debug, trace.",
        shown: Shown::Plain,
        take: |c, text| put(&mut c.log, telemetry::filter(text).map(|_| text.to_owned())),
    },
    Setting {
        name: "log-format",
        group: PROCESS,
        hint: "text|json",
        default: Some("text"),
        doc: "Log format: text for people, or one JSON object per line",
        more: "",
        shown: Shown::Plain,
        take: |c, text| {
            put(&mut c.log_format, word(text, &[("text", LogFormat::Text), ("json", LogFormat::Json)], &[]))
        },
    },
    Setting {
        name: "config",
        group: PROCESS,
        hint: "FILE",
        default: None,
        doc: "A TOML file with settings, such as heartbeat = \"5s\"; it cannot name another file",
        more: "",
        shown: Shown::Plain,
        // Read before all others, by `load`.
        take: |_, _| Ok(()),
    },
];

/// The settings as a Markdown table, as it stands in the README.
#[must_use]
pub fn markdown_table() -> String {
    let mut table = "| setting | default | what |\n| --- | --- | --- |\n".to_owned();
    for Setting { name, hint, default, doc, .. } in SETTINGS {
        let default = default.map_or_else(String::new, |default| format!("`{default}`"));
        table += &format!("| `--{name} {}` | {default} | {} |\n", hint.replace('|', "\\|"), doc.replace('|', "\\|"));
    }
    table
}

fn put<T>(place: &mut T, value: Result<T, String>) -> Result<(), String> {
    *place = value?;
    Ok(())
}

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

const fn s(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn duration(text: &str, bounds: RangeInclusive<Duration>) -> Result<Duration, String> {
    let show = humantime::format_duration;
    let (least, most) = (show(*bounds.start()), show(*bounds.end()));
    match humantime::parse_duration(text) {
        Ok(duration) if bounds.contains(&duration) => Ok(duration),
        Ok(_) => Err(format!("must be from {least} to {most}")),
        Err(_) if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) => {
            Err(format!("has no unit; right would be {text}s or {text}ms, from {least} to {most}"))
        }
        Err(_) => Err(format!("is no duration; right would be one like 5s, 250ms or 1m30s, from {least} to {most}")),
    }
}

fn number<T: FromStr + PartialOrd + Display>(text: &str, bounds: RangeInclusive<T>) -> Result<T, String> {
    let right = || format!("must be a whole number from {} to {}", bounds.start(), bounds.end());
    text.parse().ok().filter(|number| bounds.contains(number)).ok_or_else(right)
}

fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        let port = text.rsplit(':').next().and_then(|port| port.parse::<u16>().ok()).unwrap_or(8080);
        format!("is no address; right would be digits with a port, such as 127.0.0.1:{port} or [::1]:{port}")
    })
}

/// One word of a few: those that `known` means something by, and those promised for `later`.
fn word<T: Copy>(text: &str, known: &[(&str, T)], later: &[&str]) -> Result<T, String> {
    if let Some((_, value)) = known.iter().find(|(word, _)| *word == text) {
        return Ok(*value);
    }
    let right = known.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(" or ");
    let problem = if later.contains(&text) { "is not available in this version" } else { "is not known" };
    Err(format!("{problem}; right would be {right}"))
}

/// Takes a URL of Redis. Its errors quote nothing of it.
fn redis_url(text: &str) -> Result<Secret, String> {
    Address::parse(text).map(|_| Secret::new(text))
}
