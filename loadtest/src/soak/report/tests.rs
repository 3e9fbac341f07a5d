//! The verdict of a soak, harm by harm.

use std::collections::BTreeMap;

use super::{KeptKeys, Measured, SoakSettings};
use crate::chaos::findings::{Broken, Promise};
use crate::report::RunReport;
use crate::soak::sampler::{GatewayFigures, Sample};
use crate::soak::staff::{Ledger, Outcomes};

fn measured() -> Measured {
    let figures = GatewayFigures {
        rss_bytes: 50 << 20,
        open_files: 20,
        tasks: 30,
        sockets: 0,
        members: 0,
        lives: 0,
    };
    let sample = |number: u64| Sample {
        seconds: number as f64 * 10.0,
        gateways: vec![GatewayFigures {
            rss_bytes: (50 << 20) + number % 7 * 4_096,
            ..figures
        }],
        redis_bytes: 1 << 20,
        keys: BTreeMap::from([("live:".to_owned(), 7)]),
    };
    Measured {
        seconds: 3_600.0,
        samples: (0..360).map(sample).collect(),
        rest_before: vec![figures],
        rest_after: vec![figures],
        is_down: true,
        kept: BTreeMap::from([(
            "live:".to_owned(),
            KeptKeys {
                keys: 7,
                lifetime_seconds: Some(600),
            },
        )]),
        ledger: Ledger {
            errands: BTreeMap::from([(
                "ban",
                Outcomes {
                    done: 9,
                    interrupted: 1,
                    wrong: 0,
                },
            )]),
            wrong: Vec::new(),
        },
        ..Measured::default()
    }
}

fn judged(change: impl FnOnce(&mut Measured)) -> RunReport {
    let settings = SoakSettings {
        gateways: 1,
        hours: 1.0,
        warm_up_seconds: 600,
        ..SoakSettings::default()
    };
    let mut measured = measured();
    change(&mut measured);
    measured.report(&settings, "").unwrap()
}

#[test]
fn each_kind_of_harm_fails_the_check() {
    let good = judged(|_| {});
    assert!(good.failures().is_empty(), "{good}");
    assert!(!good.to_string().contains("too short"), "{good}");
    let bad: [fn(&mut Measured); 9] = [
        |measured| (measured.rest_after[0].tasks, measured.is_down) = (31, false),
        |measured| (measured.rest_after[0].open_files, measured.is_down) = (21, false),
        |measured| measured.rest_after[0].sockets = 1,
        |measured| measured.leftovers.push("online-fans:42".to_owned()),
        |measured| {
            measured
                .ledger
                .errands
                .insert(
                    "read",
                    Outcomes {
                        wrong: 1,
                        ..Outcomes::default()
                    },
                )
                .map_or((), drop)
        },
        |measured| measured.ledger.errands.clear(),
        |measured| {
            measured
                .broken_by_promise
                .insert(Promise::Miss, 1)
                .map_or((), drop)
        },
        |measured| measured.audit.push(Broken::new(Promise::Drift, "a ghost")),
        |measured| {
            for sample in &mut measured.samples {
                sample.gateways[0].rss_bytes += (sample.seconds * 1_000.0) as u64;
            }
        },
    ];
    for (number, change) in bad.into_iter().enumerate() {
        let report = judged(change);
        assert_eq!(report.failures().len(), 1, "{number}: {report}");
    }
}

#[test]
fn a_short_run_says_that_it_cannot_tell() {
    let report = judged(|measured| measured.samples.truncate(80));
    assert!(report.failures().is_empty(), "{report}");
    assert!(report.to_string().contains("too short to tell"), "{report}");
}

#[test]
fn whatever_was_sampled_can_be_drawn() {
    let svg = measured().plots().unwrap();
    assert!(svg.contains("tasks") && !svg.contains("NaN"), "{svg}");
    assert!(Measured::default().plots().unwrap().contains("<svg"));
    let empty = judged(|measured| *measured = Measured::default());
    assert!(empty.to_string().contains("nothing was sampled"), "{empty}");
}
