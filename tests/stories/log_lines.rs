//! What an operator reads in the log of the real program, how the operator changes it while the
//! program runs, and that the program waits for nobody who reads it.

use std::io::{self, Write};
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::backend::Backend;
use crate::support::program::Program;
use crate::support::stores::story;
use crate::support::viewer::Viewer;
use crate::support::wait::{PATIENCE, fits, same, until};
use crate::support::webhook::{Mood, Webhook};
use crate::support::world::timings;

async fn logs(api: &Backend, filter: &str) -> Value {
    api.put("/v1/gateway/log", json!({"filter": filter}))
        .await
        .is(200)
        .body
}

#[test]
fn every_line_of_a_socket_has_the_id_that_its_client_was_told() {
    story(async {
        let program = Program::start(&timings()).await;
        let api = Backend::at(program.addr);
        api.open("42", "s1").await;
        let quiet = Viewer::connects(program.addr, "u1", "").await;
        quiet.close().await;
        assert!(
            !program.said().contains("socket opened"),
            "nobody asked for it: {}",
            program.said()
        );

        logs(&api, "info,rollcall::session=debug").await;
        let mut sessions = Vec::new();
        for user in ["u2", "u3"] {
            let mut viewer = Viewer::connects(program.addr, user, "").await;
            let session = viewer.welcome["socket_id"]
                .as_str()
                .expect("a socket id")
                .to_owned();
            viewer.join("42").await;
            viewer
                .is_refused(json!({"type": "dance"}), "unknown_type")
                .await;
            viewer.leave().await;
            viewer.close().await;
            program.logs(&["socket closed", &session]).await;
            sessions.push((user, session));
        }
        assert_ne!(sessions[0].1, sessions[1].1);
        let said = program.said();
        for (user, session) in &sessions {
            let of_session: Vec<_> = said
                .lines()
                .filter(|line| line.contains(session.as_str()))
                .collect();
            for words in [
                "socket opened",
                "joined",
                "unknown_type",
                "left",
                "socket closed",
            ] {
                assert_eq!(
                    of_session
                        .iter()
                        .filter(|line| line.contains(words))
                        .count(),
                    1,
                    "{words}: {said}"
                );
            }
            assert!(
                of_session
                    .iter()
                    .all(|line| line.contains(&format!("user_id={user}"))),
                "{said}"
            );
        }
        // A machine that stands still is told of, too.
        let of_sockets = said
            .lines()
            .filter(|line| line.contains("rollcall::session:") && !line.contains("stood still"));
        for line in of_sockets {
            assert!(
                sessions
                    .iter()
                    .any(|(_, session)| line.contains(session.as_str())),
                "of no session: {line}"
            );
        }
    });
}

#[test]
fn the_filter_of_the_start_comes_back_after_the_time_asked_for() {
    story(async {
        let program = Program::start_with(&timings(), "--log warn").await;
        let api = Backend::at(program.addr);
        let at_start = api.get("/v1/gateway/log").await.is(200).body;
        assert_eq!(
            (&at_start["filter"], &at_start["for_s"]),
            (&json!("warn"), &json!(null))
        );
        let wish = json!({"filter": "info,rollcall::edge=debug", "for_s": 2});
        let changed = api.put("/v1/gateway/log", wish).await.is(200).body;
        assert_eq!(
            (&changed["filter"], &changed["filter_at_start"]),
            (&json!("info,rollcall::edge=debug"), &json!("warn"))
        );
        assert_eq!(changed["for_s"], 2);
        program
            .logs(&["request answered", "route=\"/v1/gateway/log\""])
            .await;
        until("the filter of the start is back", PATIENCE, async || {
            let now = api.get("/v1/gateway/log").await.is(200).body;
            same(
                (now["filter"].clone(), now["for_s"].clone()),
                (json!("warn"), json!(null)),
            )
        })
        .await;
        program.logs(&["the log filter of the start is back"]).await;
    });
}

