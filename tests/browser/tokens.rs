//! A dashboard with a token: where the token is, where it is not, and that it suffices on a public
//! port without the API of back ends.

use serde_json::{Value, json};

use crate::page::Visitor;
use crate::stories;
use crate::support::tokens::{in_seconds, mint, with_tokens};
use crate::support::world::World;

fn token_of(user: &str, role: &str) -> String {
    mint(&json!({"sub": user, "role": role, "exp": in_seconds(3_600)}))
}

async fn guarded() -> World {
    World::on_memory(|config| {
        with_tokens(config);
        config.admin_listen = Some("127.0.0.1:0".parse().unwrap());
    })
    .await
}

stories! {
    async fn a_token_stays_in_memory_and_reaches_the_api_of_the_public_port() {
        let world = guarded().await;
        let token = token_of("s1", "streamer");
        let page = Visitor::comes().await.visits(format!("http://{}/#token={token}&live=42", world.addr)).await;
        page.shows("#state-text", "This live is not open.").await;
        page.clicks("#open-form button").await;
        page.shows("#viewers", "0").await;
        page.shows("#fans-note", "No fan is online.").await;
        page.shows("#bans-note", "Nobody is banned.").await;
        page.is("location.hash", json!("#live=42")).await;
        let kept = "JSON.stringify([location.href, document.cookie, {...localStorage}, {...sessionStorage}, \
                    document.documentElement.outerHTML])";
        let kept = page.value(kept).await;
        assert!(!kept.as_str().unwrap().contains(&token), "{kept}");
        // Calls carry it in a header. Only the socket has no other place for it than its address.
        let sent = page.heard("Network.requestWillBeSent");
        let urls: Vec<_> = sent.iter().filter_map(|sent| sent["request"]["url"].as_str()).collect();
        assert!(urls.iter().any(|url| url.contains("/v1/lives/42/fans")), "{urls:?}");
        assert!(!urls.iter().any(|url| url.contains(&token) && !url.contains("#token=")), "{urls:?}");
        page.does_not_complain();
    }

    async fn a_form_takes_the_token_and_forgets_it() {
        let world = guarded().await;
        let page = Visitor::comes().await.visits(format!("http://{}/", world.addr)).await;
        page.hides("#try").await;
        page.hides("#user").await;
        page.writes("#token", "no token").await;
        page.writes("#live-id", "42").await;
        page.clicks("#sign-in-form button").await;
        page.shows("#sign-in-note", "This is not a token.").await;
        page.writes("#token", &token_of("office", "service")).await;
        page.writes("#live-id", "").await;
        page.clicks("#sign-in-form button").await;
        page.shows("#lives-note", "No live is open.").await;
        page.is("document.querySelector('#token').value", json!("")).await;
        page.clicks("#sign-out").await;
        page.shows("#sign-in-title", "Show a live").await;
        page.does_not_complain();
    }

    async fn somebody_elses_live_is_not_shown() {
        let world = guarded().await;
        world.admin().send(reqwest::Method::PUT, "/v1/lives/42", Some(r#"{"streamer_id":"s1"}"#)).await.problem(401);
        let owner = format!("http://{}/#token={}&live=42", world.addr, token_of("s1", "streamer"));
        let owner = Visitor::comes().await.visits(owner).await;
        owner.clicks("#open-form button").await;
        owner.shows("#viewers", "0").await;
        drop(owner);
        let other = format!("http://{}/#token={}&live=42", world.addr, token_of("s2", "streamer"));
        let page = Visitor::comes().await.visits(other).await;
        page.shows("#state-text", "This user may not see this live.").await;
        page.hides("#lists").await;
        page.does_not_complain();
    }

    async fn there_is_no_viewer_page_where_tokens_are_asked_for() {
        let world = guarded().await;
        world.backend().get("/demo").await.problem(404);
        let answer: Value = world.backend().get("/openapi.json").await.is(200).body;
        assert!(answer["paths"].get("/demo").is_none());
    }
}
