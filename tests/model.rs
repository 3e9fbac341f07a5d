//! The slice protocol, held against its promises in every order of events: the real `Ledger`, `Turn` and `Slice`, with
//! a network that delays, loses and repeats, gateways that pause and die, a store that forgets, and lives that close and
//! open again.
//!
//! Three looks: every history up to a depth, seeded histories of many steps, and the same with one rule of the protocol
//! left out, which must be noticed. `MODEL_DEEPER=<n>` looks n steps deeper, `MODEL_WALKS=<n>` walks n histories.
//!
//! Not modelled: more than one batch in a slice, more than one slice in a live, silent streamers, and the lifetimes of
//! keys. The known limits are: members that a late call of a closed epoch leaves after the store lost that epoch's
//! fence, and members of a live whose record was lost while no gateway held it; they go with the lifetime of their keys.

#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, clippy::disallowed_methods)]

#[path = "model"]
mod parts {
    pub mod actions;
    pub mod model;
    pub mod rest;
    pub mod shell;
    pub mod store;
    pub mod world;
}

use std::time::Instant;

use parts::model::{Found, Setup, shorten, walk};
use parts::world::{Budget, Mutation};
use stateright::{Checker, Model};

/// Everything goes wrong, some of it more than once.
const ROUGH: Budget =
    Budget { epochs: 2, late: 2, duplicates: 1, crashes: 1, leases: 3, own_leases: 3, closes: 2, losses: 1, moves: 30 };

/// Calls time out and may still arrive; nothing else goes wrong.
const CALM: Budget =
    Budget { epochs: 2, late: 1, duplicates: 0, crashes: 0, leases: 0, own_leases: 0, closes: 0, losses: 0, moves: 3 };

/// A gateway dies; every call arrives in time.
const CRASHES: Budget = Budget { late: 0, crashes: 1, leases: 1, ..CALM };

/// Leases run out; every call arrives in time, but a renewal may be on its way for as long as it likes.
const GLANCES: Budget = Budget { late: 1, leases: 1, own_leases: 2, ..CALM };

const PAIR: Setup = Setup { gateways: 2, users: 2, budget: ROUGH, mutation: Mutation::Nothing };

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().unwrap())
}

/// Looks at every history of so many steps; the shortest that goes wrong, if any does.
fn explore(name: &str, setup: Setup, depth: usize) -> Option<Found> {
    let begun = Instant::now();
    let checker = setup.checker().threads(2).target_max_depth(depth).spawn_bfs().join();
    let (states, took) = (checker.unique_state_count(), begun.elapsed());
    println!("{name}: {states} states within {} steps, {took:.1?}", depth - 1);
    checker.discoveries().into_values().next().map(|path| {
        let last = path.last_state();
        let why = last.wrong_now().or_else(|| last.wrong_at_rest()).unwrap();
        Found { way: path.into_actions(), why }
    })
}

#[test]
fn every_short_history_keeps_the_promises() {
    let deeper = setting("MODEL_DEEPER", 0) as usize;
    let one = Setup { gateways: 1, ..PAIR };
    let three = Setup { gateways: 3, users: 1, ..PAIR };
    let fan = Setup { users: 1, ..PAIR };
    for (name, setup, budget, depth) in [
        ("everything", PAIR, Budget { closes: 1, leases: 2, own_leases: 2, moves: 3, ..ROUGH }, 8),
        ("one gateway", one, Budget { late: 2, leases: 1, moves: 4, ..CALM }, 13),
        ("closes", fan, Budget { closes: 2, moves: 2, ..CALM }, 11),
        ("closes and losses", fan, Budget { closes: 1, losses: 1, moves: 1, ..CALM }, 11),
        ("crashes", PAIR, Budget { crashes: 1, leases: 2, moves: 3, ..CALM }, 10),
        ("own leases", PAIR, Budget { leases: 2, own_leases: 3, moves: 3, ..CALM }, 10),
        ("three gateways", three, Budget { crashes: 1, leases: 1, ..CALM }, 9),
    ] {
        let found = explore(name, Setup { budget, ..setup }, depth + deeper);
        assert!(found.is_none(), "{name}: {found:#?}");
    }
}

