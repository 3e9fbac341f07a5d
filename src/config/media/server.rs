//! A media server of the settings file, as the rest of the program knows it.

use std::path::{Path, PathBuf};

use ipnet::IpNet;

use super::mapping::Mapping;
use super::template::Template;
use crate::base::media_server::{MediaKind, MediaServerName};
use crate::base::secret::Secret;

/// The shortest secret that a person chooses, in bytes. Nobody guesses 16 random bytes.
pub(super) const SHORTEST_SECRET: usize = 16;

/// A media server, as the settings file describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MediaServer {
    /// Its name in the path of its callbacks.
    pub name: MediaServerName,
    /// What it sends.
    pub kind: MediaKind,
    /// How its callbacks are read and answered.
    pub mapping: Mapping,
    /// Proves that a callback is the server's. `None` with `--auth off` only, or if a file has it.
    pub secret: Option<Secret>,
    /// The file with the secret.
    pub secret_file: Option<PathBuf>,
    /// The live of a stream.
    pub live: Template,
    /// The streamer of a stream without a token; `None`: such a stream is refused, unless `--auth`
    /// is off.
    pub streamer: Option<Template>,
    /// The platform's service that knows whose a stream key is; it may hold a password.
    pub publish_url: Option<Secret>,
    /// The file with the secret that the platform's service is shown.
    pub publish_secret_file: Option<PathBuf>,
    /// Where the server says which sessions publish; it may hold a password. `None`: it is not
    /// asked.
    pub poll_url: Option<Secret>,
    /// Where callbacks may come from; empty: from anywhere.
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

    /// Whether the settings file itself has a secret, and not only names files.
    pub(in crate::config) fn has_secret_in_file(&self) -> bool {
        self.secret.is_some() || self.publish_url.is_some() || self.poll_url.is_some()
    }

    /// Whether nobody guesses a secret. LiveKit and Mux choose theirs themselves.
    pub fn is_long_enough(&self, secret: &Secret) -> bool {
        matches!(self.kind, MediaKind::LiveKit | MediaKind::Mux)
            || secret.reveal().len() >= SHORTEST_SECRET
    }
}
