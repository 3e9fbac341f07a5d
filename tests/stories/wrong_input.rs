//! A user's mistake ends a command with a sentence that helps and with the code of the documents:
//! never with a panic, a backtrace, or the inside of an error. Colours are for terminals only.

use std::process::{Command, Stdio};

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::command::{Ran, run};
use crate::support::redis_server::free_port;
use crate::support::redis_view::Redis;
use crate::support::stores::story;
use crate::support::terminal::at_a_terminal;
use crate::support::world::World;

#[track_caller]
fn helps(ran: &Ran, code: i32, words: &str) {
    let text = ran.said();
    assert_eq!(ran.code, Some(code), "{text}");
    assert!(text.contains(words), "{words:?} is not in {text}");
    for inside in [
        "panic",
        "backtrace",
        "BACKTRACE",
        "Error {",
        "Os {",
        "\u{1b}",
        "hunter2",
    ] {
        assert!(!text.contains(inside), "{inside:?} is in {text}");
    }
}

#[test]
fn a_mistake_on_the_command_line_is_explained() {
    for (line, words) in [
        ("keys", "PATTERN: is missing"),
        (
            "keys Cargo.toml README.md REDIS",
            "so does a pattern with a *",
        ),
        ("keys live:[0-9 REDIS", "has a [ without its ]"),
        // An empty pattern.
        ("keys  REDIS", "* finds every key"),
        ("keys *", "redis: is required"),
        ("keys * REDIS --count many", "--count (flag): invalid digit"),
        (
            "keys * REDIS --once",
            "--once (flag): is not an option of this command",
        ),
        ("keys * --redis http://hunter2", "is no Redis URL"),
        (
            "lives --gateway 127.0.0.1:8080",
            "right would be http://host:port",
        ),
        (
            "lives --gateway http://u:hunter2@h",
            "right would be http://host:port",
        ),
        (
            "lives --sort size",
            "--sort (flag): must be one of viewers, fans",
        ),
        ("lives --watch soon", "--watch (flag): invalid digit"),
        ("lives --watch 0", "--watch (flag): 0 is not in 1..=3600"),
        ("lives --watch --json", "(flag): does not go with --"),
        ("lives hunter2", "A value with spaces needs quotes"),
        (
            "lives --count 3",
            "--count (flag): is not an option of this command",
        ),
        (
            "check-config --fix",
            "--fix (flag): is not an option of this command",
        ),
        (
            "check-config --config /nowhere",
            "file /nowhere: cannot be read",
        ),
        ("chek-config", "did you mean check-config?"),
        ("lvies", "did you mean lives?"),
        ("audti", "audit"),
        ("--json", "--json"),
        ("--gatway http://127.0.0.1", "did you mean --gateway?"),
        ("--config /", "file /: cannot be read: is a directory"),
        (
            "--redis http://hunter2",
            "redis (flag --redis): is no Redis URL; right would be redis://",
        ),
        (
            "--tls-cert /nowhere --tls-key /nowhere",
            "tls-cert: /nowhere cannot be read",
        ),
        ("audit", "memory store"),
        ("audit 42 REDIS", "one too many"),
        ("audit REDIS --top 1001", "0..=1000"),
        ("audit REDIS --fans", "--against"),
        ("audit REDIS --against online:42", "{live_id} once"),
        ("audit REDIS --against online:{live_id} --fix", "--fix"),
        ("audit REDIS --gateway 127.0.0.1:8080", "http://host:port"),
        (
            "audit REDIS --api-key-fil x",
            "did you mean --api-key-file?",
        ),
        ("explain 42", "memory store"),
        ("explain REDIS", "LIVE: is missing"),
        ("explain a\tb REDIS", "LIVE"),
        ("explain 42 --fix REDIS", "--fix"),
        (
            "token --sub u1 --jwt-hs256-secret-file /nowhere",
            "jwt-hs256-secret-file: the file cannot be",
        ),
        (
            "token --sub u1 --jwt-hs256-secret-file /nowhere",
            "entity not found (/nowhere)",
        ),
        (
            "token --sub u1 --jwt-hs256-secret-file /",
            "jwt-hs256-secret-file: the file cannot be",
        ),
        ("key --name x --scopes reed", "read, write, moderate"),
        ("events replay hunter2 --redis", "--redis"),
        ("completions tcsh", "bash, elvish, fish"),
    ] {
        let line = line.replace("REDIS", "--redis redis://127.0.0.1");
        helps(&run(&line), 64, words);
    }
}

