//! `loadtest storm` against a fake gateway that forgets who vanished at once: everybody comes back,
//! as they are told, and the dip of the figures is seen.

use crate::fake::{FakeGateway, Fault};
use crate::run::{Ran, run};

async fn storm(fake: &FakeGateway, flags: &str) -> Ran {
    run(&format!(
        "storm --json --viewers 40 --bystanders 10 --lives 2 --heartbeat 100ms --duration 3s \
         --verify-timeout 1s --ack-timeout 1s --url ws://{} {flags}",
        fake.address
    ))
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn everybody_comes_back_as_told_and_a_dip_fails_the_check() {
    // 50 viewers and 2 dashboards are in before anybody is refused.
    let fake = FakeGateway::start("127.0.0.1:0", Fault::CrowdedFrom(53)).await;
    let ran = storm(&fake, "--check --processes 2").await;
    let report = ran.report();
    for (name, expected) in [
        ("returned", 40),
        ("stranded", 0),
        ("untimed", 0),
        ("sockets_lost", 0),
        ("viewers", 50),
    ] {
        assert_eq!(report[name], expected, "{name}: {report:#}");
    }
    assert!(report["told_later"].as_u64() >= Some(15), "{report:#}");
    assert_eq!(report["told_us"]["count"], report["told_later"]);
    assert!(
        report["all_back_seconds"].as_f64() >= Some(1.0),
        "they waited as told: {report:#}"
    );
    assert!(
        report["ack_us"]["count"].as_u64() >= Some(100),
        "those who stayed went on: {report:#}"
    );
    assert!(
        report["lowest_viewers"].as_i64() < Some(50) && report["wobbles"].as_u64() > Some(0),
        "{report:#}"
    );
    let failures = report["failures"].to_string();
    assert!(
        failures.contains("left the truth") && failures.contains("of 50 viewers were shown"),
        "{failures}"
    );
    assert!(
        !failures.contains("came back") && !failures.contains("errors"),
        "{failures}"
    );
    assert_eq!(report["after"]["correct"], 2, "{report:#}");
    assert_eq!(ran.code, Some(1));
    assert_eq!((fake.open_lives(), fake.follows()), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_check_the_same_run_only_reports() {
    let fake = FakeGateway::start("127.0.0.1:0", Fault::None).await;
    let ran = storm(&fake, "--fans 0 --no-setup").await;
    assert_eq!(ran.code, Some(0));
    assert_eq!(ran.report()["told_later"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_storm_of_viewers_without_sockets_is_refused() {
    let fake = FakeGateway::start("127.0.0.1:0", Fault::None).await;
    let ran = storm(&fake, "--by http").await;
    let errors = &ran.errors;
    assert_eq!(ran.code, Some(64), "{errors}");
    assert!(errors.contains("--by must be ws"), "{errors}");
    assert_eq!(fake.http_calls(), 0);
}
