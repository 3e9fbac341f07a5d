//! Hosts of a live: they watch it, moderate in it, publish to it and keep it open as its streamer
//! does, from the moment in which they are appointed until they are dismissed, on every gateway.

use std::time::Duration;

use reqwest::Method;
use rollcall::config::Config;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::support::backend::Answer;
use crate::support::dashboard::Dashboard;
use crate::support::media::{Nginx, with_nginx};
use crate::support::presence::Events;
use crate::support::redis_view::Redis;
use crate::support::stores::{on_both_stores, on_memory, on_redis, story};
use crate::support::tokens::{in_seconds, mint, with_tokens};
use crate::support::viewer::Viewer;
use crate::support::wait::{PATIENCE, SLACK, becomes, same, until};
use crate::support::world::World;

const REMOVED: u16 = 4_003;
const LIVE: &str = "/v1/lives/42";
/// As in the story of erasures.
const ERASED_WITHIN: Duration = Duration::from_secs(60);
const TIMEOUT: Duration = Duration::from_secs(2);

fn watch(live: &str) -> Value {
    json!({"type": "watch", "live_id": live})
}

async fn hosted_by(world: &World, hosts: Value) {
    let changed = world.backend().patch(LIVE, json!({"hosts": hosts})).await;
    assert_eq!(changed.is(200).body["hosts"], hosts);
}

/// A user watches live 42, with the token of a viewer.
async fn watches(world: &World, user: &str) -> Dashboard {
    let mut dashboard = Dashboard::at(world.viewer(user).await);
    dashboard.watch("42").await;
    dashboard
}

async fn may_not_watch(world: &World, user: &str) {
    let mut viewer = world.viewer(user).await;
    viewer.is_refused(watch("42"), "forbidden").await;
}

/// Waits until a gateway knows that the user hosts live 42, or that the user does not.
async fn is_known(world: &World, user: &str, is_host: bool) {
    until("the gateway knows", PATIENCE, async || {
        let mut viewer = world.viewer(user).await;
        let you = viewer.join("42").await["you"]["host"].clone();
        same(you == true, is_host)
    })
    .await;
}

on_both_stores! {
    async fn hosts_are_in_the_record_from_the_opening_to_the_end(world) {
        let body = json!({"streamer_id": "s1", "hosts": ["h1", "h2"]});
        let opened = world.backend().put(LIVE, body.clone()).await.is(201).body;
        assert_eq!(opened["hosts"], json!(["h1", "h2"]));
        let same = world.backend().put(LIVE, body).await.is(200).body;
        assert_eq!(same, opened, "no new version, and no other epoch");
        // What a body leaves out stays.
        let body = json!({"streamer_id": "s1", "title": "Duet"});
        assert_eq!(world.backend().put(LIVE, body).await.is(200).body["hosts"], opened["hosts"]);
        let body = json!({"streamer_id": "s1", "hosts": ["h2"]});
        assert_eq!(world.backend().put(LIVE, body).await.is(200).body["hosts"], json!(["h2"]));
        hosted_by(&world, json!(["h2", "h3"])).await;
        let changed = world.backend().patch(LIVE, json!({"title": "Trio"})).await.is(200).body;
        assert_eq!(changed["hosts"], json!(["h2", "h3"]));
        assert_eq!(world.backend().live("42").await["hosts"], json!(["h2", "h3"]));
        let listed = world.backend().list("/v1/lives", 10).await;
        assert_eq!(listed[0]["hosts"], json!(["h2", "h3"]));
        assert_eq!(world.backend().close("42").await["hosts"], json!(["h2", "h3"]));
        world.open("42").await;
        assert_eq!(world.backend().live("42").await["hosts"], json!([]), "of the next opening");
        hosted_by(&world, json!(["h1"])).await;
        let changed = world.backend().patch(LIVE, json!({"hosts": null})).await.is(200).body;
        assert_eq!(changed["hosts"], json!([]));
    }
}

