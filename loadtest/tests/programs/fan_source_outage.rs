//! `loadtest fan-source-outage` in small, with a real gateway, a real Redis and a real PostgreSQL.

use serde_json::Value;
use tokio::process::Command;

use crate::gateway;

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_stops_for_a_while_costs_nobody_anything() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loadtest"));
    command.args([
        "fan-source-outage",
        "--json",
        "--check",
        "--viewers",
        "100",
        "--seconds",
        "5",
        "--gateway-bin",
    ]);
    let output = command
        .arg(gateway::gateway())
        .kill_on_drop(true)
        .output()
        .await
        .expect("the program runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    let report: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {errors}"));
    assert_eq!(report["failures"], serde_json::json!([]), "{report:#}");
    assert!(
        report["known_fans"].as_u64() > Some(0) && report["newcomer_fans"].as_u64() > Some(0),
        "{report:#}"
    );
    assert!(output.status.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_usage_is_refused_before_anything_starts() {
    for (flags, reason) in [
        (["--viewers", "9"], "--viewers"),
        (["--seconds", "4"], "--seconds"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_loadtest"));
        let output = command
            .arg("fan-source-outage")
            .args(flags)
            .output()
            .await
            .expect("the program runs");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && errors.contains(reason),
            "{flags:?}: {errors}"
        );
    }
}
