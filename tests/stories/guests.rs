//! Viewers without an account: they are counted, apart from the others, and are in nothing that is
//! about users. A guest who signs in stays in the live.

use std::time::Duration;

use serde_json::json;
use tokio_tungstenite::tungstenite::Error;

use crate::support::dashboard::{Dashboard, fans, viewers};
use crate::support::socket::Socket;
use crate::support::stores::{on_both_stores, on_memory, on_redis};
use crate::support::tokens::{in_seconds, mint, with_tokens};

on_both_stores! {
    async fn guests_are_counted_among_the_viewers_and_apart(world) {
        world.open("42").await;
        world.follow(&["u1"]).await;
        let mut dashboard = world.dashboard("42").await;
        let guest = world.viewer_in("~u1", "42").await;
        let user = world.viewer_in("u1", "42").await;
        let seen = dashboard.sees(viewers(2), fans(1)).await;
        assert_eq!(seen.number("guests"), 1, "{:?}", seen.json);
        let ack = world.viewer_in("~u2", "42").await.heartbeat_json().await;
        assert_eq!((&ack["fan"], &ack["guests"]), (&json!(false), &json!(2)), "{ack}");
        guest.close().await;
        user.close().await;
        let seen = dashboard.sees(viewers(0), fans(0)).await;
        assert_eq!(seen.number("guests"), 0, "{:?}", seen.json);
    }
}

on_redis! {
    async fn no_set_that_others_read_has_a_guest(world) {
        world.open("42").await;
        let _guest = world.viewer_in("~g1", "42").await;
        let _user = world.viewer_in("u1", "42").await;
        let mut dashboard = world.dashboard("42").await;
        dashboard.sees(viewers(2), fans(0)).await;
        let redis = world.redis();
        let set = redis.members_of("{online-fans:42}:viewers").await;
        assert_eq!(set, ["u1".to_owned()].into());
        let who = redis.members_of("{online-fans:42}:who").await;
        assert_eq!(who, ["u1".to_owned(), "~g1".to_owned()].into());
    }
}

on_memory! {
    tuned(with_tokens)
    async fn a_guest_who_signs_in_stays_and_no_count_moves(world) {
        let mut streamer = world.bearer(json!({"sub": "s1", "role": "streamer"})).await;
        streamer.open("42").await;
        let mut dashboard = Dashboard::at(world.bearer(json!({"sub": "back", "role": "service"})).await);
        dashboard.watch("42").await;
        let mut viewer = world.bearer(json!({"sub": "abc", "guest": true})).await;
        viewer.join("42").await;
        let seen = dashboard.sees(viewers(1), fans(0)).await;
        assert_eq!(seen.number("guests"), 1);
        let token = mint(&json!({"sub": "u1", "exp": in_seconds(60)}));
        let answer = viewer.ask(json!({"type": "refresh", "token": token})).await;
        assert_eq!(answer["type"], "refreshed", "{answer}");
        dashboard.sees_that("no guest", |counts| counts.number("guests") == 0).await;
        assert!(dashboard.log.iter().skip_while(|c| c.number("viewers") == 0).all(|c| c.number("viewers") == 1),
            "{}", dashboard.seen());
        viewer.heartbeat_json().await;
        // A user does not become another one.
        let token = mint(&json!({"sub": "u2", "exp": in_seconds(60)}));
        viewer.is_refused(json!({"type": "refresh", "token": token}), "forbidden").await;
        viewer.close().await;
        dashboard.sees(viewers(0), fans(0)).await;
    }
}

on_memory! {
    tuned(with_tokens)
    async fn a_guest_is_no_user(world) {
        let exp = in_seconds(60);
        for (claims, why) in [
            (json!({"sub": "x".repeat(64), "guest": true, "exp": exp}), "sub"),
            (json!({"sub": "~abc", "exp": exp}), "claims"),
            (json!({"sub": "abc", "guest": true, "role": "streamer", "exp": exp}), "role"),
        ] {
            let token = mint(&claims);
            let bearer = [("authorization", &*format!("Bearer {token}"))];
            let Err(Error::Http(answer)) = Socket::connect(world.addr, "/ws", &bearer).await else {
                panic!("{claims} was let in");
            };
            let body = String::from_utf8(answer.body().clone().unwrap_or_default()).unwrap();
            assert!(answer.status() == 401 && body.contains(why), "{body}");
        }
        let mut guest = world.bearer(json!({"sub": "abc", "guest": true})).await;
        guest.is_refused(json!({"type": "join", "live_id": "42", "friends": true}), "forbidden").await;
        guest.is_refused(json!({"type": "open", "live_id": "42"}), "forbidden").await;
        guest.hears_no("error", Duration::from_millis(50)).await;
    }
}
