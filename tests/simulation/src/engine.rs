//! The engine: the processes run in turns on one thread, each for the same length of simulated
//! time. Nothing else decides what happens next, so a seed is a history.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use clap::Parser;
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rollcall::config::{AuthMode, Config};
use rollcall::gateway::start_without_ports;
use rollcall::store::Follows;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep};

use crate::at_rest;
use crate::backend::SimulatedBackend;
use crate::crowd::person::Person;
use crate::crowd::{Mode, derived};
use crate::eavesdropper;
use crate::expectation::How;
use crate::faults::{self, Fault};
use crate::link::Link;
use crate::media_server::{self, SimulatedMediaServer};
use crate::moderation::SimulatedModeration;
use crate::network::at_once;
use crate::oracle;
use crate::plan::HistoryPlan;
use crate::process::Process;
use crate::timing::Timing;
use crate::trace::Trace;
use crate::world::{ProcessOrder, RunningGateway, SECRET, World};

/// The panics of the process, each with its place.
static PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Simulates one history
#[derive(Debug, Clone, Default, Parser)]
pub struct HistoryArgs {
    /// Decides everything
    #[arg(long)]
    pub seed: u64,
    /// How many gateways [default: the seed decides]
    #[arg(long)]
    pub gateways: Option<usize>,
    /// How many times faults happen and people rest after that
    #[arg(long, default_value_t = 6)]
    pub rounds: usize,
    /// Only these faults
    #[arg(long, value_delimiter = ',')]
    pub faults: Vec<Fault>,
    /// Without the faults of these numbers
    #[arg(long, value_delimiter = ',')]
    pub without: Vec<usize>,
    /// Only the first so many people
    #[arg(long)]
    pub people: Option<usize>,
    /// How many of a hundred devices have no socket, and send beats over HTTP [default: the seed
    /// decides]
    #[arg(long)]
    pub socketless: Option<u64>,
    /// Tell the last events too
    #[arg(long)]
    pub table: bool,
    /// Write every event to standard error
    #[arg(long)]
    pub print: bool,
}

/// What became of a history.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HistoryReport {
    /// Its seed.
    pub seed: u64,
    /// The simulated time, in ms.
    pub simulated_ms: u64,
    /// How many events there were.
    pub events: u64,
    /// The hash of all events, in hexadecimal digits.
    pub hash: String,
    /// How many faults of each kind happened.
    pub faults: BTreeMap<Fault, u64>,
    /// The numbers of the planned faults.
    pub ids: Vec<usize>,
    /// What was not as promised.
    pub findings: Vec<String>,
    /// The last events, if they were wanted.
    pub table: Option<String>,
}

/// Simulates a history. `set_clock` sets the clock of the machine, as this thread sees it, to so
/// long after the begin.
///
/// # Errors
/// The machine has no room for another runtime.
pub fn simulate(args: &HistoryArgs, set_clock: fn(Duration)) -> anyhow::Result<HistoryReport> {
    std::panic::set_hook(Box::new(|panic| {
        eprintln!("{panic}");
        PANICS.lock().push(panic.to_string());
    }));
    Engine::new(
        HistoryPlan::new(args),
        Trace::new(args.table, args.print),
        set_clock,
    )?
    .run()
}

struct Engine {
    around: Process,
    world: Arc<World>,
    gateways: Vec<GatewaySlot>,
    /// Machines without power: their processes never run again.
    unplugged: Vec<Process>,
    rng: StdRng,
    set_clock: fn(Duration),
}

/// Where a gateway runs.
#[derive(Default)]
struct GatewaySlot {
    process: Option<Process>,
    is_frozen: bool,
    /// It runs in each so many turns.
    one_in: u32,
}

impl Engine {
    fn new(plan: HistoryPlan, trace: Trace, set_clock: fn(Duration)) -> anyhow::Result<Self> {
        let around = Process::start().context("a runtime")?;
        let gateways = (0..plan.gateways)
            .map(|_| GatewaySlot {
                one_in: 1,
                ..GatewaySlot::default()
            })
            .collect();
        let rng = StdRng::seed_from_u64(derived(plan.seed, "engine"));
        let world = {
            let _around = around.handle().enter();
            Arc::new(World::new(plan, Arc::new(trace)))
        };
        Ok(Self {
            around,
            world,
            gateways,
            unplugged: Vec::new(),
            rng,
            set_clock,
        })
    }

