//! `loadtest soak` for some seconds, with real gateways and a real Redis: nothing stays behind,
//! nobody is missing, and a run this short does not pretend to know whether memory grows.

use serde_json::Value;

use crate::gateway;
use crate::run::run_with_files;

#[tokio::test(flavor = "multi_thread")]
async fn a_short_day_leaves_nothing_behind_and_does_not_judge_memory() {
    let dir = tempfile::tempdir().expect("a folder");
    let (json, page) = (dir.path().join("soak.json"), dir.path().join("soak.html"));
    let words = "soak --check --timing fast --hours 0.003 --seed 5 --viewers 40 --lives 2 --quiet 1 --pace 3s \
                 --callers 4 --errand 500ms --live 2s --sample 1s";
    let gateway = gateway::gateway();
    let ran = run_with_files(
        words,
        &[
            ("--json", &json),
            ("--report", &page),
            ("--gateway-bin", &gateway),
        ],
    )
    .await;
    let said = &ran.said;
    assert_eq!(ran.code, Some(0), "{said}\n{}", ran.errors);
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
