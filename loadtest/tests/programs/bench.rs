//! `loadtest bench` in small: every row runs to its end, every contender is measured, nothing is
//! left behind. How fast they are is not looked at.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::gateway;
use crate::run::run_with_files;

fn scratch(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// The value of the only round, which is a number.
fn value(report: &Value, row: &str, measure: &str, who: &str) -> f64 {
    let rounds = report["rows"][row][measure][who].as_array();
    let rounds = rounds.unwrap_or_else(|| panic!("no {row}: {measure} of {who} in {report:#}"));
    assert_eq!(rounds.len(), 1, "{row}: {measure} of {who}");
    rounds[0].as_f64().expect("a number")
}

#[tokio::test(flavor = "multi_thread")]
async fn every_row_runs_in_small() {
    let (json, html) = (scratch("bench.json"), scratch("bench.html"));
    let gateway = gateway::gateway();
    let ran = run_with_files(
        "bench --quick --in-process 500 --lives 20",
        &[
            ("--json", &json),
            ("--report", &html),
            ("--gateway-bin", &gateway),
        ],
    )
    .await;
    let said = format!("{}{}", ran.said, ran.errors);
    assert_eq!(ran.code, Some(0), "{said}");
    let report: Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    assert_eq!(report["not_run"], serde_json::json!({}), "{said}");
    for who in ["rollcall", "bare", "naive"] {
        for row in ["closed-loop", "paced"] {
            let cpu = value(&report, row, "server CPU per heartbeat, µs", who);
            assert!(cpu > 0.0, "{row}: {cpu}");
        }
    }
    for way in [
        "WebSocket",
        "HTTP",
        "datagram",
        "datagram, a tenth answered",
    ] {
        let measure = format!("{way}: CPU per beat, µs");
        assert!(value(&report, "ways", &measure, "rollcall") > 0.0, "{way}");
    }
    // The contenders did the work that they stand for.
    let commands = "commands run by Redis per heartbeat";
    let naive = value(&report, "paced", commands, "naive");
    assert!(
        (3.9..=4.1).contains(&naive),
        "four commands a heartbeat, not {naive}"
    );
    for row in ["small-lives", "many-gateways"] {
        for gateways in ["1 gateway", "4 gateways"] {
            for who in ["rollcall", "naive"] {
                let measure = format!("{gateways}: heartbeats answered, of those due");
                let share = value(&report, row, &measure, who);
                assert!(share > 0.5, "{row}: {measure}: {share} of {who}");
                value(&report, row, &format!("{gateways}: Redis CPU, cores"), who);
            }
        }
    }
    for members in [1, 10, 100, 1_000] {
        for work in [
            "apply with joins",
            "apply with leaves",
            "sweep",
            "fan check",
            "close of a slice",
        ] {
            for who in ["rollcall", "naive"] {
                let measure = format!("{work}, {members}: a call, µs");
                let took = value(&report, "scripts", &measure, who);
                assert!(
                    took > 0.0 || work != "apply with joins" || members < 1_000,
                    "{measure}: {took} of {who}"
                );
            }
        }
    }
    for kind in ["a fan", "another user", "a guest"] {
        let measure = format!("{kind} is there: Redis memory, B");
        assert!(value(&report, "guests", &measure, "rollcall") > 0.0);
    }
    let budgets = report["budgets"].as_array().unwrap();
    assert!(
        budgets.len() >= 18
            && budgets
                .iter()
                .all(|budget| budget["verdict"] != "not_measured"),
        "{budgets:#?}"
    );
    let page = std::fs::read_to_string(&html).unwrap();
    assert!(
        page.contains("<svg") && page.contains("closed-loop: heartbeats"),
        "{page}"
    );
}
