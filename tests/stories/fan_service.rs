//! The platform's own service knows the fans: `--fan-source http`. It may be slow, broken or lying,
//! and nobody is turned away for it: a known fan stays one, and who is unknown is a viewer until
//! the service answers.

use std::time::Duration;

use futures_util::{StreamExt, stream};
use rollcall::base::secret::Secret;
use rollcall::config::{Config, FanSource};
use serde_json::{Value, json};

use crate::support::certificates::Certificates;
use crate::support::command::rollcall;
use crate::support::fan_service::{FanService, Mood, Question};
use crate::support::stores::story;
use crate::support::tls_door::tls_before;
use crate::support::viewer::Viewer;
use crate::support::wait::{BACK, PATIENCE, SLACK, becomes, fits, same, until};
use crate::support::world::World;

fn asks(service: &FanService) -> impl FnOnce(&mut Config) {
    let url = Secret::new(service.url());
    |config| {
        config.fan_source = FanSource::Http;
        config.fan_url = Some(url);
        config.fan_timeout = Duration::from_millis(400);
        config.fan_ttl = Duration::from_millis(500);
        config.fan_calls = 2;
    }
}

/// A gateway on Redis with live 42 that asks this service.
async fn world_of(service: &FanService) -> World {
    let world = World::on_redis(asks(service)).await;
    world.open("42").await;
    world
}

async fn says(viewer: &mut Viewer, fan: Option<bool>) {
    assert_eq!(viewer.heartbeat().await.fan, fan);
}

#[test]
fn fan_is_null_until_the_first_check_has_answered() {
    story(async {
        let service = FanService::start(&[]).await;
        service.is(Mood::Silent);
        let world = world_of(&service).await;
        let mut viewer = world.viewer_in("u1", "42").await;
        let ack = viewer.heartbeat_json().await;
        assert_eq!(
            ack.get("fan"),
            Some(&Value::Null),
            "said, not left out: {ack}"
        );
        service.is(Mood::Right);
        world.acks_become(&mut viewer, Some(false), 1, 0).await;
    });
}

#[test]
fn the_service_says_who_is_a_fan_and_who_no_longer_is() {
    story(async {
        let service = FanService::start(&["u1", "u3"]).await;
        let dir = tempfile::tempdir().unwrap();
        let secret = dir.path().join("token");
        std::fs::write(&secret, "let-me-in\n").unwrap();
        for on_redis in [true, false] {
            let tune = |config: &mut Config| {
                asks(&service)(config);
                config.fan_secret_file = Some(secret.clone());
            };
            let world = if on_redis {
                World::on_redis(tune).await
            } else {
                World::on_memory(tune).await
            };
            world.open("42").await;
            // The store's own follows are not asked.
            world.follow(&["u2"]).await;
            let mut crowd = world.crowd("u", 4, "42").await;
            world
                .fans_become_within("42", &["u1", "u3"], world.config.flush * 3 + SLACK)
                .await;
            world.acks_become(&mut crowd[1], Some(true), 4, 2).await;
            world.acks_become(&mut crowd[2], Some(false), 4, 2).await;
            service.knows(&["u2"]);
            world
                .fans_become_within("42", &["u2"], world.config.fan_ttl + SLACK)
                .await;
            service.knows(&["u1", "u3"]);
            world.fans_become("42", &["u1", "u3"]).await;
            world.stop().await;
        }
        for question in service.questions().iter() {
            assert_eq!(question.authorization.as_deref(), Some("Bearer let-me-in"));
            assert_eq!(question.body["streamer_id"], "s1");
            assert_eq!(
                question.body.as_object().unwrap().len(),
                2,
                "{}",
                question.body
            );
        }
    });
}

#[test]
fn a_service_that_does_not_answer_holds_up_nobody() {
    story(async {
        let service = FanService::start(&["u0", "u1", "late"]).await;
        let world = world_of(&service).await;
        let mut crowd = world.crowd("u", 3, "42").await;
        world.fans_become("42", &["u0", "u1"]).await;
        world.acks_become(&mut crowd[2], Some(false), 3, 2).await;
        service.is(Mood::Silent);
        world.breaker_becomes(2.0).await;
        let mut late = world.viewer_in("late", "42").await;
        says(&mut late, None).await;
        // Who leaves is out at once, and known fans stay beyond `fan-ttl`.
        crowd.remove(0).close().await;
        world
            .fans_become_within("42", &["u1"], world.config.flush * 2 + SLACK)
            .await;
        world
            .fans_stay("42", &["u1"], world.config.fan_ttl * 4)
            .await;
        says(&mut crowd[0], Some(true)).await;
        says(&mut crowd[1], Some(false)).await;
        says(&mut late, None).await;
        service.is(Mood::Right);
        world
            .fans_become_within("42", &["late", "u1"], BACK + SLACK)
            .await;
        world.acks_become(&mut late, Some(true), 3, 2).await;
        world.breaker_becomes(0.0).await;
        for viewer in crowd.iter_mut().chain([&mut late]) {
            assert!(viewer.is_connected().await, "{}", viewer.user);
        }
    });
}

