//! The slice protocol, held against its promises in every order of events: the real `DesiredState`,
//! `Turn`, `Slice`, `LeaseTable` and `Gateways`, with a network that delays, loses and repeats,
//! gateways that pause, die and are buried, a store that forgets or comes back as it was, and lives
//! that close and open again.
//!
//! Three looks: every history up to a depth, seeded histories of many steps in which no gateway
//! makes its regular checks, and the same with one rule of the protocol left out, which must be
//! noticed. `MODEL_DEEPER=<n>` looks n steps deeper, `MODEL_WALKS=<n>` walks n histories. Long
//! histories with everything in them are the simulator's (`tests/simulation`).
//!
//! Not modelled: more than one batch in a slice, more than one slice in a live, removals and bans,
//! silent streamers, the list of lives, deaths that are forgotten after a day, and the lifetimes of
//! keys.
//! Any gateway may walk at any time; in production one at a time does.
//!
//! Known limits: a late call may leave members in an epoch whose end the store has forgotten, or in
//! a live whose record was lost while no gateway held it. They expire with their keys. A gateway
//! that let go of a live looks at it for the last time a minute later: members that come back after
//! that stay until a viewer joins.

#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::disallowed_methods
)]

#[path = "model"]
mod parts {
    pub mod actions;
    pub mod budget;
    pub mod lease;
    pub mod model;
    pub mod rest;
    pub mod shell;
    pub mod store;
    pub mod upkeep;
    pub mod world;
}

use std::time::Instant;

use parts::actions::Action::{self, Answer, Come, Double, Evict, Fail, Find, Flush, Go, LookAfter};
use parts::budget::{Budget, Mutation, Rules};
use parts::model::{Found, Setup, replay, shorten, walk};
use parts::world::Who::{Finder, Job, Reader};
use stateright::{Checker, Model};

/// Everything goes wrong, some of it more than once.
const ROUGH: Budget = Budget {
    opens: 2,
    closes: 2,
    moves: 20,
    evictions: 4,
    slow: 1,
    late: 2,
    doubles: 1,
    failures: 10,
    kills: 1,
    freezes: 2,
    cuts: 1,
    renewals: 20,
    burials: 2,
    checks: 3,
    walks: 2,
    losses: 1,
    lost_leases: 1,
    meddles: 1,
    rollbacks: 1,
    failovers: 1,
    pauses: 1,
};

/// Calls time out and may still arrive; nothing else goes wrong.
const CALM: Budget = Budget {
    moves: 3,
    late: 1,
    failures: 2,
    ..Budget::NONE
};

const PAIR: Setup = Setup {
    gateways: 2,
    users: 2,
    budget: ROUGH,
    rules: Rules::ALL,
};

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().unwrap())
}

/// Explores every history of fewer than `depth` states, the first state included. Returns the
/// shortest history that goes wrong, if any does.
fn explore(name: &str, setup: Setup, depth: usize) -> Option<Found> {
    let begun = Instant::now();
    let checker = setup
        .checker()
        .threads(2)
        .target_max_depth(depth)
        .spawn_bfs()
        .join();
    let (states, took) = (checker.unique_state_count(), begun.elapsed());
    println!(
        "{name}: {states} states within {} steps, {took:.1?}",
        depth - 2
    );
    checker.discoveries().into_values().next().map(|path| {
        let last = path.last_state();
        let why = last.wrong.or_else(|| last.wrong_at_rest()).unwrap();
        Found {
            way: path.into_actions(),
            why,
        }
    })
}

