//! What `deploy` ships for one machine: the image and the systemd unit are valid and fit the
//! settings, and the gateway tells its service manager what the unit expects.

use std::ffi::OsString;
use std::future::ready;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
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
    let args = [
        "rollcall".into(),
        "--config".into(),
        OsString::from(file.path()),
    ];
    match config::load(
        args,
        env.iter().map(|(name, value)| (name.into(), value.into())),
    ) {
        Ok(Loaded::Run(_, config)) => config,
        other => panic!("{other:?}"),
    }
}

/// The value of an option of the unit.
fn option(name: &str) -> String {
    let unit = read(UNIT);
    let value = unit
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    value
        .unwrap_or_else(|| panic!("{UNIT} has no {name}="))
        .to_owned()
}

fn seconds(name: &str) -> Duration {
    Duration::from_secs(option(name).parse().unwrap())
}

/// The instructions of the Dockerfile, each on one line.
fn instructions() -> Vec<String> {
    let text: Vec<String> = read(IMAGE)
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| format!("{line}\n"))
        .collect();
    let joined = text.concat().replace("\\\n", " ");
    joined
        .lines()
        .filter(|line| !line.is_empty())
        .map(str::to_owned)
        .collect()
}

/// What the first stage copies from the project into its folder.
fn copied() -> Vec<String> {
    let mut copied = Vec::new();
    for line in instructions() {
        let Some(rest) = line
            .strip_prefix("COPY ")
            .filter(|rest| !rest.starts_with("--from="))
        else {
            continue;
        };
        let words: Vec<&str> = rest.split_whitespace().collect();
        let (to, from) = words.split_last().unwrap();
        // As the context has it, so that it can be laid out here.
        assert!(
            *to == "./" || from == [*to],
            "{line}: it has another name in the image"
        );
        copied.extend(from.iter().map(|path| (*path).to_owned()));
    }
    assert!(copied.iter().any(|path| path == "src"), "{copied:?}");
    copied
}

/// The commands of the build stage that begin with this word.
fn commands(word: &str) -> Vec<String> {
    let run = instructions()
        .into_iter()
        .find(|line| line.starts_with("RUN ") && line.contains("cargo build"));
    let run = run.unwrap_or_else(|| panic!("{IMAGE} builds nothing"));
    let of_command = |command: &str| {
        let is_option = |word: &&str| *word == "RUN" || word.starts_with("--mount=");
        command
            .split_whitespace()
            .skip_while(is_option)
            .collect::<Vec<_>>()
            .join(" ")
    };
    let commands: Vec<String> = run
        .split(" && ")
        .map(of_command)
        .filter(|command| command.starts_with(&format!("{word} ")))
        .collect();
    assert!(!commands.is_empty(), "{IMAGE} runs no {word}");
    commands
}

/// Every file of the project of which the compiler made the library that this test is linked with.
fn sources() -> Vec<PathBuf> {
    let deps = std::env::current_exe()
        .unwrap()
        .parent()
        .unwrap()
        .to_owned();
    let mut notes = Vec::new();
    for entry in std::fs::read_dir(&deps).unwrap() {
        let path = entry.unwrap().path();
        let is_note = path.extension().is_some_and(|ending| ending == "d");
        if is_note
            && path
                .file_name()
                .unwrap()
                .to_string_lossy()
                .starts_with("rollcall-")
        {
            let text = std::fs::read_to_string(&path).unwrap();
            if text.contains(".rlib: ") {
                notes.push((path.metadata().unwrap().modified().unwrap(), text));
            }
        }
    }
    let (_, text) = notes
        .into_iter()
        .max()
        .unwrap_or_else(|| panic!("no library in {}", deps.display()));
    let line = text.lines().find(|line| line.contains(".rlib: ")).unwrap();
    let sources: Vec<PathBuf> = line
        .split_once(".rlib: ")
        .unwrap()
        .1
        .split(' ')
        .map(PathBuf::from)
        .collect();
    assert!(sources.len() > 300, "{sources:?}");
    sources
}

