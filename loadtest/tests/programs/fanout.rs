//! `loadtest fanout` in small, with real gateways and a real Redis: every follower has the live
//! once, none has it afterwards, and a killed gateway leaves nobody out. How fast all of it is is
//! not looked at.

use serde_json::Value;
use tokio::process::Command;

use crate::gateway;

#[tokio::test(flavor = "multi_thread")]
async fn everybody_is_told_once_also_by_a_gateway_that_is_killed() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loadtest"));
    command.args([
        "fanout",
        "--json",
        "--followers",
        "5000",
        "--killed",
        "20000",
        "--quiet",
        "1",
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
    assert_eq!(
        (&report["once"], &report["killed"]["once"]),
        (&5_000.into(), &20_000.into()),
        "{report:#}"
    );
    for who in ["joins", "acks", "pings"] {
        assert!(
            report["busy"][who]["count"].as_u64() > Some(0),
            "{report:#}"
        );
    }
    assert!(output.status.success(), "{errors}");
}