    fn run(mut self) -> anyhow::Result<HistoryReport> {
        let (began, turn) = (Instant::now(), self.world.plan.turn);
        let is_over = Arc::new(AtomicBool::new(false));
        self.around.handle().spawn(self.world.network.clone().run());
        self.around.handle().spawn(oracle::run(self.world.clone()));
        self.around
            .handle()
            .spawn(direct(self.world.clone(), is_over.clone()));
        for gateway in 0..self.world.plan.gateways {
            self.start(gateway)?;
        }
        let mut passed = Duration::ZERO;
        while !is_over.load(Ordering::Relaxed) {
            let (since, until) = (began + passed, began + passed + turn);
            let mut order: Vec<usize> = (0..self.gateways.len()).collect();
            order.shuffle(&mut self.rng);
            for gateway in order {
                let slot = &self.gateways[gateway];
                let has_its_turn = slot.one_in == 1 || self.rng.random_ratio(1, slot.one_in);
                if let Some(process) = slot
                    .process
                    .as_ref()
                    .filter(|_| has_its_turn && !slot.is_frozen)
                {
                    process.run(since, until);
                }
            }
            self.around.run(since, until);
            passed += turn;
            (self.set_clock)(passed);
            for order in self.world.take_orders() {
                self.obey(order)?;
            }
            let panics = std::mem::take(&mut *PANICS.lock());
            panics.into_iter().for_each(|panic| self.world.found(panic));
            if !self.world.notes().findings.is_empty() {
                break;
            }
        }
        Ok(self.report(passed))
    }

    fn obey(&mut self, order: ProcessOrder) -> anyhow::Result<()> {
        match order {
            ProcessOrder::Start(gateway) => self.start(gateway)?,
            ProcessOrder::Kill(gateway) => drop(self.end(gateway)),
            ProcessOrder::Unplug(gateway) => {
                let process = self.end(gateway);
                self.unplugged.extend(process);
            }
            ProcessOrder::Freeze(gateway) => self.gateways[gateway].is_frozen = true,
            ProcessOrder::Thaw(gateway) => self.gateways[gateway].is_frozen = false,
            ProcessOrder::Slow(gateway, one_in) => self.gateways[gateway].one_in = one_in,
        }
        Ok(())
    }

    fn end(&mut self, gateway: usize) -> Option<Process> {
        let slot = &mut self.gateways[gateway];
        slot.is_frozen = false;
        let process = slot.process.take()?;
        let _around = self.around.handle().enter();
        let link = {
            let mut spots = self.world.spots.lock();
            spots[gateway].running = None;
            spots[gateway].stopping = None;
            spots[gateway].link
        };
        self.world.network.hang_up(link);
        self.world.ended(gateway, How::Killed);
        Some(process)
    }

    fn start(&mut self, gateway: usize) -> anyhow::Result<()> {
        if self.gateways[gateway].process.is_some() {
            return Ok(());
        }
        let process = Process::start().context("a runtime")?;
        let link = {
            let _around = self.around.handle().enter();
            let link = self.world.network.connect(gateway);
            self.world.starts(gateway, link);
            link
        };
        let world = self.world.clone();
        let config = config();
        let handle = process.handle().clone();
        process.handle().spawn(async move {
            let store = Arc::new(Link::new(world.network.clone(), link));
            match start_without_ports(&config, store).await {
                Ok(started) => {
                    let running = RunningGateway::new(handle, started);
                    world.runs(gateway, running);
                }
                Err(why) => world.found(format!("gateway {gateway} does not start: {why}")),
            }
        });
        self.gateways[gateway].process = Some(process);
        Ok(())
    }

    fn report(mut self, passed: Duration) -> HistoryReport {
        let plan = &self.world.plan;
        let (events, hash) = self.world.trace.summary();
        let faults = std::mem::take(&mut self.world.notes().faults);
        let findings = std::mem::take(&mut self.world.notes().findings);
        let is_told = self.world.trace.keeps_lines();
        let report = HistoryReport {
            seed: plan.seed,
            simulated_ms: passed.as_millis() as u64,
            events,
            hash: format!("{hash:016x}"),
            faults,
            ids: plan.faults.iter().map(|fault| fault.id).collect(),
            findings,
            table: is_told.then(|| self.world.trace.table(plan.gateways)),
        };
        // Before their processes, to which they belong.
        self.world
            .spots
            .lock()
            .iter_mut()
            .for_each(|spot| (spot.running, spot.stopping) = (None, None));
        self.gateways.clear();
        report
    }
}

