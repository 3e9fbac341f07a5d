//! The load tools: each puts known viewers in front of a gateway and checks or measures what the
//! gateway does.
//!
//! They are for one's own machine only: every address that they dial must be a loopback address,
//! and there is deliberately no switch to lift that. [`crowd`] and [`storm`] measure a crowd of
//! viewers: [`plan`] decides who watches what, [`worker`] runs the viewers of one process, and
//! [`workers`] commands all processes and machines. [`chaos`] breaks gateways of its own, [`soak`]
//! looks for what stays behind, [`hostile`] attacks one, [`fan_source_outage`] takes the database
//! away that knows the fans, [`fanout`] lets a streamer with very many followers go on air,
//! [`takeover`] kills a gateway whose sessions have no sockets, and [`mod@bench`] compares the
//! gateway with a bare echo. All of them connect through [`client`].

mod api;
mod args;
mod bench;
mod chaos;
mod client;
mod crowd;
mod dashboard;
mod dashboards;
mod entry;
mod error_kind;
mod fan_source_outage;
mod fanout;
mod hostile;
mod plan;
mod proc_stats;
mod redis_stats;
mod report;
mod simulate;
mod soak;
mod storm;
mod takeover;
mod tally;
mod target;
mod tool;
mod webhooks;
mod worker;
mod workers;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The gateway's allocator, so that the servers of the bench differ only in what they do.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

#[derive(Parser)]
#[command(
    name = "loadtest",
    version,
    about = "Load for a gateway on this machine, and what it measured"
)]
struct Cli {
    #[command(subcommand)]
    command: LoadtestCommand,
}

#[derive(Subcommand)]
enum LoadtestCommand {
    /// A crowd of viewers that join lives, send heartbeats and leave
    Crowd(Box<crowd::CrowdCommand>),
    /// Rollcall beside a bare echo and beside what most teams write: a table of ratios
    Bench(Box<bench::BenchArgs>),
    /// What a heartbeat, a join and a socket cost in instructions and bytes, counted by valgrind
    Profile(bench::ProfileArgs),
    /// A heartbeat echo that does nothing else: the yardstick of the bench
    Bare(bench::BareArgs),
    /// An echo of datagrams that does nothing else: the yardstick of sessions that beat by datagram
    BareDatagrams(bench::BareArgs),
    /// What most teams write: four calls to Redis on each heartbeat
    Naive(bench::NaiveArgs),
    /// One process's clients of the bench, told what to do on standard input
    #[command(hide = true)]
    Generator,
    /// One gateway of the bench with its viewers in memory, told what to do on standard input
    #[command(hide = true)]
    Hosted,
    /// Random faults over three gateways of its own, a crowd that knows the truth, and an audit
    /// after each
    Chaos(Box<chaos::ChaosArgs>),
    /// Hostile clients of each kind beside honest viewers: the answers, and what the honest ones
    /// notice
    Hostile(hostile::HostileArgs),
    /// A PostgreSQL that knows the fans is stopped under a crowd: no socket lost, known fans stay,
    /// new ones come later
    FanSourceOutage(fan_source_outage::OutageArgs),
    /// A streamer with very many followers goes on air, and a gateway is killed while it tells
    /// followers
    Fanout(fanout::FanoutArgs),
    /// Whole gateways in simulated histories, one seed after the other: one thread, one clock,
    /// every fault
    Simulate(simulate::SimulateArgs),
    /// A day in the life of two gateways: does memory grow, and does anything stay behind?
    Soak(soak::SoakArgs),
    /// A crowd of which most lose their connection at once and all come back
    Storm(Box<storm::StormArgs>),
    /// A gateway with thousands of sessions that beat by datagram is killed: another one goes on with
    /// them, and nobody is counted twice
    Takeover(takeover::TakeoverArgs),
    /// A webhook whose receiver is down for a while and whose sender is killed: is every event
    /// there, in order
    Webhooks(webhooks::WebhookArgs),
    /// A share of the crowd of a coordinator on another machine
    Join(workers::JoinArgs),
    /// One process's share of a crowd, told what to do on standard input
    #[command(hide = true)]
    CrowdShare,
}

fn main() -> ExitCode {
    match Cli::parse().command {
        LoadtestCommand::Crowd(command) => crowd::main(*command),
        LoadtestCommand::Bench(args) => bench::main(&args),
        LoadtestCommand::Profile(args) => bench::profile_main(&args),
        LoadtestCommand::Bare(args) => bench::bare_main(&args),
        LoadtestCommand::BareDatagrams(args) => bench::bare_datagrams_main(&args),
        LoadtestCommand::Naive(args) => bench::naive_main(&args),
        LoadtestCommand::Generator => bench::generator::child_main(),
        LoadtestCommand::Hosted => bench::hosted_main(),
        LoadtestCommand::Chaos(args) => chaos::main(&args),
        LoadtestCommand::Hostile(args) => hostile::main(&args),
        LoadtestCommand::FanSourceOutage(args) => fan_source_outage::main(&args),
        LoadtestCommand::Fanout(args) => fanout::main(&args),
        LoadtestCommand::Simulate(args) => simulate::main(&args),
        LoadtestCommand::Soak(args) => soak::main(&args),
        LoadtestCommand::Storm(args) => storm::main(*args),
        LoadtestCommand::Takeover(args) => takeover::main(&args),
        LoadtestCommand::Webhooks(args) => webhooks::main(&args),
        LoadtestCommand::Join(args) => workers::join_main(&args),
        LoadtestCommand::CrowdShare => workers::child_main(),
    }
}
