//! The tools that start real gateways, a real Redis and more, each in small. How fast the gateways
//! are is not looked at.

use serde_json::json;

use crate::run::{run, run_gateways};

#[tokio::test(flavor = "multi_thread")]
async fn another_gateway_goes_on_with_every_session_of_a_killed_one() {
    let words = "takeover --json --check --sessions 200 --beat 1s --lease 5s";
    let report = run_gateways(words).await.passed();
    assert_eq!(report["resumed"], 200, "{report:#}");
    assert!(report["looks"].as_u64() > Some(10), "{report:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn followers_are_told_once_also_by_a_gateway_that_is_killed() {
    let words = "fanout --json --followers 5000 --killed 20000 --quiet 1";
    let report = run_gateways(words).await.passed();
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
}

#[tokio::test(flavor = "multi_thread")]
async fn every_attack_gets_its_answer_and_no_fan_is_missing() {
    let words = "hostile --json --viewers 50 --seconds-per-attack 1";
    let report = run_gateways(words).await.passed();
    let rows = report["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 29, "{report:#}");
    for row in rows {
        assert!(
            row["readings"].as_u64() > Some(0) && row["newcomers"].as_u64() > Some(0),
            "{row:#}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_stops_for_a_while_costs_nobody_anything() {
    let words = "fan-source-outage --json --check --viewers 100 --seconds 5";
    let report = run_gateways(words).await.passed();
    assert!(
        report["known_fans"].as_u64() > Some(0) && report["newcomer_fans"].as_u64() > Some(0),
        "{report:#}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn every_event_arrives_although_the_receiver_is_down_and_the_sender_is_killed() {
    let words = "webhooks --json --check --lives 12 --down 3s";
    let report = run_gateways(words).await.passed();
    assert_eq!(report["missing"], json!(0), "{report:#}");
    assert_eq!(report["expected"], 13 * 7, "{report:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_usage_is_refused_before_anything_starts() {
    for (words, reason) in [
        ("takeover --sessions 9", "--sessions"),
        ("takeover --beat soon", "--beat"),
        ("takeover --gateway-bin /nowhere/rollcall", "is not there"),
        ("hostile --viewers 9", "--viewers"),
        ("hostile --seconds-per-attack 0", "--seconds-per-attack"),
        ("hostile --gateway-bin /nowhere/rollcall", "is not there"),
        ("fan-source-outage --viewers 9", "--viewers"),
        ("fan-source-outage --seconds 4", "--seconds"),
        ("soak --hours 0", "--hours"),
        ("soak --hours 1000", "--hours"),
        ("soak --viewers 0", "--viewers"),
        ("soak --fans 2", "--fans"),
        ("soak --sample 1ms", "--sample"),
        ("soak --gateway-bin /nowhere/rollcall", "is not there"),
        (
            "chaos --gateway-bin /nowhere/rollcall",
            "build the gateway first",
        ),
        (
            "chaos --faults slot-move --gateway-bin /bin/true",
            "only with --cluster",
        ),
        (
            "chaos --faults link-cut --cluster --gateway-bin /bin/true",
            "not with --cluster",
        ),
        (
            "chaos --faults clock-step --cluster --gateway-bin /bin/true",
            "not with --cluster",
        ),
        (
            "chaos --viewers 0 --gateway-bin /bin/true",
            "--viewers must be",
        ),
        ("chaos --faults earthquake", "invalid value 'earthquake'"),
        ("bench --only closed-lop", "no row \"closed-lop\""),
        ("bench --quick --check", "cannot be used with"),
        ("bench --rounds 0", "--rounds"),
        ("bench --gateways 0", "--gateways"),
        ("bench --shared-lives 0", "--shared-lives"),
        ("bench --gateway-bin /nowhere/rollcall", "is not there"),
    ] {
        let ran = run(words).await;
        assert!(
            ran.code != Some(0) && ran.errors.contains(reason),
            "{words}: {}",
            ran.errors
        );
    }
}
