//! Settings in the environment: `ROLLCALL_HEARTBEAT` for `heartbeat`. Variables with that prefix that name no setting
//! are refused, except those that an orchestrator sets by itself.

use std::ffi::OsString;

use super::mistakes::did_you_mean;
use super::{Given, GivenMap, Mistake, Origin, SETTINGS, Setting};

pub(super) const PREFIX: &str = "ROLLCALL_";

pub(super) fn read(env: impl IntoIterator<Item = (OsString, OsString)>, mistakes: &mut Vec<Mistake>) -> GivenMap {
    let mut given = GivenMap::new();
    let mut vars: Vec<_> = env.into_iter().filter(|(name, _)| name.to_string_lossy().starts_with(PREFIX)).collect();
    vars.sort();
    for (name, value) in vars {
        let name = name.to_string_lossy();
        if let Some(setting) = SETTINGS.iter().find(|s| s.env_name() == name) {
            let text = value.into_string().map_err(|_| "is not valid UTF-8".to_owned());
            given.insert(setting.name, Given { text, origin: Origin::Env });
        } else if !is_service_link(&name, &value.to_string_lossy()) {
            let hint = did_you_mean(&name[PREFIX.len()..], Setting::env_name);
            mistakes.push(Mistake {
                subject: format!("{} (env)", name.escape_debug()),
                problem: format!("no such setting{hint}"),
            });
        }
    }
    given
}

/// Kubernetes gives every pod variables for each service of its namespace; for one named `rollcall`, or
/// `rollcall-admin`, their names begin with the same prefix: `ROLLCALL_SERVICE_HOST`,
/// `ROLLCALL_PORT=tcp://10.0.0.7:8080`, `ROLLCALL_PORT_8080_TCP_ADDR`.
fn is_service_link(name: &str, value: &str) -> bool {
    let is_transport = |word: &str| ["TCP", "UDP", "SCTP"].contains(&word);
    let words: Vec<&str> = name.split('_').collect();
    // The name of the service takes one word or more, so a link may begin after each.
    (1..words.len()).any(|at| match &words[at..] {
        ["SERVICE", "HOST"] | ["SERVICE", "PORT", ..] => true,
        // Known by its value: `ROLLCALL_PORT=9000`, meant for `listen`, is a mistake.
        ["PORT"] => ["tcp://", "udp://", "sctp://"].iter().any(|scheme| value.starts_with(scheme)),
        ["PORT", port, transport] | ["PORT", port, transport, "ADDR" | "PORT" | "PROTO"] => {
            port.parse::<u16>().is_ok() && is_transport(transport)
        }
        _ => false,
    })
}