/// Docker is not here, so cargo does what it would do in the image, in a folder with what the image
/// copies.
#[test]
fn the_image_is_built_from_all_that_cargo_needs() {
    let copied = copied();
    let ignored = read("deploy/Dockerfile.dockerignore");
    let context = tempfile::tempdir().unwrap();
    for path in &copied {
        assert!(
            ignored.lines().any(|line| line == format!("!{path}")),
            "{path} is not in the context"
        );
        let mut cp = Command::new("cp");
        let cp = cp.args(["-r", "--parents", path]).arg(context.path());
        succeeds(cp, "");
    }
    for command in commands("cargo") {
        let words: Vec<&str> = command.split_whitespace().collect();
        let mut cargo = Command::new(env!("CARGO"));
        // It stops before it compiles: it has read all manifests and the lock file, and found the
        // file of each target.
        cargo
            .args(&words[1..])
            .args(["--offline", "-Z", "unstable-options", "--unit-graph"]);
        cargo
            .env("RUSTC_BOOTSTRAP", "1")
            .env_remove("CARGO_MANIFEST_DIR")
            .current_dir(context.path());
        let output = cargo.output().unwrap();
        assert!(
            output.status.success(),
            "{command}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        let graph: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let targets = graph["units"]
            .as_array()
            .unwrap()
            .iter()
            .map(|unit| &unit["target"]);
        assert!(
            targets
                .clone()
                .any(|target| target["name"] == "rollcall" && target["kind"][0] == "bin"),
            "{command}"
        );
    }
    for source in sources() {
        let inside = source.strip_prefix(root()).unwrap_or(&source);
        let is_copied = copied.iter().any(|path| inside.starts_with(path));
        assert!(
            is_copied && context.path().join(inside).exists(),
            "the image lacks {}",
            source.display()
        );
    }
}

#[test]
fn the_image_has_the_program_alone_and_its_user_has_no_rights() {
    succeeds(
        of_python("hadolint").args(["--failure-threshold", "style", IMAGE]),
        "",
    );
    let manifest = read("Cargo.toml");
    let toolchain = manifest
        .lines()
        .find_map(|line| line.strip_prefix("rust-version = \""))
        .unwrap();
    let toolchain = toolchain.trim_end_matches('"');
    let instructions = instructions();
    let bases: Vec<&str> = instructions
        .iter()
        .filter_map(|line| line.strip_prefix("FROM "))
        .collect();
    let [build, debug, last] = bases[..] else {
        panic!("{bases:?}")
    };
    assert!(
        build.starts_with(&format!("rust:{toolchain}.")),
        "the image is built with Rust {toolchain}: {build}"
    );
    assert!(
        last.starts_with("gcr.io/distroless/") && last.contains(":nonroot@"),
        "{last}"
    );
    assert_eq!(debug, "scratch AS debug");
    for base in [build, last] {
        let digest = base
            .split_once("@sha256:")
            .unwrap_or_else(|| panic!("{base} is not pinned"))
            .1;
        let digest = digest.split(' ').next().unwrap();
        assert!(
            digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit()),
            "{base}"
        );
    }
    let place = instructions
        .iter()
        .position(|line| line == &format!("FROM {last}"))
        .unwrap();
    let stage = &instructions[place..];
    let copies: Vec<&String> = stage
        .iter()
        .filter(|line| line.starts_with("COPY "))
        .collect();
    assert_eq!(
        copies,
        ["COPY --from=build /out/rollcall /usr/local/bin/rollcall"]
    );
    assert!(
        stage.iter().any(|line| line == "USER 65532:65532")
            && !stage.iter().any(|line| line.starts_with("RUN "))
    );
    let labels = stage
        .iter()
        .find(|line| line.starts_with("LABEL "))
        .unwrap();
    for (label, value) in [
        ("title", env!("CARGO_PKG_NAME")),
        ("description", "A live-stream room presence gateway"),
        ("version", env!("CARGO_PKG_VERSION")),
        ("revision", "$REVISION"),
        ("base.name", last.split_once('@').unwrap().0),
    ] {
        assert!(
            labels.contains(&format!("org.opencontainers.image.{label}=\"{value}\"")),
            "{label}: {labels}"
        );
    }
}