on_memory! {
    async fn a_wrong_host_is_named(world) {
        world.open("42").await;
        let many: Vec<String> = (0..13).map(|n| format!("h{n}")).collect();
        for (hosts, pointer, code) in [
            (json!(["h1", "not an id"]), "/hosts/1", "invalid_id"),
            (json!(["h1", "h2", "h1"]), "/hosts/2", "bad_message"),
            (json!(["~guest"]), "/hosts/0", "invalid_id"),
            (json!(many), "/hosts", "bad_message"),
            (json!(["h1", 7]), "/hosts/1", "bad_message"),
            (json!("h1"), "/hosts", "bad_message"),
        ] {
            for answer in [
                world.backend().patch(LIVE, json!({"hosts": hosts})).await,
                world.backend().put(LIVE, json!({"streamer_id": "s1", "hosts": hosts})).await,
                world.backend().put("/v1/lives/43", json!({"streamer_id": "s1", "hosts": hosts})).await,
            ] {
                assert_eq!((answer.problem(400).as_str(), &answer.body["pointer"]), (code, &json!(pointer)), "{hosts}");
            }
        }
        for answer in [
            world.backend().patch(LIVE, json!({"hosts": ["h1", "s1"]})).await,
            world.backend().put(LIVE, json!({"streamer_id": "s1", "hosts": ["h1", "s1"]})).await,
        ] {
            assert_eq!((answer.problem(403).as_str(), &answer.body["pointer"]), ("forbidden", &json!("/hosts/1")));
        }
        hosted_by(&world, json!(many[..12])).await;
        world.backend().get("/v1/lives/43").await.problem(404);
        // The streamer cannot be named by another way either.
        let other = json!({"streamer_id": "h0", "hosts": []});
        assert_eq!(world.backend().put(LIVE, other).await.problem(409), "live_owned");
        assert_eq!(world.backend().live("42").await["hosts"], json!(many[..12]));
    }
}

on_both_stores! {
    async fn a_host_watches_until_the_dismissal(world) {
        world.open("42").await;
        may_not_watch(&world, "h1").await;
        let mut seated = world.viewer_in("h1", "42").await;
        hosted_by(&world, json!(["h1"])).await;
        let you = seated.expect("you").await;
        assert_eq!(you, json!({"type": "you", "live_id": "42", "moderator": false, "host": true}));
        let mut dashboard = watches(&world, "h1").await;
        let mut other = world.viewer("h1").await;
        assert_eq!(other.join("42").await["you"], json!({"moderator": false, "host": true}));
        hosted_by(&world, json!(["h2"])).await;
        assert_eq!(seated.expect("you").await["host"], false);
        assert_eq!(dashboard.expect("unwatched").await["live_id"], "42");
        may_not_watch(&world, "h1").await;
        let mut late = watches(&world, "h2").await;
        // A dismissal that was never answered holds in the next opening, too.
        world.backend().close("42").await;
        assert_eq!(late.expect("closed").await["live_id"], "42");
        world.open("42").await;
        may_not_watch(&world, "h2").await;
    }
}

on_redis! {
    async fn a_host_of_one_gateway_is_dismissed_through_another(world) {
        world.open("42").await;
        let other = world.another_gateway().await;
        let mut here = world.viewer_in("h1", "42").await;
        let mut there = other.viewer_in("h1", "42").await;
        hosted_by(&world, json!(["h1"])).await;
        for socket in [&mut here, &mut there] {
            assert_eq!(socket.expect("you").await["host"], true);
        }
        let mut dashboard = watches(&world, "h1").await;
        let mut elsewhere = watches(&other, "h1").await;
        hosted_by(&other, json!([])).await;
        for socket in [&mut here, &mut there] {
            assert_eq!(socket.expect("you").await["host"], false);
        }
        dashboard.expect("unwatched").await;
        elsewhere.expect("unwatched").await;
        for gateway in [&world, &other, &world.another_gateway().await] {
            may_not_watch(gateway, "h1").await;
        }
    }
}

