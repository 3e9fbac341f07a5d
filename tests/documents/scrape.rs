//! What a gateway that runs answers a scrape: the text format that the scrape asks for, with the
//! metrics of the documents, good names, and no ids in labels.

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
const LABELS: &[&str] = &[
    "call", "error", "le", "method", "result", "role", "route", "status", "version", "why",
];

/// What a gateway says, in the two formats.
struct Scrape {
    open_metrics: String,
    /// What promtool reads.
    plain: String,
}

/// What a gateway says after a viewer came, did something wrong, and went.
async fn scrape() -> Scrape {
    let redis = RedisServer::start().await;
    let config = Config {
        redis: Some(Secret::new(redis.url())),
        ..Config::default()
    };
    let program = Program::start(&config).await;
    let client = reqwest::Client::builder()
        .no_proxy()
        .timeout(PATIENCE)
        .build()
        .unwrap();
    let url = |path: &str| format!("http://{}{path}", program.addr);
    let follows = client
        .put(url("/v1/users/some-user-1/following/some-streamer"))
        .send()
        .await
        .unwrap();
    assert!(follows.status().is_success(), "{follows:?}");
    let opening = client
        .put(url("/v1/lives/some-live"))
        .header("content-type", "application/json");
    let opened = opening
        .body(r#"{"streamer_id":"some-streamer"}"#)
        .send()
        .await
        .unwrap();
    assert!(opened.status().is_success(), "{opened:?}");
    let path = "/ws?user_id=some-user-1&live_id=some-live";
    let (mut viewer, _) = Socket::connect(program.addr, path, &[]).await.unwrap();
    viewer.send("{\"type\":\"nonsense\"}".into()).await;
    while let Some(Heard::Text(text)) = viewer.next().await {
        if text.contains("\"error\"") {
            break;
        }
    }
    let read = async |accept: &str| {
        let answer = client
            .get(url("/metrics"))
            .header("accept", accept)
            .send()
            .await
            .unwrap();
        let kind = answer.headers()["content-type"]
            .to_str()
            .unwrap()
            .to_owned();
        assert!(kind.starts_with(accept), "{kind} for {accept}");
        answer.text().await.unwrap()
    };
    // To the viewers of the live, and to those online on the platform.
    let open_metrics = until("the fan is written", PATIENCE, || async {
        let text = read("application/openmetrics-text").await;
        if text.contains("rollcall_flushed_members_total 2") {
            Ok(text)
        } else {
            Err(text)
        }
    })
    .await;
    Scrape {
        open_metrics,
        plain: read("text/plain").await,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scrape_is_valid_and_names_every_metric_and_no_id() {
    let Scrape {
        open_metrics: text,
        plain,
    } = scrape().await;
    let parser = "import sys\nfrom prometheus_client.openmetrics import parser\n\
                  for family in parser.text_string_to_metric_families(sys.stdin.read()):\n \
                  for sample in family.samples:\n  for label in sample.labels:\n   print('label', label)";
    let said = succeeds(of_python("python").args(["-c", parser]), &text);
    let labels: BTreeSet<&str> = said
        .lines()
        .filter_map(|line| line.strip_prefix("label "))
        .collect();
    let unknown: Vec<_> = labels
        .iter()
        .filter(|label| !LABELS.contains(label))
        .collect();
    assert!(
        unknown.is_empty(),
        "labels that no document explains: {unknown:?}"
    );
    assert!(!text.contains("some-"), "an id is in a label: {text}");
    assert!(
        plain.contains("rollcall_http_seconds_bucket") && !plain.contains("some-"),
        "{plain}"
    );
    succeeds(Command::new("promtool").args(["check", "metrics"]), &plain);

    // One with labels appears once it has something to count.
    let own = metrics::ALL
        .iter()
        .filter(|(_, kind, _)| !kind.contains("Family"));
    let own = own.map(|(name, ..)| format!("rollcall_{name}"));
    let of_process = process::ALL.iter().map(|(name, ..)| (*name).to_owned());
    let missing: Vec<_> = own
        .chain(of_process)
        .filter(|name| !text.contains(&format!("# TYPE {name} ")))
        .collect();
    assert!(missing.is_empty(), "not in a scrape: {missing:?}");
    for line in [
        "rollcall_sockets_by_role{role=\"viewer\"} 1",
        "rollcall_handshake_seconds_count 1",
        "rollcall_draining 0",
        &format!(
            "rollcall_build_info{{version=\"{}\"}} 1",
            env!("CARGO_PKG_VERSION")
        ),
    ] {
        assert!(
            text.lines().any(|found| found == line),
            "no line {line:?} in {text}"
        );
    }
    let value = |name: &str| {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {name}"))
            .parse::<f64>()
            .unwrap()
    };
    for name in [
        "rollcall_store_call_seconds_count",
        "rollcall_flush_batch_members_count",
        "process_open_fds",
    ] {
        assert!(value(name) >= 1.0, "{name}");
    }
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .as_secs_f64();
    assert!(
        (now - value("process_start_time_seconds")).abs() < 600.0,
        "the start is in Unix time"
    );
    assert!(
        value("process_resident_memory_bytes") > 1e6,
        "the memory is in bytes"
    );
}
