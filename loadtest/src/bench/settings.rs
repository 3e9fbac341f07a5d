//! One `loadtest bench`: its settings, which every row reads, and its figures, which every row adds
//! to.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use tempfile::NamedTempFile;

use super::figures::{RunFigures, Who};
use super::servers::{BenchGateway, Programs, Redis};

/// What a gateway asks of its sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Auth {
    /// Nothing.
    Off,
    /// A token.
    Jwt,
}

/// `loadtest bench`
#[derive(Debug, Clone, Args)]
pub(crate) struct BenchArgs {
    /// Small numbers and one round: shows that it works, says nothing about speed
    #[arg(long, conflicts_with = "check")]
    pub(super) quick: bool,
    /// Only these rows [default: all; see --list]
    #[arg(long, value_delimiter = ',', value_name = "ROW,ROW")]
    pub(super) only: Vec<String>,
    /// Say which rows there are
    #[arg(long)]
    pub(super) list: bool,
    /// How often contenders take turns, in rows where they do
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..=50), value_name = "N")]
    pub(super) rounds: u8,
    /// Write everything that was measured to this file, as JSON
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
    /// Write the table with plots to this file, .html or .svg
    #[arg(long, value_name = "FILE")]
    pub(super) report: Option<PathBuf>,
    /// Exit with 1 if a budget of loadtest/budgets.toml is broken or was not measured, and name it
    #[arg(long)]
    pub(super) check: bool,
    /// The gateway [default: `rollcall` beside this program]
    #[arg(long, value_name = "FILE")]
    pub(super) gateway_bin: Option<PathBuf>,
    /// What the gateway of the rows closed-loop and paced asks of its sockets
    #[arg(long, value_enum, default_value_t = Auth::Off)]
    pub(super) auth: Auth,
    /// Viewers of the in-process row
    #[arg(long, default_value_t = 1_000_000, value_name = "N")]
    pub(super) in_process: usize,
    /// Gateways of the many-gateways row, one number after another [default: 1,2,4,8]
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u8).range(1..=32), value_name = "N,N")]
    pub(super) gateways: Vec<u8>,
    /// Lives of the many-gateways row, each on every gateway
    #[arg(long, default_value_t = 1_000, value_parser = at_least_one, value_name = "N")]
    pub(super) shared_lives: usize,
    /// Viewers of each of these on each gateway
    #[arg(long, default_value_t = 3, value_parser = at_least_one, value_name = "N")]
    pub(super) shared_viewers: usize,
    /// Lives of the small-lives row
    #[arg(long, default_value_t = 100_000, value_parser = at_least_one, value_name = "N")]
    pub(super) lives: usize,
    /// Viewers of each of these
    #[arg(long, default_value_t = 10, value_parser = at_least_one, value_name = "N")]
    pub(super) per_live: usize,
    /// Let the gateways of the small-lives row track who is online on the platform
    #[arg(long)]
    pub(super) track_online: bool,
}

pub(crate) struct Bench {
    pub(super) args: BenchArgs,
    pub(super) programs: Programs,
    /// The secret of the heartbeat rows' tokens; `None`: they measure a gateway with `--auth off`,
    /// as all others do.
    secret: Option<NamedTempFile>,
    /// The row that is at work.
    pub(super) row: &'static str,
    pub(super) figures: RunFigures,
}

impl Bench {
    pub(super) fn new(args: &BenchArgs) -> anyhow::Result<Self> {
        let mut args = args.clone();
        if args.quick {
            args.rounds = 1;
            args.in_process = args.in_process.min(2_000);
            args.shared_lives = args.shared_lives.min(20);
            args.lives = args.lives.min(200);
        }
        if args.gateways.is_empty() {
            let quick = args.quick;
            args.gateways = if quick { vec![1, 4] } else { vec![1, 2, 4, 8] };
        }
        Ok(Self {
            programs: Programs::find(args.gateway_bin.as_deref())?,
            secret: (args.auth == Auth::Jwt).then(secret).transpose()?,
            args,
            row: "",
            figures: RunFigures::default(),
        })
    }

    /// Notes a figure of this round, with its unit.
    pub(super) fn note(&mut self, who: Who, measure: &str, value: f64) {
        self.figures.note(self.row, who, measure, value);
    }

    /// Notes a figure of Rollcall.
    pub(super) fn ours(&mut self, measure: &str, value: f64) {
        self.note(Who::Rollcall, measure, value);
    }

    /// The file of the secret.
    pub(super) fn secret(&self) -> Option<&Path> {
        self.secret.as_ref().map(NamedTempFile::path)
    }

    pub(super) fn rounds(&self) -> usize {
        self.args.rounds.into()
    }

    /// One number for a real run, another for a quick one.
    pub(super) fn pick<T>(&self, real: T, quick: T) -> T {
        if self.args.quick { quick } else { real }
    }

    /// The same in milliseconds.
    pub(super) fn pick_ms(&self, real: u64, quick: u64) -> Duration {
        Duration::from_millis(self.pick(real, quick))
    }

    /// Between two heartbeats of a viewer in memory.
    pub(super) fn heartbeat(&self) -> Duration {
        self.pick_ms(5_000, 150)
    }

    /// A gateway that has opened these lives, all of whose viewers are fans, and its Redis.
    pub(super) async fn place(
        &self,
        viewers: usize,
        lives: usize,
        flags: &[&str],
    ) -> anyhow::Result<(Redis, BenchGateway)> {
        let redis = Redis::start().await?;
        redis.follow(viewers, lives).await?;
        let gateway = self.programs.gateway_with(&redis, None, flags).await?;
        gateway.open(lives, None).await?;
        Ok((redis, gateway))
    }
}

/// How a measure of so many gateways begins.
pub(super) fn on(gateways: usize) -> String {
    let s = if gateways == 1 { "" } else { "s" };
    format!("{gateways} gateway{s}")
}

/// The contenders take turns, and each round begins with another one: the rounds, and who it is.
pub(super) fn turns(rounds: usize, contenders: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..rounds).flat_map(move |round| {
        (0..contenders).map(move |step| (round, (round + step) % contenders))
    })
}

/// A file with a new secret for HS256 tokens.
fn secret() -> anyhow::Result<NamedTempFile> {
    let mut file = NamedTempFile::new()?;
    write!(
        file,
        "{:032x}{:032x}",
        rand::random::<u128>(),
        rand::random::<u128>()
    )?;
    Ok(file)
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err("must be a number from 1 on".to_owned()),
        Ok(number) => Ok(number),
    }
}
