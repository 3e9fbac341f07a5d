//! The settings: their names, defaults, units and the relations between them. Every timeout of the program is here.
//!
//! A setting comes from a flag, else from the environment, else from the TOML file, else from its default. Each is
//! declared once, in [`table`](SETTINGS); help text, flags, variables and file keys follow from there. Unknown names
//! are refused (a typo must not fall back to a default), and so are values that do not fit alone or together: all at
//! once, each by its name, never with a secret. `main` loads them, once.

pub mod command;
mod environment;
mod file;
mod flags;
mod mistakes;
mod table;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use self::command::Task;
pub use self::command::{AuditArgs, ExplainArgs, Fix, OutputFormat};
use crate::base::secret::Secret;
pub use crate::base::telemetry::LogFormat;
pub use mistakes::{ConfigError, Mistake, Origin};
pub use table::{SETTINGS, Setting, Shown, markdown_table};

/// What the process is asked to do.
#[derive(Debug)]
pub enum Loaded {
    /// Serve, with these settings.
    Serve(Box<Config>),
    /// Look through the store.
    Audit(Box<Config>, AuditArgs),
    /// Say who is counted in a live, and why.
    Explain(Box<Config>, ExplainArgs),
    /// Print this to standard output and end: help, or the version.
    Print(String),
}

/// Reads the settings of a process: its arguments (the first is the program's name), its environment, and the file that
/// one of these names.
pub fn load(
    args: impl IntoIterator<Item = OsString>,
    env: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<Loaded, ConfigError> {
    let mut mistakes = Vec::new();
    let (task, flags) = match flags::read(args, &mut mistakes) {
        flags::Asked::Print(text) => return Ok(Loaded::Print(text)),
        flags::Asked::Do(task, given) => (task, given),
    };
    let env = environment::read(env, &mut mistakes);
    let mut given = match flags.get("config").or(env.get("config")) {
        Some(Given { text: Ok(path), .. }) => file::read(Path::new(path), &mut mistakes),
        _ => BTreeMap::new(),
    };
    given.extend(env);
    given.extend(flags);

    let mut config = Config::default();
    let mut wrong = BTreeSet::new();
    for setting in SETTINGS {
        let Some(Given { text, origin }) = given.get(setting.name) else { continue };
        let taken = match text {
            Ok(text) if text.is_empty() => Err(format!("is empty: leave it out, or give {}", setting.hint)),
            Ok(text) => (setting.take)(&mut config, text),
            Err(problem) => Err(problem.clone()),
        };
        if let Err(problem) = taken {
            wrong.insert(setting.name);
            mistakes.push(Mistake { subject: mistakes::subject(setting, origin, text.as_deref().ok()), problem });
        }
    }
    for broken in config.broken_relations() {
        if broken.between.iter().any(|name| wrong.contains(name)) {
            continue;
        }
        let subjects = SETTINGS.iter().filter(|s| broken.between.contains(&s.name)).map(|s| match given.get(s.name) {
            Some(given) => mistakes::subject(s, &given.origin, given.text.as_deref().ok()),
            None => mistakes::subject(s, &Origin::Default, s.default),
        });
        mistakes.push(Mistake { subject: subjects.collect::<Vec<_>>().join(", "), problem: broken.problem });
    }
    if !matches!(task, None | Some(Task::Serve)) && config.redis.is_none() && !wrong.contains("redis") {
        mistakes.push(Mistake {
            subject: "redis".to_owned(),
            problem:
                "is required: give --redis URL. A memory store is inside the process of its gateway and cannot be \
                      read from outside"
                    .to_owned(),
        });
    }
    let config = Box::new(config);
    match task {
        Some(task) if mistakes.is_empty() => Ok(match task {
            Task::Serve => Loaded::Serve(config),
            Task::Audit(args) => Loaded::Audit(config, args),
            Task::Explain(args) => Loaded::Explain(config, args),
        }),
        _ => Err(ConfigError { mistakes }),
    }
}

/// The text of a setting, or why it is none; and where it was given.
#[derive(Debug)]
struct Given {
    text: Result<String, String>,
    origin: Origin,
}

type GivenMap = BTreeMap<&'static str, Given>;

/// Every setting of a gateway, read and checked; [`SETTINGS`] describes each.
#[allow(missing_docs, reason = "the table describes them")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    pub listen: SocketAddr,
    /// `None`: the public address serves all.
    pub admin_listen: Option<SocketAddr>,
    /// `None`: the memory store.
    pub redis: Option<Secret>,
    /// `None`: the system's.
    pub redis_ca: Option<PathBuf>,
    pub auth: AuthMode,
    pub heartbeat: Duration,
    pub timeout: Duration,
    pub flush: Duration,
    pub lease: Duration,
    pub lease_refresh: Duration,
    pub check_every: Duration,
    pub closed_ttl: Duration,
    pub fan_source: FanSource,
    pub fan_ttl: Duration,
    /// `None`: never.
    pub streamer_timeout: Option<Duration>,
    pub drain: Duration,
    pub handshake_timeout: Duration,
    /// 0: unbounded.
    pub handshake_rate: u32,
    pub max_handshakes: usize,
    /// `None`: as many as the process may open files for.
    pub max_sockets: Option<usize>,
    pub wait_for_store: Duration,
    pub log_format: LogFormat,
    pub log: String,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 8080)),
            admin_listen: None,
            redis: None,
            redis_ca: None,
            auth: AuthMode::Off,
            heartbeat: Duration::from_secs(5),
            timeout: Duration::from_secs(15),
            flush: Duration::from_millis(250),
            lease: Duration::from_secs(15),
            lease_refresh: Duration::from_secs(2),
            check_every: Duration::from_secs(60),
            closed_ttl: Duration::from_secs(30 * 24 * 3600),
            fan_source: FanSource::Redis,
            fan_ttl: Duration::from_secs(30),
            streamer_timeout: Some(Duration::from_secs(60)),
            drain: Duration::from_secs(30),
            handshake_timeout: Duration::from_secs(10),
            handshake_rate: 4_000,
            max_handshakes: 1_024,
            max_sockets: None,
            wait_for_store: Duration::ZERO,
            log_format: LogFormat::Text,
            log: "info".to_owned(),
        }
    }
}