/// Done here to the program of this build, which has no fewer symbols.
#[test]
fn the_program_in_the_image_has_no_symbols_and_names_the_file_that_has_them() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("rollcall");
    std::fs::copy(env!("CARGO_BIN_EXE_rollcall"), &program).unwrap();
    let size = |path: &Path| path.metadata().unwrap().len();
    let whole = size(&program);
    for command in commands("objcopy") {
        let command = command.replace("/out", folder.path().to_str().unwrap());
        let words: Vec<&str> = command.split_whitespace().collect();
        succeeds(Command::new(words[0]).args(&words[1..]), "");
    }
    assert!(
        size(&program) < whole / 2,
        "{} of {whole} bytes",
        size(&program)
    );
    let sections = |path: &Path| {
        succeeds(
            Command::new("readelf")
                .args(["--sections", "--wide"])
                .arg(path),
            "",
        )
    };
    let said = sections(&program);
    assert!(
        !said.contains(" .symtab ") && !said.contains(" .debug_line "),
        "{said}"
    );
    assert!(said.contains(" .gnu_debuglink "), "{said}");
    let debug = sections(&folder.path().join("rollcall.debug"));
    assert!(
        debug.contains(" .symtab ") && debug.contains(" .debug_line "),
        "{debug}"
    );
    assert!(
        succeeds(Command::new(&program).arg("--version"), "").contains(env!("CARGO_PKG_VERSION"))
    );
}

#[test]
fn the_unit_is_valid_and_shuts_the_gateway_in() {
    let folder = tempfile::tempdir().unwrap();
    let unit = folder.path().join("rollcall.service");
    let program = env!("CARGO_BIN_EXE_rollcall");
    std::fs::write(
        &unit,
        read(UNIT).replace("/usr/local/bin/rollcall", program),
    )
    .unwrap();
    let said = succeeds(
        Command::new("systemd-analyze")
            .args(["verify", "--man=no"])
            .arg(&unit),
        "",
    );
    assert!(!said.contains("rollcall.service"), "{said}");
    let security = ["security", "--offline=true", "--no-pager", "--threshold=15"];
    succeeds(
        Command::new("systemd-analyze").args(security).arg(&unit),
        "",
    );
    assert_eq!(option("LimitCORE"), "0", "a core file holds secrets");
}

#[test]
fn the_unit_fits_its_settings() {
    let config = settings(&read(SETTINGS), &[]);
    assert!(
        seconds("TimeoutStopSec") >= config.drain + SPARE,
        "the drain ends before the kill"
    );
    assert!(
        seconds("TimeoutStartSec") > config.wait_for_store,
        "the wait for Redis ends before the start times out"
    );
    assert!(option("ExecStart").ends_with("/rollcall.toml"));
    assert_eq!(
        option("RestartPreventExitStatus"),
        rollcall::base::exit::WRONG_SETTINGS.to_string()
    );
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
                self.told
                    .push_str(&String::from_utf8_lossy(&buffer[..length]));
                self.told.push('\n');
            }
            let heard = self.told.lines().any(|line| line == words);
            ready(if heard {
                Ok(())
            } else {
                Err(self.told.clone())
            })
        })
        .await;
        std::mem::take(&mut self.told)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_gateway_tells_its_service_manager_what_it_does() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let mut manager = Manager {
        socket: UnixDatagram::bind(&path).unwrap(),
        told: String::new(),
    };
    manager.socket.set_nonblocking(true).unwrap();
    let env = [
        ("NOTIFY_SOCKET", path.to_str().unwrap()),
        ("WATCHDOG_USEC", "600000"),
    ];
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
