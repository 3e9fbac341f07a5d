//! What a seed decides before a history begins: how many gateways, nodes and lives there are, and
//! which faults happen when. A plan with fewer rounds, faults or people is a plan too, so a history
//! that fails can be made smaller.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

use crate::crowd::derived;
use crate::engine::HistoryArgs;
use crate::expectation::User;
use crate::faults::Fault;

/// The faults of a round begin within this.
const BEGIN_WITHIN: Duration = Duration::from_secs(30);

/// How many people there are.
const PEOPLE: usize = 60;

/// How many of a hundred devices may have no socket: the seed chooses one of these.
const SOCKETLESS: [u64; 4] = [0, 20, 50, 90];

/// A fault of a round.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RoundFault {
    /// Its number in the plan.
    pub(crate) id: usize,
    pub(crate) round: usize,
    pub(crate) kind: Fault,
    /// When it begins, from the begin of the round.
    pub(crate) at: Duration,
    pub(crate) hold: Duration,
    /// The gateway that it breaks.
    pub(crate) victim: usize,
    /// Decides all else.
    pub(crate) choice: u64,
}

/// The plan of a history.
#[derive(Debug, Clone)]
pub(crate) struct HistoryPlan {
    pub(crate) seed: u64,
    pub(crate) gateways: usize,
    pub(crate) nodes: usize,
    pub(crate) people: usize,
    pub(crate) lives: usize,
    /// How many of a hundred devices have no socket.
    socketless: u64,
    /// Processes run in turns of this length.
    pub(crate) turn: Duration,
    pub(crate) rounds: usize,
    pub(crate) faults: Vec<RoundFault>,
}

impl HistoryPlan {
    /// Whether the store has less or other data after one of the faults.
    pub(crate) fn loses_data(&self) -> bool {
        self.faults.iter().any(|fault| fault.kind.loses_data())
    }

    /// Whether a device of a person has a socket.
    pub(crate) fn has_socket(&self, user: User, device: usize) -> bool {
        derived(self.seed, &format!("socket {user} {device}")) % 100 >= self.socketless
    }

    /// Whether the clock of the store steps.
    pub(crate) fn steps_clock(&self) -> bool {
        self.faults
            .iter()
            .any(|fault| fault.kind == Fault::ClockStep)
    }

    pub(crate) fn new(args: &HistoryArgs) -> Self {
        let &HistoryArgs {
            seed,
            gateways,
            rounds,
            ..
        } = args;
        let mut rng = StdRng::seed_from_u64(derived(seed, "plan"));
        let drawn = *[1, 2, 2, 3, 3, 3, 4, 5].choose(&mut rng).unwrap_or(&3);
        let gateways = gateways.unwrap_or(drawn);
        let nodes = if rng.random_bool(0.4) { 3 } else { 1 };
        let lives = rng.random_range(2..=6);
        let turn = Duration::from_millis(*[20, 40, 40, 60].choose(&mut rng).unwrap_or(&20));
        // Half of the histories lose no data, so that in these everything is checked that is
        // counted from the begin on.
        let keeps_data = rng.random_bool(0.5);
        let kinds = match args.faults.is_empty() {
            true => Fault::all()
                .into_iter()
                .filter(|kind| !(keeps_data && kind.loses_data()))
                .collect(),
            false => args.faults.clone(),
        };
        let mut faults = Vec::new();
        for round in 0..rounds {
            for _ in 0..rng.random_range(1..=3) {
                let Some(kind) = kinds.choose(&mut rng).copied() else {
                    continue;
                };
                let at = BEGIN_WITHIN.mul_f64(rng.random());
                faults.push(RoundFault {
                    id: faults.len(),
                    round,
                    kind,
                    at,
                    hold: Duration::from_secs_f64(rng.random_range(0.2..30.0)),
                    victim: rng.random_range(0..gateways),
                    choice: rng.random(),
                });
            }
        }
        faults.retain(|fault| !args.without.contains(&fault.id));
        let drawn = SOCKETLESS[(derived(seed, "socketless") % SOCKETLESS.len() as u64) as usize];
        let socketless = args.socketless.unwrap_or(drawn);
        let people = args.people.unwrap_or(PEOPLE).min(PEOPLE);
        Self {
            seed,
            gateways,
            nodes,
            people,
            lives,
            socketless,
            turn,
            rounds,
            faults,
        }
    }
}
