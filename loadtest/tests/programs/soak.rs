//! `loadtest soak` for some seconds, with real gateways and a real Redis: nothing stays behind,
//! nobody is missing, and a run this short does not pretend to know whether memory grows.

use serde_json::Value;
use tokio::process::Command;

use crate::gateway;

#[tokio::test(flavor = "multi_thread")]
async fn a_short_day_leaves_nothing_behind_and_does_not_judge_memory() {
    let dir = tempfile::tempdir().expect("a folder");
    let (json, page) = (dir.path().join("soak.json"), dir.path().join("soak.html"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_loadtest"));
    let flags = "soak --check --timing fast --hours 0.003 --seed 5 --viewers 40 --lives 2 --quiet 1 --pace 3s \
                 --callers 4 --errand 500ms --live 2s --sample 1s --gateway-bin";
    command
        .args(flags.split_whitespace())
        .arg(gateway::gateway())
        .arg("--json")
        .arg(&json)
        .arg("--report")
        .arg(&page);
    let output = command
        .kill_on_drop(true)
        .output()
        .await
        .expect("the program runs");
    let (said, errors) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{said}\n{errors}");
    let report: Value =
        serde_json::from_slice(&std::fs::read(&json).expect("a document")).expect("JSON");

    assert_eq!(report["passed"], true, "{said}");
    assert_eq!(
        report["undecided"].as_array().map(Vec::len),
        Some(2),
        "one for each gateway: {said}"
    );
    assert_eq!(report["leftover_keys"], serde_json::json!([]), "{said}");
    let samples = report["samples"].as_array().expect("samples");
    assert!(samples.len() >= 8, "{said}");
    for gateway in 0..2 {
        let most = |figure: &str| {
            samples
                .iter()
                .filter_map(|s| s["gateways"][gateway][figure].as_u64())
                .max()
        };
        assert!(
            most("sockets") >= Some(5) && most("rss_bytes") > Some(1 << 20),
            "{said}"
        );
        let at_rest =
            |when: &str, figure: &str| report[when][gateway][figure].as_u64().expect("a figure");
        // The crowd was seen to cost something, so that what is gone had been there.
        assert!(
            most("tasks") > Some(at_rest("rest_before", "tasks") + 5),
            "{said}"
        );
        assert!(
            most("open_files") > Some(at_rest("rest_before", "open_files") + 5),
            "{said}"
        );
        assert!(
            at_rest("rest_after", "tasks") <= at_rest("rest_before", "tasks"),
            "{said}"
        );
        assert_eq!(at_rest("rest_after", "sockets"), 0, "{said}");
    }
    for errand in ["follow", "ban", "remove", "info", "read", "pop-up"] {
        let outcomes = &report["errands"][errand];
        assert!(
            outcomes["done"].as_u64() > Some(0) && outcomes["wrong"] == 0,
            "{errand}: {said}"
        );
    }
    // Closed lives are remembered, with an end.
    let records = &report["kept_keys"]["live:"];
    assert!(
        records["keys"].as_u64() > Some(2) && records["lifetime_seconds"] == 600,
        "{said}"
    );
    assert!(
        std::fs::read_to_string(&page)
            .expect("a page")
            .contains("<svg"),
        "{said}"
    );
    let logs = report["logs"].as_str().expect("where the logs are");
    std::fs::remove_dir_all(logs).expect("the logs are ours");
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_usage_is_refused_before_anything_starts() {
    for (flags, reason) in [
        (["--hours", "0"], "--hours"),
        (["--hours", "1000"], "--hours"),
        (["--viewers", "0"], "--viewers"),
        (["--fans", "2"], "--fans"),
        (["--sample", "1ms"], "--sample"),
        (["--gateway-bin", "/nowhere/rollcall"], "is not there"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_loadtest"));
        let output = command
            .arg("soak")
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
