//! `loadtest webhooks` in small, with real gateways, a real Redis and a receiver in Python.

use serde_json::Value;
use tokio::process::Command;

use crate::gateway;

#[tokio::test(flavor = "multi_thread")]
async fn every_event_arrives_although_the_receiver_is_down_and_the_sender_is_killed() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loadtest"));
    command.args([
        "webhooks",
        "--json",
        "--check",
        "--lives",
        "12",
        "--down",
        "3s",
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
    assert_eq!(
        (&report["failures"], &report["missing"]),
        (&serde_json::json!([]), &0.into()),
        "{report:#}"
    );
    assert_eq!(report["expected"], 13 * 7, "{report:#}");
    assert!(output.status.success(), "{errors}");
}