#[test]
fn a_filter_that_cannot_be_read_is_a_problem_and_changes_nothing() {
    story(async {
        let program = Program::start(&timings()).await;
        let api = Backend::at(program.addr);
        for filter in ["inof", "rollcall=loud", "", &"x".repeat(1_025)] {
            let answer = api.put("/v1/gateway/log", json!({"filter": filter})).await;
            assert_eq!(answer.problem(400), "invalid_filter", "{filter}");
        }
        for body in [
            json!({}),
            json!({"filter": 7}),
            json!({"filter": "info", "for_s": 0}),
            json!({"filter": "info", "for_s": 86_401}),
        ] {
            assert_eq!(
                api.put("/v1/gateway/log", body.clone()).await.problem(400),
                "bad_message",
                "{body}"
            );
        }
        assert_eq!(
            api.get("/v1/gateway/log").await.is(200).body["filter"],
            "info"
        );
    });
}

#[test]
fn the_lines_of_a_request_have_its_id_as_text_and_as_json() {
    story(async {
        for format in ["text", "json"] {
            let program = Program::start_with(&timings(), &format!("--log-format {format}")).await;
            let api = Backend::at(program.addr);
            api.open("42", "s1").await;
            // A removal goes on in a task of its own.
            api.send_named(
                Method::DELETE,
                "/v1/lives/42/viewers/u1",
                None,
                Some("remove-it"),
            )
            .await
            .is(200);
            let line = program.logs(&["a user was removed", "remove-it"]).await;
            logs(&api, "info,rollcall::edge=debug").await;
            api.send_named(Method::GET, "/nothing", None, Some("find-me"))
                .await
                .is(404);
            let answered = program.logs(&["request answered", "find-me"]).await;
            if format == "json" {
                for line in [line, answered] {
                    let line: Value = serde_json::from_str(&line).unwrap();
                    let request = &line["spans"][0];
                    assert_eq!(request["name"], "request", "{line}");
                    assert!(
                        ["remove-it", "find-me"].contains(&request["request_id"].as_str().unwrap()),
                        "{line}"
                    );
                }
                for line in program.said().lines() {
                    assert!(
                        serde_json::from_str::<Value>(line).is_ok(),
                        "no JSON: {line}"
                    );
                }
            }
        }
    });
}

#[test]
fn a_gateway_whose_log_nobody_reads_answers_and_stops() {
    story(async {
        let (_unread, log) = io::pipe().unwrap();
        let mut filled = log.try_clone().unwrap();
        std::thread::spawn(move || filled.write_all(&[b' '; 1 << 20]));
        let mut program = Program::start_logging_to(&timings(), log.into(), "--log debug").await;
        let api = Backend::at(program.addr);
        api.open("42", "s1").await;
        for n in 0..300 {
            let began = tokio::time::Instant::now();
            let user = format!("u{n}");
            let viewer = Viewer::connects(program.addr, &user, "").await;
            viewer.close().await;
            api.get("/healthz").await.is(200);
            assert!(
                began.elapsed() < Duration::from_secs(5),
                "{:?}",
                began.elapsed()
            );
        }
        program.terminate();
        assert_eq!(program.exit(PATIENCE).await.code(), Some(0));
    });
}

#[test]
fn a_webhook_that_fails_is_told_at_once_and_once_and_so_is_its_recovery() {
    story(async {
        let webhook = Webhook::start().await;
        webhook.is(Mood::Refuses("42"));
        let mut config = timings();
        config.log = "info".to_owned();
        webhook.hears(&mut config);
        let program = Program::start(&config).await;
        let api = Backend::at(program.addr);
        api.open("42", "s1").await;
        let complaint = [
            "WARN",
            "the webhook did not take an event",
            "default",
            "500",
        ];
        program.logs(&complaint).await;
        until("it is tried again", PATIENCE, async || {
            fits(webhook.requests(), |tried| *tried >= 4)
        })
        .await;
        webhook.is(Mood::Takes);
        let recovery = ["INFO", "the webhook takes events again", "default"];
        program.logs(&recovery).await;
        for words in [&complaint[..2], &recovery[..2]] {
            let said = program.said();
            let lines = said
                .lines()
                .filter(|line| words.iter().all(|word| line.contains(word)));
            assert_eq!(lines.count(), 1, "{words:?}: {said}");
        }
    });
}
