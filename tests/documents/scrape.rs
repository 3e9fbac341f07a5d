//! What a gateway that runs answers a scrape: OpenMetrics text, with the metrics of the documents, good names, and no
//! ids in labels.

use std::collections::BTreeSet;
use std::process::Command;

use rollcall::base::secret::Secret;
use rollcall::base::{metrics, process};
use rollcall::config::Config;

use super::tools::{of_python, succeeds};
use crate::program::Program;
use crate::redis_server::RedisServer;
use crate::socket::{Heard, Socket};
use crate::wait::{PATIENCE, until};

/// Each has a fixed few values.
const LABELS: &[&str] = &["call", "error", "le", "role", "route", "status", "version", "why"];

/// What a gateway says after a viewer came, did something wrong, and went.
async fn scrape() -> String {
    let redis = RedisServer::start().await;
    let config = Config { redis: Some(Secret::new(redis.url())), ..Config::default() };
    let program = Program::start(&config).await;
    let client = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build().unwrap();
    let url = |path: &str| format!("http://{}{path}", program.addr);
    let follows = client.put(url("/v1/users/some-user-1/following/some-streamer")).send().await.unwrap();
    assert!(follows.status().is_success(), "{follows:?}");
    let opening = client.put(url("/v1/lives/some-live")).header("content-type", "application/json");
    let opened = opening.body(r#"{"streamer_id":"some-streamer"}"#).send().await.unwrap();
    assert!(opened.status().is_success(), "{opened:?}");
    let path = "/ws?user_id=some-user-1&live_id=some-live";
    let (mut viewer, _) = Socket::connect(program.addr, path, &[]).await.unwrap();
    viewer.send("{\"type\":\"nonsense\"}".into()).await;
    while let Some(Heard::Text(text)) = viewer.next().await {
        if text.contains("\"error\"") {
            break;
        }
    }
    let read = || async { client.get(url("/metrics")).send().await.unwrap().text().await.unwrap() };
    // To the live, and to those online on the platform.
    until("the fan is written", PATIENCE, || async {
        let text = read().await;
        if text.contains("rollcall_flushed_members_total 2") { Ok(text) } else { Err(text) }
    })
    .await
}

/// The same in the older text format, which is what promtool reads: there the head of a counter has its ending, too.
fn in_older_format(text: &str) -> String {
    let counters: BTreeSet<&str> =
        text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter")).collect();
    let head = |line: &str| {
        let mut words = line.splitn(4, ' ');
        match [(); 4].map(|()| words.next()) {
            [Some("#"), Some(kind @ ("HELP" | "TYPE")), Some(name), Some(rest)] if counters.contains(name) => {
                format!("# {kind} {name}_total {rest}\n")
            }
            _ => format!("{line}\n"),
        }
    };
    text.lines().map(head).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scrape_is_valid_and_names_every_metric_and_no_id() {
    let text = scrape().await;
    let parser = "import sys\nfrom prometheus_client.openmetrics import parser\n\
                  for family in parser.text_string_to_metric_families(sys.stdin.read()):\n \
                  for sample in family.samples:\n  for label in sample.labels:\n   print('label', label)";
    let said = succeeds(of_python("python").args(["-c", parser]), &text);
    let labels: BTreeSet<&str> = said.lines().filter_map(|line| line.strip_prefix("label ")).collect();
    let unknown: Vec<_> = labels.iter().filter(|label| !LABELS.contains(label)).collect();
    assert!(unknown.is_empty(), "labels that no document explains: {unknown:?}");
    assert!(!text.contains("some-"), "an id is in a label: {text}");
    succeeds(Command::new("promtool").args(["check", "metrics"]), &in_older_format(&text));

    // One with labels appears once it has something to count.
    let own = metrics::ALL.iter().filter(|(_, kind, _)| !kind.contains("Family"));
    let own = own.map(|(name, ..)| format!("rollcall_{name}"));
    let of_process = process::ALL.iter().map(|(name, ..)| (*name).to_owned());
    let missing: Vec<_> = own.chain(of_process).filter(|name| !text.contains(&format!("# TYPE {name} "))).collect();
    assert!(missing.is_empty(), "not in a scrape: {missing:?}");
    for line in [
        "rollcall_sockets_by_role{role=\"viewer\"} 1",
        "rollcall_handshake_seconds_count 1",
        "rollcall_draining 0",
        &format!("rollcall_build_info{{version=\"{}\"}} 1", env!("CARGO_PKG_VERSION")),
    ] {
        assert!(text.lines().any(|found| found == line), "no line {line:?} in {text}");
    }
    let value = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {name}")).parse::<f64>().unwrap()
    };
    for name in ["rollcall_store_call_seconds_count", "rollcall_flush_batch_members_count", "process_open_fds"] {
        assert!(value(name) >= 1.0, "{name}");
    }
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
    assert!((now - value("process_start_time_seconds")).abs() < 600.0, "the start is in Unix time");
    assert!(value("process_resident_memory_bytes") > 1e6, "the memory is in bytes");
}