/// Where no call arrives late, the counts tell all: P1 and P2 within one flush, not with the minute's reading.
#[test]
fn without_late_calls_nothing_waits_for_the_minute() {
    for (name, budget) in [
        ("no late calls, no reading", Budget { late: 0, leases: 1, losses: 1, moves: 4, ..CALM }),
        ("crashes, no late calls, no reading", CRASHES),
    ] {
        let found = explore(name, Setup { budget, mutation: Mutation::NoReconcile, ..PAIR }, 9);
        assert!(found.is_none(), "{name}: {found:#?}");
    }
    // Only a gateway that died and held nobody whom another does not hold waits for it.
    let setup = Setup { budget: GLANCES, mutation: Mutation::OnlyGlances, ..PAIR };
    let found = explore("no late calls, only glances", setup, 9);
    assert!(found.is_none(), "{found:#?}");
}

#[test]
fn long_histories_keep_the_promises() {
    let walks = setting("MODEL_WALKS", 20_000);
    let begun = Instant::now();
    let setups = [(0, 0), (0, 1), (1, 0), (1, 1)].map(|(losses, duplicates)| {
        let budget = Budget { losses, duplicates, ..ROUGH };
        Setup { budget, ..PAIR }
    });
    for seed in 0..walks {
        let setup = &setups[seed as usize % setups.len()];
        if let Err(found) = walk(setup, seed, 60) {
            panic!("seed {seed}: {:#?}", shorten(setup, found));
        }
    }
    println!("{walks} histories of 60 steps, {:.1?}", begun.elapsed());
}

/// The check is worth something only if it notices when a rule is left out.
#[test]
fn every_rule_is_needed() {
    for mutation in [
        Mutation::NoNumbers,
        Mutation::NumbersBeginAnew,
        Mutation::NoFence,
        Mutation::UnknownIgnored,
        Mutation::RecordNotConfirmed,
        Mutation::RecordNotTouched,
        Mutation::CloseWithoutEpoch,
    ] {
        let budget = Budget { duplicates: 0, losses: 0, crashes: 0, own_leases: 0, ..ROUGH };
        let setup = Setup { mutation, budget, ..PAIR };
        let found = (0..20_000).find_map(|seed| walk(&setup, seed, 60).err());
        let Found { way, why } = shorten(&setup, found.unwrap_or_else(|| panic!("{mutation:?} goes unnoticed")));
        println!("{mutation:?}: {why}, after {} steps", way.len());
    }
    // Nobody looks after a gateway that died.
    let setup = Setup { mutation: Mutation::RenewedBlindly, budget: CRASHES, ..PAIR };
    let Found { way, why } = explore("RenewedBlindly", setup, 11).expect("RenewedBlindly goes unnoticed");
    println!("RenewedBlindly: {why}, after {} steps", way.len());
    // As many fans as before, and others: one gateway was swept, and another came.
    let budget = Budget { own_leases: 1, moves: 2, ..GLANCES };
    let setup = Setup { mutation: Mutation::LapseIgnored, budget, ..PAIR };
    let Found { way, why } = explore("LapseIgnored", setup, 13).expect("LapseIgnored goes unnoticed");
    println!("LapseIgnored: {why}, after {} steps", way.len());
    // A random walk hardly ever meets it: the counts are right and the members are not.
    let setup = Setup { gateways: 1, mutation: Mutation::NoReconcile, budget: Budget { leases: 1, ..CALM }, ..PAIR };
    let Found { way, why } = explore("NoReconcile", setup, 12).expect("NoReconcile goes unnoticed");
    println!("NoReconcile: {why}, after {} steps", way.len());
}
