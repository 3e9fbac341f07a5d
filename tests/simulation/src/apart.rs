//! Histories in processes of their own. tokio counts the runtimes of a process, and the count decides which branch of a
//! `select!` comes first, so each history needs a fresh process to be the same again.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};

use crate::engine::{Report, Wanted};

/// Simulates a history with that program, which is this package's.
///
/// # Errors
/// The program cannot be run, or did not come to an end.
pub fn simulate_apart(program: &Path, wanted: &Wanted) -> anyhow::Result<Report> {
    let ran = Command::new(program).args(arguments(wanted)).output().context("the simulation cannot be started")?;
    if !ran.status.success() {
        bail!("seed {}: {}: {}", wanted.seed, ran.status, String::from_utf8_lossy(&ran.stderr));
    }
    serde_json::from_slice(&ran.stdout).with_context(|| format!("the report of seed {}", wanted.seed))
}

/// What the program is told on its command line to simulate this.
pub fn arguments(wanted: &Wanted) -> Vec<String> {
    let mut arguments = vec!["--seed".to_owned(), wanted.seed.to_string()];
    arguments.extend(["--rounds".to_owned(), wanted.rounds.to_string()]);
    let mut add = |name: &str, value: String| arguments.extend([name.to_owned(), value]);
    if let Some(gateways) = wanted.gateways {
        add("--gateways", gateways.to_string());
    }
    if !wanted.kinds.is_empty() {
        add("--faults", wanted.kinds.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(","));
    }
    if !wanted.less.without.is_empty() {
        add("--without", wanted.less.without.iter().map(ToString::to_string).collect::<Vec<_>>().join(","));
    }
    if let Some(people) = wanted.less.people {
        add("--people", people.to_string());
    }
    if let Some(rounds) = wanted.less.rounds {
        add("--first-rounds", rounds.to_string());
    }
    if wanted.keeps_lines {
        arguments.push("--table".to_owned());
    }
    arguments
}

/// Leaves out of a history that failed whatever it fails without: rounds at its end, then faults one by one, then
/// people. The finding may become another one. Returns the smallest history that was found, and its report.
///
/// # Errors
/// As [`simulate_apart`].
pub fn shrink(program: &Path, failed: &Wanted) -> anyhow::Result<(Wanted, Report)> {
    let mut smallest = Wanted { keeps_lines: true, ..failed.clone() };
    let mut report = simulate_apart(program, &smallest)?;
    let mut try_with = |smaller: Wanted, smallest: &mut Wanted| -> anyhow::Result<bool> {
        let tried = simulate_apart(program, &smaller)?;
        let fails = !tried.findings.is_empty();
        if fails {
            *smallest = smaller;
            report = tried;
        }
        Ok(fails)
    };
    for rounds in 0..failed.rounds {
        let mut smaller = smallest.clone();
        smaller.less.rounds = Some(rounds);
        if try_with(smaller, &mut smallest)? {
            break;
        }
    }
    let faults = simulate_apart(program, &smallest)?.ids;
    for fault in faults {
        let mut smaller = smallest.clone();
        smaller.less.without.push(fault);
        try_with(smaller, &mut smallest)?;
    }
    for people in [5, 10, 20, 40] {
        let mut smaller = smallest.clone();
        smaller.less.people = Some(people);
        if try_with(smaller, &mut smallest)? {
            break;
        }
    }
    Ok((smallest, report))
}