#[test]
fn every_short_history_keeps_the_promises() {
    let deeper = setting("MODEL_DEEPER", 0) as usize;
    let one = Setup {
        gateways: 1,
        ..PAIR
    };
    let fan = Setup { users: 1, ..PAIR };
    let three = Setup {
        gateways: 3,
        users: 1,
        ..PAIR
    };
    for (name, setup, budget, depth) in [
        ("everything", fan, Budget { moves: 2, ..ROUGH }, 5),
        ("one gateway", one, CALM, 10),
        (
            "closes",
            fan,
            Budget {
                closes: 1,
                moves: 1,
                ..CALM
            },
            9,
        ),
        (
            "closes and losses",
            one,
            Budget {
                closes: 1,
                losses: 1,
                moves: 1,
                ..CALM
            },
            9,
        ),
        (
            "burials",
            fan,
            Budget {
                burials: 2,
                moves: 1,
                late: 0,
                ..CALM
            },
            8,
        ),
        (
            "another program",
            fan,
            Budget {
                meddles: 1,
                late: 0,
                moves: 2,
                ..CALM
            },
            7,
        ),
        (
            "rollbacks",
            one,
            Budget {
                rollbacks: 1,
                failovers: 1,
                doubles: 1,
                moves: 2,
                ..CALM
            },
            8,
        ),
        (
            "three gateways",
            three,
            Budget {
                kills: 1,
                moves: 2,
                burials: 1,
                late: 0,
                failures: 0,
                ..CALM
            },
            7,
        ),
    ] {
        let found = explore(name, Setup { budget, ..setup }, depth + deeper);
        assert!(found.is_none(), "{name}: {found:#?}");
    }
}

/// Without losses, everything comes right without the check of each minute: a message goes out with
/// the write that it tells of, and a gateway that may have missed one knows it. A slice that comes
/// back as it was needs no such check either: another node answers then, and a gateway that notices
/// doubts what it holds. Only these wait for the minute: a close or a burial that the store forgets
/// just when gateways hear of it, and calls that arrive after the doubt was settled.
#[test]
fn without_losses_nothing_waits_for_the_minute() {
    let walks = setting("MODEL_WALKS", 8_000);
    let rules = Rules {
        each_minute: false,
        ..Rules::ALL
    };
    let kept = Budget {
        losses: 0,
        lost_leases: 0,
        meddles: 0,
        ..ROUGH
    };
    let budget = Budget {
        rollbacks: 0,
        failovers: 0,
        ..kept
    };
    keeps_the_promises(
        "nothing is lost, no check without doubt",
        &Setup {
            budget,
            rules,
            ..PAIR
        },
        walks / 2,
    );
    let budget = Budget {
        closes: 0,
        rollbacks: 0,
        late: 0,
        doubles: 0,
        failovers: 2,
        ..kept
    };
    keeps_the_promises(
        "failovers, no check without doubt",
        &Setup {
            budget,
            rules,
            ..PAIR
        },
        walks / 2,
    );
}

fn keeps_the_promises(name: &str, setup: &Setup, walks: u64) {
    let (begun, start) = (Instant::now(), setup.world());
    for seed in 0..walks {
        if let Err(found) = walk(setup, start.clone(), seed, 60) {
            panic!("{name}, seed {seed}: {:#?}", shorten(setup, found));
        }
    }
    println!(
        "{name}: {walks} histories of 60 steps, {:.1?}",
        begun.elapsed()
    );
}