on_redis! {
    async fn hosts_come_back_after_redis_lost_its_data(world) {
        world.open("42").await;
        let other = world.another_gateway().await;
        let _crowd = world.crowd("a", 1, "42").await;
        let _there = other.crowd("b", 1, "42").await;
        hosted_by(&world, json!(["h1", "h2"])).await;
        is_known(&other, "h2", true).await;
        hosted_by(&other, json!(["h2"])).await;
        is_known(&world, "h1", false).await;
        world.redis().ask(&["FLUSHALL"]).await;
        becomes("the hosts in the record", json!("h2"), async || {
            world.redis().ask(&["HGET", "live:42", "hosts"]).await
        })
        .await;
        for gateway in [&world, &other] {
            is_known(gateway, "h2", true).await;
            is_known(gateway, "h1", false).await;
            assert_eq!(gateway.backend().live("42").await["hosts"], json!(["h2"]));
        }
    }
}

on_both_stores! {
    async fn a_banned_user_is_no_host_and_a_host_is_not_banned_here(world) {
        world.open("42").await;
        world.backend().ban("42", "h1", 600).await;
        let refused = world.backend().patch(LIVE, json!({"hosts": ["h2", "h1"]})).await;
        assert_eq!((refused.problem(403).as_str(), &refused.body["pointer"]), ("banned", &json!("/hosts/1")));
        let body = json!({"streamer_id": "s1", "hosts": ["h1"]});
        assert_eq!(world.backend().put(LIVE, body).await.problem(403), "banned");
        assert_eq!(world.backend().live("42").await["hosts"], json!([]));
        world.backend().delete("/v1/lives/42/bans/h1").await.is(200);
        hosted_by(&world, json!(["h1"])).await;
        let ban = json!({"ban_s": 60});
        let refused = world.backend().put("/v1/lives/42/bans/h1", ban.clone()).await;
        assert_eq!(refused.problem(403), "forbidden");
        let body = Some(r#"{"ban_s":60}"#);
        let refused = world.backend().send(Method::DELETE, "/v1/lives/42/viewers/h1", body).await;
        assert_eq!(refused.problem(403), "forbidden");
        // The streamer, or a back end, may send a host out once.
        let mut host = world.viewer_in("h1", "42").await;
        world.backend().remove("42", "h1").await.is(200);
        host.expect_closed(REMOVED).await;
        watches(&world, "h1").await.is_connected().await;
        // Others whose id only begins like it are no hosts.
        world.backend().put("/v1/lives/42/bans/h", ban.clone()).await.is(200);
        world.backend().put("/v1/lives/42/bans/h11", ban).await.is(200);
        // Lasting bans keep a user from being a host, and a host from everything.
        world.backend().put("/v1/streamers/s1/bans/h2", json!({})).await.is(200);
        let refused = world.backend().patch(LIVE, json!({"hosts": ["h2"]})).await;
        assert_eq!((refused.problem(403).as_str(), &refused.body["pointer"]), ("banned", &json!("/hosts/0")));
        let mut dashboard = watches(&world, "h1").await;
        world.backend().put("/v1/streamers/s1/bans/h1", json!({})).await.is(200);
        dashboard.expect("unwatched").await;
        may_not_watch(&world, "h1").await;
        world.backend().delete("/v1/streamers/s1/bans/h1").await.is(200);
        until("the host watches again", PATIENCE, async || {
            let answer = world.viewer("h1").await.ask(watch("42")).await;
            same(answer["type"].clone(), json!("counts"))
        })
        .await;
    }
}

fn token(user: &str, role: &str) -> String {
    let claims = json!({"sub": user, "role": role, "exp": in_seconds(600), "iat": in_seconds(0)});
    format!("Bearer {}", mint(&claims))
}

async fn call(
    world: &World,
    method: Method,
    path: &str,
    token: &str,
    body: Option<&str>,
) -> Answer {
    let headers = [("authorization", token)];
    let backend = world.backend();
    backend.send_with(method, path, body, &headers).await
}

async fn bearer_in(world: &World, user: &str) -> Viewer {
    let mut viewer = world
        .bearer(json!({"sub": user, "iat": in_seconds(0)}))
        .await;
    viewer.join("42").await;
    viewer
}

/// The host asks more often than one user may.
fn unhurried(config: &mut Config) {
    with_tokens(config);
    config.user_rate = 100_000;
}

on_memory! {
    tuned(unhurried)
    async fn a_host_moderates_in_the_live_and_nowhere_else(world) {
        let service = token("backend", "service");
        let streamer = token("s1", "streamer");
        let moderator = token("m1", "viewer");
        let host = token("h1", "viewer");
        let body = Some(r#"{"streamer_id":"s1"}"#);
        for live in ["42", "43"] {
            call(&world, Method::PUT, &format!("/v1/lives/{live}"), &service, body).await.is(201);
        }
        call(&world, Method::PUT, "/v1/streamers/s1/moderators/m1", &streamer, None).await.is(200);
        let refused = call(&world, Method::PATCH, LIVE, &host, Some(r#"{"hosts":["h1"]}"#)).await;
        assert_eq!(refused.problem(403), "forbidden");
        let hosts = Some(r#"{"hosts":["h1","h2"]}"#);
        call(&world, Method::PATCH, LIVE, &streamer, hosts).await.is(200);
        for path in ["", "/viewers", "/fans", "/bans", "/history"] {
            call(&world, Method::GET, &format!("{LIVE}{path}"), &host, None).await.is(200);
            let other = call(&world, Method::GET, &format!("/v1/lives/43{path}"), &host, None).await;
            assert_eq!(other.problem(403), "forbidden");
        }
        let ban = Some(r#"{"ban_s":60}"#);
        let mut viewer = bearer_in(&world, "u1").await;
        call(&world, Method::DELETE, "/v1/lives/42/viewers/u1", &host, None).await.is(200);
        viewer.expect_closed(REMOVED).await;
        let mut viewer = bearer_in(&world, "u1").await;
        call(&world, Method::PUT, "/v1/lives/42/bans/u1", &host, ban).await.is(200);
        viewer.expect_closed(REMOVED).await;
        call(&world, Method::DELETE, "/v1/lives/42/bans/u1", &host, None).await.is(200);
        // Nobody of the streamer's people is touched by another one.
        for user in ["s1", "h2", "m1", "h1"] {
            for (method, path, body) in [
                (Method::DELETE, format!("/v1/lives/42/viewers/{user}"), None),
                (Method::DELETE, format!("/v1/lives/42/viewers/{user}"), ban),
                (Method::PUT, format!("/v1/lives/42/bans/{user}"), ban),
                (Method::PUT, format!("/v1/streamers/s1/bans/{user}"), ban),
            ] {
                for by in [&host, &moderator] {
                    let refused = call(&world, method.clone(), &path, by, body).await;
                    assert_eq!(refused.problem(403), "forbidden", "{method} {path}");
                }
            }
        }
        for (method, path, body) in [
            (Method::PATCH, LIVE, Some(r#"{"title":"Mine"}"#)),
            (Method::PUT, LIVE, Some(r#"{"streamer_id":"h1"}"#)),
            (Method::DELETE, LIVE, None),
            (Method::PUT, "/v1/lives/42/info", Some("{}")),
            (Method::PUT, "/v1/streamers/s1/bans/u1", ban),
            (Method::GET, "/v1/streamers/s1/bans", None),
            (Method::PUT, "/v1/streamers/s1/moderators/h1", None),
            (Method::PUT, "/v1/lives/43/bans/u1", ban),
            (Method::DELETE, "/v1/lives/43/viewers/u1", None),
        ] {
            let refused = call(&world, method.clone(), path, &host, body).await;
            assert_eq!(refused.problem(403), "forbidden", "{method} {path}");
        }
        // A stream of events is a dashboard, too.
        let path = format!("{LIVE}/events?token={}", host.trim_start_matches("Bearer "));
        let mut events = Events::at(&world, &path).await;
        events.hears("counts", |_| true).await;
        call(&world, Method::PATCH, LIVE, &streamer, Some(r#"{"hosts":["h2"]}"#)).await.is(200);
        events.hears("unauthorized", |_| true).await;
        events.ends().await;
        assert_eq!(call(&world, Method::GET, LIVE, &host, None).await.problem(403), "forbidden");
        let refused = call(&world, Method::PUT, "/v1/lives/42/bans/u1", &host, ban).await;
        assert_eq!(refused.problem(403), "forbidden");
    }
}

#[test]
fn a_moderators_ban_through_a_gateway_that_does_not_know_the_host_keeps_no_host_out() {
    story(async {
        let redis = Redis::start().await;
        let world = World::beside(redis.clone(), with_tokens).await;
        let other = World::beside(redis, with_tokens).await;
        let service = token("backend", "service");
        let body = Some(r#"{"streamer_id":"s1","hosts":["h1"]}"#);
        call(&world, Method::PUT, LIVE, &service, body)
            .await
            .is(201);
        let appoint = "/v1/streamers/s1/moderators/m1";
        call(&other, Method::PUT, appoint, &service, None)
            .await
            .is(200);
        let mut host = bearer_in(&world, "h1").await;
        let ban = "/v1/streamers/s1/bans/h1";
        // The other gateway has no room of the live.
        call(&other, Method::PUT, ban, &token("m1", "viewer"), None)
            .await
            .is(200);
        assert!(host.is_connected().await);
        bearer_in(&world, "h1").await.close().await;
        bearer_in(&other, "h1").await.close().await;
        // The ban of the dismissed host holds at once.
        call(
            &other,
            Method::PATCH,
            LIVE,
            &service,
            Some(r#"{"hosts":[]}"#),
        )
        .await
        .is(200);
        host.expect_closed(REMOVED).await;
    });
}

// --------------------------------------------------------------------------- who keeps a live open

fn short(config: &mut Config) {
    config.streamer_timeout = Some(TIMEOUT);
}

on_both_stores! {
    tuned(short)
    async fn a_live_lasts_while_its_streamer_or_a_host_is_there(world) {
        let mut streamer = world.streamer("s1").await;
        streamer.open("42").await;
        hosted_by(&world, json!(["h1", "h2"])).await;
        let first = world.viewer_in("h1", "42").await;
        streamer.vanish();
        world.stays_open(TIMEOUT * 2).await;
        let mut second = world.viewer("h2").await;
        assert_eq!(second.ask(watch("42")).await["type"], "counts");
        first.close().await;
        world.stays_open(TIMEOUT * 2).await;
        let gone = Instant::now();
        second.close().await;
        world.live_becomes_within("42", "closed", TIMEOUT + PATIENCE).await;
        let took = gone.elapsed();
        let bound = TIMEOUT + world.config.lease_refresh * 2 + SLACK;
        assert!(took < bound, "closed only after {took:?}");
        assert_eq!(world.backend().live("42").await["reason"], "streamer_timeout");
    }
}

on_memory! {
    tuned(short)
    async fn a_host_who_left_the_live_or_is_dismissed_keeps_it_open_no_longer(world) {
        let mut streamer = world.streamer("s1").await;
        streamer.open("42").await;
        hosted_by(&world, json!(["h1"])).await;
        let mut host = world.viewer_in("h1", "42").await;
        streamer.close().await;
        world.stays_open(TIMEOUT * 2).await;
        // A viewer's socket in no live says nothing about the lives that its user hosts.
        host.leave().await;
        world.stays_open(TIMEOUT / 2).await;
        host.join("42").await;
        world.stays_open(TIMEOUT * 2).await;
        hosted_by(&world, json!([])).await;
        world.live_becomes_within("42", "closed", TIMEOUT + PATIENCE).await;
        host.expect("closed").await;
        assert!(host.is_connected().await);
    }
}

on_memory! {
    tuned(short)
    async fn a_viewer_who_becomes_a_host_keeps_the_live_open_from_then_on(world) {
        let mut streamer = world.streamer("s1").await;
        streamer.open("42").await;
        let host = world.caller("h1", "42").await;
        let beating = host.keeps_beating(&[&world]);
        hosted_by(&world, json!(["h1"])).await;
        streamer.close().await;
        world.stays_open(TIMEOUT * 2).await;
        drop(beating);
        world.live_becomes_within("42", "closed", TIMEOUT + world.config.timeout + PATIENCE).await;
    }
}

#[test]
fn a_host_holds_until_the_lease_of_a_killed_gateway_has_ended() {
    story(async {
        let redis = Redis::start().await;
        let mut doomed = World::program(redis.clone()).await;
        let world = World::beside(redis, |_| ()).await;
        let body = json!({"streamer_id": "s1", "streamer_timeout_s": 2, "hosts": ["h1", "h2"]});
        world.backend().put(LIVE, body).await.is(201);
        let host = doomed.viewer_in("h1", "42").await;
        let mut elsewhere = world.viewer_in("h2", "42").await;
        world.stays_open(TIMEOUT * 2).await;
        doomed.process().kill();
        world.stays_open(TIMEOUT + world.sweep_bound()).await;
        elsewhere.leave().await;
        world
            .live_becomes_within("42", "closed", TIMEOUT + PATIENCE)
            .await;
        drop(host);
    });
}

#[test]
fn the_death_of_the_last_hosts_gateway_closes_the_live() {
    story(async {
        let redis = Redis::start().await;
        let mut doomed = World::program(redis.clone()).await;
        let world =
            World::beside(redis, |config| config.check_every = Duration::from_secs(1)).await;
        world.takes_the_sweepers_turn().await;
        let body = json!({"streamer_id": "s1", "streamer_timeout_s": 2, "hosts": ["h1"]});
        world.backend().put(LIVE, body).await.is(201);
        let _host = doomed.viewer_in("h1", "42").await;
        world.stays_open(TIMEOUT * 2).await;
        doomed.process().kill();
        // It holds as long as its gateway counts as alive.
        world.stays_open(world.config.lease / 2).await;
        let bound = world.sweep_bound() + TIMEOUT + world.config.check_every + PATIENCE;
        world.live_becomes_within("42", "closed", bound).await;
    });
}

on_memory! {
    tuned(|config: &mut Config| {
        short(config);
        with_nginx(config);
        config.stream_grace = TIMEOUT;
    })
    async fn a_hosts_stream_opens_nothing_and_keeps_the_open_live_open(world) {
        let nginx = Nginx::calling(&world, "main");
        let mut streamer = world.streamer("s1").await;
        streamer.open("42").await;
        let epoch = world.epoch("42").await;
        let refused = nginx.publish(1, "42", "streamer_id=h1").await;
        assert!(refused.status >= 400, "{refused:?}");
        hosted_by(&world, json!(["h1", "h2"])).await;
        nginx.publish(2, "42", "streamer_id=h1").await.is(200);
        becomes("the stream", json!("live"), async || {
            world.backend().live("42").await["stream"]["state"].clone()
        })
        .await;
        streamer.close().await;
        world.stays_open(TIMEOUT * 2).await;
        let live = world.backend().live("42").await;
        assert_eq!((&live["streamer_id"], &live["opened_by"]), (&json!("s1"), &json!("streamer")));
        assert_eq!(world.epoch("42").await, epoch);
        // Who is no host any more publishes no more.
        hosted_by(&world, json!(["h2"])).await;
        let refused = nginx.publish(3, "42", "streamer_id=h1").await;
        assert!(refused.status >= 400, "{refused:?}");
        nginx.done(2, "42").await;
        world.live_becomes_within("42", "closed", TIMEOUT * 2 + PATIENCE).await;
        // A host whose software goes on publishing takes the closed live over from nobody.
        let refused = nginx.publish(4, "42", "streamer_id=h2").await;
        assert!(refused.status >= 400, "{refused:?}");
        assert_eq!(world.backend().live("42").await["state"], "closed");
    }
}

on_both_stores! {
    async fn an_erased_user_hosts_nothing(world) {
        world.open("42").await;
        hosted_by(&world, json!(["h1", "h2"])).await;
        world.backend().open("43", "s2").await;
        world.backend().patch("/v1/lives/43", json!({"hosts": ["h1"]})).await.is(200);
        world.backend().close("43").await;
        world.backend().delete("/v1/users/h1").await.is(202);
        let refused = world.backend().patch(LIVE, json!({"hosts": ["h1"]})).await;
        assert_eq!((refused.problem(409).as_str(), &refused.body["pointer"]), ("being_erased", &json!("/hosts/0")));
        for (live, left) in [("42", json!(["h2"])), ("43", json!([]))] {
            until("the hosts who are left", ERASED_WITHIN, async || {
                let body = json!({"live_ids": [live]});
                let known = world.backend().post("/v1/lives:query", body).await.is(200).body;
                same(known["items"][0]["hosts"].clone(), left.clone())
            })
            .await;
        }
    }
}
