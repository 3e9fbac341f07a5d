//! `rollcall lives` shows people and scripts which lives are open, once or again and again. Nothing
//! that a gateway says does anything to the terminal.

use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::TcpListener;
use tokio::process::{Child, ChildStderr, ChildStdout};

use crate::support::command::{Ran, rollcall};
use crate::support::guarded::{Guarded, KEY, WEAK};
use crate::support::link::Link;
use crate::support::redis_server::free_port;
use crate::support::stores::{on_memory, story};
use crate::support::wait::becomes;
use crate::support::world::World;

/// Runs `rollcall lives` with these options.
async fn lives(options: &str) -> Ran {
    rollcall(format!("lives {options}").trim_end()).await
}

/// The lives that `--json` prints, each as its id, viewers and fans.
async fn listed(gateway: &str, more: &str) -> Vec<(String, u64, u64)> {
    let options = format!("--json --gateway {gateway} {more}");
    let lines = lives(options.trim_end()).await.is(0).out;
    let live = |line: &str| {
        let live: Value = serde_json::from_str(line).unwrap_or_else(|why| panic!("{why}: {line}"));
        let figure = |name: &str| live[name].as_u64().unwrap();
        (
            live["live_id"].as_str().unwrap().to_owned(),
            figure("viewers"),
            figure("fans"),
        )
    };
    lines.lines().map(live).collect()
}

on_memory! {
    async fn a_script_reads_a_line_of_json_for_each_live(world) {
        let gateway = format!("http://{}", world.addr);
        assert_eq!(listed(&gateway, "").await, []);
        world.open("quiet").await;
        world.open("42").await;
        let cooking = json!({"streamer_id": "s2", "title": "Two\u{202e} pots"});
        world.backend().put("/v1/lives/cooking", cooking).await.is(201);
        world.follow(&["u0"]).await;
        let _crowd = world.crowd("u", 3, "42").await;
        let _other = world.viewer_in("other", "cooking").await;
        let right = [("42", 3, 1), ("cooking", 1, 0), ("quiet", 0, 0)].map(|(id, v, f)| (id.to_owned(), v, f));
        becomes("the lives are listed by viewers", right.to_vec(), async || {
            listed(&gateway, "").await
        })
        .await;
        assert_eq!(listed(&gateway, "--sort fans").await[0], right[0]);
        let table = lives(&format!("--once --gateway {gateway}")).await.out;
        let lines: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(table.lines().next(), Some("3 lives, 4 viewers, 1 fan"), "{table}");
        assert_eq!(lines[2][..4], ["live", "viewers", "fans", "away"], "{table}");
        assert_eq!((&lines[3][..5], lines[3][6]), (&["42", "3", "1", "0", "exact"][..], "s1"), "{table}");
        assert_eq!((lines[4][0], &lines[4][7..]), ("cooking", &["Two", "pots"][..]), "{table}");
        // --once is what is done without --watch.
        assert!(lives(&format!("--gateway {gateway}")).await.said().contains("3 lives, 4 viewers, 1 fan"));
    }
}

/// `rollcall lives --watch 1` as it runs.
struct Watch {
    program: Child,
    tables: Lines<BufReader<ChildStdout>>,
    complaints: Lines<BufReader<ChildStderr>>,
}

impl Watch {
    fn of(gateways: &[&str]) -> Self {
        let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_rollcall"));
        command
            .args(["lives", "--watch", "1"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        for gateway in gateways {
            command.args(["--gateway", gateway]);
        }
        let mut program = command.spawn().unwrap();
        let tables = BufReader::new(program.stdout.take().unwrap()).lines();
        let complaints = BufReader::new(program.stderr.take().unwrap()).lines();
        Self {
            program,
            tables,
            complaints,
        }
    }

    /// The next table, from its time to the empty line after it.
    async fn table(&mut self) -> Vec<String> {
        let mut table: Vec<String> = Vec::new();
        loop {
            let line = self
                .tables
                .next_line()
                .await
                .unwrap()
                .expect("another line");
            // Between the totals and the rows there is an empty line, too.
            let is_end = line.is_empty() && (table.len() > 2 || table[1].starts_with("0 lives"));
            if is_end {
                return table;
            }
            table.push(line);
        }
    }

    /// Stops to read; answers the exit code, and what the program has complained of since.
    async fn leave(mut self) -> (Option<i32>, Option<String>) {
        drop(self.tables);
        let code = self.program.wait().await.unwrap().code();
        (code, self.complaints.next_line().await.unwrap())
    }
}

#[test]
fn who_watches_reads_a_table_with_its_time_again_and_again() {
    story(async {
        let world = World::on_redis(|_| ()).await;
        let mut watch = Watch::of(&[&format!("http://{}", world.addr)]);
        let first = watch.table().await;
        assert_eq!(first[1..], ["0 lives, 0 viewers, 0 fans"]);
        world.open("live-of-s1").await;
        let second = watch.table().await;
        assert_eq!(second[1..3], ["1 live, 0 viewers, 0 fans", ""]);
        assert!(
            second[3].starts_with("live ") && second[4].starts_with("live-of-s1 "),
            "{second:?}"
        );
        let time = |table: &[String]| humantime::parse_rfc3339(&table[0]).expect("a time");
        assert!(time(&second) > time(&first), "{first:?} {second:?}");
        assert_eq!(watch.leave().await, (Some(0), None));
    });
}

#[test]
fn who_watches_is_told_that_no_gateway_answers_and_sees_the_lives_when_one_does() {
    story(async {
        let world = World::on_redis(|_| ()).await;
        world.open("live-of-s1").await;
        let link = Link::to(world.addr).await;
        link.cut();
        let nobody = format!("http://127.0.0.1:{}", free_port());
        let mut watch = Watch::of(&[&nobody, &format!("http://{}", link.addr())]);
        let complaint = watch.complaints.next_line().await.unwrap().unwrap();
        assert!(
            complaint.contains(&format!("{} does not tell the lives", link.addr())),
            "{complaint}"
        );
        link.heal();
        let table = watch.table().await;
        assert!(table[4].starts_with("live-of-s1 "), "{table:?}");
        assert_eq!(watch.leave().await.0, Some(0));
    });
}

/// A gateway that answers every request with this.
async fn impostor(status: &'static str, body: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let head = format!(
                "HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close",
                body.len()
            );
            let answer = format!("{head}\r\n\r\n{body}");
            tokio::spawn(async move {
                let _ = stream.read(&mut [0; 4096]).await;
                let _ = stream.write_all(answer.as_bytes()).await;
            });
        }
    });
    format!("http://{addr}")
}

