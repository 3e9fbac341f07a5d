//! `loadtest simulate`: simulated histories, one seed after the other, until the time is up. The
//! engine is the package in `tests/simulation`; `docs/simulation.md` describes it. Each history
//! runs in a process of its own.

#![allow(
    clippy::disallowed_methods,
    reason = "threads that wait for processes, by the machine's clock"
)]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use clap::Args;
use parking_lot::Mutex;
use simulation::{
    Fault, HistoryArgs, HistoryReport, Smallest, arguments, shrink, simulate_in_child,
};

/// How often a line is printed.
const LINE_EVERY: Duration = Duration::from_secs(60);

#[derive(Debug, Args)]
pub(crate) struct SimulateArgs {
    /// No new history begins after this many hours
    #[arg(long, default_value_t = 1.0)]
    hours: f64,
    /// The first seed
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    from: u64,
    /// So many histories at a time
    #[arg(long, value_name = "N", default_value_t = 2)]
    at_a_time: usize,
    /// How many times faults happen in a history and people rest after that
    #[arg(long, default_value_t = 6)]
    rounds: usize,
    /// How many gateways there are [default: 1 to 5, as the seed decides]
    #[arg(long)]
    gateways: Option<usize>,
    /// Only these faults
    #[arg(long, value_delimiter = ',', value_name = "FAULT,…")]
    faults: Vec<Fault>,
    /// Stop at the first finding
    #[arg(long)]
    stop: bool,
    /// The simulator [default: `simulation` beside this program]
    #[arg(long, value_name = "FILE")]
    simulation_bin: Option<PathBuf>,
}

/// What was simulated so far.
#[derive(Default)]
struct HistoryTally {
    histories: u64,
    simulated: Duration,
    faults: BTreeMap<Fault, u64>,
    /// The seeds that break a promise.
    broken: Vec<u64>,
}

impl HistoryTally {
    fn add(&mut self, report: &HistoryReport) {
        self.histories += 1;
        self.simulated += Duration::from_millis(report.simulated_ms);
        for (kind, times) in &report.faults {
            *self.faults.entry(*kind).or_default() += times;
        }
    }

    fn line(&self, next_seed: u64, took: Duration) -> String {
        let faults: Vec<String> = self
            .faults
            .iter()
            .map(|(kind, times)| format!("{} {times}", kind.name()))
            .collect();
        format!(
            "{:>5} s: seeds below {next_seed}, {} histories, {:.1} simulated hours, {} findings; {}",
            took.as_secs(),
            self.histories,
            self.simulated.as_secs_f64() / 3_600.0,
            self.broken.len(),
            faults.join(", ")
        )
    }
}

pub(crate) fn main(args: &SimulateArgs) -> ExitCode {
    run(args).unwrap_or_else(|error| {
        eprintln!("loadtest simulate: {error:#}");
        ExitCode::FAILURE
    })
}

fn run(args: &SimulateArgs) -> anyhow::Result<ExitCode> {
    let program = match &args.simulation_bin {
        Some(program) => program.clone(),
        None => std::env::current_exe()
            .context("where this program is")?
            .with_file_name("simulation"),
    };
    ensure!(
        program.exists(),
        "{} is not there: build it with `cargo build --release -p simulation`, or name it with --simulation-bin",
        program.display()
    );
    let began = Instant::now();
    let until = began + Duration::try_from_secs_f64(args.hours * 3_600.0).context("--hours")?;
    let next_seed = AtomicU64::new(args.from);
    let tally = Mutex::new(HistoryTally::default());
    let next_seed = &next_seed;
    let tally = &tally;
    let is_over = || Instant::now() >= until || (args.stop && !tally.lock().broken.is_empty());
    thread::scope(|scope| {
        let program = &program;
        let workers: Vec<_> = (0..args.at_a_time.max(1))
            .map(|_| {
                scope.spawn(move || {
                    while !is_over() {
                        let history = history(args, next_seed.fetch_add(1, Ordering::Relaxed));
                        let found = match simulate_in_child(program, &history) {
                            Ok(report) => {
                                tally.lock().add(&report);
                                report.findings
                            }
                            Err(why) => vec![format!("{why:#}")],
                        };
                        if found.is_empty() {
                            continue;
                        }
                        tally.lock().broken.push(history.seed);
                        println!("{}", told(history.seed, &found));
                        match shrink(program, &history) {
                            Ok(smallest) => println!("{}", told_smallest(&smallest)),
                            Err(why) => {
                                println!("seed {} was not made smaller: {why:#}", history.seed)
                            }
                        }
                    }
                })
            })
            .collect();
        let mut told = Instant::now();
        while workers.iter().any(|worker| !worker.is_finished()) {
            thread::sleep(Duration::from_millis(200));
            if told.elapsed() >= LINE_EVERY {
                told = Instant::now();
                println!(
                    "{}",
                    tally
                        .lock()
                        .line(next_seed.load(Ordering::Relaxed), began.elapsed())
                );
            }
        }
    });
    let tally = tally.lock();
    println!(
        "{}",
        tally.line(next_seed.load(Ordering::Relaxed), began.elapsed())
    );
    if tally.broken.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    println!("seeds that break a promise: {:?}", tally.broken);
    Ok(ExitCode::FAILURE)
}

fn history(args: &SimulateArgs, seed: u64) -> HistoryArgs {
    HistoryArgs {
        seed,
        gateways: args.gateways,
        rounds: args.rounds,
        faults: args.faults.clone(),
        ..HistoryArgs::default()
    }
}

fn told(seed: u64, found: &[String]) -> String {
    let found: Vec<String> = found
        .iter()
        .take(5)
        .map(|finding| format!("\n  {finding}"))
        .collect();
    format!("seed {seed} breaks a promise:{}", found.concat())
}

fn told_smallest(smallest: &Smallest) -> String {
    let command = arguments(&smallest.history).join(" ");
    let table = smallest.report.table.as_deref().unwrap_or_default();
    format!(
        "the smallest history found that breaks one: simulation {command}\n{table}{}",
        told(smallest.history.seed, &smallest.report.findings)
    )
}
