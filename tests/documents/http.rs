//! The document on HTTP names every route with its scope, and every problem with its status.

use std::collections::BTreeMap;

use rollcall::config::Config;
use rollcall::edge::http::PROBLEMS;
use rollcall::gateway;
use serde_json::Value;

use super::{read, rows};

#[tokio::test]
async fn the_document_on_http_names_every_route_and_its_scope() {
    let config = Config {
        listen: ([127, 0, 0, 1], 0).into(),
        ..Config::default()
    };
    let gateway = gateway::start(config).await.unwrap();
    let url = format!("http://{}/openapi.json", gateway.addr());
    let document: Value = reqwest::get(url).await.unwrap().json().await.unwrap();
    gateway.stop().await;

    let text = read("docs/http.md");
    let named: BTreeMap<String, Vec<String>> = rows(&text).into_iter().collect();
    let mut missing = Vec::new();
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let route = format!("{} {path}", method.to_uppercase());
            let scope = match operation["security"][0]["api_key"][0].as_str() {
                Some(scope) => format!("`{scope}`"),
                None if operation["security"][0]["token"].is_array() => "a token".to_owned(),
                None => "open".to_owned(),
            };
            if named.get(&route).and_then(|cells| cells.last()) != Some(&scope) {
                missing.push(format!("| `{route}` | … | {scope} |"));
            }
        }
    }
    assert!(
        missing.is_empty(),
        "docs/http.md has no such rows:\n{}",
        missing.join("\n")
    );
}

#[test]
fn the_document_on_http_names_every_problem() {
    let text = read("docs/http.md");
    let named = rows(&text);
    for (status, code, title) in PROBLEMS {
        let cells = [status.as_str().to_owned(), (*title).to_owned()];
        let there = named
            .iter()
            .any(|(name, row)| name == code && row.starts_with(&cells));
        assert!(
            there,
            "docs/http.md has no row beginning with\n| `{code}` | {} | {title} |",
            status.as_str()
        );
    }
}
