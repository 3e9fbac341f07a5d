//! What `deploy` ships for one machine: the image and the systemd unit are valid and fit the settings, and the gateway
//! tells its service manager what the unit expects.

use std::ffi::OsString;
use std::future::ready;
use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::time::Duration;

use rollcall::config::{self, Config, Loaded};

use super::tools::{of_python, succeeds};
use super::{read, root};
use crate::program::Program;
use crate::wait::{PATIENCE, until};

const IMAGE: &str = "deploy/Dockerfile";
const UNIT: &str = "deploy/rollcall.service";
const SETTINGS: &str = "deploy/rollcall.toml";

/// The least time between the end of the drain and the kill.
pub(super) const SPARE: Duration = Duration::from_secs(5);

/// Reads a file of settings as the gateway does.
pub(super) fn settings(text: &str, env: &[(&str, &str)]) -> Box<Config> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    let args = ["rollcall".into(), "--config".into(), OsString::from(file.path())];
    match config::load(args, env.iter().map(|(name, value)| (name.into(), value.into()))) {
        Ok(Loaded::Run(_, config)) => config,
        other => panic!("{other:?}"),
    }
}

/// The value of an option of the unit.
fn option(name: &str) -> String {
    let unit = read(UNIT);
    let value = unit.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    value.unwrap_or_else(|| panic!("{UNIT} has no {name}=")).to_owned()
}

fn seconds(name: &str) -> Duration {
    Duration::from_secs(option(name).parse().unwrap())
}

#[test]
fn the_image_is_small_and_its_user_has_no_rights() {
    succeeds(of_python("hadolint").args(["--failure-threshold", "style", IMAGE]), "");
    let image = read(IMAGE);
    let toolchain =
        read("Cargo.toml").lines().find_map(|line| Some(line.strip_prefix("rust-version = \"")?.to_owned()));
    let toolchain = toolchain.unwrap().replace('"', "");
    assert!(image.contains(&format!("FROM rust:{toolchain}-")), "the image is built with Rust {toolchain}");
    let (build, last) = image.rsplit_once("\nFROM ").unwrap();
    assert!(last.starts_with("gcr.io/distroless/") && last.contains(":nonroot\n"), "{last}");
    assert!(last.contains("\nUSER 65532:65532\n") && !last.contains("\nRUN "), "{last}");
    // What is built is what the context has.
    let ignored = read("deploy/Dockerfile.dockerignore");
    let mut copied = Vec::new();
    for line in build.lines().filter_map(|line| line.strip_prefix("COPY ")) {
        let words: Vec<&str> = line.split(' ').collect();
        copied.extend_from_slice(&words[..words.len() - 1]);
    }
    assert!(copied.contains(&"src"), "{copied:?}");
    for path in copied {
        assert!(root().join(path).exists(), "{IMAGE} copies {path}, which is not there");
        assert!(ignored.lines().any(|line| line == format!("!{path}")), "{path} is not in the context");
    }
    let manifest = read("Cargo.toml");
    for member in manifest.lines().find_map(|line| line.strip_prefix("members = ")).unwrap().split('"') {
        let is_path = member.chars().all(|c| c.is_alphanumeric()) && !member.is_empty();
        assert!(!is_path || image.contains(&format!("COPY {member} ")), "cargo needs the member {member}");
    }
}

#[test]
fn the_unit_is_valid_and_shuts_the_gateway_in() {
    let folder = tempfile::tempdir().unwrap();
    let unit = folder.path().join("rollcall.service");
    let program = env!("CARGO_BIN_EXE_rollcall");
    std::fs::write(&unit, read(UNIT).replace("/usr/local/bin/rollcall", program)).unwrap();
    let said = succeeds(Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&unit), "");
    assert!(!said.contains("rollcall.service"), "{said}");
    let security = ["security", "--offline=true", "--no-pager", "--threshold=15"];
    succeeds(Command::new("systemd-analyze").args(security).arg(&unit), "");
}

#[test]
fn the_unit_fits_its_settings() {
    let config = settings(&read(SETTINGS), &[]);
    assert!(seconds("TimeoutStopSec") >= config.drain + SPARE, "the drain ends before the kill");
    assert!(seconds("TimeoutStartSec") > config.wait_for_store, "the wait for Redis ends before the start times out");
    assert!(option("ExecStart").ends_with("/rollcall.toml"));
    assert_eq!(option("RestartPreventExitStatus"), rollcall::base::exit::WRONG_SETTINGS.to_string());
}

/// Hears what a service manager is told.
struct Manager {
    socket: UnixDatagram,
    told: String,
}

impl Manager {
    /// Waits until it is told this, and returns all that it was told since the last call.
    async fn hears(&mut self, words: &str) -> String {
        until(words, PATIENCE, || {
            let mut buffer = [0; 1_024];
            while let Ok(length) = self.socket.recv(&mut buffer) {
                self.told.push_str(&String::from_utf8_lossy(&buffer[..length]));
                self.told.push('\n');
            }
            let heard = self.told.lines().any(|line| line == words);
            ready(if heard { Ok(()) } else { Err(self.told.clone()) })
        })
        .await;
        std::mem::take(&mut self.told)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_gateway_tells_its_service_manager_what_it_does() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let mut manager = Manager { socket: UnixDatagram::bind(&path).unwrap(), told: String::new() };
    manager.socket.set_nonblocking(true).unwrap();
    let env = [("NOTIFY_SOCKET", path.to_str().unwrap()), ("WATCHDOG_USEC", "600000")];
    let mut program = Program::start_under(&Config::default(), &env).await;
    manager.hears("READY=1").await;
    for _ in 0..2 {
        let said = manager.hears("WATCHDOG=1").await;
        assert!(!said.contains("STOPPING"), "{said}");
    }
    program.terminate();
    manager.hears("STOPPING=1").await;
    assert!(program.exit(PATIENCE).await.success());
}