#[test]
fn every_file_that_cannot_be_used_is_named_at_once() {
    let wrong = "--auth jwt --jwt-hs256-secret-file /no-secret --jwt-public-key /no-key \
                 --api-keys /no-keys --tls-cert /no-chain --tls-key /no-tls-key";
    for line in [wrong.to_owned(), format!("check-config {wrong}")] {
        let out = run(&line);
        for file in [
            "/no-secret",
            "/no-key",
            "/no-keys",
            "/no-chain",
            "/no-tls-key",
        ] {
            helps(&out, 64, file);
        }
    }
}

#[test]
fn a_switch_of_the_file_may_be_a_boolean() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(
        file.path(),
        "proxy-from-env = true\nuniques = false\nproxy_protocol = false\n",
    )
    .unwrap();
    let path = file.path().display().to_string();
    let found = run(&format!("check-config --json --config {path}"))
        .is(0)
        .json();
    assert_eq!(found["mistakes"], json!([]), "{found}");
    for (name, value) in [
        ("proxy-from-env", "true"),
        ("uniques", "false"),
        ("proxy-protocol", "false"),
    ] {
        let settings = found["settings"].as_array().unwrap();
        let setting = settings
            .iter()
            .find(|setting| setting["name"] == name)
            .unwrap();
        assert_eq!(setting["value"], value, "{setting}");
    }
}

#[test]
fn an_event_that_nobody_gave_up_is_a_mistake_of_who_asks_for_it() {
    story(async {
        let redis = Redis::start().await;
        let out = run(&format!(
            "events replay 1732000000000-0 --redis {}",
            redis.url()
        ));
        helps(
            &out,
            64,
            "no event with this entry was given up; rollcall events list",
        );
    });
}

#[test]
fn a_name_that_dns_does_not_know_is_told_in_words() {
    let out = run("keys * --redis redis://no-such-host.invalid --log off");
    helps(&out, 69, "Redis cannot be reached: ");
    let text = out.said();
    assert!(
        !text.contains("Custom {") && !text.contains("Uncategorized"),
        "{text}"
    );
}

#[test]
fn a_redis_that_does_not_answer_or_let_in_is_named_by_every_command() {
    story(async {
        let redis = Redis::start().await;
        let nobody = format!("redis://:hunter2@127.0.0.1:{}", free_port());
        let stranger = format!("redis://who:hunter2@{}", redis.addr());
        for command in [
            "keys * ",
            "audit ",
            "explain 42 ",
            "events list ",
            "check-config --connect ",
            "",
        ] {
            for (url, words) in [(&nobody, "refused"), (&stranger, "WRONGPASS")] {
                helps(
                    &run(&format!("{command}--redis {url} --log off")),
                    69,
                    words,
                );
            }
        }
        let cluster = format!("redis-cluster://who:hunter2@{}", redis.addr());
        helps(&run(&format!("--redis {cluster}")), 69, "WRONGPASS");
    });
}

/// Runs the program with a standard output that nobody reads: its exit code, and what it says on
/// standard error.
async fn without_a_reader(line: &str) -> (Option<i32>, String) {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut program = Command::new(env!("CARGO_BIN_EXE_rollcall"));
    program
        .args(line.split(' '))
        .stdin(Stdio::null())
        .stdout(writer)
        .stderr(Stdio::piped());
    let run = move || program.spawn().unwrap().wait_with_output().unwrap();
    let out = tokio::task::spawn_blocking(run).await.unwrap();
    (out.status.code(), String::from_utf8(out.stderr).unwrap())
}

/// As in `rollcall keys '*' | head -1`, after `head` has gone.
#[test]
fn a_reader_that_goes_away_is_no_failure() {
    story(async {
        let world = World::on_redis(|_| ()).await;
        world.open("42").await;
        let (redis, gateway) = (world.redis().url(), format!("http://{}", world.addr));
        for command in [
            "--help",
            "man",
            "completions bash",
            "key --name x --scopes read",
            "keys * REDIS",
            "keys * --json REDIS",
            "lives GATEWAY",
            "lives --json GATEWAY",
            "lives --watch GATEWAY",
            "check-config",
            "audit REDIS",
            "explain 42 REDIS",
        ] {
            let command = &command
                .replace("REDIS", &format!("--redis {redis}"))
                .replace("GATEWAY", &format!("--gateway {gateway}"));
            let mut seen = without_a_reader(command).await;
            // On a busy machine Redis or the gateway may answer too late.
            for _ in 0..3 {
                if seen.0 == Some(69) || seen.1.contains("does not tell the lives") {
                    seen = without_a_reader(command).await;
                }
            }
            assert_eq!(seen, (Some(0), String::new()), "{command:?}");
        }
    });
}

