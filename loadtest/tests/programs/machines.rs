//! `loadtest crowd` on several machines, which are processes on loopback here, against a fake
//! gateway: the report is the sum, and a joiner that dies, a joiner that is late and a stranger are
//! told apart.

use std::net::SocketAddr;
use std::process::Output;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::Child;
use tokio::time::timeout;

use crate::fake::{FakeGateway, Fault};
use crate::run::command;

const DEADLINE: Duration = Duration::from_secs(40);

/// A coordinator, and where it listens. It ends with this.
struct Coordinator {
    child: Child,
    at: SocketAddr,
    errors: BufReader<tokio::process::ChildStderr>,
}

impl Coordinator {
    async fn start(fake: &FakeGateway, flags: &str) -> Self {
        let words = format!(
            "crowd --json --viewers 60 --lives 3 --heartbeat 200ms --verify-timeout 1s --ack-timeout 1s \
             --coordinator 127.0.0.1:0 --url ws://{} {flags}",
            fake.address
        );
        let mut child = command(&words).spawn().expect("the program runs");
        let mut errors = BufReader::new(child.stderr.take().expect("standard error"));
        let mut line = String::new();
        timeout(DEADLINE, errors.read_line(&mut line))
            .await
            .expect("in time")
            .expect("a line");
        let at = line
            .trim()
            .rsplit(' ')
            .next()
            .and_then(|at| at.parse().ok())
            .unwrap_or_else(|| panic!("{line}"));
        Self { child, at, errors }
    }

    /// Its report, its exit code, and what it wrote for people.
    async fn end(mut self) -> (Value, Option<i32>, String) {
        let mut errors = String::new();
        timeout(DEADLINE, self.errors.read_to_string(&mut errors))
            .await
            .expect("in time")
            .expect("text");
        let output = timeout(DEADLINE, self.child.wait_with_output())
            .await
            .expect("in time")
            .expect("an end");
        (
            serde_json::from_slice(&output.stdout).unwrap_or_default(),
            output.status.code(),
            errors,
        )
    }
}

fn joiner(at: SocketAddr) -> Child {
    let joiner = command(&format!("join {at}")).spawn();
    joiner.expect("the program runs")
}

async fn ended(joiner: Child) -> Output {
    timeout(DEADLINE, joiner.wait_with_output())
        .await
        .expect("in time")
        .expect("an end")
}

