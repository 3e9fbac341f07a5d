//! The media servers of the settings file: a table `[media.<name>]` for each. A mistake says what
//! would be right, and quotes no secret.

mod callbacks;
mod mapping;
pub(super) mod server;
mod template;

use std::convert::Infallible;
use std::net::IpAddr;
use std::str::FromStr;

use super::tables::{self, Keys, Kind, Table};
use super::values::{AuthMode, Config};
use crate::base::media_server::{MediaKind, MediaServerName};
use crate::base::secret::Secret;
use ipnet::IpNet;
pub use mapping::{Mapping, Meaning, Place};
use reqwest::Url;
pub use server::MediaServer;
use server::SHORTEST_SECRET;
pub use template::{Placeholder, Template, TemplateError};

const TABLES: Kind<MediaServerName, MediaServer> = Kind {
    word: "media",
    keys: &[
        "address",
        "app",
        "asks",
        "at",
        "begins",
        "ends",
        "event",
        "goes-on",
        "heartbeats",
        "ignores",
        "instance",
        "kind",
        "live",
        "networks",
        "no-body",
        "no-status",
        "path",
        "poll-url",
        "publish-secret-file",
        "publish-url",
        "query",
        "secret",
        "secret-file",
        "session",
        "stream",
        "streamer",
        "streamer-id",
        "token",
        "yes-body",
        "yes-header",
    ],
    name: MediaServerName::parse,
    make: server,
};

/// Reads the entries. Adds each mistake, with the name of its key, to `mistakes`.
pub(super) fn read(entries: Vec<Table>, mistakes: &mut Vec<String>) -> Vec<MediaServer> {
    TABLES.read(entries, mistakes)
}

fn server(name: MediaServerName, keys: &mut Keys<'_>) -> Option<MediaServer> {
    let before = keys.mistakes();
    let no_kind = format!("is missing; use one of {}", kinds());
    let kind = keys.required("kind", &no_kind, kind);
    let secret = keys.read("secret", secret);
    let secret_file = keys.read("secret-file", tables::file);
    let live = keys.read("live", live_template);
    let streamer = keys.read("streamer", streamer_template);
    let publish_url = keys.read("publish-url", url);
    let publish_secret_file = keys.read("publish-secret-file", tables::file);
    let poll_url = keys.read("poll-url", url);
    let heartbeats = keys.read("heartbeats", on_or_off);
    let networks = keys.read("networks", networks);
    let mapping = kind.map(|kind| callbacks::read(kind, keys));
    if keys.mistakes() > before {
        return None;
    }
    Some(MediaServer {
        name,
        kind: kind?,
        mapping: mapping?,
        secret,
        secret_file,
        live: live.unwrap_or_default(),
        streamer,
        publish_url,
        publish_secret_file,
        poll_url,
        heartbeats: heartbeats.unwrap_or_default(),
        networks: networks.unwrap_or_default(),
    })
}

fn kinds() -> String {
    MediaKind::ALL.map(MediaKind::as_str).join(", ")
}

fn kind(text: &str) -> Result<MediaKind, String> {
    match MediaKind::from_name(text) {
        Some(kind) => Ok(kind),
        None => Err(format!("is not known; use one of {}", kinds())),
    }
}

fn secret(text: &str) -> Result<Secret, Infallible> {
    Ok(Secret::new(text))
}

fn live_template(text: &str) -> Result<Template, TemplateError> {
    Template::parse(text, &[Placeholder::Name, Placeholder::App])
}

fn streamer_template(text: &str) -> Result<Template, TemplateError> {
    Template::parse(text, &Placeholder::ALL)
}

fn url(text: &str) -> Result<Secret, &'static str> {
    match Url::parse(text) {
        Ok(url) if ["http", "https"].contains(&url.scheme()) && url.has_host() => {
            Ok(Secret::new(text))
        }
        _ => Err("is not a URL of https or http; use one like https://example.org/stream-keys"),
    }
}

fn on_or_off(text: &str) -> Result<bool, &'static str> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("is not known; use on or off"),
    }
}

/// Networks, and addresses as networks of their own.
fn networks(text: &str) -> Result<Vec<IpNet>, &'static str> {
    let mut networks = Vec::new();
    for part in text.split(',') {
        let part = part.trim();
        if let Ok(network) = IpNet::from_str(part) {
            networks.push(network);
        } else if let Ok(address) = IpAddr::from_str(part) {
            networks.push(address.into());
        } else {
            return Err(
                "is not a list of networks; use addresses such as 10.0.0.0/8,192.0.2.7,::1",
            );
        }
    }
    Ok(networks)
}

impl Config {
    /// What is wrong with the entries beside the other settings, or within one entry.
    pub(super) fn media_mistakes(&self) -> Vec<String> {
        let mut mistakes = Vec::new();
        for server in &self.media {
            for (key, mistake) in server.mistakes(self.auth) {
                mistakes.push(format!("media.{}.{key}: {mistake}", server.name));
            }
        }
        mistakes
    }
}

impl MediaServer {
    /// The keys that do not fit together, and why.
    fn mistakes(&self, auth: AuthMode) -> Vec<(&'static str, String)> {
        let kind = self.kind.as_str();
        let mut wrong = Vec::new();
        if self.secret.is_some() && self.secret_file.is_some() {
            let why = "there is a secret-file too; use one of them";
            wrong.push(("secret", why.to_owned()));
        }
        let has_secret = self.secret.is_some() || self.secret_file.is_some();
        if !has_secret && (auth == AuthMode::Jwt || self.kind.signs()) {
            let why = format!(
                "is missing: the callbacks of {kind} must prove where they come from, so give secret-file"
            );
            wrong.push(("secret-file", why));
        }
        if let Some(secret) = &self.secret
            && !self.is_long_enough(secret)
        {
            let why = format!(
                "is too short: use {SHORTEST_SECRET} characters or more, as `openssl rand -hex 32` makes them"
            );
            wrong.push(("secret", why));
        }
        if self.publish_secret_file.is_some() && self.publish_url.is_none() {
            let why = "is for publish-url, which is not there";
            wrong.push(("publish-secret-file", why.to_owned()));
        }
        if self.poll_url.is_some() && !self.kind.can_be_asked() {
            let why = format!("is of no use: {kind} cannot be asked who publishes");
            wrong.push(("poll-url", why));
        }
        let sends_heartbeats = [MediaKind::NginxRtmp, MediaKind::Generic].contains(&self.kind);
        if self.heartbeats && !sends_heartbeats {
            let why = format!("is of no use: {kind} sends none");
            wrong.push(("heartbeats", why));
        }
        let names_streamer = self.streamer.is_some() || self.publish_url.is_some();
        if auth == AuthMode::Jwt && self.kind.only_reports() && !names_streamer {
            let why = format!(
                "is missing: {kind} sends no token, so with auth jwt say who the streamer is, as in \
                 streamer = \"{{live}}\", or give publish-url"
            );
            wrong.push(("streamer", why));
        }
        wrong
    }
}
