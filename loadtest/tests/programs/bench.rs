//! `loadtest bench` in small: every row runs to its end, every contender is measured, nothing is
//! left behind. How fast they are is not looked at.

use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::Value;
use tokio::process::Command;

async fn bench(flags: &str, files: &[(&str, &Path)]) -> Output {
    let program = Path::new(env!("CARGO_BIN_EXE_loadtest"));
    let gateway = program.with_file_name("rollcall");
    assert!(
        gateway.is_file(),
        "{} is not there: cargo build -p rollcall",
        gateway.display()
    );
    let mut command = Command::new(program);
    command.arg("bench").args(flags.split_whitespace());
    for (flag, file) in files {
        command.arg(flag).arg(file);
    }
    command
        .kill_on_drop(true)
        .output()
        .await
        .expect("the program runs")
}

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
    let output = bench(
        "--quick --in-process 500 --lives 20",
        &[("--json", &json), ("--report", &html)],
    )
    .await;
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(output.status.success(), "{said}");
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

#[tokio::test(flavor = "multi_thread")]
async fn wrong_usage_is_refused_before_anything_starts() {
    for (flags, reason) in [
        ("--only closed-lop", "no row \"closed-lop\""),
        ("--quick --check", "cannot be used with"),
        ("--rounds 0", "--rounds"),
        ("--gateways 0", "--gateways"),
        ("--shared-lives 0", "--shared-lives"),
        ("--gateway-bin /nowhere/rollcall", "is not there"),
    ] {
        let output = bench(flags, &[]).await;
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && errors.contains(reason),
            "{flags}: {errors}"
        );
    }
}
