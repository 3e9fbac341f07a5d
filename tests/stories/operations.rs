//! What an operator reads: healthz, readyz, metrics, the OpenAPI description and the pages.

use crate::support::dashboard::{fans, viewers};
use crate::support::presence::Events;
use crate::support::stores::{on_memory, on_redis};
use crate::support::wait::{PATIENCE, same, until};
use crate::support::world::World;

on_memory! {
    async fn a_gateway_that_runs_is_healthy_and_ready(world) {
        for path in ["/healthz", "/readyz"] {
            let answer = world.backend().get(path).await.is(200);
            assert!(answer.body.is_object(), "{answer:?}");
            assert_eq!(answer.content_type, "application/json");
        }
    }
}

/// The value of a metric (without labels, or with exactly these) as Prometheus would read it.
async fn metric(world: &World, name: &str) -> Option<f64> {
    let text = world.backend().get("/metrics").await.is(200).text;
    text.lines().find_map(|line| {
        line.strip_prefix(name)?
            .strip_prefix(' ')?
            .trim()
            .parse()
            .ok()
    })
}

on_memory! {
    async fn metrics_are_prometheus_text(world) {
        world.open("42").await;
        world.follow(&["u0"]).await;
        let _crowd = world.crowd("u", 3, "42").await;
        world.fans_become("42", &["u0"]).await;
        let answer = world.backend().get("/metrics").await.is(200);
        let known = ["text/plain", "application/openmetrics-text"];
        assert!(known.contains(&answer.content_type.as_str()), "{}", answer.content_type);
        for line in answer.text.lines() {
            let fine = line.is_empty()
                || line.starts_with('#')
                || line.rsplit_once(' ').is_some_and(|(name, value)| !name.is_empty() && value.parse::<f64>().is_ok());
            assert!(fine, "no line of Prometheus text: {line:?}");
        }
        let told: Vec<_> = answer.text.lines().filter(|line| line.starts_with("# HELP rollcall_")).collect();
        assert!(told.len() >= 5, "each metric says what it is: {}", answer.text);
    }
}

on_memory! {
    async fn open_sockets_are_counted(world) {
        let crowd = (world.viewer("u1").await, world.viewer("u2").await);
        until("the metric", PATIENCE, || async { same(metric(&world, "rollcall_sockets").await, Some(2.0)) }).await;
        crowd.0.close().await;
        until("the metric", PATIENCE, || async { same(metric(&world, "rollcall_sockets").await, Some(1.0)) }).await;
    }
}

on_memory! {
    async fn every_documented_path_answers(world) {
        let api = world.backend().get("/openapi.json").await.is(200).body;
        assert!(api["openapi"].as_str().is_some_and(|v| v.starts_with("3.1")), "{}", api["openapi"]);
        let paths = api["paths"].as_object().unwrap();
        for path in ["/v1/lives/{live_id}", "/v1/lives", "/v1/lives/{live_id}/fans", "/healthz", "/readyz"] {
            assert!(paths.contains_key(path), "{path} is not documented: {:?}", paths.keys());
        }
        world.open("42").await;
        for (path, methods) in paths {
            let is_method = |key: &&String| !["parameters", "summary"].contains(&key.as_str());
            for method in methods.as_object().unwrap().keys().filter(is_method) {
                let filled = path
                    .replace("{live_id}", "42")
                    .replace("{user_id}", "u1")
                    .replace("{streamer_id}", "s1")
                    .replace("{status_id}", "s1~1")
                    .replace("{list}", "cooks")
                    .replace("{member}", "s1")
                    .replace("{session_id}", "nobody")
                    .replace("{server}", "nobody")
                    .replace("{webhook}", "nobody")
                    .replace("{stream_id}", "none")
                    .replace("{erasure_id}", "er-none");
                assert!(!filled.contains('{'), "a parameter that the story does not know: {path}");
                if filled == "/v1/lives/42/events" {
                    // Its answer does not end. The live may have been closed above.
                    world.open("42").await;
                    let _ = Events::at(&world, &filled).await;
                    continue;
                }
                let method = method.to_uppercase().parse().unwrap();
                let answer = world.backend().send(method, &filled, Some("{}")).await;
                assert_ne!(answer.status, 405, "{answer:?}");
                assert!(answer.status < 500, "{answer:?}");
                assert_ne!(answer.body["code"], "not_found", "no such route: {answer:?}");
            }
        }
    }
}

on_redis! {
    async fn a_stopped_gateway_leaves_nobody_behind(world) {
        let survivor = match &world.redis {
            Some(_) => Some(world.another_gateway().await),
            None => None,
        };
        world.open("42").await;
        world.crowd_follows("u", 3).await;
        let _crowd = world.crowd("u", 3, "42").await;
        world.fans_become("42", &["u0", "u1", "u2"]).await;
        let addr = world.addr;
        world.stop().await;
        assert!(tokio::net::TcpStream::connect(addr).await.is_err(), "it listens no more");
        if let Some(survivor) = survivor {
            survivor.fans_become("42", &[]).await;
            survivor.dashboard("42").await.sees(viewers(0), fans(0)).await;
        }
    }
}
