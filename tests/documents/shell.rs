//! Runs the commands of documents in a shell, as a reader pastes them.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::wait::until;

/// The longest that the commands of a section take: gateways start, work and drain.
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

/// A section of a document, from its heading to the next one of its level.
pub fn section<'a>(document: &'a str, heading: &str) -> &'a str {
    let found = document.split_once(&format!("\n## {heading}\n"));
    let (_, rest) = found.unwrap_or_else(|| panic!("there is no section {heading}"));
    rest.split("\n## ").next().unwrap()
}

/// The commands in a part of a document that are meant to be pasted.
pub fn commands(part: &str) -> String {
    let blocks = part.split("\n```sh\n").skip(1);
    blocks
        .map(|rest| format!("{}\n", rest.split("\n```").next().unwrap()))
        .collect()
}

/// Runs a script in a folder of its own, in which its output is `log`, beside the programs of this
/// project; it must come to its end. Returns the output.
pub async fn succeeds(script: &str) -> String {
    let script = format!("set -euo pipefail\n{script}\necho all done\n");
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let programs = Path::new(env!("CARGO_BIN_EXE_rollcall")).parent().unwrap();
    let path = std::env::var("PATH").unwrap();
    let file = std::fs::File::create(&log).unwrap();
    let mut bash = Command::new("bash");
    bash.args(["-c", &script])
        .current_dir(folder.path())
        .env("PATH", format!("{}:{path}", programs.display()))
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(file.try_clone().unwrap())
        .stderr(file);
    let mut bash = bash.spawn().unwrap();
    let _group = Group(bash.id());
    let said = || std::fs::read_to_string(&log).unwrap_or_default();
    let status = until("the commands end", PATIENCE, || {
        std::future::ready(bash.try_wait().unwrap().ok_or_else(said))
    })
    .await;
    assert!(
        // A program that the script stopped may still say so.
        status.success() && said().lines().any(|line| line == "all done"),
        "{status}\n{}",
        said()
    );
    said()
}