/// Settings that are right alone and wrong together.
struct Broken {
    between: &'static [&'static str],
    problem: String,
}

impl Config {
    fn broken_relations(&self) -> Vec<Broken> {
        let mut broken = Vec::new();
        let mut require = |holds: bool, between: &'static [&'static str], problem: String| {
            if !holds {
                broken.push(Broken { between, problem });
            }
        };
        let show = humantime::format_duration;

        let answered = self.answered_within();
        require(
            self.timeout >= answered,
            &["heartbeat", "timeout"],
            format!("timeout must be {} or more, or the answer to a ping comes too late", show(answered)),
        );
        require(
            self.lease_refresh * 5 <= self.lease,
            &["lease", "lease-refresh"],
            format!("lease-refresh must be {} or less, a fifth of lease", show(self.lease / 5)),
        );
        require(
            self.flush <= self.lease_refresh,
            &["flush", "lease-refresh"],
            format!("flush must be {} or less, the lease-refresh", show(self.lease_refresh)),
        );
        require(
            self.check_every >= self.lease_refresh,
            &["check-every", "lease-refresh"],
            format!("check-every must be {} or more, the lease-refresh", show(self.lease_refresh)),
        );
        for (name, addr) in [("listen", Some(self.listen)), ("admin-listen", self.admin_listen)] {
            let loopback = addr.is_none_or(|addr| addr.ip().to_canonical().is_loopback());
            require(
                self.auth != AuthMode::Off || loopback,
                if name == "listen" { &["listen", "auth"] } else { &["admin-listen", "auth"] },
                format!(
                    "with auth off a client may claim any user_id, so {name} must be a loopback address: \
                     127.0.0.1:{port} or [::1]:{port}",
                    port = addr.map_or(0, |addr| addr.port())
                ),
            );
        }
        require(
            self.admin_listen.is_none_or(|admin| !overlap(self.listen, admin)),
            &["listen", "admin-listen"],
            "the two addresses must differ".to_owned(),
        );
        broken
    }

    /// The least `timeout` in which the Ping sent after one `heartbeat` can be answered: a second more, or another
    /// heartbeat if that is less.
    fn answered_within(&self) -> Duration {
        self.heartbeat + self.heartbeat.min(Duration::from_secs(1))
    }

    /// Settings that are allowed and probably not meant; for the log.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let answered = self.answered_within();
        let short = self.streamer_timeout.filter(|timeout| *timeout < answered).map(|_| {
            let answered = humantime::format_duration(answered);
            format!("streamer-timeout is less than {answered}: a streamer who reconnects may find the live closed")
        });
        let blind = (self.fan_source == FanSource::Token).then(|| {
            "fan-source is token, but this version reads no tokens: no viewer is known to be a fan".to_owned()
        });
        short.into_iter().chain(blind).collect()
    }
}

/// Whether the second address cannot be bound next to the first.
fn overlap(a: SocketAddr, b: SocketAddr) -> bool {
    let (a_ip, b_ip) = (a.ip().to_canonical(), b.ip().to_canonical());
    a.port() != 0 && a.port() == b.port() && (a_ip == b_ip || a_ip.is_unspecified() || b_ip.is_unspecified())
}

/// Who may connect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthMode {
    /// A client may claim any user id; for loopback only.
    Off,
}

/// Where followers of a streamer are looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FanSource {
    /// `followers:<streamer_id>` in the store (with the memory store: its own follow graph).
    Redis,
    /// The viewer's own token; until tokens are read, no viewer is known to be a fan.
    Token,
}
