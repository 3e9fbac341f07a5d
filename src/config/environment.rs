//! Reads settings from the environment: `ROLLCALL_HEARTBEAT` for `heartbeat`. Another variable with
//! that prefix is a mistake, unless an orchestrator sets it by itself, or it tells which build of
//! the program an image has.

use std::ffi::OsString;

use super::given::{Given, GivenMap};
use super::mistakes::did_you_mean;
use super::settings::{self, ENV_PREFIX, SETTINGS};

pub(super) fn read(
    env: impl IntoIterator<Item = (OsString, OsString)>,
    mistakes: &mut Vec<String>,
) -> GivenMap {
    let mut given = GivenMap::new();
    let mut vars: Vec<_> = env
        .into_iter()
        .filter(|(name, _)| name.to_string_lossy().starts_with(ENV_PREFIX))
        .collect();
    vars.sort();
    for (name, value) in vars {
        let name = name.to_string_lossy();
        if let Some(setting) = SETTINGS.iter().find(|s| s.env_name() == name) {
            let text = value
                .into_string()
                .map_err(|_| "is not valid UTF-8".to_owned());
            given.insert(
                &setting.name,
                Given {
                    text,
                    place: format!("env {name}"),
                },
            );
        } else if !is_service_link(&name, &value.to_string_lossy()) && !tells_the_build(&name) {
            let hint = did_you_mean(
                &name[ENV_PREFIX.len()..],
                settings::names(),
                settings::env_name,
            );
            mistakes.push(format!(
                "{} (env): no such setting{hint}",
                name.escape_debug()
            ));
        }
    }
    given
}

/// The words that images and build systems put after the name of a program to identify its build. No
/// setting begins with one of them.
pub(super) const BUILD_WORDS: [&str; 10] = [
    "BUILD", "CHECKSUM", "COMMIT", "DOWNLOAD", "GIT", "IMAGE", "RELEASE", "REVISION", "SHA256",
    "VERSION",
];

/// Whether the variable describes the build of the program, such as `ROLLCALL_VERSION` or
/// `ROLLCALL_GIT_COMMIT`.
fn tells_the_build(name: &str) -> bool {
    let first = name[ENV_PREFIX.len()..]
        .split('_')
        .next()
        .unwrap_or_default();
    BUILD_WORDS.contains(&first)
}

/// Whether Kubernetes set the variable. Every pod gets variables for each service of its namespace,
/// and those for a service named `rollcall` or `rollcall-admin` begin with our prefix:
/// `ROLLCALL_SERVICE_HOST`, `ROLLCALL_PORT=tcp://10.0.0.7:8080`, `ROLLCALL_PORT_8080_TCP_ADDR`.
fn is_service_link(name: &str, value: &str) -> bool {
    let words: Vec<&str> = name.split('_').collect();
    // The name of a service has one word or more, so its own name may end after any word.
    (1..words.len()).any(|at| match &words[at..] {
        ["SERVICE", "HOST"] | ["SERVICE", "PORT", ..] => true,
        // Only the value tells: `ROLLCALL_PORT=9000`, meant for `listen`, is a mistake.
        ["PORT"] => ["tcp://", "udp://", "sctp://"]
            .iter()
            .any(|scheme| value.starts_with(scheme)),
        ["PORT", port, transport] | ["PORT", port, transport, "ADDR" | "PORT" | "PROTO"] => {
            port.parse::<u16>().is_ok() && ["TCP", "UDP", "SCTP"].contains(transport)
        }
        _ => false,
    })
}
