//! The document on HTTP names every route, and every problem with its status.

use rollcall::config::Config;
use rollcall::edge::http::PROBLEMS;
use rollcall::gateway;
use serde_json::Value;

use super::{read, rows};

#[tokio::test]
async fn the_document_on_http_names_every_route() {
    let config = Config { listen: ([127, 0, 0, 1], 0).into(), ..Config::default() };
    let gateway = gateway::start(config).await.unwrap();
    let url = format!("http://{}/openapi.json", gateway.addr());
    let document: Value = reqwest::get(url).await.unwrap().json().await.unwrap();
    gateway.stop().await;

    let text = read("docs/http.md");
    let named: Vec<String> = rows(&text).into_iter().map(|(first, _)| first).collect();
    let mut missing = Vec::new();
    for (path, operations) in document["paths"].as_object().unwrap() {
        for method in operations.as_object().unwrap().keys() {
            let route = format!("{} {path}", method.to_uppercase());
            if !named.contains(&route) {
                missing.push(route);
            }
        }
    }
    assert!(missing.is_empty(), "docs/http.md has no row for\n{}", missing.join("\n"));
}

#[test]
fn the_document_on_http_names_every_problem() {
    let text = read("docs/http.md");
    let named = rows(&text);
    for (status, code, title) in PROBLEMS {
        let cells = [status.as_str().to_owned(), (*title).to_owned()];
        let there = named.iter().any(|(name, row)| name == code && row.starts_with(&cells));
        assert!(there, "docs/http.md has no row beginning with\n| `{code}` | {} | {title} |", status.as_str());
    }
}
