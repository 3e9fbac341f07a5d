//! One command that measures Rollcall beside a bare echo and beside what most teams write, in one
//! run on one machine.
//!
//! The bench starts all servers itself ([`servers`]), loads them with [`generator`]s, has one file
//! per row of the table in [`rows`], and ends what it started. Contenders take turns round by
//! round, so that what else happens on the machine happens to all of them: the ratios are the
//! result, the absolute figures belong to the machine that is printed with them.

#![allow(
    clippy::disallowed_methods,
    reason = "the machine's own time is measured, on threads that may block"
)]

pub(crate) mod bare;
pub(crate) mod bare_datagrams;
mod budgets;
mod child;
pub(crate) mod cpu;
mod dashboard;
mod figures;
pub(crate) mod generator;
mod kernel_memory;
pub(crate) mod naive;
mod ping;
mod process;
mod profile;
mod report;
mod rows;
pub(crate) mod servers;
pub(crate) mod sessions;
mod settings;

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};

use figures::Figures;
use process::{end, on_runtime};
pub(crate) use profile::ProfileArgs;
use report::Report;
use rows::Row;
pub(crate) use rows::hosted_main;
use servers::Programs;
use settings::Bench;
use tempfile::NamedTempFile;

use crate::target::Target;

/// Of one row: past it, the row is given up and the rest goes on. A million viewers on two slow
/// cores need half an hour.
const ROW_DEADLINE: Duration = Duration::from_secs(2_700);

/// `loadtest bare` and `loadtest bare-datagrams`
#[derive(Debug, Clone, Args)]
pub(crate) struct BareArgs {
    /// Where to listen; port 0 picks one
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDR:PORT")]
    listen: SocketAddr,
}

/// `loadtest naive`
#[derive(Debug, Clone, Args)]
pub(crate) struct NaiveArgs {
    /// Where to listen; port 0 picks one
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDR:PORT")]
    listen: SocketAddr,
    /// The Redis that it asks on each heartbeat (loopback only)
    #[arg(long, default_value = "127.0.0.1:6379", value_name = "HOST:PORT")]
    redis: String,
}

/// What a gateway asks of its sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Auth {
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
    quick: bool,
    /// Only these rows [default: all; see --list]
    #[arg(long, value_delimiter = ',', value_name = "ROW,ROW")]
    only: Vec<String>,
    /// Say which rows there are
    #[arg(long)]
    list: bool,
    /// How often contenders take turns, in rows where they do
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..=50), value_name = "N")]
    rounds: u8,
    /// Write everything that was measured to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the table with plots to this file, .html or .svg
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Exit with 1 if a budget of loadtest/budgets.toml is broken or was not measured, and name it
    #[arg(long)]
    check: bool,
    /// The gateway [default: `rollcall` beside this program]
    #[arg(long, value_name = "FILE")]
    gateway_bin: Option<PathBuf>,
    /// What the gateway of the rows closed-loop and paced asks of its sockets
    #[arg(long, value_enum, default_value_t = Auth::Off)]
    auth: Auth,
    /// Viewers of the in-process row
    #[arg(long, default_value_t = 1_000_000, value_name = "N")]
    in_process: usize,
    /// Gateways of the many-gateways row, one number after another [default: 1,2,4,8]
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u8).range(1..=32), value_name = "N,N")]
    gateways: Vec<u8>,
    /// Lives of the many-gateways row, each on every gateway
    #[arg(long, default_value_t = 1_000, value_parser = at_least_one, value_name = "N")]
    shared_lives: usize,
    /// Viewers of each of these on each gateway
    #[arg(long, default_value_t = 3, value_parser = at_least_one, value_name = "N")]
    shared_viewers: usize,
    /// Lives of the small-lives row
    #[arg(long, default_value_t = 100_000, value_parser = at_least_one, value_name = "N")]
    lives: usize,
    /// Viewers of each of these
    #[arg(long, default_value_t = 10, value_parser = at_least_one, value_name = "N")]
    per_live: usize,
    /// Let the gateways of the small-lives row track who is online on the platform
    #[arg(long)]
    track_online: bool,
}

/// Runs `loadtest bare`.
pub(crate) fn bare_main(args: &BareArgs) -> ExitCode {
    serve(own(args.listen).map(bare::serve))
}

/// Runs `loadtest bare-datagrams`.
pub(crate) fn bare_datagrams_main(args: &BareArgs) -> ExitCode {
    serve(own(args.listen).map(bare_datagrams::serve))
}

/// Runs `loadtest naive`.
pub(crate) fn naive_main(args: &NaiveArgs) -> ExitCode {
    let redis = Target::host_port(&args.redis).context("--redis");
    serve(own(args.listen).and_then(|listen| Ok(naive::serve(listen, redis?.address))))
}

