//! The command line of `crowd`: what may be asked, and what is refused before anything is dialled.
//!
//! Every mistake has its own [`ArgError`]; a run that starts has a [`CrowdPlan`] that was checked
//! as a whole.

use std::fmt::Display;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use thiserror::Error;

use crate::plan::{
    CONNECTIONS, CrowdPlan, JoinBy, SHORTEST_HEARTBEAT, SLOWEST, Spread, ViewerTransport, is_prefix,
};
use crate::proc_stats::open_files_limit;
use crate::target::{Target, TargetError};

/// Descriptors a process needs besides its viewers: the HTTP pool, dashboards, epoll, pipes.
const SPARE_FILES: usize = 256;
/// Linux offers 28,232 ephemeral ports per source address, but tries one parity first: past half of
/// them every connect searches thousands of taken ports, and the ramp would measure that search.
const VIEWERS_PER_SOURCE: usize = 10_000;

/// Wrong usage, as `sysexits.h` has it and as the gateway answers it.
const EXIT_USAGE: u8 = 64;

/// Why a run was refused before it began.
#[derive(Debug, Error)]
#[error("{0}")]
pub(crate) struct ArgError(String);

impl ArgError {
    pub(crate) fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }

    /// Prints why a run failed. Wrong usage has an exit code of its own.
    pub(crate) fn exit(error: &anyhow::Error) -> ExitCode {
        eprintln!("loadtest: {error:#}");
        ExitCode::from(if error.is::<Self>() { EXIT_USAGE } else { 1 })
    }
}

/// `loadtest crowd`
#[derive(Debug, Clone, Args)]
pub(crate) struct CrowdArgs {
    /// The gateway's WebSocket address (loopback only; the path defaults to /ws)
    #[arg(long, default_value = "ws://127.0.0.1:8080", value_name = "URL")]
    pub(crate) url: String,
    /// The HTTP API's address, when it has a port of its own [default: the host and port of --url]
    #[arg(long, value_name = "URL")]
    pub(crate) http: Option<String>,
    /// A file with the API key for the HTTP calls
    #[arg(long, value_name = "FILE")]
    pub(crate) api_key_file: Option<PathBuf>,
    /// The gateway's own file of this name: the viewers and dashboards come with tokens signed with
    /// its secret
    #[arg(long, value_name = "FILE")]
    pub(crate) jwt_hs256_secret_file: Option<PathBuf>,
    /// A PEM file of the authorities that vouch for a gateway at wss:// or https://
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,

    /// How viewers reach the gateway. The viewers of one process share their connections for HTTP
    /// (--connections), as behind a proxy, and 16 sockets for datagrams: the gateway tells sessions
    /// by their key, and not by their address
    #[arg(long, value_enum, default_value_t = ViewerTransport::Ws)]
    pub(crate) by: ViewerTransport,
    /// With --by http: so many connections stay open, over all processes (the gateway's
    /// --max-handshakes must be a third more)
    #[arg(long, default_value_t = CONNECTIONS, value_name = "N")]
    pub(crate) connections: usize,
    /// How many viewers
    #[arg(long, default_value_t = 1000, value_name = "N")]
    pub(crate) viewers: usize,
    /// How many lives
    #[arg(long, default_value_t = 10, value_name = "L")]
    pub(crate) lives: usize,
    /// How viewers are spread over the lives
    #[arg(long, value_enum, default_value_t = Spread::Zipf)]
    pub(crate) spread: Spread,
    /// The exponent of the zipf spread: 0 is even, larger is steeper
    #[arg(long, default_value_t = 1.0, value_name = "S")]
    pub(crate) zipf_exponent: f64,
    /// The share of viewers that follow the streamer they watch
    #[arg(long, default_value_t = 0.3, value_name = "SHARE")]
    pub(crate) fans: f64,
    /// The share of viewers that are guests, without an account (needs --jwt-hs256-secret-file)
    #[arg(long, default_value_t = 0.0, value_name = "SHARE")]
    pub(crate) guests: f64,
    /// Fixes who watches what and who is a fan; also part of every id
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// The start of every id that the run uses
    #[arg(long, default_value = "lt")]
    pub(crate) prefix: String,
    /// Open the lives with this many slices [default: the gateway's choice]
    #[arg(long, value_name = "N")]
    pub(crate) slices: Option<u32>,
    /// Do not write the follows (an earlier run with --keep and the same seed did)
    #[arg(long)]
    pub(crate) no_setup: bool,
    /// Leave the lives open and the follows in place
    #[arg(long)]
    pub(crate) keep: bool,

