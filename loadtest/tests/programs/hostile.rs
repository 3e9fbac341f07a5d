//! `loadtest hostile` in small, with a real gateway and a real Redis: every attack gets its answer,
//! and no fan is ever missing. How fast the gateway answers honest viewers meanwhile is not looked
//! at.

use serde_json::Value;
use tokio::process::Command;

use crate::gateway;

#[tokio::test(flavor = "multi_thread")]
async fn every_attack_gets_its_answer_and_no_fan_is_missing() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loadtest"));
    command.args([
        "hostile",
        "--json",
        "--viewers",
        "50",
        "--seconds-per-attack",
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
    let rows = report["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 29, "{report:#}");
    for row in rows {
        assert!(
            row["readings"].as_u64() > Some(0) && row["newcomers"].as_u64() > Some(0),
            "{row:#}"
        );
    }
    assert!(output.status.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_usage_is_refused_before_anything_starts() {
    for (flags, reason) in [
        (["--viewers", "9"], "--viewers"),
        (["--seconds-per-attack", "0"], "--seconds-per-attack"),
        (["--gateway-bin", "/nowhere/rollcall"], "is not there"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_loadtest"));
        let output = command
            .arg("hostile")
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
