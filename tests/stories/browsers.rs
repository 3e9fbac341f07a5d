//! Pages in browsers: which origins may connect, and how a page learns why it may not.

use reqwest::Method;
use tokio_tungstenite::tungstenite::Error;

use crate::support::socket::Socket;
use crate::support::stores::on_memory;
use crate::support::viewer::Viewer;
use crate::support::wait::PATIENCE;
use crate::support::world::World;

/// Upgrades with this origin; the status.
async fn upgrade_from(world: &World, origin: &str) -> u16 {
    match Socket::connect(world.addr, "/ws?user_id=u1", &[("origin", origin)]).await {
        Ok((socket, _)) => {
            Viewer::greeted("u1", socket).await;
            101
        }
        Err(Error::Http(answer)) => answer.status().as_u16(),
        Err(error) => panic!("{origin}: {error}"),
    }
}

/// What a page of this origin is told before it connects.
async fn ask(world: &World, query: &str, origin: Option<&str>) -> reqwest::Response {
    let client = reqwest::Client::builder()
        .no_proxy()
        .timeout(PATIENCE)
        .build()
        .unwrap();
    let request = client.request(
        Method::GET,
        format!("http://{}/ws/admission{query}", world.addr),
    );
    let request = origin
        .into_iter()
        .fold(request, |request, origin| request.header("origin", origin));
    request.send().await.unwrap()
}

on_memory! {
    tuned(|config| config.origins = vec!["https://app.example".to_owned()])
    async fn pages_of_allowed_origins_connect_and_others_do_not(world) {
        let own = format!("http://{}", world.addr);
        for (origin, status) in [
            ("https://app.example", 101),
            (own.as_str(), 101),
            ("https://app.example.evil", 403),
            ("http://app.example", 403),
            ("http://localhost", 403),
            ("null", 403),
        ] {
            assert_eq!(upgrade_from(&world, origin).await, status, "{origin}");
        }
        // An app sends none.
        world.viewer("u2").await;
    }
}

on_memory! {
    tuned(|config| config.origins = vec!["*".to_owned()])
    async fn a_star_allows_every_page(world) {
        assert_eq!(upgrade_from(&world, "https://any.example").await, 101);
        assert_eq!(upgrade_from(&world, "null").await, 101);
    }
}

on_memory! {
    tuned(|config| {
        config.origins = vec!["https://app.example".to_owned()];
        config.handshake_rate = 1;
    })
    async fn a_page_that_asks_first_gets_the_place_that_it_was_told_of(world) {
        let asked = ask(&world, "?user_id=u1", Some("https://app.example")).await;
        assert_eq!(asked.status(), 204);
        assert_eq!(asked.headers()["access-control-allow-origin"], "https://app.example");
        let refused = ask(&world, "?user_id=u2", Some("https://app.example")).await;
        assert_eq!(refused.status(), 503);
        let after: u64 = refused.headers()["retry-after"].to_str().unwrap().parse().unwrap();
        assert!((1..=30).contains(&after), "{after}");
        assert!(refused.headers()["access-control-expose-headers"].to_str().unwrap().contains("retry-after"));
        let problem: serde_json::Value = refused.json().await.unwrap();
        assert_eq!(problem["code"], "crowded");
        // The place of the first is still there.
        assert_eq!(upgrade_from(&world, "https://app.example").await, 101);
        assert_eq!(ask(&world, "?user_id=u1", Some("https://evil.example")).await.status(), 403);
        assert_eq!(ask(&world, "", None).await.status(), 401);
    }
}

on_memory! {
    tuned(|config| config.origins = vec!["https://app.example".to_owned()])
    async fn a_page_of_another_origin_changes_nothing(world) {
        let client = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build().unwrap();
        let own = format!("http://{}", world.addr);
        for (origin, status) in [
            (Some("https://evil.example"), 403),
            (Some("https://app.example"), 204),
            (Some(own.as_str()), 204),
            (None, 204),
        ] {
            // Browsers send this without a preflight.
            let request = client.request(Method::POST, format!("http://{}/v1/beat?user_id=u1", world.addr));
            let request = origin.into_iter().fold(request, |request, origin| request.header("origin", origin));
            assert_eq!(request.send().await.unwrap().status().as_u16(), status, "{origin:?}");
        }
    }
}