#[test]
fn a_service_that_fails_is_asked_seldom_and_makes_nobody_a_stranger() {
    story(async {
        let service = FanService::start(&["u0"]).await;
        let world = world_of(&service).await;
        let _crowd = world.crowd("u", 2, "42").await;
        world.fans_become("42", &["u0"]).await;
        // Nobody is a fan any more, but the service says so only when it answers again.
        service.knows(&["late"]);
        service.is(Mood::Status(500));
        world.breaker_becomes(2.0).await;
        let before = service.questions().len();
        let mut late = world.viewer_in("late", "42").await;
        world.fans_stay("42", &["u0"], Duration::from_secs(4)).await;
        let asked = service.questions().len() - before;
        assert!(asked <= 12, "the breaker holds calls back: {asked} in 4 s");
        says(&mut late, None).await;
        service.is(Mood::Right);
        world
            .fans_become_within("42", &["late"], BACK + SLACK)
            .await;
    });
}

#[test]
fn a_service_that_fails_every_other_time_is_asked_again() {
    story(async {
        let service = FanService::start(&["u0", "u2", "u4"]).await;
        let world = world_of(&service).await;
        service.is(Mood::Flapping);
        let _crowd = world.crowd("u", 5, "42").await;
        world
            .fans_become_within("42", &["u0", "u2", "u4"], BACK)
            .await;
        world
            .fans_stay("42", &["u0", "u2", "u4"], world.config.fan_ttl * 4)
            .await;
        service.knows(&["u1"]);
        world.fans_become_within("42", &["u1"], BACK).await;
    });
}

/// Whoever is named without having been asked about is not in the room, or was asked about another
/// time.
#[test]
fn strangers_whom_the_service_names_are_counted_and_let_in_nowhere() {
    story(async {
        let service = FanService::start(&["u0"]).await;
        let world = world_of(&service).await;
        let _crowd = world.crowd("u", 2, "42").await;
        world.fans_become("42", &["u0"]).await;
        let strangers = ["u9", "not an id", ""].map(str::to_owned);
        service.is(Mood::Lying(strangers.to_vec()));
        until("strangers are counted", PATIENCE, async || {
            let strangers = world.metric("rollcall_fan_strangers_total").await;
            fits(strangers, |strangers| *strangers >= 3.0)
        })
        .await;
        world.fans_become("42", &["u0"]).await;
    });
}

/// A gateway that has one fan keeps it while its service answers so, and asks on.
async fn changes_nothing(mood: Mood) {
    let service = FanService::start(&["u0"]).await;
    let world = World::on_memory(asks(&service)).await;
    world.open("42").await;
    let mut crowd = world.crowd("u", 2, "42").await;
    world.fans_become("42", &["u0"]).await;
    world.acks_become(&mut crowd[1], Some(false), 2, 1).await;
    service.is(mood.clone());
    let before = service.questions().len();
    until("the service is asked", BACK, async || {
        fits(service.questions().len(), |asked| *asked > before + 1)
    })
    .await;
    let fans = world.fans_in_store("42").await;
    assert_eq!(fans, ["u0".to_owned()].into(), "{mood:?}");
    says(&mut crowd[1], Some(false)).await;
    service.knows(&["u1"]);
    service.is(Mood::Right);
    world.fans_become_within("42", &["u1"], BACK + SLACK).await;
}

#[test]
fn answers_that_are_not_as_agreed_change_nothing() {
    story(async {
        let huge = json!({ "fans": vec!["u1"; 100_000] }).to_string();
        let texts = [
            "{}",
            "[\"u1\"]",
            "{\"fans\":null}",
            "{\"fans\":[1]}",
            "{\"fans\":[\"u1\"",
        ];
        let mut wrong: Vec<Mood> = texts.map(|text| Mood::Text(text.to_owned())).to_vec();
        wrong.extend([Mood::Text("[".repeat(100_000)), Mood::Text(huge)]);
        wrong.extend([Mood::Endless, Mood::Status(204), Mood::Status(307)]);
        // A few at a time: each has a gateway of its own.
        stream::iter(wrong)
            .for_each_concurrent(3, changes_nothing)
            .await;
    });
}

