//! `loadtest crowd` against a fake gateway: its figures are right, and each fault of the gateway is
//! seen.

use std::process::Stdio;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::fake::{FakeGateway, Fault};
use crate::gateway;
use crate::run::{Ran, run};

async fn crowd(fake: &FakeGateway, flags: &str) -> Ran {
    crowd_at(&fake.address.to_string(), flags).await
}

async fn crowd_at(address: &str, flags: &str) -> Ran {
    let beat = if flags.contains("--heartbeat") {
        ""
    } else {
        "--heartbeat 200ms"
    };
    run(&format!(
        "crowd --json --viewers 50 --lives 4 --duration 1s {beat} --verify-timeout 1s --ack-timeout 1s \
         --url ws://{address} {flags}"
    ))
    .await
}

fn number(report: &Value, pointer: &str) -> f64 {
    report
        .pointer(pointer)
        .and_then(Value::as_f64)
        .unwrap_or_else(|| panic!("no {pointer} in {report:#}"))
}

fn assert_close(report: &Value, pointer: &str, expected: f64, tolerance: f64) {
    let found = number(report, pointer);
    assert!(
        (found - expected).abs() <= tolerance,
        "{pointer} is {found}, not {expected} ± {tolerance}: {report:#}"
    );
}

/// 50 viewers, a heartbeat each 200 ms, for one second.
fn assert_whole(report: &Value) {
    for (pointer, expected) in [
        ("/setup/lives_opened", 4.0),
        ("/setup/follows_written", 15.0),
        ("/connect/connected", 50.0),
        ("/connect/latency_us/count", 50.0),
        ("/join/joined", 50.0),
        ("/join/latency_us/count", 50.0),
        ("/join/failed", 0.0),
        ("/heartbeats/unanswered", 0.0),
        ("/fan_flags/wrong", 0.0),
        ("/sockets/lost", 0.0),
        ("/sockets/left", 50.0),
        ("/verify/joined/correct", 4.0),
        ("/verify/held/correct", 4.0),
        ("/verify/left/correct", 4.0),
        ("/verify/wobbles", 0.0),
    ] {
        assert_close(report, pointer, expected, 0.0);
    }
    assert_close(report, "/heartbeats/steady_seconds", 1.0, 0.5);
    let seconds = number(report, "/heartbeats/steady_seconds");
    assert_close(report, "/heartbeats/steady_sent", 250.0 * seconds, 60.0);
    assert_close(
        report,
        "/heartbeats/steady_acked",
        number(report, "/heartbeats/steady_sent"),
        10.0,
    );
    assert_close(
        report,
        "/fan_flags/told_true",
        0.3 * number(report, "/heartbeats/acked"),
        20.0,
    );
    assert!(number(report, "/heartbeats/ack_latency_us/p50") >= 1.0);
    assert!(number(report, "/machine/cores") >= 1.0);
    assert_eq!(report["errors"], serde_json::json!({}));
    assert_eq!(report["passed"], true, "{report:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_whole_crowd_passes_and_cleans_up() {
    let fake = FakeGateway::start("127.0.0.1:0", Fault::None).await;
    let own_pid = std::process::id();
    let ran = crowd(&fake, &format!("--check --verify --pid {own_pid}")).await;
    let report = ran.report();
    assert_eq!(ran.code, Some(0));
    assert_whole(&report);
    assert!(number(&report, "/server/idle/rss_bytes") > 0.0);
    assert!(
        report
            .pointer("/server/rss_bytes_per_socket")
            .is_some_and(Value::is_number)
    );
    assert_eq!((fake.open_lives(), fake.follows()), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn three_processes_make_the_same_crowd() {
    let fake = FakeGateway::start("127.0.0.1:0", Fault::None).await;
    let ran = crowd(
        &fake,
        "--check --verify --keep --processes 3 --join url --spread even",
    )
    .await;
    let report = ran.report();
    assert_eq!(ran.code, Some(0));
    assert_whole(&report);
    assert_close(&report, "/generator/processes", 3.0, 0.0);
    assert_eq!((fake.open_lives(), fake.follows()), (4, 15));
}

/// A gateway with its store in memory, which takes datagrams. It ends when this is dropped.
struct RealGateway {
    _process: Child,
    address: String,
}

impl RealGateway {
    async fn start() -> Self {
        let mut process = Command::new(gateway::gateway())
            .args(["--listen", "127.0.0.1:0", "--udp", "127.0.0.1:0"])
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("the gateway starts");
        let output = process.stdout.take().expect("its output");
        let mut lines = BufReader::new(output).lines();
        loop {
            let line = lines.next_line().await.expect("a line of text");
            let line = line.expect("the gateway gets ready");
            if let Some((_, address)) = line.split_once("listening on http://") {
                let address = address.trim().to_owned();
                // Read on, or a gateway that prints more would wait for a reader.
                tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
                return Self {
                    _process: process,
                    address,
                };
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_without_sockets_is_counted_like_any_other() {
    let gateway = RealGateway::start().await;
    for way in ["http --connections 7", "udp", "udp --processes 2"] {
        let flags = format!("--by {way} --heartbeat 500ms --check --verify");
        let ran = crowd_at(&gateway.address, &flags).await;
        let report = ran.report();
        assert_eq!(ran.code, Some(0), "{way}: {report:#}");
        assert_close(&report, "/join/joined", 50.0, 0.0);
        assert_close(&report, "/connect/connected", 0.0, 0.0);
        assert_close(&report, "/sockets/left", 50.0, 0.0);
        assert_close(&report, "/verify/joined/correct", 4.0, 0.0);
        assert_close(&report, "/verify/left/correct", 4.0, 0.0);
        assert!(number(&report, "/heartbeats/steady_acked") >= 50.0, "{way}");
        assert!(number(&report, "/fan_flags/told_true") > 0.0, "{way}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_takes_no_datagrams_fails_the_run() {
    let fake = FakeGateway::start("127.0.0.1:0", Fault::None).await;
    let ran = crowd(&fake, "--by udp").await;
    assert_eq!(ran.code, Some(1));
    assert_close(&ran.report(), "/errors/http_status:404", 50.0, 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_closed_loop_outruns_the_clock() {
    let fake = FakeGateway::start("127.0.0.1:0", Fault::None).await;
    let ran = crowd(&fake, "--check --closed-loop --no-setup --fans 0").await;
    let report = ran.report();
    assert_eq!(ran.code, Some(0));
    assert!(
        number(&report, "/heartbeats/acked_per_second") > 1000.0,
        "{report:#}"
    );
    assert_close(&report, "/heartbeats/unanswered", 0.0, 0.0);
    assert_eq!(fake.http_calls(), 8);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_ack_fails_the_check() {
    let fake = FakeGateway::start("127.0.0.1:0", Fault::DropAcks(20)).await;
    let ran = crowd(&fake, "--check").await;
    let report = ran.report();
    assert_eq!(ran.code, Some(1));
    let missing = number(&report, "/heartbeats/unanswered");
    assert_close(
        &report,
        "/heartbeats/unanswered",
        number(&report, "/heartbeats/sent") / 20.0,
        1.0,
    );
    assert_close(&report, "/errors/missing_ack", missing, 0.0);
    assert_eq!(report["passed"], false);
    // One lost ack must not shift the latencies of those after it by a whole interval.
    assert!(
        number(&report, "/heartbeats/ack_latency_us/max") < 150_000.0,
        "{report:#}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn without_check_the_same_run_only_reports() {
    let fake = FakeGateway::start("127.0.0.1:0", Fault::DropAcks(20)).await;
    let ran = crowd(&fake, "").await;
    assert_eq!(ran.code, Some(0));
    assert!(number(&ran.report(), "/errors/missing_ack") > 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_socket_fails_the_check() {
    let fake = FakeGateway::start("127.0.0.1:0", Fault::CloseSocket(30)).await;
    let ran = crowd(&fake, "--check").await;
    let report = ran.report();
    assert_eq!(ran.code, Some(1));
    assert_close(&report, "/sockets/lost", 1.0, 0.0);
    assert_close(&report, "/errors/close_code:4008", 1.0, 0.0);
    assert_close(&report, "/heartbeats/unanswered", 1.0, 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_count_fails_the_check() {
    let fake = FakeGateway::start("127.0.0.1:0", Fault::MiscountViewers).await;
    let ran = crowd(&fake, "--check --verify").await;
    let report = ran.report();
    assert_eq!(ran.code, Some(1));
    assert_close(&report, "/verify/joined/correct", 0.0, 0.0);
    assert_eq!(
        report["verify"]["joined"]["time_to_correct_ms"],
        Value::Null
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_lets_nobody_in_fails_the_run() {
    let fake = FakeGateway::start("127.0.0.1:0", Fault::RefuseUpgrades).await;
    let ran = crowd(&fake, "").await;
    assert_eq!(ran.code, Some(1));
    assert_close(&ran.report(), "/errors/upgrade_status:503", 50.0, 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_usage_is_refused_with_its_reason() {
    let fake = FakeGateway::start("127.0.0.1:0", Fault::None).await;
    for (flags, reason) in [
        ("--http http://192.0.2.1:80", "not a loopback address"),
        ("--redis 192.0.2.1:6379", "not a loopback address"),
        ("--fans 1.5", "--fans must be between 0 and 1, not 1.5"),
        ("--connections 0", "--connections must be at least 1"),
        ("--slices 0", "--slices must be at least 1"),
        (
            "--processes 51",
            "--processes must be no more than --viewers",
        ),
        ("--prefix {x}", "--prefix must be"),
        ("--pid 999999999", "--pid 999999999"),
    ] {
        let ran = crowd(&fake, flags).await;
        let errors = &ran.errors;
        assert_eq!(ran.code, Some(64), "{flags}: {errors}");
        assert!(errors.contains(reason), "{flags}: {errors}");
    }
    assert_eq!(fake.http_calls(), 0);
}
