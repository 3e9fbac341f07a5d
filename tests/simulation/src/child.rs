//! Histories in processes of their own. tokio counts the runtimes of a process, and the count
//! decides which branch of a `select!` comes first, so each history needs a fresh process to be the
//! same again.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};

use crate::engine::{HistoryArgs, HistoryReport};

/// Simulates a history with that program, which is this package's.
///
/// # Errors
/// The program cannot be run, or did not come to an end.
pub fn simulate_in_child(program: &Path, wanted: &HistoryArgs) -> anyhow::Result<HistoryReport> {
    let ran = Command::new(program)
        .args(arguments(wanted))
        .output()
        .context("the simulation cannot be started")?;
    if !ran.status.success() {
        bail!(
            "seed {}: {}: {}",
            wanted.seed,
            ran.status,
            String::from_utf8_lossy(&ran.stderr)
        );
    }
    serde_json::from_slice(&ran.stdout)
        .with_context(|| format!("the report of seed {}", wanted.seed))
}

/// What the program is told on its command line to simulate this.
pub fn arguments(wanted: &HistoryArgs) -> Vec<String> {
    let rounds = Some(wanted.rounds.to_string());
    let faults = wanted.faults.iter().map(|kind| kind.name());
    let without = wanted.without.iter().map(ToString::to_string);
    let named = [
        ("--seed", Some(wanted.seed.to_string())),
        ("--rounds", rounds),
        (
            "--gateways",
            wanted.gateways.map(|number| number.to_string()),
        ),
        ("--faults", listed(faults)),
        ("--without", listed(without)),
        ("--people", wanted.people.map(|number| number.to_string())),
        (
            "--socketless",
            wanted.socketless.map(|share| share.to_string()),
        ),
    ];
    let mut arguments = Vec::new();
    for (name, value) in named {
        if let Some(value) = value {
            arguments.extend([name.to_owned(), value]);
        }
    }
    if wanted.table {
        arguments.push("--table".to_owned());
    }
    arguments
}

/// `None` if there are none.
fn listed(values: impl Iterator<Item = String>) -> Option<String> {
    let values: Vec<String> = values.collect();
    if values.is_empty() {
        None
    } else {
        Some(values.join(","))
    }
}

/// The smallest history that was found to break a promise.
#[derive(Debug)]
pub struct Smallest {
    /// The history.
    pub history: HistoryArgs,
    /// What became of it.
    pub report: HistoryReport,
}

impl Smallest {
    /// Takes a smaller history, if that one breaks a promise too.
    fn try_with(&mut self, program: &Path, smaller: HistoryArgs) -> anyhow::Result<bool> {
        let report = simulate_in_child(program, &smaller)?;
        let fails = !report.findings.is_empty();
        if fails {
            *self = Self {
                history: smaller,
                report,
            };
        }
        Ok(fails)
    }
}

/// Leaves out of a history that failed whatever it fails without: rounds at its end, then faults
/// one by one, then people. The finding may become another one.
///
/// # Errors
/// As [`simulate_in_child`].
pub fn shrink(program: &Path, failed: &HistoryArgs) -> anyhow::Result<Smallest> {
    let history = HistoryArgs {
        table: true,
        ..failed.clone()
    };
    let report = simulate_in_child(program, &history)?;
    let mut smallest = Smallest { history, report };
    for rounds in 0..failed.rounds {
        let smaller = HistoryArgs {
            rounds,
            ..smallest.history.clone()
        };
        if smallest.try_with(program, smaller)? {
            break;
        }
    }
    for fault in smallest.report.ids.clone() {
        let mut smaller = smallest.history.clone();
        smaller.without.push(fault);
        smallest.try_with(program, smaller)?;
    }
    for people in [5, 10, 20, 40] {
        let smaller = HistoryArgs {
            people: Some(people),
            ..smallest.history.clone()
        };
        if smallest.try_with(program, smaller)? {
            break;
        }
    }
    Ok(smallest)
}
