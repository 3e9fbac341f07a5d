//! `loadtest chaos` for half a minute, with real gateways and a real Redis: the promises hold, and
//! a seed is a sequence.
//!
//! The gateway's program stands beside this test's own, built by the same `cargo test --workspace`.

use std::path::PathBuf;
use std::process::Output;

use serde_json::Value;
use tokio::process::Command;

use crate::gateway;

async fn chaos(flags: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loadtest"));
    command.arg("chaos").args(flags.split_whitespace());
    command
        .kill_on_drop(true)
        .output()
        .await
        .expect("the program runs")
}

#[tokio::test(flavor = "multi_thread")]
async fn four_faults_leave_no_ghost_no_miss_and_no_drift() {
    let program = gateway::gateway();
    let flags = "--json --check --timing fast --seed 11 --viewers 60 --lives 3 --pace 4s --steps 4 --minutes 2 \
                 --faults kill,freeze-close,late-apply,redis-kill";
    let output = chaos(&format!("{flags} --gateway-bin {}", program.display())).await;
    let errors = String::from_utf8_lossy(&output.stderr);
    let report: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {errors}"));
    assert!(output.status.success(), "{report:#}\n{errors}");
    assert_eq!(
        (&report["steps"], &report["broken_total"]),
        (&4.into(), &0.into()),
        "{report:#}"
    );
    let faults = report["faults"].as_object().expect("a row for each fault");
    assert_eq!(faults.len(), 4, "{report:#}");
    // Something was broken, and was seen to be.
    assert!(
        faults["kill"]["sockets_cut"].as_u64() > Some(0),
        "{report:#}"
    );
    assert!(
        faults["redis-kill"]["members"]["count"].as_u64() > Some(0),
        "{report:#}"
    );
    assert!(
        faults["redis-kill"]["whole"]["max_ms"].as_u64()
            <= faults["redis-kill"]["bound_ms"].as_u64()
    );
    let logs = PathBuf::from(report["logs"].as_str().expect("where the logs are"));
    assert!(logs.join("gateway-0.log").is_file());
    std::fs::remove_dir_all(logs).expect("the logs are ours");
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_usage_is_refused_with_its_reason() {
    for (flags, reason) in [
        ("--gateway-bin /nowhere/rollcall", "build the gateway first"),
        (
            "--faults slot-move --gateway-bin /bin/true",
            "only with --cluster",
        ),
        (
            "--faults link-cut --cluster --gateway-bin /bin/true",
            "not with --cluster",
        ),
        (
            "--faults clock-step --cluster --gateway-bin /bin/true",
            "not with --cluster",
        ),
        ("--viewers 0 --gateway-bin /bin/true", "--viewers must be"),
        ("--faults earthquake", "invalid value 'earthquake'"),
    ] {
        let output = chaos(flags).await;
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && errors.contains(reason),
            "{flags}: {errors}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_fault_is_listed_with_what_it_does() {
    let output = chaos("--list").await;
    let listed = String::from_utf8_lossy(&output.stdout);
    for fault in [
        "kill-all",
        "freeze-close",
        "link-mute",
        "late-apply",
        "redis-full",
        "master-freeze",
        "slot-move",
        "clock-step",
        "replica-switch",
        "freeze-long",
        "foreign-write",
        "snapshot-return",
    ] {
        let line = listed
            .lines()
            .find_map(|line| line.strip_prefix(fault))
            .unwrap_or_default();
        assert!(line.trim().len() > 10, "{fault}: {listed}");
    }
}
