//! The slice protocol, held against its promises in every order of events: the real `DesiredState`,
//! `Turn`, `ExpectedSlice`, `Slice`, `LeaseTable` and `Gateways`, with a network that delays, loses
//! and repeats, gateways that pause, die and are buried, a slice that is lost or comes back as it
//! was, and a live that closes and opens again.
//!
//! Three looks: every history up to a depth, seeded histories of many steps in which no gateway
//! makes its regular checks, and the same with one rule of the protocol left out, which must be
//! noticed. `MODEL_DEEPER=<n>` looks n steps deeper, `MODEL_WALKS=<n>` walks n histories.
//!
//! Not modelled, for the simulator (`tests/simulation`) runs whole gateways: records, closes and
//! their messages, the walk, the list of lives, removals and bans, silent streamers, what another
//! program writes. Nor are more than one batch in a slice, more than one slice in a live, deaths that
//! are forgotten after a day, and the lifetimes of keys.
//!
//! A known limit: a late call may leave members in an epoch whose end the store has forgotten, until
//! the walk closes it.

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
    pub mod check;
    pub mod lease;
    pub mod model;
    pub mod rest;
    pub mod shell;
    pub mod store;
    pub mod world;
}

use std::time::Instant;

use parts::actions::Action::{self, Answer, Come, Double, Evict, Fail, Find, Flush, Go};
use parts::budget::{Budget, Mutation, Rules};
use parts::model::{Found, Setup, replay, shorten, walk};
use parts::world::Who::Job;
use stateright::{Checker, Model};

/// Everything goes wrong, some of it more than once.
const ROUGH: Budget = Budget {
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
    losses: 1,
    lost_leases: 1,
    failovers: 1,
    pauses: 1,
};

/// Calls time out and may still arrive; nothing else goes wrong.
fn calm() -> Budget {
    Budget {
        moves: 3,
        late: 1,
        failures: 2,
        ..Budget::default()
    }
}

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
        ("one gateway", one, calm(), 10),
        (
            "closes",
            fan,
            Budget {
                closes: 1,
                moves: 1,
                ..calm()
            },
            10,
        ),
        (
            "closes and losses",
            one,
            Budget {
                closes: 1,
                losses: 1,
                moves: 1,
                ..calm()
            },
            11,
        ),
        (
            "burials",
            fan,
            Budget {
                burials: 2,
                moves: 1,
                late: 0,
                ..calm()
            },
            8,
        ),
        (
            "failovers",
            one,
            Budget {
                failovers: 1,
                doubles: 1,
                moves: 2,
                ..calm()
            },
            9,
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
                ..calm()
            },
            7,
        ),
    ] {
        let found = explore(name, Setup { budget, ..setup }, depth + deeper);
        assert!(found.is_none(), "{name}: {found:#?}");
    }
}

/// Without losses, everything comes right without the check of each minute: a gateway that may have
/// missed something knows it. A slice that comes back as it was needs no such check either: another
/// node answers then, and a gateway that notices doubts what it holds. Only calls that arrive after
/// the doubt was settled wait for the minute.
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
        failovers: 0,
        ..ROUGH
    };
    let failovers = Budget {
        closes: 0,
        late: 0,
        doubles: 0,
        failovers: 2,
        ..kept
    };
    for (name, budget) in [("nothing is lost", kept), ("failovers", failovers)] {
        let setup = Setup {
            budget,
            rules,
            ..PAIR
        };
        keeps_the_promises(name, &setup, walks / 2);
    }
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
                ..calm()
            },
        ),
        (
            minute,
            Mutation::NoPass,
            fan,
            Budget {
                failovers: 1,
                kills: 1,
                burials: 2,
                ..calm()
            },
        ),
        (
            minute,
            Mutation::NoLookAtRecord,
            fan,
            Budget {
                closes: 1,
                losses: 1,
                ..calm()
            },
        ),
        (
            minute,
            Mutation::NoFence,
            one,
            Budget {
                closes: 1,
                ..calm()
            },
        ),
        (
            minute,
            Mutation::RefusalIgnored,
            one,
            Budget {
                losses: 1,
                ..calm()
            },
        ),
        (doubt, Mutation::NoFollows, one, calm()),
        (
            doubt,
            Mutation::Nothing,
            one,
            Budget {
                losses: 1,
                ..calm()
            },
        ),
        (
            minute,
            Mutation::NoComplaint,
            fan,
            Budget {
                failovers: 1,
                ..calm()
            },
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
    ];
    replay_finds(Mutation::NoNotAfter, &way);
}

/// Histories that a random walk hardly ever finds: they go wrong without the rule, and only then.
fn replay_finds(rule: Mutation, way: &[Action]) {
    let budget = Budget {
        moves: 5,
        doubles: 1,
        evictions: 2,
        ..calm()
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