#[test]
fn viewers_of_all_lives_of_a_streamer_are_asked_about_together() {
    story(async {
        let service = FanService::start(&["u7"]).await;
        let world = World::on_redis(|config| {
            asks(&service)(config);
            config.fan_ttl = Duration::from_secs(600);
        })
        .await;
        for live in ["42", "43"] {
            world.backend().open_sliced(live, "s1", 8).await;
        }
        service.is(Mood::Silent);
        let _one = world.crowd("u", 40, "42").await;
        let _other = world.crowd("u", 40, "43").await;
        service.questions().clear();
        service.is(Mood::Right);
        for live in ["42", "43"] {
            world.fans_become_within(live, &["u7"], BACK + SLACK).await;
        }
        becomes("everybody was asked about", 0.0, async || {
            world.metric("rollcall_fan_check_queue").await
        })
        .await;
        let questions = service.questions();
        assert!(
            questions.len() < 16,
            "{} calls for 16 slices",
            questions.len()
        );
        for question in questions.iter() {
            let users = question.body["user_ids"].as_array().unwrap();
            let distinct: std::collections::BTreeSet<_> =
                users.iter().map(|user| user.as_str().unwrap()).collect();
            assert_eq!(
                distinct.len(),
                users.len(),
                "each user once: {}",
                question.body
            );
        }
    });
}

#[test]
fn a_service_behind_tls_must_prove_its_name_and_a_new_token_is_read_with_sighup() {
    story(async {
        let service = FanService::start(&["u1"]).await;
        let right = Certificates::for_host("IP:127.0.0.1");
        let door = tls_before(service.addr, &right).await;
        let dir = tempfile::tempdir().unwrap();
        let secret = dir.path().join("token");
        std::fs::write(&secret, "the first").unwrap();
        let asks_trusting = |ca: &Certificates| {
            let (ca, secret, url) = (
                ca.ca(),
                secret.clone(),
                Secret::new(format!("https://{door}/fans")),
            );
            let tune = asks(&service);
            move |config: &mut Config| {
                tune(config);
                (config.fan_url, config.fan_ca, config.fan_secret_file) =
                    (Some(url), Some(ca), Some(secret));
            }
        };
        let world = World::on_memory(asks_trusting(&right)).await;
        world.open("42").await;
        let _viewer = world.viewer_in("u1", "42").await;
        world.fans_become("42", &["u1"]).await;

        let asked_with = async |token: &str| {
            let bearer = format!("Bearer {token}");
            until("a question comes with the token", PATIENCE, async || {
                let last = service
                    .questions()
                    .last()
                    .and_then(|question| question.authorization.clone());
                same(last, Some(bearer.clone()))
            })
            .await;
        };
        asked_with("the first").await;
        std::fs::write(&secret, "the second").unwrap();
        world.reload().await;
        asked_with("the second").await;
        // A file that became bad changes nothing.
        std::fs::write(&secret, "").unwrap();
        world.reload().await;
        service.questions().clear();
        asked_with("the second").await;

        world.stop().await;
        std::fs::write(&secret, "the third").unwrap();
        let world = World::on_memory(asks_trusting(&Certificates::for_host("IP:127.0.0.1"))).await;
        world.open("42").await;
        let mut viewer = world.viewer_in("u1", "42").await;
        world.breaker_becomes(2.0).await;
        says(&mut viewer, None).await;
        let told =
            |question: &Question| question.authorization.as_deref() == Some("Bearer the third");
        assert!(
            !service.questions().iter().any(told),
            "the token goes to nobody else"
        );
    });
}

#[test]
fn explain_asks_the_service_that_gateways_ask() {
    story(async {
        let service = FanService::start(&["u1"]).await;
        let world = world_of(&service).await;
        // What the store knows does not matter.
        world.follow(&["u0"]).await;
        let (redis, url) = (world.redis().url(), service.url());
        let explain = async |user: &str| {
            let options = format!("--redis {redis} --fan-source http --fan-url {url}");
            let line = format!("explain 42 {user} --json --log off {options}");
            let told = rollcall(&line).await.is(0).json();
            (told["user"]["fan"].clone(), told["because"].to_string())
        };
        let (fan, because) = explain("u1").await;
        assert!(
            fan == true && because.contains("u1 follows s1, says the fan source (http)"),
            "{because}"
        );
        let (fan, because) = explain("u0").await;
        assert!(
            fan == false && because.contains("u0 does not follow s1, says the fan source (http)"),
            "{because}"
        );
        service.is(Mood::Status(500));
        let (fan, because) = explain("u1").await;
        assert!(
            fan.is_null() && because.contains("does not say whether u1"),
            "{because}"
        );
    });
}
