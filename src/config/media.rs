//! The media servers of the settings file: a table `[media.<name>]` for each. Flags and variables
//! have no such tables. A mistake names the table, the key and what would be right, and quotes no
//! secret.

pub(super) mod server;
mod template;

use std::path::PathBuf;
use std::str::FromStr;

use ipnet::IpNet;
use reqwest::Url;
use toml::Value;

use super::mistakes::did_you_mean;
use super::values::{AuthMode, Config};
use crate::base::media_server::{MediaKind, MediaServerName};
use crate::base::secret::Secret;
pub use server::MediaServer;
use server::SHORTEST_SECRET;
pub use template::{Placeholder, Template, TemplateError};

/// The keys of a table.
const KEYS: [&str; 9] = [
    "kind",
    "live",
    "networks",
    "poll-url",
    "publish-secret-file",
    "publish-url",
    "secret",
    "secret-file",
    "streamer",
];

/// Why an entry is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MediaMistake {
    /// A name cannot stand in a path.
    #[error("is no name of a server; a name has 1 to 32 characters of a-z 0-9 -")]
    Name,
    /// The entry is no table.
    #[error("is no table; write [media.{0}], and its keys below")]
    NoTable(String),
    /// A key that no entry has.
    #[error("no such key{0}")]
    UnknownKey(String),
    /// A key is there with a dash and with an underscore.
    #[error("is set twice, with a dash and with an underscore")]
    Twice,
    /// A required key is missing.
    #[error("is missing; use one of {}", kinds())]
    NoKind,
    /// There is no such kind of server.
    #[error("is not known; use one of {}", kinds())]
    UnknownKind,
    /// The value is no text.
    #[error("must be a text in quotes")]
    NoText,
    /// The value is empty.
    #[error("is empty: leave it out, or give it a value")]
    Empty,
    /// The text is no template.
    #[error("{0}")]
    Template(#[from] TemplateError),
    /// The text is no URL of http or https.
    #[error("is not a URL of https or http; use one like https://example.org/stream-keys")]
    Url,
    /// The text is no list of networks.
    #[error("is not a list of networks; use addresses such as 10.0.0.0/8,192.0.2.7,::1")]
    Networks,
    /// There are two secrets.
    #[error("there is a secret-file too; use one of them")]
    TwoSecrets,
    /// A secret is missing.
    #[error(
        "is missing: the callbacks of {0} must prove where they come from, so give secret-file"
    )]
    NoSecret(&'static str),
    /// A secret is so short that it can be guessed.
    #[error(
        "is too short: use {SHORTEST_SECRET} characters or more, as `openssl rand -hex 32` makes them"
    )]
    ShortSecret,
    /// A secret for a URL that is not there.
    #[error("is for publish-url, which is not there")]
    NoPublishUrl,
    /// The server cannot be asked.
    #[error("is for kind srs: {0} sends heartbeats, or cannot be asked")]
    Poll(&'static str),
    /// Nothing says who the streamer is.
    #[error(
        "is missing: {0} sends no token, so with auth jwt say who the streamer is, as in streamer = \"{{live}}\", \
         or give publish-url"
    )]
    NoStreamer(&'static str),
}

fn kinds() -> String {
    MediaKind::ALL.map(MediaKind::as_str).join(", ")
}

/// A mistake, and the key that has it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct At {
    key: &'static str,
    mistake: MediaMistake,
}

fn at(key: &'static str, mistake: MediaMistake) -> At {
    At { key, mistake }
}

/// The entry of one server, as it stands in the file.
pub(super) struct Entry {
    /// Its name, which may be wrong.
    pub name: String,
    /// The file and the line.
    pub place: String,
    /// Its keys and values.
    pub value: Value,
}

