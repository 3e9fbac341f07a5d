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

/// One value per contender and round, all of them numbers.
fn rounds<'a>(report: &'a Value, row: &str, measure: &str, who: &str) -> &'a Vec<Value> {
    let figures = report["figures"].as_array().expect("figures");
    let found = figures
        .iter()
        .find(|f| f["row"] == row && f["measure"] == measure && f["who"] == who);
    found
        .and_then(|f| f["rounds"].as_array())
        .unwrap_or_else(|| panic!("no {row}: {measure} of {who} in {report:#}"))
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
            let values = rounds(&report, row, "server CPU per heartbeat", who);
            assert!(
                values.len() == 1 && values[0].as_f64() > Some(0.0),
                "{row}: {values:?}"
            );
        }
    }
    for way in [
        "WebSocket",
        "HTTP",
        "datagram",
        "datagram, a tenth answered",
    ] {
        let cpu = rounds(&report, "ways", &format!("{way}: CPU per beat"), "rollcall");
        assert!(
            cpu.len() == 1 && cpu[0].as_f64() > Some(0.0),
            "{way}: {cpu:?}"
        );
    }
    // The contenders did the work that they stand for.
    let naive = rounds(
        &report,
        "paced",
        "commands run by Redis per heartbeat",
        "naive",
    )[0]
    .as_f64()
    .unwrap();
    assert!(
        (3.9..=4.1).contains(&naive),
        "four commands a heartbeat, not {naive}"
    );
    let answered = rounds(
        &report,
        "small-lives",
        "heartbeats answered, of those due",
        "rollcall",
    )[0]
    .as_f64();
    assert!(
        answered.is_some_and(|share| share > 0.5),
        "{answered:?} of the heartbeats inside the process were answered"
    );
    let naive = rounds(
        &report,
        "small-lives",
        "heartbeats answered, of those due",
        "naive",
    )[0]
    .as_f64();
    assert!(
        naive.is_some_and(|share| share > 0.5),
        "{naive:?} of the naive heartbeats were answered"
    );
    for (row, measure) in [
        (
            "small-lives",
            "4 gateways: heartbeats answered, of those due",
        ),
        (
            "many-gateways",
            "1 gateway: heartbeats answered, of those due",
        ),
        (
            "many-gateways",
            "4 gateways: heartbeats answered, of those due",
        ),
    ] {
        let share = rounds(&report, row, measure, "rollcall")[0].as_f64();
        assert!(
            share.is_some_and(|share| share > 0.5),
            "{row}: {measure}: {share:?}"
        );
    }
    for who in ["rollcall", "naive"] {
        let cpu = rounds(&report, "many-gateways", "4 gateways: Redis CPU", who);
        assert!(cpu.len() == 1 && cpu[0].is_number(), "{who}: {cpu:?}");
    }
    for gateways in [2, 10, 40, 100] {
        for work in ["apply with joins", "apply with leaves", "sweep", "pass"] {
            let took = rounds(
                &report,
                "scripts",
                &format!("{work}, {gateways} gateways: a call"),
                "rollcall",
            );
            assert!(
                took.len() == 1 && took[0].is_number(),
                "{work} among {gateways}: {took:?}"
            );
        }
    }
    for members in [1, 10, 100, 1_000] {
        for work in [
            "apply with joins",
            "apply with leaves",
            "look at a slice",
            "sweep",
            "fan check",
        ] {
            for who in ["rollcall", "naive"] {
                let took = rounds(
                    &report,
                    "scripts",
                    &format!("{work}, {members}: a call"),
                    who,
                );
                assert!(
                    took.len() == 1 && took[0].is_number(),
                    "{work} of {members}: {took:?}"
                );
            }
        }
    }
    for who in ["rollcall", "naive"] {
        let took = rounds(&report, "scripts", "apply with joins, 1000: a call", who)[0].as_f64();
        assert!(took > Some(0.0), "{who}: {took:?}");
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