    /// Time between two heartbeats of a viewer; the crowd's are spread evenly over it
    #[arg(long, default_value = "5s", value_parser = humantime::parse_duration, value_name = "TIME")]
    pub(crate) heartbeat: Duration,
    /// Each viewer sends its next heartbeat as soon as the last is answered, during the steady
    /// phase (the gateway's --message-rate must allow it)
    #[arg(long)]
    pub(crate) closed_loop: bool,
    /// New connections per second
    #[arg(long, default_value = "2000/s", value_parser = parse_rate, value_name = "RATE")]
    pub(crate) ramp: f64,
    /// At most this many viewers between connect and `joined`
    #[arg(long, default_value_t = 256, value_name = "N")]
    pub(crate) in_flight: usize,
    /// How a viewer asks to join
    #[arg(long, value_enum, default_value_t = JoinBy::Message)]
    pub(crate) join: JoinBy,
    /// How long connect and upgrade may take, and then the join
    #[arg(long, default_value = "10s", value_parser = humantime::parse_duration, value_name = "TIME")]
    pub(crate) connect_timeout: Duration,
    /// An ack later than this is an error
    #[arg(long, default_value = "5s", value_parser = humantime::parse_duration, value_name = "TIME")]
    pub(crate) ack_timeout: Duration,
    /// How long the steady phase lasts, once everybody is in
    #[arg(long, default_value = "30s", value_parser = humantime::parse_duration, value_name = "TIME")]
    pub(crate) duration: Duration,
    /// Spread the viewers over this many processes
    #[arg(long, default_value_t = 1, value_name = "K")]
    pub(crate) processes: usize,

    /// Watch the lives, and check their counts against the crowd's own truth
    #[arg(long)]
    pub(crate) verify: bool,
    /// Watch at most this many lives (the largest first)
    #[arg(long, default_value_t = 100, value_name = "N")]
    pub(crate) verify_lives: usize,
    /// How long the counts may take to become right
    #[arg(long, default_value = "30s", value_parser = humantime::parse_duration, value_name = "TIME")]
    pub(crate) verify_timeout: Duration,

    /// The gateway's process id: report its memory and CPU
    #[arg(long)]
    pub(crate) pid: Option<u32>,
    /// Redis's process id: report its CPU
    #[arg(long)]
    pub(crate) redis_pid: Option<u32>,
    /// Redis's address: report its commands per heartbeat (loopback only)
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) redis: Option<String>,
    /// One JSON document on standard output instead of text
    #[arg(long)]
    pub(crate) json: bool,
    /// Exit with 1 on any unanswered heartbeat, lost socket, error or wrong count
    #[arg(long)]
    pub(crate) check: bool,
}

