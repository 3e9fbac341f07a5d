//! The settings in force, each with its origin, for people. No value shows a secret.

use std::collections::BTreeSet;

use reqwest::Url;
use serde::Serialize;

use super::given::{Given, GivenMap};
use super::settings::{Config, SETTINGS, Setting};
use super::values::has_login;
use crate::base::redis_address::{Address, Layout};

const HIDDEN: &str = "(not shown)";

/// A setting in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SettingInForce {
    /// Its name.
    pub name: String,
    /// The given value or the default, without parts that may hold a secret. `None` if the setting
    /// has no value.
    pub value: Option<String>,
    /// Where it was given, such as `env ROLLCALL_HEARTBEAT`, or `default`.
    pub origin: String,
}

/// Every setting, in the order of the table; then every media server with its kind, and every further
/// webhook with its host. `wrong` has the names of the settings with a wrong value.
pub(super) fn in_force(
    given: &GivenMap,
    wrong: &BTreeSet<&str>,
    config: &Config,
) -> Vec<SettingInForce> {
    let mut settings = Vec::new();
    for setting in SETTINGS.iter() {
        settings.push(one_in_force(setting, given, wrong));
    }
    for server in &config.media {
        settings.push(SettingInForce {
            name: format!("media.{}", server.name),
            value: Some(server.kind.as_str().to_owned()),
            origin: "file".to_owned(),
        });
    }
    for webhook in &config.webhooks {
        settings.push(SettingInForce {
            name: format!("webhooks.{}", webhook.name),
            value: Some(webhook.origin()),
            origin: "file".to_owned(),
        });
    }
    settings
}

fn one_in_force(setting: &Setting, given: &GivenMap, wrong: &BTreeSet<&str>) -> SettingInForce {
    let name = setting.name.as_str();
    let (value, origin) = match given.get(name) {
        Some(Given {
            text: Ok(text),
            place,
        }) if !wrong.contains(name) => (Some(shown(setting, text)), place.as_str()),
        Some(Given { place, .. }) => (Some("(wrong)".to_owned()), place.as_str()),
        None => (setting.default.clone(), "default"),
    };
    SettingInForce {
        name: name.to_owned(),
        value,
        origin: origin.to_owned(),
    }
}

/// A right value. A URL that may hold a password is cut down to its scheme and its hosts.
fn shown(setting: &Setting, value: &str) -> String {
    if setting.may_show(value) || setting.may_hold_secret && !value.contains("://") {
        return value.to_owned();
    }
    let cut_down = if setting.may_hold_secret {
        redis(value).or_else(|| url(value))
    } else {
        None
    };
    cut_down.unwrap_or_else(|| HIDDEN.to_owned())
}

fn redis(value: &str) -> Option<String> {
    let address = Address::parse(value).ok()?;
    let hosts: Vec<String> = address.hosts.iter().map(ToString::to_string).collect();
    let more = match address.layout {
        Layout::Sentinel(service) => format!("/{service}"),
        Layout::Single | Layout::Cluster => match address.database {
            Some(number) => format!("/{number}"),
            None => String::new(),
        },
    };
    let login = if address.user.is_some() || address.password.is_some() {
        "…@"
    } else {
        ""
    };
    Some(format!(
        "{}://{login}{}{more}",
        value.split_once("://")?.0,
        hosts.join(",")
    ))
}

fn url(value: &str) -> Option<String> {
    let url = Url::parse(value).ok()?;
    let login = if has_login(&url) { "…@" } else { "" };
    let port = match url.port() {
        Some(port) => format!(":{port}"),
        None => String::new(),
    };
    let more = if url.path().len() > 1 || url.query().is_some() {
        "/…"
    } else {
        ""
    };
    Some(format!(
        "{}://{login}{}{port}{more}",
        url.scheme(),
        url.host_str()?
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_what_may_hold_a_secret_only_the_hosts_are_shown() {
        let show = |name: &str, value: &str| {
            shown(
                SETTINGS
                    .iter()
                    .find(|setting| setting.name == name)
                    .unwrap(),
                value,
            )
        };
        for (name, value, right) in [
            ("heartbeat", "5s", "5s"),
            ("redis", "redis://h:1/3", "redis://h:1/3"),
            (
                "redis",
                "rediss-cluster://who:hunter2@a:1,b:2",
                "rediss-cluster://…@a:1,b:2",
            ),
            (
                "redis",
                "redis-sentinel://:hunter2@a,b/main",
                "redis-sentinel://…@a:26379,b:26379/main",
            ),
            ("jwt-jwks", "/etc/jwks.json", "/etc/jwks.json"),
            (
                "jwt-jwks",
                "https://example.org/hunter2?hunter2",
                "https://example.org/…",
            ),
            (
                "fan-url",
                "postgres://who:hunter2@db:5433/x?password=hunter2@x",
                "postgres://…@db:5433/…",
            ),
            (
                "webhook-url",
                "https://example.org/hooks?key=hunter2",
                "https://example.org/…",
            ),
            ("jwt-issuer", "redis://who:hunter2@h", HIDDEN),
        ] {
            assert_eq!(show(name, value), right, "{name} {value}");
        }
    }
}
