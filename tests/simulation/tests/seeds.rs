//! A fixed set of seeds, and that a seed is a history.

#![allow(clippy::unwrap_used, reason = "these are tests")]

use std::path::Path;
use std::sync::Mutex;
use std::thread;

use simulation::{Less, Report, Wanted, arguments, shrink, simulate_apart};

const PROGRAM: &str = env!("CARGO_BIN_EXE_simulation");

fn wanted(seed: u64, rounds: usize) -> Wanted {
    let less = Less::default();
    Wanted { seed, gateways: None, rounds, kinds: Vec::new(), less, keeps_lines: false, prints: false }
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

fn run(wanted: &Wanted) -> Report {
    simulate_apart(Path::new(PROGRAM), wanted).unwrap()
}

#[test]
fn a_seed_is_a_history() {
    with_each(0..50, |seed| {
        let less = Less { people: Some(25), ..Less::default() };
        let history = Wanted { less, ..wanted(seed, 1) };
        let one = run(&history);
        let other = run(&Wanted { keeps_lines: true, ..history });
        assert_eq!((one.events, one.hash), (other.events, other.hash), "seed {seed}");
        assert!(one.events > 1_000, "seed {seed}: {} events", one.events);
    });
}

#[test]
fn no_promise_is_broken_in_a_fixed_set_of_histories() {
    with_each(1_000..1_012, |seed| {
        let report = run(&wanted(seed, 3));
        if report.findings.is_empty() {
            return;
        }
        let (smallest, report) = shrink(Path::new(PROGRAM), &wanted(seed, 3)).unwrap();
        let command = arguments(&smallest).join(" ");
        let table = report.table.unwrap_or_default();
        panic!("{table}\nsimulation {command}\n{}", report.findings.join("\n"));
    });
}