#[test]
fn colours_are_for_terminals_and_for_none_with_no_color() {
    story(async {
        let steps = json!([["expect", "gateway started"], ["signal", "SIGTERM"]]);
        for (env, coloured) in [
            (&[][..], true),
            (&[("NO_COLOR", "1")], false),
            (&[("NO_COLOR", "")], true),
        ] {
            let done = at_a_terminal(&["--listen", "127.0.0.1:0"], env, steps.clone()).await;
            let shown = done["shown"].as_str().unwrap();
            let seen = (done["code"].as_i64(), shown.contains("\u{1b}[32m"));
            assert_eq!(seen, (Some(0), coloured), "{env:?}: {shown:?}");
        }
    });
}

#[test]
fn ids_that_no_url_can_carry_are_refused_wherever_ids_are_read() {
    story(async {
        let world = World::on_memory(|_| ()).await;
        world.open("42").await;
        let api = world.backend();
        for (dots, path) in [(".", "%2e"), ("..", "%2e%2E")] {
            // The client of these tests would take them out of a path, as all clients do.
            for (method, path, body) in [
                ("GET", format!("/v1/lives/{path}"), ""),
                ("GET", format!("/v1/users/{path}"), ""),
                (
                    "PUT",
                    "/v1/lives/43".to_owned(),
                    &*format!(r#"{{"streamer_id":"{dots}"}}"#),
                ),
                ("PUT", format!("/v1/users/u1/lists/{path}/u2"), ""),
                ("PUT", format!("/v1/users/u1/lists/cooks/{path}"), ""),
                ("PUT", format!("/v1/users/u1/following/{path}"), ""),
                ("DELETE", format!("/v1/lives/42/viewers/{path}"), ""),
                (
                    "POST",
                    "/v1/lives:query".to_owned(),
                    &*format!(r#"{{"live_ids":["42","{dots}"]}}"#),
                ),
                (
                    "POST",
                    "/v1/online/query".to_owned(),
                    &*format!(r#"{{"user_ids":["u1","{dots}"]}}"#),
                ),
                ("GET", format!("/v1/attendance?live_ids=42,{dots}"), ""),
                ("GET", format!("/v1/attendance?streamer_id={dots}"), ""),
                ("POST", format!("/v1/beat?user_id={dots}"), ""),
            ] {
                let (status, text) = asks(&world, method, &path, body).await;
                let says =
                    text.contains(r#""code":"invalid_id""#) && text.contains("URLs cannot carry");
                assert!(
                    status == 400 && says,
                    "{method} {path} {body}: {status} {text}"
                );
            }
            api.get(&format!("/ws/admission?user_id={dots}"))
                .await
                .is(401);
            let mut viewer = world.viewer("u1").await;
            for kind in ["join", "watch", "open", "close"] {
                let refused = viewer.ask(json!({"type": kind, "live_id": dots})).await;
                assert_eq!(refused["code"], "invalid_id", "{refused}");
            }
            let opens = json!({"type": "open", "live_id": "43", "streamer_id": dots});
            assert_eq!(world.service().await.ask(opens).await["code"], "invalid_id");
            for line in [
                format!("token --jwt-hs256-secret-file Cargo.toml --sub {dots}"),
                format!("explain {dots} --redis redis://127.0.0.1"),
            ] {
                helps(&run(&line), 64, "URLs cannot carry");
            }
        }
    });
}

/// Sends a request whose path stays as it is; the status and the rest of the answer.
async fn asks(world: &World, method: &str, path: &str, body: &str) -> (u16, String) {
    let mut tcp = TcpStream::connect(world.addr).await.unwrap();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    tcp.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    let _ = tcp.read_to_string(&mut answer).await;
    let status = answer
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok())
        .unwrap_or(0);
    (status, answer)
}
