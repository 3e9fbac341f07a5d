//! Simulates one history, and writes what became of it to standard output as one line of JSON.

mod intercept;

use clap::Parser;
use simulation::{Kind, Less, Wanted, simulate};

/// Simulates one history
#[derive(Debug, Parser)]
struct Args {
    /// Decides everything
    #[arg(long)]
    seed: u64,
    /// How many gateways [default: the seed decides]
    #[arg(long)]
    gateways: Option<usize>,
    /// How many times faults happen and people rest after that
    #[arg(long, default_value_t = 6)]
    rounds: usize,
    /// Only these faults
    #[arg(long, value_delimiter = ',')]
    faults: Vec<Kind>,
    /// Without the faults of these numbers
    #[arg(long, value_delimiter = ',')]
    without: Vec<usize>,
    /// Only the first so many people
    #[arg(long)]
    people: Option<usize>,
    /// Only the first so many rounds of the plan
    #[arg(long)]
    first_rounds: Option<usize>,
    /// Tell the last events too
    #[arg(long)]
    table: bool,
    /// Write every event to standard error
    #[arg(long)]
    print: bool,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let wanted = Wanted {
        seed: args.seed,
        gateways: args.gateways,
        rounds: args.rounds,
        kinds: args.faults,
        less: Less { without: args.without, people: args.people, rounds: args.first_rounds },
        keeps_lines: args.table,
        prints: args.print,
    };
    // A thread of its own: what it has of randomness is then all of this seed.
    let history = std::thread::spawn(move || {
        intercept::begin(wanted.seed);
        simulate(&wanted, intercept::set_passed)
    });
    let report = history.join().map_err(|_| anyhow::anyhow!("the simulator itself panicked"))??;
    println!("{}", serde_json::to_string(&report)?);
    Ok(())
}