/// The model is worth something only if it notices that a rule is left out.
#[test]
fn every_rule_is_needed() {
    let minute = Rules::ALL;
    let doubt = Rules {
        each_minute: false,
        ..minute
    };
    let fan = Setup { users: 1, ..PAIR };
    let one = Setup { gateways: 1, ..fan };
    let mut unnoticed = Vec::new();
    for (rules, without, setup, budget) in [
        (
            minute,
            Mutation::NoFinality,
            fan,
            Budget {
                burials: 2,
                renewals: 4,
                ..CALM
            },
        ),
        (minute, Mutation::NoPass, one, Budget { meddles: 1, ..CALM }),
        (
            minute,
            Mutation::NoWalk,
            fan,
            Budget {
                closes: 1,
                kills: 1,
                ..CALM
            },
        ),
        (
            minute,
            Mutation::NoLookAtRecord,
            fan,
            Budget {
                closes: 1,
                losses: 1,
                ..CALM
            },
        ),
        (minute, Mutation::NoFence, one, Budget { closes: 1, ..CALM }),
        (
            minute,
            Mutation::RefusalIgnored,
            one,
            Budget { losses: 1, ..CALM },
        ),
        (
            minute,
            Mutation::CloseWithoutEpoch,
            fan,
            Budget {
                opens: 1,
                closes: 2,
                failures: 4,
                ..CALM
            },
        ),
        (doubt, Mutation::NoFollows, one, CALM),
        (doubt, Mutation::Nothing, one, Budget { meddles: 1, ..CALM }),
        (
            minute,
            Mutation::NoComplaint,
            fan,
            Budget { meddles: 1, ..CALM },
        ),
        (
            doubt,
            Mutation::NoPublishWithWrite,
            fan,
            Budget { closes: 1, ..CALM },
        ),
    ] {
        let begun = Instant::now();
        let name = if without == Mutation::Nothing {
            "NoMinuteLook".to_owned()
        } else {
            format!("{without:?}")
        };
        let setup = Setup {
            rules: Rules { without, ..rules },
            budget,
            ..setup
        };
        let start = setup.world();
        let found = (0..40_000).find_map(|seed| {
            walk(&setup, start.clone(), seed, 30)
                .err()
                .map(|found| (seed, found))
        });
        let Some((seed, found)) = found else {
            unnoticed.push(name);
            continue;
        };
        let Found { way, why } = shorten(&setup, found);
        println!(
            "{name}: {why}, after {} steps (seed {seed}, {:.1?}): {way:?}",
            way.len(),
            begun.elapsed()
        );
        let rules = Rules {
            each_minute: rules.each_minute || without == Mutation::Nothing,
            ..Rules::ALL
        };
        assert_eq!(
            replay(&Setup { rules, ..setup }, &way),
            None,
            "{name} is not why"
        );
    }
    assert!(unnoticed.is_empty(), "unnoticed: {unnoticed:?}");
    // A new room makes its first call again, and a copy of the second call of the former room
    // follows that.
    let way = [
        Come(0, 0),
        Flush(0, true),
        Answer(0, Job),
        Come(0, 1),
        Flush(0, true),
        Double(0),
        Answer(0, Job),
        Go(0, 0),
        Go(0, 1),
        Flush(0, true),
        Answer(0, Job),
        Evict(0),
        Flush(0, true),
        Answer(0, Job),
        Evict(0),
        Find(0),
        Answer(0, Finder),
        Come(0, 0),
        Flush(0, true),
        Answer(0, Job),
    ];
    replay_finds(Mutation::NumbersBeginAnew, &way);
    // A call that makes an entry arrives when its gateway has let go of the live and does not look
    // at it any more.
    let way = [
        Come(0, 0),
        Flush(0, true),
        Fail(0, Job),
        Go(0, 0),
        Flush(0, true),
        Answer(0, Job),
        Evict(0),
        Flush(0, true),
        Answer(0, Job),
        Evict(0),
        LookAfter(0),
        Answer(0, Reader),
    ];
    replay_finds(Mutation::NoNotAfter, &way);
}

/// Histories that a random walk hardly ever finds: they go wrong without the rule, and only then.
fn replay_finds(rule: Mutation, way: &[Action]) {
    let budget = Budget {
        moves: 5,
        doubles: 1,
        evictions: 2,
        ..CALM
    };
    let with = |without| {
        let rules = Rules {
            without,
            ..Rules::ALL
        };
        let setup = Setup {
            gateways: 1,
            rules,
            budget,
            ..PAIR
        };
        replay(&setup, way)
    };
    assert_eq!(with(Mutation::Nothing), None, "{rule:?} is not why");
    let why = with(rule);
    println!("{rule:?}: {}", why.expect("the rule goes unnoticed"));
}