fn config() -> Config {
    let Timing {
        heartbeat,
        timeout,
        flush,
        lease,
        refresh,
        check_every,
        drain,
        ..
    } = Timing::SIMULATED;
    Config {
        heartbeat,
        timeout,
        flush,
        lease,
        lease_refresh: refresh,
        check_every,
        drain,
        track_online: true,
        fan_events: true,
        count_events: true,
        streamer_timeout: Some(media_server::SILENCE),
        stream_grace: media_server::GRACE,
        media: media_server::settings().into_iter().collect(),
        presence_secret_file: Some(SECRET.into()),
        auth: AuthMode::Jwt,
        jwt_hs256_secret_file: Some(SECRET.into()),
        // Nobody listens there: datagrams come within the process.
        udp: Some(SocketAddr::from(([127, 0, 0, 1], 1))),
        // Its clock is the processor's, which nobody simulates.
        http_rate: 0,
        ..Config::default()
    }
}

/// The course of a history: people come; in each round faults happen, and then everybody rests
/// until all is right; at the end they go home, and nothing is left.
async fn direct(world: Arc<World>, is_over: Arc<AtomicBool>) {
    for live in 0..world.plan.lives {
        let store = &world.network.truth;
        let streamer = world.streamer_id(live);
        for user in (0..world.plan.people as u32).filter(|user| world.is_fan(*user, live)) {
            // Only an error of the connection is possible, and there is none.
            let _ = at_once(store.follow(&world.user_id(user), &streamer));
        }
    }
    for user in 0..world.plan.people as u32 {
        for friend in world.friends_of(user) {
            let _ = at_once(
                world
                    .network
                    .truth
                    .follow(&world.user_id(user), &world.user_id(friend)),
            );
        }
    }
    sleep(Duration::from_secs(1)).await;
    for live in 0..world.plan.lives {
        tokio::spawn(SimulatedBackend::new(&world, live).run(live));
    }
    tokio::spawn(SimulatedMediaServer::new(&world).run());
    tokio::spawn(SimulatedModeration::new(&world).run());
    tokio::spawn(eavesdropper::eavesdrop(world.clone()));
    for user in 0..world.plan.people as u32 {
        tokio::spawn(Box::pin(Person::new(world.clone(), user).run()));
    }
    for round in 0..world.plan.rounds {
        world.crowd.mode.send_replace(Mode::Wander);
        let mut faults = tokio::task::JoinSet::new();
        for fault in world
            .plan
            .faults
            .iter()
            .filter(|fault| fault.round == round)
        {
            faults.spawn(faults::carry_out(world.clone(), fault.clone()));
        }
        sleep(Duration::from_secs(20)).await;
        while faults.join_next().await.is_some() {}
        // Long enough that everything is judged while people still move, before they rest.
        sleep(world.timing.healed() + world.timing.told() + Duration::from_secs(15)).await;
        world.crowd.mode.send_replace(Mode::Rest);
        until_right(&world, world.timing.repaired(), at_rest::wrong).await;
    }
    world.crowd.mode.send_replace(Mode::GoHome);
    sleep(Duration::from_secs(20)).await;
    until_right(&world, Duration::from_secs(300), at_rest::left_over).await;
    is_over.store(true, Ordering::Relaxed);
}

/// Waits until nothing is wrong, and stays so for a while.
async fn until_right(world: &World, within: Duration, wrong: fn(&World) -> Vec<String>) {
    let (began, mut right_since) = (Instant::now(), None);
    loop {
        sleep(Duration::from_millis(500)).await;
        let found = wrong(world);
        if found.is_empty() {
            let since = *right_since.get_or_insert_with(Instant::now);
            if since.elapsed() >= world.timing.steady() {
                return;
            }
        } else {
            right_since = None;
            if began.elapsed() > within {
                found
                    .into_iter()
                    .for_each(|what| world.found(format!("at rest: {what}")));
                return;
            }
        }
    }
}
