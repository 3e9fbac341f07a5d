//! The further webhooks of the settings file: a table `[webhooks.<name>]` for each. Secrets stay in
//! files, so no table has one; but a URL may hold a password.

use std::path::PathBuf;

use clap::Args;
use reqwest::Url;

use super::tables::SettingsTable;
use super::values::{event_kind, webhook_url};
use crate::base::event_kind::EventKind;
use crate::base::secret::Secret;
use crate::base::webhook_name::WebhookName;

/// A receiver of events.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
#[group(skip)]
pub struct WebhookEndpoint {
    /// Its name in paths, metrics and Redis.
    #[arg(value_parser = WebhookName::parse)]
    pub name: WebhookName,
    /// Where events are sent; it may hold a password.
    #[arg(long, value_parser = webhook_url)]
    pub url: Secret,
    /// The file with the secret that signs events, or with two while it changes.
    #[arg(long)]
    pub secret_file: PathBuf,
    /// Which events are sent; empty: all.
    #[arg(long, value_delimiter = ',', value_parser = event_kind)]
    pub events: Vec<EventKind>,
}

impl SettingsTable for WebhookEndpoint {
    const WORD: &'static str = "webhooks";
}

impl WebhookEndpoint {
    /// Whether the URL has a password, or a query that may be one.
    pub(super) fn has_secret_in_file(&self) -> bool {
        self.url.reveal().contains(['@', '?'])
    }

    /// The scheme, the host and the port of the URL: its path and its query may be secrets.
    pub fn origin(&self) -> String {
        match Url::parse(self.url.reveal()) {
            Ok(url) => url.origin().ascii_serialization(),
            Err(_) => String::new(),
        }
    }

    /// Whether this kind of event is sent.
    pub fn wants(&self, kind: EventKind) -> bool {
        self.events.is_empty() || self.events.contains(&kind)
    }
}
