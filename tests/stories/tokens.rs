//! With `--auth jwt` a socket needs a token. Keys change while the gateway runs, and nothing secret
//! is shown.

use std::net::SocketAddr;
use std::path::PathBuf;

use rollcall::config::{AuthMode, Config, Jwks};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Error;

use crate::support::command::{Ran, run, run_under};
use crate::support::issuer::{Issuer, KeyServer, NamedKey, SECRET, claims, hs256};
use crate::support::program::Program;
use crate::support::socket::Socket;
use crate::support::stores::story;
use crate::support::viewer::Viewer;
use crate::support::wait::{SLACK, becomes};
use crate::support::world::{World, timings};

/// A gateway that trusts the issuer.
async fn world_of(issuer: &Issuer) -> World {
    let file = issuer.file();
    World::on_memory(|config| with_secret(config, file)).await
}

fn with_secret(config: &mut Config, file: PathBuf) {
    config.auth = AuthMode::Jwt;
    config.jwt_hs256_secret_file = Some(file);
}

fn bearer(token: &str) -> String {
    format!("Bearer {token}")
}

/// Connects with the token in a header.
async fn enter(addr: SocketAddr, path: &str, token: &str) -> Result<Socket, (u16, String)> {
    match Socket::connect(addr, path, &[("authorization", &bearer(token))]).await {
        Ok((socket, _)) => Ok(socket),
        Err(Error::Http(answer)) => {
            let body = String::from_utf8(answer.body().clone().unwrap_or_default()).unwrap();
            Err((answer.status().as_u16(), body))
        }
        Err(error) => panic!("{path} was refused without an HTTP answer: {error}"),
    }
}

/// The upgrade is refused with this status and this code of a problem.
async fn is_refused(addr: SocketAddr, path: &str, token: &str, status: u16, code: &str) {
    let refused = enter(addr, path, token).await;
    let (seen, body) = refused.expect_err("the upgrade is refused");
    assert!(token.is_empty() || !body.contains(token), "{body}");
    let problem: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((seen, &problem["code"]), (status, &json!(code)), "{body}");
}

async fn is_let_in(addr: SocketAddr, token: &str) -> bool {
    enter(addr, "/ws", token).await.is_ok()
}

#[test]
fn a_token_says_who_the_client_is() {
    story(async {
        let issuer = Issuer::new();
        let world = world_of(&issuer).await;
        let token = hs256(SECRET, &claims("u1", &json!({})));
        let in_header = enter(world.addr, "/ws?user_id=boss&role=service", &token)
            .await
            .unwrap();
        let mut viewer = Viewer::greeted("u1", in_header).await;
        assert_eq!(viewer.welcome["user_id"], "u1");
        viewer
            .is_refused(json!({"type": "open", "live_id": "42"}), "forbidden")
            .await;
        let (in_query, _) = Socket::connect(world.addr, &format!("/ws?token={token}"), &[])
            .await
            .unwrap();
        assert_eq!(
            Viewer::greeted("u1", in_query).await.welcome["user_id"],
            "u1"
        );
        // The header counts if both are sent.
        let other = hs256(SECRET, &claims("u2", &json!({})));
        let both = enter(world.addr, &format!("/ws?token={token}"), &other)
            .await
            .unwrap();
        assert_eq!(Viewer::greeted("u2", both).await.welcome["user_id"], "u2");
    });
}

