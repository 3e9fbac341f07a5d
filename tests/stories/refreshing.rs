//! A token ends its socket when it expires, unless the client presents a new one before; a new one
//! never gives more rights.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use crate::support::stores::{on_memory, on_redis};
use crate::support::tokens::{in_seconds, mint, with_tokens};
use crate::support::wait::SLACK;

/// How far clocks may differ, in seconds: a token is good for so long after its `exp`.
const LEEWAY: i64 = 30;

fn until(unix: i64) -> Duration {
    Duration::from_secs((unix - in_seconds(0)).max(0) as u64)
}

on_memory! {
    tuned(with_tokens)
    async fn a_socket_ends_when_its_token_expires_whether_or_not_it_speaks(world) {
        let exp = in_seconds(2 - LEEWAY);
        let mut silent = world.bearer(json!({"sub": "u1", "exp": exp})).await;
        let mut talks = world.bearer(json!({"sub": "u2", "exp": exp})).await;
        let started = Instant::now();
        while talks.hear_kind("closed", Instant::now() + Duration::from_millis(200)).await.is_none() {
            if talks.has_ended() {
                break;
            }
            talks.say(json!({"type": "heartbeat"})).await;
        }
        assert!(in_seconds(0) >= exp + LEEWAY, "closed before its token expired");
        assert!(started.elapsed() < Duration::from_secs(3) + SLACK, "closed after {:?}", started.elapsed());
        talks.expect_closed(4_001).await;
        silent.expect_closed(4_001).await;
    }
}

on_memory! {
    tuned(with_tokens)
    async fn a_refresh_keeps_the_socket_beyond_its_first_token(world) {
        let first = in_seconds(2 - LEEWAY);
        let mut viewer = world.bearer(json!({"sub": "u1", "exp": first})).await;
        let exp = in_seconds(60);
        let answer = viewer.ask(json!({"type": "refresh", "token": mint(&json!({"sub": "u1", "exp": exp}))})).await;
        assert_eq!((&answer["type"], &answer["expires_at"]), (&json!("refreshed"), &json!(exp * 1_000)));
        viewer.hears_no("error", until(first + LEEWAY) + Duration::from_secs(1) + SLACK).await;
        viewer.heartbeat_json().await;
    }
}

on_memory! {
    tuned(with_tokens)
    async fn a_refresh_that_would_change_the_user_or_raise_the_role_is_forbidden(world) {
        let exp = in_seconds(3_600);
        let mut streamer = world.bearer(json!({"sub": "s1", "role": "streamer"})).await;
        let bad = [
            json!({"sub": "s2", "role": "streamer", "exp": exp}),
            json!({"sub": "s1", "role": "service", "exp": exp}),
            json!({"sub": "s1", "role": "streamer", "exp": in_seconds(-LEEWAY - 5)}),
            json!({"sub": "s1", "role": "streamer"}),
        ];
        for claims in bad {
            let token = mint(&claims);
            let error = streamer.is_refused(json!({"type": "refresh", "token": token}), "forbidden").await;
            assert!(!error.to_string().contains(&token), "{error}");
        }
        streamer.is_refused(json!({"type": "refresh", "token": "no token"}), "forbidden").await;
        streamer.is_refused(json!({"type": "refresh"}), "bad_message").await;
        // The socket goes on with the token that it has.
        streamer.open("42").await;
    }
}

on_memory! {
    tuned(|config| {
        with_tokens(config);
        config.streamer_timeout = Some(Duration::from_millis(500));
    })
    async fn a_lower_role_applies_to_what_follows(world) {
        let mut streamer = world.bearer(json!({"sub": "s1", "role": "streamer"})).await;
        streamer.open("42").await;
        let mut viewer = world.bearer(json!({"sub": "u1"})).await;
        viewer.join("42").await;
        let token = mint(&json!({"sub": "s1", "exp": in_seconds(60)}));
        streamer.ask(json!({"type": "refresh", "token": token})).await;
        streamer.is_refused(json!({"type": "open", "live_id": "43"}), "forbidden").await;
        streamer.is_refused(json!({"type": "close", "live_id": "42"}), "forbidden").await;
        // The streamer has no socket as a streamer any more, though this one is open.
        assert_eq!(viewer.expect("closed").await["reason"], "streamer_timeout");
        let token = mint(&json!({"sub": "s1", "role": "streamer", "exp": in_seconds(60)}));
        streamer.is_refused(json!({"type": "refresh", "token": token}), "forbidden").await;
    }
}

on_memory! {
    tuned(with_tokens)
    async fn a_dashboard_that_becomes_a_viewer_watches_no_longer(world) {
        let mut dashboard = world.bearer(json!({"sub": "b", "role": "service"})).await;
        dashboard.ask(json!({"type": "open", "live_id": "42", "streamer_id": "s1"})).await;
        dashboard.ask(json!({"type": "watch", "live_id": "42"})).await;
        let token = mint(&json!({"sub": "b", "exp": in_seconds(60)}));
        dashboard.ask(json!({"type": "refresh", "token": token})).await;
        let mut viewer = world.bearer(json!({"sub": "u1"})).await;
        viewer.join("42").await;
        dashboard.hears_no("counts", world.config.flush * 10).await;
    }
}

on_memory! {
    tuned(with_tokens)
    async fn a_new_token_ends_the_watches_that_it_does_not_allow(world) {
        let mut service = world.bearer(json!({"sub": "s1", "role": "service"})).await;
        service.ask(json!({"type": "open", "live_id": "42", "streamer_id": "s9"})).await;
        service.ask(json!({"type": "watch", "live_id": "42"})).await;
        let mut other = world.bearer(json!({"sub": "b", "role": "service"})).await;
        other.ask(json!({"type": "watch", "live_id": "42"})).await;
        let exp = in_seconds(60);
        let streamer = mint(&json!({"sub": "s1", "role": "streamer", "exp": exp}));
        assert_eq!(service.ask(json!({"type": "refresh", "token": streamer})).await["type"], "refreshed");
        let elsewhere = mint(&json!({"sub": "b", "role": "service", "lives": ["43"], "exp": exp}));
        assert_eq!(other.ask(json!({"type": "refresh", "token": elsewhere})).await["type"], "refreshed");
        let mut viewer = world.bearer(json!({"sub": "u1"})).await;
        viewer.join("42").await;
        service.hears_no("counts", world.config.flush * 10).await;
        other.hears_no("counts", world.config.flush * 10).await;
    }
}

on_redis! {
    async fn without_tokens_there_is_nothing_to_refresh(world) {
        let token = mint(&json!({"sub": "u1", "exp": in_seconds(60)}));
        world.viewer("u1").await.is_refused(json!({"type": "refresh", "token": token}), "forbidden").await;
    }
}
