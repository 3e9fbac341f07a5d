//! The commands of documents work as they stand there: those of docs/operations.md, which bring up
//! two gateways on a Redis Cluster and restart them under viewers without a wrong count on any
//! dashboard; those of docs/http.md, which take a back end from a key to a live that has closed, and
//! its examples of each call, in their order.

use rollcall::config::Config;

use super::read;
use super::shell::{commands, section, succeeds};
use crate::program::Program;
use crate::redis_server::free_port;

const PORTS: &[&str] = &["7001", "7002", "7003", "8081", "8082", "9081", "9082"];

/// A free port whose neighbour 10,000 further on, which a cluster uses too, is a port as well.
fn port() -> String {
    let ports = std::iter::repeat_with(free_port);
    ports
        .take(1_000)
        .find(|port| *port < 55_000)
        .expect("a free port below 55000")
        .to_string()
}

/// The script with free ports in place of those of the document.
fn on_free_ports(script: &str, documented: &[&str]) -> String {
    let mut script = script.to_owned();
    for documented in documented {
        assert!(
            script.contains(documented),
            "the commands use no port {documented}"
        );
        script = script.replace(documented, &port());
    }
    script
}

#[tokio::test(flavor = "multi_thread")]
async fn two_gateways_come_up_by_the_commands_of_the_document() {
    let document = read("docs/operations.md");
    let script = commands(section(&document, "Two gateways on one machine"));
    assert!(script.contains("rollcall audit"), "{script}");
    let script = on_free_ports(&script, PORTS);
    // Debian's, which has the library.
    assert!(script.contains("\npython3 "), "{script}");
    succeeds(&script.replace("\npython3 ", "\n/usr/bin/python3 ")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_back_end_is_complete_after_the_commands_of_the_document() {
    let document = read("docs/http.md");
    let script = commands(section(&document, "An integration in an afternoon"));
    let script = on_free_ports(&script, &["8080", "9000"]);
    let (_, address) = script.split_once("B=http://").unwrap();
    let listen = format!("rollcall --listen {} ", address.lines().next().unwrap());
    let mut script = script.replace("rollcall --auth", &format!("{listen} --auth"));
    // A reader looks again, and ends the trial when the receiver has printed the end.
    let fans = r#"curl $B/v1/lives/42/fans -H "$BACK_END""#;
    let end = "kill %1 %2";
    for (command, patiently) in [
        (fans, format!("until {fans} | grep u1; do sleep 0.1; done")),
        (
            end,
            format!("until grep -q live.closed log; do sleep 0.1; done\n{end}"),
        ),
    ] {
        assert!(script.contains(command), "{script}");
        script = script.replace(command, &patiently);
    }
    let said = succeeds(&format!("{PATIENT}{script}")).await;
    for shown in ["\"event_type\":\"webhook.test\"", "\"session_id\":\""] {
        assert!(said.contains(shown), "{said}");
    }
}

/// A gateway takes a moment to listen, and a refused call is an error.
const PATIENT: &str = r#"
curl() {
    command curl -sSf --retry 20 --retry-delay 1 --retry-connrefused "$@"
}
"#;

/// Each call is noted with its status. What an example takes from an answer is taken from that of
/// the gateway.
const NOTING: &str = r#"
curl() {
    local status
    status=$(command curl -sS -m 2 -o answer -w '%{http_code}' "$@") || true
    echo "$status $*" >>calls
    SESSION=$(sed -n 's/.*"session_id":"\([^"]*\)".*/\1/p' answer | grep . || echo "${SESSION-}")
}
from_answer() {
    sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p" answer
}
"#;

#[tokio::test(flavor = "multi_thread")]
async fn the_examples_of_the_http_api_work_in_the_order_in_which_they_stand() {
    let config = Config {
        guests: true,
        ..Config::default()
    };
    let gateway = Program::start(&config).await;
    let document = read("docs/http.md");
    let examples = document
        .split_once("### Requests that may be repeated")
        .unwrap()
        .1;
    let mut script = commands(examples);
    for (shown, field) in [
        ("er-5m2zkq3wvtcohxya", "erasure_id"),
        ("s1~5m2zkq3wvtcohxya", "status_id"),
    ] {
        assert!(script.contains(shown), "{script}");
        script = script.replace(shown, &format!("$(from_answer {field})"));
    }
    let script = script.replace("127.0.0.1:8080", &gateway.addr.to_string());
    let said = succeeds(&format!("{NOTING}{script}\ncat calls")).await;
    let calls: Vec<&str> = said
        .lines()
        .filter(|line| line.contains(" http://"))
        .collect();
    assert!(calls.len() > 50, "{said}");
    for call in calls {
        assert!(call.starts_with('2'), "{call}");
    }
}