#[test]
fn a_refused_token_is_a_problem_that_does_not_quote_it() {
    story(async {
        let issuer = Issuer::new();
        let world = world_of(&issuer).await;
        let good = hs256(SECRET, &claims("u1", &json!({})));
        let expired = hs256(SECRET, &claims("u1", &json!({"exp": 1})));
        for token in ["", "hunter2-hunter2", &good[..good.len() - 2], &expired] {
            is_refused(world.addr, "/ws", token, 401, "unauthorized").await;
        }
        for path in [
            "/ws",
            "/ws?user_id=u1&role=service",
            "/ws?token=",
            "/ws?token=hunter2",
        ] {
            match Socket::connect(world.addr, path, &[("authorization", "Basic dTE6cHc=")]).await {
                Err(Error::Http(answer)) => {
                    assert_eq!(answer.status(), 401, "{path}");
                    assert!(
                        answer.headers()["www-authenticate"]
                            .to_str()
                            .unwrap()
                            .starts_with("Bearer")
                    );
                }
                other => panic!("{path}: {other:?}"),
            }
        }
        // Twice in the query: no guess which one is meant, and no quote.
        let twice = format!("/ws?token={good}&token={good}");
        let (status, body) = enter(world.addr, &twice, &good).await.unwrap_err();
        assert!(status == 400 && !body.contains(&good), "{body}");
    });
}

#[test]
fn white_space_around_a_token_changes_nothing_wherever_the_token_stands() {
    story(async {
        let issuer = Issuer::new();
        let world = world_of(&issuer).await;
        let good = hs256(SECRET, &claims("u1", &json!({})));
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let admission = async |query: &str, header: Option<&str>| {
            let asked = http.get(format!("http://{}/ws/admission{query}", world.addr));
            let asked = header.into_iter().fold(asked, |asked, token| {
                asked.header("authorization", bearer(token))
            });
            asked.send().await.unwrap().status().as_u16()
        };

        // `rollcall token` ends its line, as files and shells do.
        for around in ["%0A", "%0D%0A", "%20", "%09"] {
            for query in [
                format!("?token={good}{around}"),
                format!("?token={around}{good}"),
            ] {
                assert_eq!(admission(&query, None).await, 204, "{query}");
                let opened = Socket::connect(world.addr, &format!("/ws{query}"), &[]).await;
                assert!(opened.is_ok(), "{query}");
            }
        }
        let padded = format!(" {good} ");
        assert_eq!(admission("", Some(&padded)).await, 204);
        assert!(enter(world.addr, "/ws", &padded).await.is_ok());

        let mut viewer =
            Viewer::greeted("u1", enter(world.addr, "/ws", &good).await.unwrap()).await;
        let renewed = viewer
            .ask(json!({"type": "refresh", "token": format!("{good}\n")}))
            .await;
        assert_eq!(renewed["type"], "refreshed");
        viewer
            .is_refused(json!({"type": "refresh", "token": "\n"}), "bad_message")
            .await;

        // White space alone is no token, and inside of one it makes another token.
        let inside = good.replacen('.', "%20.", 1);
        for query in ["?token=%0A".to_owned(), format!("?token={inside}")] {
            assert_eq!(admission(&query, None).await, 401, "{query}");
            let status = match Socket::connect(world.addr, &format!("/ws{query}"), &[]).await {
                Err(Error::Http(answer)) => answer.status().as_u16(),
                other => panic!("{query}: {other:?}"),
            };
            assert_eq!(status, 401, "{query}");
        }
    });
}

#[test]
fn only_a_token_that_says_so_keeps_out_of_the_figures() {
    story(async {
        let issuer = Issuer::new();
        let world = world_of(&issuer).await;
        let token = |user: &str, more| hs256(SECRET, &claims(user, &more));
        for path in ["/ws?count=false", "/ws?invisible=true"] {
            let plain = token("u1", json!({}));
            is_refused(world.addr, path, &plain, 403, "forbidden").await;
        }
        let service = token("service", json!({"role": "service"}));
        let socket = enter(world.addr, "/ws?count=false", &service)
            .await
            .unwrap();
        let mut service = Viewer::greeted("service", socket).await;
        let opened = service
            .ask(json!({"type": "open", "live_id": "42", "streamer_id": "s1"}))
            .await;
        assert_eq!(opened["type"], "opened", "{opened}");
        assert_eq!(service.join("42").await["viewers"], 0);
        for claim in [json!({"count": false}), json!({"invisible": true})] {
            for path in [
                "/ws",
                "/ws?count=false",
                "/ws?invisible=true",
                "/ws?count=true&invisible=false",
            ] {
                let bot = enter(world.addr, path, &token("bot", claim.clone()))
                    .await
                    .unwrap();
                assert_eq!(
                    Viewer::greeted("bot", bot).await.join("42").await["viewers"],
                    0,
                    "{path}, {claim}"
                );
            }
        }
        let viewer = enter(world.addr, "/ws?count=true", &token("u1", json!({})))
            .await
            .unwrap();
        let mut viewer = Viewer::greeted("u1", viewer).await;
        viewer.join("42").await;
        world.acks_become(&mut viewer, Some(false), 1, 0).await;
    });
}

