//! `loadtest takeover` in small, with real gateways and a real Redis: the other gateway goes on with
//! every session, and nobody is counted twice.

use serde_json::Value;
use tokio::process::Command;

use crate::gateway;

#[tokio::test(flavor = "multi_thread")]
async fn another_gateway_goes_on_with_every_session_of_a_killed_one() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loadtest"));
    command.args(["takeover", "--json", "--check", "--sessions", "200"]);
    command.args(["--beat", "1s", "--lease", "5s", "--gateway-bin"]);
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
    assert_eq!(report["resumed"], 200, "{report:#}");
    assert!(report["looks"].as_u64() > Some(10), "{report:#}");
    assert!(output.status.success(), "{errors}");
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_usage_is_refused_before_anything_starts() {
    for (flags, reason) in [
        ("--sessions 9", "--sessions"),
        ("--beat soon", "--beat"),
        ("--gateway-bin /nowhere/rollcall", "is not there"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_loadtest"));
        command.arg("takeover").args(flags.split_whitespace());
        let output = command.output().await.expect("the program runs");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && errors.contains(reason),
            "{flags}: {errors}"
        );
    }
}
