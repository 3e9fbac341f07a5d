//! The media servers of the settings file: a table `[media.<name>]` for each. A mistake says what
//! would be right, and quotes no secret.

mod mapping;
mod template;

use std::convert::Infallible;
use std::path::{Path, PathBuf};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{ArgAction, Args};
use ipnet::IpNet;

pub use self::mapping::{JsonPlace, Mapping, Meaning};
pub use self::template::{Placeholder, Template, TemplateError};
use super::tables::{SettingsTable, WrongKey};
use super::values::{AuthMode, http_url, network, switch};
use crate::base::media_event::EndKnownBy;
use crate::base::media_server::{MediaKind, MediaServerName};
use crate::base::secret::Secret;

/// The shortest secret that a person chooses, in bytes. Nobody guesses 16 random bytes.
const SHORTEST_SECRET: usize = 16;

/// A media server, as the settings file describes it.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
#[group(skip)]
pub struct MediaServer {
    /// Its name in the path of its callbacks.
    #[arg(value_parser = MediaServerName::parse)]
    pub name: MediaServerName,
    /// What it sends.
    #[arg(long, value_parser = kind())]
    pub kind: MediaKind,
    /// How its callbacks are read and answered.
    #[command(flatten)]
    pub mapping: Mapping,
    /// Proves that a callback is the server's. `None` with `--auth off` only, or if a file has it.
    #[arg(long, value_parser = secret)]
    pub secret: Option<Secret>,
    /// The file with the secret.
    #[arg(long)]
    pub secret_file: Option<PathBuf>,
    /// The live of a stream.
    #[arg(long, default_value = "{name}", value_parser = live_template)]
    pub live: Template,
    /// The streamer of a stream without a token; `None`: such a stream is refused, unless `--auth`
    /// is off.
    #[arg(long, value_parser = streamer_template)]
    pub streamer: Option<Template>,
    /// The platform's service that knows whose a stream key is; it may hold a password.
    #[arg(long, value_parser = url)]
    pub publish_url: Option<Secret>,
    /// The file with the secret that the platform's service is shown.
    #[arg(long)]
    pub publish_secret_file: Option<PathBuf>,
    /// Where the server says which sessions publish; it may hold a password. `None`: it is not
    /// asked.
    #[arg(long, value_parser = url)]
    pub poll_url: Option<Secret>,
    /// Whether each session has to say that it goes on, from its beginning.
    #[arg(long, action = ArgAction::Set, default_value = "off", value_parser = switch())]
    pub heartbeats: bool,
    /// Where callbacks may come from; empty: from anywhere.
    #[arg(long, value_delimiter = ',', value_parser = network)]
    pub networks: Vec<IpNet>,
}

impl MediaServer {
    /// The files with secrets, each with the key that names it.
    pub fn secret_files(&self) -> Vec<(&'static str, &Path)> {
        let mut files: Vec<(&'static str, &Path)> = Vec::new();
        if let Some(file) = &self.secret_file {
            files.push(("secret-file", file));
        }
        if let Some(file) = &self.publish_secret_file {
            files.push(("publish-secret-file", file));
        }
        files
    }

    /// How it is known that a session is over if the server does not say so.
    pub fn end_known_by(&self) -> EndKnownBy {
        if self.poll_url.is_some() {
            EndKnownBy::Asking
        } else if self.heartbeats {
            EndKnownBy::Heartbeats
        } else {
            EndKnownBy::NextSession
        }
    }

    /// Whether the settings file itself has a secret, and not only names files.
    pub(super) fn has_secret_in_file(&self) -> bool {
        self.secret.is_some() || self.publish_url.is_some() || self.poll_url.is_some()
    }

    /// Whether nobody guesses a secret. LiveKit and Mux choose theirs themselves.
    pub fn is_long_enough(&self, secret: &Secret) -> bool {
        matches!(self.kind, MediaKind::LiveKit | MediaKind::Mux)
            || secret.reveal().len() >= SHORTEST_SECRET
    }

    /// The keys that do not fit together, and why.
    pub(super) fn mistakes(&self, auth: AuthMode) -> Vec<(&'static str, String)> {
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

impl SettingsTable for MediaServer {
    const WORD: &'static str = "media";

    fn complete(self, keys: &[String]) -> Result<Self, Vec<WrongKey>> {
        if self.kind == MediaKind::Generic {
            return Ok(self);
        }
        let mut wrong = Vec::new();
        for key in keys.iter().filter(|key| Mapping::has_key(key)) {
            wrong.push((key.clone(), "is for kind generic".to_owned()));
        }
        if !wrong.is_empty() {
            return Err(wrong);
        }
        Ok(Self {
            mapping: Mapping::of(self.kind),
            ..self
        })
    }
}

fn kind() -> impl TypedValueParser<Value = MediaKind> {
    PossibleValuesParser::new(MediaKind::ALL.map(MediaKind::as_str))
        .try_map(|word| MediaKind::from_name(&word).ok_or("is not known"))
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

fn url(text: &str) -> Result<Secret, String> {
    http_url(text, "https://example.org/stream-keys")
}
