//! Simulates one history, and writes what became of it to standard output as one line of JSON.

#![allow(
    clippy::disallowed_methods,
    reason = "a thread that watches the others, by the machine's clock"
)]

mod intercept;

use std::os::unix::process::parent_id;
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;
use simulation::{HistoryArgs, simulate};

/// No history takes so long.
const LONGEST: Duration = Duration::from_secs(600);

fn main() -> anyhow::Result<()> {
    let args = HistoryArgs::parse();
    watch();
    // A thread of its own: what it has of randomness is then all of this seed.
    let history = thread::spawn(move || {
        intercept::begin(args.seed);
        simulate(&args, intercept::set_passed)
    });
    let report = history
        .join()
        .map_err(|_| anyhow::anyhow!("the simulator itself panicked"))??;
    println!("{}", serde_json::to_string(&report)?);
    Ok(())
}

/// Ends this process if its parent is gone, or if the history does not come to an end.
fn watch() {
    let began = Instant::now();
    let parent = parent_id();
    thread::spawn(move || {
        while parent_id() == parent && began.elapsed() < LONGEST {
            thread::sleep(Duration::from_secs(1));
        }
        eprintln!("nobody waits for this history, or it does not come to an end");
        std::process::exit(1);
    });
}