#[test]
fn what_a_gateway_says_does_nothing_to_the_terminal() {
    story(async {
        let evil = "\u{1b}]0;owned\u{7}\u{9b}2J\r\n\u{202e}";
        let live = json!({
            "live_id": format!("l{evil}"), "streamer_id": evil, "epoch": 1,
            "title": format!("{evil}{}", "x".repeat(5_000)), "opened_at": u64::MAX,
            "viewers": u64::MAX, "fans": u64::MAX, "counted_at": null, "quality": evil,
        });
        let other = json!({"live_id": "m", "streamer_id": "s", "epoch": 1, "title": null, "opened_at": 0,
            "viewers": 7, "fans": 1, "counted_at": 5, "of_the_future": [1]});
        // A list without an end, always of the same lives.
        let gateway = impostor(
            "200 OK",
            json!({"items": [live, other], "cursor": "&sort=#\n"}).to_string(),
        )
        .await;
        let table = lives(&format!("--once --gateway {gateway}"))
            .await
            .is(0)
            .out;
        assert!(
            table
                .chars()
                .all(|c| c == '\n' || !c.is_control() && c != '\u{202e}'),
            "{table:?}"
        );
        assert!(
            table.starts_with("2 lives and more") && table.contains("owned"),
            "{table}"
        );
    });
}

#[test]
fn a_gateway_that_does_not_tell_is_named_with_its_reason() {
    story(async {
        let nobody = format!("http://127.0.0.1:{}", free_port());
        let busy = impostor("503 Service Unavailable", String::new()).await;
        let other = impostor("200 OK", "<html>".to_owned()).await;
        let elsewhere = impostor("302 Found", String::new()).await;
        let long = impostor("200 OK", " ".repeat(5 << 20)).await;
        let world = World::on_redis(|_| ()).await;
        for (gateway, words) in [
            (&nobody, "refused"),
            (&busy, "/v1/lives answered 503"),
            (&other, "does not answer as a gateway does"),
            (&elsewhere, "302"),
            (&long, "more than 4194304 bytes"),
        ] {
            for view in ["--json", "--once"] {
                let Ran { out, err: why, .. } =
                    lives(&format!("{view} --gateway {gateway}")).await.is(69);
                assert!(
                    out.is_empty() && why.contains(words) && why.contains(gateway),
                    "{words}: {why}"
                );
                assert_eq!(why.lines().count(), 1, "{why}");
            }
            // The next one is asked.
            let both = format!("--once --gateway {gateway} --gateway http://{}", world.addr);
            lives(&both).await.is(0);
        }
    });
}

#[test]
fn a_gateway_with_keys_is_asked_with_one_over_tls() {
    story(async {
        let guarded = Guarded::start().await;
        let Guarded {
            plain, secure, ca, ..
        } = &guarded;
        let [key, wrong, weak] = [KEY, "stranger", WEAK].map(|key| guarded.key(key));
        let nowhere = format!("{plain} --api-key-file /nowhere");
        for (options, code, words) in [
            (format!("{plain} {key}"), 0, "0 lives"),
            (format!("{secure} {ca} {key}"), 0, "0 lives"),
            (
                plain.clone(),
                64,
                "the gateway wants an API key; name a file",
            ),
            (
                format!("{plain} {wrong}"),
                64,
                "the gateway does not know this API key",
            ),
            (format!("{plain} {weak}"), 64, "the API key may not read"),
            (nowhere.clone(), 64, "--api-key-file: cannot be read"),
            (nowhere, 64, "(/nowhere)"),
            (
                format!("{secure} --gateway-ca /nowhere {key}"),
                64,
                "--gateway-ca",
            ),
            (format!("{secure} {key}"), 69, "certificate is not trusted"),
            (format!("{secure} {key}"), 69, "--gateway-ca FILE"),
        ] {
            let text = lives(&format!("--once {options}")).await.is(code).said();
            assert!(
                text.contains(words) && !text.contains(KEY),
                "{words}: {text}"
            );
        }
    });
}