/// Reads the entries. Adds each mistake, with the name of its key, to `mistakes`.
pub(super) fn read(entries: Vec<Entry>, mistakes: &mut Vec<String>) -> Vec<MediaServer> {
    let mut servers = Vec::new();
    for entry in entries {
        let Entry { name, place, value } = entry;
        let subject = format!("media.{}", name.escape_debug());
        let Some(server_name) = MediaServerName::parse(&name) else {
            mistakes.push(format!("{subject} ({place}): {}", MediaMistake::Name));
            continue;
        };
        let Value::Table(table) = value else {
            let mistake = MediaMistake::NoTable(name);
            mistakes.push(format!("{subject} ({place}): {mistake}"));
            continue;
        };
        let keys = Keys::of(table, &subject, &place, mistakes);
        let mut wrong = Vec::new();
        if let Some(server) = keys.server(server_name, &mut wrong) {
            servers.push(server);
        }
        for At { key, mistake } in wrong {
            mistakes.push(format!("{subject}.{key} ({place}): {mistake}"));
        }
    }
    servers
}

/// The keys of a table that an entry may have, and their values.
struct Keys(Vec<(&'static str, Value)>);

impl Keys {
    fn of(table: toml::Table, subject: &str, place: &str, mistakes: &mut Vec<String>) -> Self {
        let mut found: Vec<(&'static str, Value)> = Vec::new();
        for (key, value) in table {
            let name = key.replace('_', "-");
            let mistake = match KEYS.iter().find(|known| **known == name) {
                None => {
                    let meant = did_you_mean(&name, KEYS.iter().copied(), str::to_owned);
                    MediaMistake::UnknownKey(meant)
                }
                Some(known) if found.iter().any(|(there, _)| there == known) => MediaMistake::Twice,
                Some(known) => {
                    found.push((known, value));
                    continue;
                }
            };
            let key = key.escape_debug();
            mistakes.push(format!("{subject}.{key} ({place}): {mistake}"));
        }
        Self(found)
    }

    /// The text of a key; `None` if the key is not there.
    fn text(&self, key: &'static str) -> Result<Option<&str>, At> {
        let Some((_, value)) = self.0.iter().find(|(known, _)| *known == key) else {
            return Ok(None);
        };
        match value {
            Value::String(text) if text.is_empty() => Err(at(key, MediaMistake::Empty)),
            Value::String(text) => Ok(Some(text)),
            _ => Err(at(key, MediaMistake::NoText)),
        }
    }

    /// The value of a key that `parse` reads; `None` if the key is not there.
    fn read<T>(
        &self,
        key: &'static str,
        parse: fn(&str) -> Result<T, MediaMistake>,
    ) -> Result<Option<T>, At> {
        match self.text(key)? {
            None => Ok(None),
            Some(text) => parse(text).map(Some).map_err(|mistake| at(key, mistake)),
        }
    }

    /// The server; `None` if something is wrong, which is noted.
    fn server(&self, name: MediaServerName, wrong: &mut Vec<At>) -> Option<MediaServer> {
        let kind = noted(self.kind(), wrong);
        let secret = noted(self.read("secret", secret), wrong);
        let secret_file = noted(self.read("secret-file", file), wrong);
        let live = noted(self.read("live", live_template), wrong);
        let streamer = noted(self.read("streamer", streamer_template), wrong);
        let publish_url = noted(self.read("publish-url", url), wrong);
        let publish_secret_file = noted(self.read("publish-secret-file", file), wrong);
        let poll_url = noted(self.read("poll-url", url), wrong);
        let networks = noted(self.read("networks", networks), wrong);
        Some(MediaServer {
            name,
            kind: kind?,
            secret: secret?,
            secret_file: secret_file?,
            live: live?.unwrap_or_default(),
            streamer: streamer?,
            publish_url: publish_url?,
            publish_secret_file: publish_secret_file?,
            poll_url: poll_url?,
            networks: networks?.unwrap_or_default(),
        })
    }

    fn kind(&self) -> Result<MediaKind, At> {
        match self.read("kind", kind)? {
            Some(kind) => Ok(kind),
            None => Err(at("kind", MediaMistake::NoKind)),
        }
    }
}

/// The value, unless it is wrong, which is noted.
fn noted<T>(value: Result<T, At>, wrong: &mut Vec<At>) -> Option<T> {
    match value {
        Ok(value) => Some(value),
        Err(mistake) => {
            wrong.push(mistake);
            None
        }
    }
}

fn kind(text: &str) -> Result<MediaKind, MediaMistake> {
    MediaKind::from_name(text).ok_or(MediaMistake::UnknownKind)
}

fn secret(text: &str) -> Result<Secret, MediaMistake> {
    Ok(Secret::new(text))
}

fn file(text: &str) -> Result<PathBuf, MediaMistake> {
    Ok(PathBuf::from(text))
}

fn live_template(text: &str) -> Result<Template, MediaMistake> {
    Ok(Template::parse(
        text,
        &[Placeholder::Name, Placeholder::App],
    )?)
}

fn streamer_template(text: &str) -> Result<Template, MediaMistake> {
    Ok(Template::parse(text, &Placeholder::ALL)?)
}

/// No error quotes the URL, which may hold a password.
fn url(text: &str) -> Result<Secret, MediaMistake> {
    match Url::parse(text) {
        Ok(url) if ["http", "https"].contains(&url.scheme()) && url.has_host() => {
            Ok(Secret::new(text))
        }
        _ => Err(MediaMistake::Url),
    }
}

/// Networks, and addresses as networks of their own.
fn networks(text: &str) -> Result<Vec<IpNet>, MediaMistake> {
    let mut networks = Vec::new();
    for part in text.split(',') {
        let part = part.trim();
        let network = match IpNet::from_str(part) {
            Ok(network) => network,
            Err(_) => IpNet::from(
                part.parse::<std::net::IpAddr>()
                    .map_err(|_| MediaMistake::Networks)?,
            ),
        };
        networks.push(network);
    }
    Ok(networks)
}

impl Config {
    /// What is wrong with the entries beside the other settings, or within one entry.
    pub(super) fn media_mistakes(&self) -> Vec<String> {
        let mut mistakes = Vec::new();
        for server in &self.media {
            for At { key, mistake } in server.mistakes(self.auth) {
                mistakes.push(format!("media.{}.{key}: {mistake}", server.name));
            }
        }
        mistakes
    }
}

impl MediaServer {
    fn mistakes(&self, auth: AuthMode) -> Vec<At> {
        let mut wrong = Vec::new();
        if self.secret.is_some() && self.secret_file.is_some() {
            wrong.push(at("secret", MediaMistake::TwoSecrets));
        }
        let has_secret = self.secret.is_some() || self.secret_file.is_some();
        if !has_secret && (auth == AuthMode::Jwt || self.kind.signs()) {
            wrong.push(at(
                "secret-file",
                MediaMistake::NoSecret(self.kind.as_str()),
            ));
        }
        if let Some(secret) = &self.secret
            && !self.is_long_enough(secret)
        {
            wrong.push(at("secret", MediaMistake::ShortSecret));
        }
        if self.publish_secret_file.is_some() && self.publish_url.is_none() {
            wrong.push(at("publish-secret-file", MediaMistake::NoPublishUrl));
        }
        if self.poll_url.is_some() && self.kind != MediaKind::Srs {
            wrong.push(at("poll-url", MediaMistake::Poll(self.kind.as_str())));
        }
        let names_streamer = self.streamer.is_some() || self.publish_url.is_some();
        if auth == AuthMode::Jwt && !sends_tokens(self.kind) && !names_streamer {
            wrong.push(at("streamer", MediaMistake::NoStreamer(self.kind.as_str())));
        }
        wrong
    }
}

/// Whether the server passes on what a publisher writes into the query of the stream's URL.
fn sends_tokens(kind: MediaKind) -> bool {
    !matches!(
        kind,
        MediaKind::LiveKit | MediaKind::Owncast | MediaKind::Mux | MediaKind::Cloudflare
    )
}
