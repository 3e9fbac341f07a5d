//! What a seed decides before a history begins: how many gateways, nodes, lives and people there are, and which faults
//! happen when. A plan with fewer faults or people is a plan too, so a history that fails can be made smaller.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use serde::{Deserialize, Serialize};

use crate::faults::Kind;
use crate::network::derived;

/// The faults of a round are over after this.
const ROUND: Duration = Duration::from_secs(60);

/// A fault of a round.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Planned {
    /// Its number in the plan.
    pub(crate) id: usize,
    pub(crate) round: usize,
    pub(crate) kind: Kind,
    /// When it begins, from the begin of the round.
    pub(crate) at: Duration,
    pub(crate) hold: Duration,
    /// The gateway that it breaks.
    pub(crate) victim: usize,
    /// Decides all else.
    pub(crate) choice: u64,
}

/// What is left out of the plan of a seed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Less {
    /// These faults do not happen.
    pub without: Vec<usize>,
    /// Only the first so many people come.
    pub people: Option<usize>,
    /// Only the first so many rounds happen.
    pub rounds: Option<usize>,
}

/// The plan of a history.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) gateways: usize,
    pub(crate) nodes: usize,
    pub(crate) people: usize,
    pub(crate) lives: usize,
    pub(crate) exact_viewers: bool,
    /// Processes run in turns of this length.
    pub(crate) turn: Duration,
    pub(crate) rounds: usize,
    pub(crate) faults: Vec<Planned>,
}

impl Plan {
    /// Whether the store has less or other data after one of the faults.
    pub(crate) fn loses_data(&self) -> bool {
        self.faults.iter().any(|fault| fault.kind.loses_data())
    }

    pub(crate) fn new(seed: u64, gateways: Option<usize>, rounds: usize, kinds: &[Kind], less: &Less) -> Self {
        let mut rng = StdRng::seed_from_u64(derived(seed, "plan"));
        let drawn = *[1, 2, 2, 3, 3, 3, 4, 5].choose(&mut rng).unwrap_or(&3);
        let gateways = gateways.unwrap_or(drawn);
        let nodes = if rng.random_bool(0.4) { 3 } else { 1 };
        let lives = rng.random_range(2..=6);
        let exact_viewers = rng.random_bool(0.5);
        let turn = Duration::from_millis(*[20, 40, 40, 60].choose(&mut rng).unwrap_or(&20));
        let mut faults = Vec::new();
        for round in 0..rounds {
            for _ in 0..rng.random_range(1..=3) {
                let Some(kind) = kinds.choose(&mut rng).copied() else { continue };
                let at = ROUND.mul_f64(rng.random_range(0.0..0.5));
                faults.push(Planned {
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
        let rounds = less.rounds.unwrap_or(rounds).min(rounds);
        faults.retain(|fault| !less.without.contains(&fault.id) && fault.round < rounds);
        let people = less.people.unwrap_or(60).min(60);
        Self { seed, gateways, nodes, people, lives, exact_viewers, turn, rounds, faults }
    }
}