impl CrowdArgs {
    /// The checked plan of the run, or the first thing that is wrong with it.
    pub(crate) fn plan(&self) -> Result<CrowdPlan, ArgError> {
        let at_least_one: [(&str, usize); 5] = [
            ("connections", self.connections),
            ("viewers", self.viewers),
            ("lives", self.lives),
            ("processes", self.processes),
            ("in-flight", self.in_flight),
        ];
        for (flag, value) in at_least_one {
            range(value >= 1, flag, "at least 1", &value)?;
        }
        range(self.slices != Some(0), "slices", "at least 1", &0)?;
        range(
            self.processes <= self.viewers,
            "processes",
            "no more than --viewers",
            &self.processes,
        )?;
        range(
            (0.0..=1.0).contains(&self.fans),
            "fans",
            "between 0 and 1",
            &self.fans,
        )?;
        range(
            (0.0..=1.0 - self.fans).contains(&self.guests),
            "guests",
            "between 0 and what --fans leaves",
            &self.guests,
        )?;
        if self.guests > 0.0 && self.jwt_hs256_secret_file.is_none() {
            return Err(ArgError::new(
                "--guests needs --jwt-hs256-secret-file: a token says who is a guest",
            ));
        }
        range(
            (0.0..=10.0).contains(&self.zipf_exponent),
            "zipf-exponent",
            "between 0 and 10",
            &self.zipf_exponent,
        )?;
        let heartbeat = humantime::format_duration(self.heartbeat);
        range(
            self.heartbeat >= SHORTEST_HEARTBEAT,
            "heartbeat",
            "at least 10ms",
            &heartbeat,
        )?;
        if !is_prefix(&self.prefix) {
            let prefix = &self.prefix;
            return Err(ArgError::new(format!(
                "--prefix must be 1 to 24 of [A-Za-z0-9_.-], not {prefix:?}"
            )));
        }

        let mut target = target("url", Target::websocket(&self.url))?;
        (target.entry.ca, target.entry.secret) =
            (self.ca.clone(), self.jwt_hs256_secret_file.clone());
        if let Err(why) = target.entry.check() {
            return Err(ArgError::new(format!("{why:#}")));
        }
        let sources = self.viewers.div_ceil(VIEWERS_PER_SOURCE);
        if self.by == ViewerTransport::Ws && sources > 1 && target.address.is_ipv6() {
            // There is one IPv6 loopback address, so there are no more source ports to be had.
            return Err(ArgError::new(format!(
                "more than {VIEWERS_PER_SOURCE} viewers need several source addresses: use 127.0.0.1 instead of ::1"
            )));
        }
        Ok(CrowdPlan {
            target,
            by: self.by,
            connections: self.connections,
            sources,
            viewers: self.viewers,
            bystanders: self.viewers,
            lives: self.lives,
            spread: self.spread,
            zipf_exponent: self.zipf_exponent,
            fans: self.fans,
            guests: self.guests,
            seed: self.seed,
            prefix: self.prefix.clone(),
            heartbeat: self.heartbeat,
            closed_loop: self.closed_loop,
            ramp_per_second: self.ramp,
            in_flight: self.in_flight,
            join: self.join,
            connect_timeout: self.connect_timeout,
            ack_timeout: self.ack_timeout,
            processes: self.processes,
        })
    }

    /// The HTTP API's address: its own, or the WebSocket's.
    pub(crate) fn api_target(&self, websocket: &Target) -> Result<Target, ArgError> {
        match &self.http {
            Some(url) => target("http", Target::http(url)),
            None => Ok(websocket.clone()),
        }
    }

    /// Redis's address, when it was given.
    pub(crate) fn redis_target(&self) -> Result<Option<Target>, ArgError> {
        self.redis
            .as_deref()
            .map(|host_port| target("redis", Target::host_port(host_port)))
            .transpose()
    }
}

/// Refuses more viewers than a process can have sockets.
pub(crate) fn enough_files(plan: &CrowdPlan) -> Result<(), ArgError> {
    let limit = open_files_limit().unwrap_or(usize::MAX);
    let share = plan.sockets_of_a_process();
    let needed = share + SPARE_FILES;
    if needed <= limit {
        return Ok(());
    }
    let per_process = limit.saturating_sub(SPARE_FILES).max(1);
    let processes = (share * plan.processes).div_ceil(per_process);
    Err(ArgError::new(format!(
        "{share} sockets in one process need {needed} open files, the limit is {limit}: \
         use --processes {processes} or more, or raise `ulimit -n`"
    )))
}

fn target(flag: &str, parsed: Result<Target, TargetError>) -> Result<Target, ArgError> {
    parsed.map_err(|why| ArgError::new(format!("--{flag}: {why}")))
}

fn range(holds: bool, flag: &str, must: &str, got: &dyn Display) -> Result<(), ArgError> {
    if holds {
        Ok(())
    } else {
        Err(ArgError::new(format!("--{flag} must be {must}, not {got}")))
    }
}

/// `2000/s`, or plainly `2000`.
fn parse_rate(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix("/s").unwrap_or(text);
    match number.parse::<f64>() {
        Ok(rate) if rate.is_finite() && rate >= SLOWEST => Ok(rate),
        _ => Err(format!("{text:?} is not a rate such as 2000/s")),
    }
}
