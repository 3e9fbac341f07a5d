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
mod dashboard;
mod figures;
pub(crate) mod generator;
mod kernel_memory;
pub(crate) mod naive;
mod ping;
mod profile;
mod rows;
pub(crate) mod servers;
mod settings;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use serde_json::json;

use budgets::Judged;
use child::end;
use figures::RunFigures;
pub(crate) use profile::{ProfileArgs, main as profile_main};
use rows::Row;
pub(crate) use rows::hosted_main;
use settings::Bench;
pub(crate) use settings::BenchArgs;

use crate::report::{RunReport, plot};
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

/// Runs `loadtest bench`.
pub(crate) fn main(args: &BenchArgs) -> ExitCode {
    if args.list {
        for row in rows::ALL {
            println!("{:<12} {}", row.name, row.what);
        }
        return ExitCode::SUCCESS;
    }
    crate::report::end(run(args), false, args.check)
}

async fn run(args: &BenchArgs) -> anyhow::Result<RunReport> {
    let wanted = wanted(&args.only)?;
    let mut bench = Bench::new(args)?;
    let mut not_run = BTreeMap::new();
    for row in wanted {
        let began = Instant::now();
        eprintln!("{}: {} …", row.name, row.what);
        bench.row = row.name;
        let done = tokio::time::timeout(ROW_DEADLINE, (row.run)(&mut bench)).await;
        match done.context("not done in time").flatten() {
            Ok(()) => eprintln!("{}: {:.0} s", row.name, began.elapsed().as_secs_f64()),
            Err(error) => {
                eprintln!("{}: NOT MEASURED: {error:#}", row.name);
                not_run.insert(row.name, format!("{error:#}"));
            }
        }
    }
    let report = report(args, &bench.figures, &not_run).await?;
    if let Some(file) = &args.json {
        report.write_json(file)?;
    }
    if let Some(file) = &args.report {
        let plots = plot::draw(&bench.figures.panels())?;
        report.write_page(file, "loadtest bench", &plots)?;
    }
    Ok(report)
}

/// The figures and the judged budgets. Those of rows that were not asked for are listed only if all
/// rows were.
async fn report(
    args: &BenchArgs,
    figures: &RunFigures,
    not_run: &BTreeMap<&str, String>,
) -> anyhow::Result<RunReport> {
    let judged: Vec<Judged> = budgets::read()?
        .into_iter()
        .filter(|budget| {
            args.only.is_empty()
                || figures.has_row(&budget.row)
                || not_run.contains_key(budget.row.as_str())
        })
        .map(|budget| Judged::new(budget, figures))
        .collect();
    let mut report = RunReport::of(&json!({
        "redis": servers::redis_version().await,
        // Numbers too small to say anything about speed.
        "quick": args.quick,
        "rows": figures,
        "not_run": not_run,
        "budgets": judged,
    }))?;
    for budget in &judged {
        budget.judge(&mut report);
    }
    for (row, why) in not_run {
        report.must_not_stop(false, format!("{row}: not measured: {why}"));
    }
    Ok(report)
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