#[test]
fn a_platform_may_begin_to_sign_with_a_new_key_at_once() {
    story(async {
        let (old, new, never) = (
            NamedKey::new("old"),
            NamedKey::new("new"),
            NamedKey::new("never"),
        );
        let keys = KeyServer::new(&[&old]).await;
        let url = keys.url.parse().unwrap();
        let world = World::on_memory(|config| {
            config.auth = AuthMode::Jwt;
            config.jwt_jwks = Some(Jwks::Url(url));
        })
        .await;
        let claims = claims("u1", &json!({}));
        assert!(is_let_in(world.addr, &old.signs(&claims)).await);
        keys.shows(&[&new]);
        assert!(
            is_let_in(world.addr, &old.signs(&claims)).await,
            "it is not known yet that the old key is gone"
        );
        assert!(
            is_let_in(world.addr, &new.signs(&claims)).await,
            "the gateway asked for the new key"
        );
        assert!(
            !is_let_in(world.addr, &old.signs(&claims)).await,
            "what the old key has verified is forgotten"
        );
        assert_eq!(keys.asked(), 2);
        for _ in 0..20 {
            let token = never.signs(&claims);
            is_refused(world.addr, "/ws", &token, 401, "unauthorized").await;
        }
        assert_eq!(keys.asked(), 2, "one fetch a minute");
    });
}

#[test]
fn a_hangup_makes_the_program_read_its_keys_again_and_nothing_secret_is_logged() {
    story(async {
        let issuer = Issuer::new();
        let file = issuer.file().display().to_string();
        let options = format!("--auth jwt --jwt-hs256-secret-file {file} --log trace");
        let program = Program::start_with(&timings(), &options).await;
        let (addr, claims) = (program.addr, claims("u1", &json!({})));
        let old = hs256(SECRET, &claims);
        let socket = enter(addr, "/ws", &old).await.unwrap();
        let mut viewer = Viewer::greeted("u1", socket).await;
        let secret = "another-secret-of-more-than-32-bytes-hunter3";
        let new = hs256(secret, &claims);
        is_refused(addr, "/ws", &new, 401, "unauthorized").await;
        let other = format!("/ws?token={new}");
        is_refused(addr, &other, "hunter2", 401, "unauthorized").await;
        assert!(
            Socket::connect(addr, &format!("/ws?token={old}"), &[])
                .await
                .is_ok()
        );
        assert!(
            Socket::connect(addr, &format!("/ws?token={new}"), &[])
                .await
                .is_err()
        );

        issuer.writes(secret);
        program.hang_up();
        becomes("the new secret counts", true, async || {
            is_let_in(addr, &new).await
        })
        .await;
        is_refused(addr, "/ws", &old, 401, "unauthorized").await;
        issuer.writes("too-short-hunter4");
        program.hang_up();
        program.logs(&["ERROR", "jwt-hs256-secret-file"]).await;
        assert!(is_let_in(addr, &new).await, "the old keys stay");
        viewer.heartbeat_json().await;
        for (token, answer) in [(&new, "refreshed"), (&old, "error")] {
            assert_eq!(
                viewer.ask(json!({"type": "refresh", "token": token})).await["type"],
                answer
            );
        }
        // A token in the wrong place is not quoted either.
        for wrong in [
            json!({"type": "refresh", "token": [new]}),
            json!({"type": "refresh", "token": old, "counts": new}),
            json!({"type": [new]}),
            json!({"type": "join", "live_id": {old.as_str(): 1}}),
        ] {
            let refused = viewer.ask(wrong).await;
            assert_eq!(refused["code"], "bad_message", "{refused}");
            assert!(
                !refused.to_string().contains(&new) && !refused.to_string().contains(&old),
                "{refused}"
            );
        }
        let said = program.said();
        for (at, hidden) in [&*old, &new, SECRET, secret, "hunter"].iter().enumerate() {
            assert!(!said.contains(hidden), "number {at} is in the log");
        }
    });
}

