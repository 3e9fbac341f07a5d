//! A fixed set of seeds, and that a seed is a history.

#![allow(clippy::unwrap_used, reason = "these are tests")]

use std::path::Path;
use std::sync::Mutex;
use std::thread;

use clap::Parser;
use simulation::{HistoryArgs, HistoryReport, arguments, shrink, simulate_in_child};

const PROGRAM: &str = env!("CARGO_BIN_EXE_simulation");

fn history(seed: u64, rounds: usize) -> HistoryArgs {
    HistoryArgs::parse_from([
        "simulation",
        "--seed",
        &seed.to_string(),
        "--rounds",
        &rounds.to_string(),
    ])
}

/// Does something with each of so many seeds, two at a time.
fn with_each(seeds: std::ops::Range<u64>, what: impl Fn(u64) + Sync) {
    let left = Mutex::new(seeds);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let next = left.lock().unwrap().next();
                    let Some(seed) = next else { return };
                    what(seed);
                }
            });
        }
    });
}

fn run(history: &HistoryArgs) -> HistoryReport {
    simulate_in_child(Path::new(PROGRAM), history).unwrap()
}

#[test]
fn a_seed_is_a_history() {
    with_each(0..8, |seed| {
        let history = HistoryArgs {
            people: Some(25),
            ..history(seed, 1)
        };
        let one = run(&history);
        let other = run(&HistoryArgs {
            table: true,
            ..history
        });
        assert_eq!(
            (one.events, one.hash),
            (other.events, other.hash),
            "seed {seed}"
        );
        assert!(one.events > 1_000, "seed {seed}: {} events", one.events);
        assert!(one.findings.is_empty(), "seed {seed}: {:?}", one.findings);
    });
}

#[test]
fn no_promise_is_broken_in_a_fixed_set_of_histories() {
    with_each(1_000..1_012, |seed| {
        let history = history(seed, 3);
        if run(&history).findings.is_empty() {
            return;
        }
        let smallest = shrink(Path::new(PROGRAM), &history).unwrap();
        let command = arguments(&smallest.history).join(" ");
        let table = smallest.report.table.unwrap_or_default();
        panic!(
            "{table}\nsimulation {command}\n{}",
            smallest.report.findings.join("\n")
        );
    });
}

fn no_promise_is_broken(arguments: &str) {
    let history = HistoryArgs::parse_from(format!("simulation {arguments}").split_whitespace());
    let report = run(&history);
    assert!(
        report.findings.is_empty(),
        "simulation {arguments}\n{}",
        report.findings.join("\n")
    );
}

#[test]
fn a_renewal_that_arrives_twice_keeps_nobody_of_a_killed_gateway() {
    no_promise_is_broken("--seed 500550 --rounds 2 --socketless 0 --without 1,4 --people 5");
}

#[test]
fn a_burial_that_older_data_takes_back_leaves_no_figure_partial() {
    no_promise_is_broken("--seed 500007 --rounds 2 --socketless 0 --without 3");
}

#[test]
fn a_doubt_that_began_while_the_clock_was_ahead_ends() {
    no_promise_is_broken("--seed 600100 --rounds 3 --socketless 0");
}

#[test]
fn a_gateway_that_dies_right_after_a_loss_is_buried_in_time() {
    no_promise_is_broken("--seed 620159 --rounds 2 --socketless 0");
}
