//! The commands with which docs/operations.md brings up two gateways on a Redis Cluster, and
//! restarts them under viewers without a wrong count on any dashboard, work as they stand there.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::read;
use crate::redis_server::free_port;
use crate::wait::until;

const PORTS: &[&str] = &["7001", "7002", "7003", "8081", "8082", "9081", "9082"];

/// A cluster is up within seconds, and each gateway is started twice and drains once.
const PATIENCE: Duration = Duration::from_secs(120);

/// Ends all that the commands started, also after a failure.
struct Group(u32);

impl Drop for Group {
    fn drop(&mut self) {
        let _ = Command::new("kill")
            .args(["-9", "--", &format!("-{}", self.0)])
            .stderr(Stdio::null())
            .status();
    }
}

/// A free port whose neighbour 10,000 further on, which a cluster uses too, is a port as well.
fn port() -> String {
    let ports = std::iter::repeat_with(free_port);
    ports
        .take(1_000)
        .find(|port| *port < 55_000)
        .expect("a free port below 55000")
        .to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn two_gateways_come_up_by_the_commands_of_the_document() {
    let document = read("docs/operations.md");
    let section = document
        .split_once("\n## Two gateways on one machine\n")
        .unwrap()
        .1
        .split("\n## ")
        .next()
        .unwrap();
    let blocks = section
        .split("```sh\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap());
    let mut script = format!(
        "set -euo pipefail\n{}echo all done\n",
        blocks.collect::<String>()
    );
    assert!(script.contains("rollcall audit"), "{script}");
    for documented in PORTS {
        assert!(
            script.contains(documented),
            "the commands use no port {documented}"
        );
        script = script.replace(documented, &port());
    }
    // Debian's, which has the library.
    assert!(script.contains("\npython3 "), "{script}");
    script = script.replace("\npython3 ", "\n/usr/bin/python3 ");
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let programs = Path::new(env!("CARGO_BIN_EXE_rollcall"))
        .parent()
        .unwrap()
        .display()
        .to_string();
    let mut bash = Command::new("bash");
    bash.args(["-c", &script])
        .current_dir(folder.path())
        .process_group(0)
        .stdin(Stdio::null());
    bash.env(
        "PATH",
        format!("{programs}:{}", std::env::var("PATH").unwrap()),
    );
    let file = std::fs::File::create(&log).unwrap();
    bash.stdout(file.try_clone().unwrap()).stderr(file);
    let mut bash = bash.spawn().unwrap();
    let _group = Group(bash.id());
    let said = || std::fs::read_to_string(&log).unwrap_or_default();
    let status = until("the commands end", PATIENCE, || {
        std::future::ready(bash.try_wait().unwrap().ok_or_else(said))
    })
    .await;
    assert!(
        status.success() && said().ends_with("all done\n"),
        "{status}\n{}",
        said()
    );
}