/// A number that a joiner printed of itself.
fn own(output: &Output, name: &str) -> u64 {
    let said = String::from_utf8_lossy(&output.stdout);
    let mut words = said.split_whitespace().skip_while(|word| *word != name);
    words
        .nth(1)
        .and_then(|number| number.parse().ok())
        .unwrap_or_else(|| panic!("no {name} in {output:?}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn three_machines_make_one_report_with_their_sums() {
    let fake = FakeGateway::start("127.0.0.1:0", Fault::None).await;
    let coordinator =
        Coordinator::start(&fake, "--machines 3 --check --verify --duration 1s").await;
    let joiners: Vec<Child> = (0..3).map(|_| joiner(coordinator.at)).collect();
    let (report, code, errors) = coordinator.end().await;
    let mut outputs = Vec::new();
    for joiner in joiners {
        outputs.push(ended(joiner).await);
    }
    assert!(
        outputs.iter().all(|output| output.status.success()),
        "{outputs:?}"
    );
    let sum = |name| outputs.iter().map(|output| own(output, name)).sum::<u64>();
    assert!(
        outputs.iter().all(|output| own(output, "joined") == 20),
        "{outputs:?}"
    );
    assert_eq!(report["join"]["joined"], 60, "{report:#}\n{errors}");
    for (name, merged) in [
        ("sent", "/heartbeats/sent"),
        ("acked", "/heartbeats/acked"),
        ("left", "/sockets/left"),
    ] {
        assert!(sum(name) > 0);
        assert_eq!(
            report.pointer(merged),
            Some(&sum(name).into()),
            "{name}: {report:#}"
        );
    }
    assert_eq!(
        report["connect"]["latency_us"]["count"], 60,
        "all histograms are in: {report:#}"
    );
    assert_eq!(report["verify"]["held"]["correct"], 3, "{report:#}");
    let workers = report["workers"]
        .as_array()
        .expect("a row for each machine");
    assert!(
        workers.len() == 3 && workers.iter().all(|worker| worker["lost"].is_null()),
        "{report:#}"
    );
    assert_eq!(code, Some(0), "{report:#}\n{errors}");
    assert_eq!((fake.open_lives(), fake.follows()), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_that_dies_is_told_and_the_others_go_on() {
    let fake = FakeGateway::start("127.0.0.1:0", Fault::None).await;
    let coordinator = Coordinator::start(&fake, "--machines 2 --duration 4s").await;
    let (stays, mut dies) = (joiner(coordinator.at), joiner(coordinator.at));
    let everybody = async {
        while fake.upgrades() < 60 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(DEADLINE, everybody).await.expect("everybody is in");
    dies.kill().await.expect("a kill");
    let (report, code, errors) = coordinator.end().await;
    let stays = ended(stays).await;
    assert!(
        stays.status.success() && own(&stays, "left") == 30,
        "{stays:?}"
    );
    assert_eq!(
        (&report["sockets"]["left"], &report["join"]["joined"]),
        (&30.into(), &30.into()),
        "{report:#}"
    );
    assert_eq!(
        report["heartbeats"]["sent"],
        own(&stays, "sent"),
        "{report:#}"
    );
    let lost = report["workers"]
        .as_array()
        .expect("rows")
        .iter()
        .filter(|worker| worker["lost"].is_string());
    assert_eq!(lost.count(), 1, "{report:#}");
    assert!(
        report["failures"].to_string().contains("was lost"),
        "{report:#}"
    );
    // Also without --check: half of the figures are missing.
    assert_eq!(code, Some(1), "{errors}");
    assert_eq!(fake.open_lives(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_are_refused_and_do_no_harm() {
    let fake = FakeGateway::start("127.0.0.1:0", Fault::None).await;
    let coordinator = Coordinator::start(&fake, "--machines 1 --duration 1s --check").await;
    let at = coordinator.at;
    let say = async |bytes: &[u8]| {
        let mut stream = TcpStream::connect(at).await.expect("a connection");
        // The coordinator may hang up in the middle.
        let _ = stream.write_all(bytes).await;
        let _ = stream.shutdown().await;
        let mut answer = String::new();
        let _ = timeout(DEADLINE, stream.read_to_string(&mut answer))
            .await
            .expect("in time");
        answer
    };
    for garbage in [
        &b"\xff\x00\r\n"[..],
        b"GET / HTTP/1.1\r\n\r\n",
        b"",
        b"{}\n",
        &[b'['; 100_000],
    ] {
        let answer = say(garbage).await;
        assert!(answer.is_empty() || answer.contains("refused"), "{answer}");
    }
    let older = br#"{"program":"rollcall loadtest 1","version":"0.0.1"}"#;
    let answer = say(&[older, &b"\n"[..]].concat()).await;
    assert!(
        answer.contains("refused") && answer.contains("version"),
        "{answer}"
    );
    // A connection that says nothing holds up nobody.
    let _silent = TcpStream::connect(at).await.expect("a connection");
    let joiner = joiner(at);
    let (report, code, errors) = coordinator.end().await;
    assert_eq!(
        (&report["join"]["joined"], code),
        (&60.into(), Some(0)),
        "{report:#}\n{errors}"
    );
    assert!(ended(joiner).await.status.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stranger_who_knows_the_first_word_only_loses_the_share() {
    let fake = FakeGateway::start("127.0.0.1:0", Fault::None).await;
    let coordinator = Coordinator::start(&fake, "--machines 2 --duration 1s").await;
    let mut stranger = TcpStream::connect(coordinator.at)
        .await
        .expect("a connection");
    let version = env!("CARGO_PKG_VERSION");
    let hello = format!(r#"{{"program":"rollcall loadtest 1","version":"{version}"}}"#);
    stranger
        .write_all(format!("{hello}\n").as_bytes())
        .await
        .expect("sent");
    let mut lines = BufReader::new(&mut stranger).lines();
    assert_eq!(
        lines.next_line().await.expect("an answer").as_deref(),
        Some(r#""wait""#)
    );
    let joiner = joiner(coordinator.at);
    let assignment = timeout(DEADLINE, lines.next_line())
        .await
        .expect("in time")
        .expect("a line")
        .expect("an assignment");
    // The plan names no file of the coordinator.
    let assignment: Value = serde_json::from_str(&assignment).expect("JSON");
    let entry = &assignment["plan"]["target"]["entry"];
    assert!(
        entry["secret"].is_null() && entry["ca"].is_null(),
        "{assignment:#}"
    );
    let done = r#"{"counted":[[4294967295,1],[4294967295,1]]}"#;
    stranger
        .write_all(format!("{done}\n{{\"progress\":7}}\n").as_bytes())
        .await
        .expect("sent");
    let (report, code, errors) = coordinator.end().await;
    assert_eq!(code, Some(1), "{report:#}\n{errors}");
    assert_eq!(report["join"]["joined"], 30, "{report:#}");
    assert!(ended(joiner).await.status.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn too_few_machines_end_the_run_before_it_begins() {
    let fake = FakeGateway::start("127.0.0.1:0", Fault::None).await;
    let coordinator = Coordinator::start(&fake, "--machines 2 --join-within 1s").await;
    let joiner = joiner(coordinator.at);
    let (_, code, errors) = coordinator.end().await;
    assert!(
        code == Some(1) && errors.contains("1 of 2 machines joined"),
        "{code:?} {errors}"
    );
    let joiner = ended(joiner).await;
    let said = String::from_utf8_lossy(&joiner.stderr);
    assert!(
        !joiner.status.success() && said.contains("the coordinator ended before it began"),
        "{said}"
    );
    assert_eq!(fake.http_calls(), 0);
}
