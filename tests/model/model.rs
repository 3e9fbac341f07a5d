//! The model as the checker sees it, and seeded random walks for histories that are too long for
//! the checker.

use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use stateright::{Model, Property};

use super::actions::Action;
use super::budget::{Budget, Rules};
use super::world::{Who, World};

pub const USERS: usize = 2;

/// What to explore.
#[derive(Debug, Clone, Copy)]
pub struct Setup {
    pub gateways: usize,
    pub users: usize,
    pub budget: Budget,
    pub rules: Rules,
}

impl Setup {
    /// Before the first step, each gateway has its lease and has seen the others', and has a room of
    /// the live.
    pub fn world(&self) -> World {
        let mut world = World::new(self.gateways, self.budget, self.rules);
        for _ in 0..2 {
            for at in 0..self.gateways {
                world.renew(at, false);
                world.hear(at, Who::Lease);
            }
        }
        for at in 0..self.gateways {
            world.find(at);
            world.check(at);
            world.hear(at, Who::Checker);
        }
        world
    }
}

impl Model for Setup {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![self.world()]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        actions.extend(world.possible(self.users));
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut next = world.clone();
        next.act(action);
        next.wrong = next.wrong_now();
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("is right at every step", |_, world: &World| {
                world.wrong.is_none()
            }),
            Property::always("comes to rest as promised", |_, world: &World| {
                world.wrong_at_rest().is_none()
            }),
        ]
    }
}

/// A history that goes wrong: its steps, and what is wrong at the end.
#[derive(Debug)]
pub struct Found {
    pub way: Vec<Action>,
    pub why: &'static str,
}

/// One random history that begins with this world.
pub fn walk(setup: &Setup, mut world: World, seed: u64, steps: usize) -> Result<(), Found> {
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut way = Vec::new();
    for _ in 0..steps {
        let can = world.possible(setup.users);
        // Ordinary actions are more frequent than faults.
        let all_day: Vec<Action> = can
            .iter()
            .filter(|action| action.is_ordinary())
            .copied()
            .collect();
        let among = if all_day.is_empty() || rng.random_ratio(1, 3) {
            &can
        } else {
            &all_day
        };
        let Some(action) = among.choose(&mut rng) else {
            break;
        };
        way.push(*action);
        world.act(*action);
        if let Some(why) = world.wrong_now() {
            return Err(Found { way, why });
        }
    }
    world
        .wrong_at_rest()
        .map_or(Ok(()), |why| Err(Found { way, why }))
}

/// Shortens a history that goes wrong: leaves out one step, or two, as long as the rest still goes
/// wrong.
pub fn shorten(setup: &Setup, mut found: Found) -> Found {
    loop {
        let steps = found.way.len();
        let pairs = (0..steps).flat_map(|first| (first..steps).map(move |second| [first, second]));
        let shorter = pairs.into_iter().find_map(|gone| {
            let left = found
                .way
                .iter()
                .enumerate()
                .filter(|(place, _)| !gone.contains(place));
            let way: Vec<Action> = left.map(|(_, action)| *action).collect();
            replay(setup, &way).map(|why| Found { way, why })
        });
        match shorter {
            Some(shorter) => found = shorter,
            None => return found,
        }
    }
}

/// What is wrong at the end of these steps, if they are possible at all.
pub fn replay(setup: &Setup, way: &[Action]) -> Option<&'static str> {
    let mut world = setup.world();
    for action in way {
        if !world.possible(setup.users).contains(action) {
            return None;
        }
        world.act(*action);
        if let Some(why) = world.wrong_now() {
            return Some(why);
        }
    }
    world.wrong_at_rest()
}
