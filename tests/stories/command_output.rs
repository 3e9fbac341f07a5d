//! What a command prints that nobody can have is a failure, and not a success without a word.

use std::fs::File;
use std::io;
use std::process::{Command, Output, Stdio};

use crate::support::redis_view::Redis;
use crate::support::stores::story;
use crate::support::world::World;

async fn rollcall(args: Vec<String>, stdout: impl Into<Stdio>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rollcall"));
    command.args(args).stdout(stdout).stderr(Stdio::piped());
    tokio::task::spawn_blocking(move || command.spawn().unwrap().wait_with_output().unwrap())
        .await
        .unwrap()
}

/// The names of the commands, from the manual page, which the parser of the command line writes.
async fn commands() -> Vec<String> {
    let manual = rollcall(vec!["man".to_owned()], Stdio::piped())
        .await
        .stdout;
    let manual = String::from_utf8(manual).unwrap();
    let names = manual
        .lines()
        .filter_map(|line| line.strip_prefix(".SH \"ROLLCALL ")?.strip_suffix('"'));
    names
        .map(|name| name.to_lowercase().replace('\\', ""))
        .collect()
}

/// Command lines of a command that print something.
fn lines_of(command: &str, redis: &str, gateway: &str, secret: &str) -> Vec<String> {
    match command {
        // Without output; what it says goes to the log.
        "serve" => vec![],
        "audit" => vec![
            format!("audit --redis {redis}"),
            format!("audit --json --redis {redis}"),
        ],
        "explain" => vec![format!("explain 42 --redis {redis}")],
        "events" => vec![
            format!("events list --redis {redis}"),
            format!("events replay --all --redis {redis}"),
        ],
        "lives" => vec![
            format!("lives --gateway {gateway}"),
            format!("lives --json --gateway {gateway}"),
            format!("lives --watch 1 --gateway {gateway}"),
        ],
        "keys" => vec![format!("keys * --redis {redis}")],
        "check-config" => vec!["check-config".to_owned()],
        "token" => vec![format!("token --sub u1 --jwt-hs256-secret-file {secret}")],
        "key" => vec!["key --name shop --scopes read".to_owned()],
        "completions" => vec!["completions bash".to_owned()],
        "man" => vec!["man".to_owned()],
        "help" => vec!["help".to_owned()],
        other => panic!("say here what {other} prints"),
    }
}

#[test]
fn output_that_cannot_be_written_is_a_failure_of_every_command() {
    story(async {
        let redis = Redis::start().await;
        let world = World::beside(redis.clone(), |_| ()).await;
        world.open("42").await;
        let secret = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(secret.path(), "s".repeat(32)).unwrap();
        let gateway = format!("http://{}", world.addr);
        let commands = commands().await;
        assert!(commands.len() > 8, "{commands:?}");
        let mut lines = vec!["--help".to_owned(), "--version".to_owned()];
        for command in &commands {
            let secret = secret.path().to_str().unwrap();
            lines.extend(lines_of(command, &redis.url(), &gateway, secret));
            lines.push(format!("{command} --help"));
        }
        for line in lines {
            let args = || line.split(' ').map(str::to_owned).collect();
            let full = File::options().write(true).open("/dev/full").unwrap();
            let out = rollcall(args(), full).await;
            let why = String::from_utf8_lossy(&out.stderr);
            assert_eq!(out.status.code(), Some(74), "{line}: {why}");
            assert!(
                why.contains("could not be written: No space"),
                "{line}: {why}"
            );

            let (reader, gone) = io::pipe().unwrap();
            drop(reader);
            let out = rollcall(args(), gone).await;
            let why = String::from_utf8_lossy(&out.stderr);
            assert_eq!(out.status.code(), Some(0), "{line}: {why}");
            assert!(!why.contains("could not be written"), "{line}: {why}");
        }
    });
}