/// The yardstick servers check no token, so they listen on loopback only.
fn own(listen: SocketAddr) -> anyhow::Result<SocketAddr> {
    anyhow::ensure!(
        listen.ip().is_loopback(),
        "--listen {listen}: not a loopback address"
    );
    Ok(listen)
}

fn serve(server: anyhow::Result<impl Future<Output = anyhow::Result<()>>>) -> ExitCode {
    end(server.and_then(|server| tokio::runtime::Runtime::new()?.block_on(server)))
}

/// Runs `loadtest profile`.
pub(crate) fn profile_main(args: &ProfileArgs) -> ExitCode {
    end(run_profile(args))
}

fn run_profile(args: &ProfileArgs) -> anyhow::Result<()> {
    tokio::runtime::Runtime::new()?.block_on(profile::run(args))
}

/// Runs `loadtest bench`.
pub(crate) fn main(args: &BenchArgs) -> ExitCode {
    if args.list {
        for row in rows::ALL {
            println!("{:<12} {}", row.name, row.what);
        }
        return ExitCode::SUCCESS;
    }
    on_runtime(run(args))
}

async fn run(args: &BenchArgs) -> anyhow::Result<()> {
    let wanted = wanted(&args.only)?;
    let bench = Bench {
        programs: Programs::find(args.gateway_bin.as_deref())?,
        secret: (args.auth == Auth::Jwt).then(secret).transpose()?,
        quick: args.quick,
        rounds: if args.quick { 1 } else { args.rounds.into() },
        in_process: if args.quick {
            args.in_process.min(2_000)
        } else {
            args.in_process
        },
        gateways: match &args.gateways[..] {
            [] if args.quick => vec![1, 4],
            [] => vec![1, 2, 4, 8],
            asked => asked.iter().map(|count| usize::from(*count)).collect(),
        },
        shared_lives: if args.quick {
            args.shared_lives.min(20)
        } else {
            args.shared_lives
        },
        shared_viewers: args.shared_viewers,
        lives: if args.quick {
            args.lives.min(200)
        } else {
            args.lives
        },
        per_live: args.per_live,
        track_online: args.track_online,
    };
    let mut figures = Figures::default();
    for row in wanted {
        let began = Instant::now();
        eprintln!("{}: {} …", row.name, row.what);
        let failed = tokio::select! {
            done = tokio::time::timeout(ROW_DEADLINE, rows::run(row.name, &bench, &mut figures)) => match done {
                Ok(Ok(())) => None,
                Ok(Err(error)) => Some(format!("{error:#}")),
                Err(_) => Some(format!("not done within {ROW_DEADLINE:?}")),
            },
            _ = tokio::signal::ctrl_c() => bail!("interrupted"),
        };
        match failed {
            Some(why) => {
                eprintln!("{}: NOT MEASURED: {why}", row.name);
                figures.not_run.insert(row.name.to_owned(), why);
            }
            None => eprintln!("{}: {:.0} s", row.name, began.elapsed().as_secs_f64()),
        }
    }
    let report = Report::new(figures, budgets::read()?, args.quick, args.only.is_empty()).await?;
    println!("{report}");
    if let Some(file) = &args.json {
        std::fs::write(file, serde_json::to_string_pretty(&report)?)
            .with_context(|| file.display().to_string())?;
    }
    if let Some(file) = &args.report {
        report::write_plots(&report, file)?;
    }
    let broken = report::broken_budgets(&report);
    if args.check && !broken.is_empty() {
        bail!("budgets not kept:\n  {}", broken.join("\n  "));
    }
    // Without --check, a row that could not be measured is still no success.
    if !report.run.not_run.is_empty() {
        bail!(
            "not measured: {}",
            report
                .run
                .not_run
                .keys()
                .cloned()
                .collect::<Vec<_>>()
                .join(", ")
        );
    }
    Ok(())
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

fn wanted(only: &[String]) -> anyhow::Result<Vec<&'static Row>> {
    if only.is_empty() {
        return Ok(rows::ALL.iter().collect());
    }
    let mut wanted = Vec::new();
    for name in only {
        let row = rows::ALL
            .iter()
            .find(|row| row.name == name.trim())
            .with_context(|| format!("no row {name:?}: see --list"))?;
        wanted.push(row);
    }
    Ok(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_picked_by_name_and_a_typo_is_refused() {
        assert_eq!(wanted(&[]).unwrap().len(), rows::ALL.len());
        assert_eq!(
            wanted(&["closed-loop".to_owned()]).unwrap()[0].name,
            "closed-loop"
        );
        assert!(wanted(&["closed-lop".to_owned()]).is_err());
    }
}