#[test]
fn a_proxy_in_the_environment_is_used_only_if_a_setting_asks_for_it() {
    story(async {
        let keys = KeyServer::new(&[&NamedKey::new("one")]).await;
        let nobody = std::net::TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let proxy = format!("http://{nobody}");
        let env = [
            ("HTTP_PROXY", proxy.as_str()),
            ("http_proxy", proxy.as_str()),
            ("NO_PROXY", ""),
            ("no_proxy", ""),
            ("ROLLCALL_AUTH", "jwt"),
            ("ROLLCALL_JWT_JWKS", keys.url.as_str()),
        ];
        let _program = Program::start_under(&timings(), &env).await;
        assert_eq!(keys.asked(), 1);
        let check = format!(
            "check-config --connect --json --auth jwt --jwt-jwks {}",
            keys.url
        );
        run_under(&check, &env).is(0);
        run_under(&format!("{check} --proxy-from-env"), &env).is(69);
    });
}

#[test]
fn a_program_without_its_keys_does_not_start() {
    story(async {
        let issuer = Issuer::new();
        issuer.writes("too-short-hunter2");
        let file = issuer.file().display().to_string();
        let start = "--listen 127.0.0.1:0 --auth jwt";
        let Ran { out, err: why, .. } =
            run(&format!("{start} --jwt-hs256-secret-file {file}")).is(64);
        assert_eq!(out, "", "{why}");
        assert!(
            why.contains("jwt-hs256-secret-file") && !why.contains("hunter2"),
            "{why}"
        );
        let nobody = std::net::TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let began = tokio::time::Instant::now();
        let url = format!("http://{nobody}/jwks.json?key=hunter2");
        let Ran { out, err: why, .. } =
            run(&format!("{start} --jwt-jwks {url} --wait-for-store 600ms")).is(69);
        assert_eq!(out, "", "{why}");
        assert!(
            why.contains("jwt-jwks") && why.contains("refused") && !why.contains("hunter2"),
            "{why}"
        );
        assert!(
            (600..600 + SLACK.as_millis() + 3_000).contains(&began.elapsed().as_millis()),
            "{:?}",
            began.elapsed()
        );
    });
}

#[test]
fn a_token_for_development_is_good() {
    story(async {
        let issuer = Issuer::new();
        let world = world_of(&issuer).await;
        let file = issuer.file().display().to_string();
        let made = run(&format!(
            "token --sub s1 --role streamer --jwt-hs256-secret-file {file}"
        ))
        .is(0);
        assert_eq!(made.err, "");
        let socket = enter(world.addr, "/ws", made.out.trim()).await.unwrap();
        let mut streamer = Viewer::greeted("s1", socket).await;
        let opened = streamer.ask(json!({"type": "open", "live_id": "42"})).await;
        assert_eq!(opened["type"], "opened", "{opened}");
        let refused = run("token --sub s1").is(64);
        let why = "--jwt-hs256-secret-file FILE or --jwt-private-key FILE";
        assert!(
            refused.out.is_empty() && refused.err.contains(why),
            "{refused:?}"
        );
    });
}

#[test]
fn a_key_comes_with_its_line() {
    let out = run("key --name shop --scopes write,read").is(0).out;
    let lines: Vec<&str> = out.lines().collect();
    let [key, line] = lines[..] else {
        panic!("two lines: {out}")
    };
    let words: Vec<&str> = line.split(' ').collect();
    assert_eq!(
        (key.len(), &words[..2], words[2].len()),
        (43, &["shop", "write,read"][..], 64),
        "{out}"
    );
    assert!(!line.contains(key));
}
