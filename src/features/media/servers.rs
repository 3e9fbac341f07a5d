//! The media servers that this gateway knows, with their secrets, which are read again when their
//! files change.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use axum::http::HeaderMap;

use crate::base::from_files::FromFiles;
use crate::base::media_server::MediaServerName;
use crate::base::secret::Secret;
use crate::config::{Config, MediaServer};
use crate::features::media::setup_error::MediaSetupError;
use crate::features::media::signature::{Callback, Forged, check, check_head};
use crate::features::media::stream_keys::StreamKeys;

/// The longest secret that is read from a file, in bytes.
const LONGEST_SECRET: u64 = 4_096;

/// One media server.
pub struct KnownServer {
    /// As the settings file describes it.
    pub settings: MediaServer,
    /// `None` with `--auth off` only: then every callback is believed.
    secret: ArcSwapOption<Secret>,
    /// Knows whose a stream key is; `None` if streams are named after lives.
    pub stream_keys: Option<StreamKeys>,
}

/// All of them.
pub struct MediaServers(HashMap<MediaServerName, Arc<KnownServer>>);

impl MediaServers {
    /// The servers of the settings.
    ///
    /// # Errors
    /// A file or a URL cannot be used.
    pub fn open(config: &Config) -> Result<Self, MediaSetupError> {
        let mut servers = HashMap::new();
        for settings in &config.media {
            let stream_keys = StreamKeys::of(settings, config)?;
            let server = KnownServer {
                settings: settings.clone(),
                secret: ArcSwapOption::empty(),
                stream_keys,
            };
            server.read_secrets()?;
            servers.insert(settings.name.clone(), Arc::new(server));
        }
        Ok(Self(servers))
    }

    /// All of them.
    pub fn all(&self) -> Vec<Arc<KnownServer>> {
        self.0.values().cloned().collect()
    }

    /// The server of this name.
    pub fn find(&self, name: &MediaServerName) -> Option<Arc<KnownServer>> {
        self.0.get(name).cloned()
    }
}

impl KnownServer {
    /// Checks where a callback comes from, at a Unix time.
    ///
    /// # Errors
    /// It does not come from the server, or it is an old message.
    pub fn check(&self, callback: Callback<'_>, now: Duration) -> Result<(), Forged> {
        match self.secret.load_full() {
            Some(secret) => check(self.settings.kind, &secret, callback, now),
            None => Ok(()),
        }
    }

    /// Checks what can be checked of a callback before its body is read.
    ///
    /// # Errors
    /// It cannot come from the server.
    pub fn check_head(
        &self,
        headers: &HeaderMap,
        query_secret: Option<&str>,
    ) -> Result<(), Forged> {
        match self.secret.load_full() {
            Some(secret) => check_head(self.settings.kind, &secret, headers, query_secret),
            None => Ok(()),
        }
    }

    /// Whether callbacks may come from an address.
    pub fn allows(&self, address: IpAddr) -> bool {
        let networks = &self.settings.networks;
        let address = address.to_canonical();
        networks.is_empty() || networks.iter().any(|network| network.contains(&address))
    }

    /// What the server and the gateway know; `None` with `--auth off` only.
    pub(crate) fn secret(&self) -> Option<Arc<Secret>> {
        self.secret.load_full()
    }

    fn read_secrets(&self) -> Result<(), MediaSetupError> {
        let secret = match &self.settings.secret_file {
            Some(file) => Some(self.read_secret("secret-file", file)?),
            None => self.settings.secret.clone(),
        };
        if let Some(secret) = &secret
            && !self.settings.is_long_enough(secret)
        {
            let problem = "the secret is too short: use 16 characters or more".to_owned();
            return Err(self.mistake("secret-file", problem));
        }
        if let Some(stream_keys) = &self.stream_keys
            && let Some(file) = &self.settings.publish_secret_file
        {
            let secret = self.read_secret("publish-secret-file", file)?;
            if !stream_keys.present(&secret) {
                let problem = "has no token: a token is one line of visible characters".to_owned();
                return Err(self.mistake("publish-secret-file", problem));
            }
        }
        self.secret.store(secret.map(Arc::new));
        Ok(())
    }

    /// The secret in a file, without the white space around it.
    fn read_secret(&self, key: &'static str, file: &Path) -> Result<Secret, MediaSetupError> {
        let text = match read_start(file) {
            Ok(text) => text,
            Err(why) => {
                return Err(self.mistake(key, format!("{}: {}", file.display(), why.kind())));
            }
        };
        match text.trim() {
            "" => Err(self.mistake(key, format!("{} is empty", file.display()))),
            secret => Ok(Secret::new(secret)),
        }
    }

    fn mistake(&self, key: &'static str, problem: String) -> MediaSetupError {
        MediaSetupError {
            server: self.settings.name.clone(),
            key,
            problem,
        }
    }
}

fn read_start(file: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    File::open(file)?
        .take(LONGEST_SECRET)
        .read_to_string(&mut text)?;
    Ok(text)
}

impl FromFiles for MediaServers {
    fn name(&self) -> &'static str {
        "the secrets of media servers"
    }

    fn files(&self) -> Vec<PathBuf> {
        let mut files = Vec::new();
        for server in self.0.values() {
            for (_, file) in server.settings.secret_files() {
                files.push(file.to_owned());
            }
        }
        files
    }

    fn read_again(&self) -> Result<(), String> {
        for server in self.0.values() {
            server.read_secrets().map_err(|why| why.to_string())?;
        }
        Ok(())
    }
}
