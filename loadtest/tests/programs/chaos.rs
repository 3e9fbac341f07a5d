//! `loadtest chaos` for half a minute, with real gateways and a real Redis: the promises hold, and
//! a seed is a sequence.
//!
//! The gateway's program stands beside this test's own, built by the same `cargo test --workspace`.

use std::path::PathBuf;

use crate::run::{run, run_gateways};

#[tokio::test(flavor = "multi_thread")]
async fn four_faults_leave_no_ghost_no_miss_and_no_drift() {
    let words = "chaos --json --check --timing fast --seed 11 --viewers 60 --lives 3 --pace 4s --steps 4 --minutes 2 \
                 --faults kill,freeze-close,late-apply,redis-kill";
    let report = run_gateways(words).await.passed();
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
        faults["redis-kill"]["members"].as_u64() > Some(0),
        "{report:#}"
    );
    assert!(
        faults["redis-kill"]["whole_max_ms"].as_f64() <= faults["redis-kill"]["bound_ms"].as_f64()
    );
    let logs = PathBuf::from(report["logs"].as_str().expect("where the logs are"));
    assert!(logs.join("gateway-0.log").is_file());
    std::fs::remove_dir_all(logs).expect("the logs are ours");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_fault_is_listed_with_what_it_does() {
    let listed = run("chaos --list").await.said;
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
