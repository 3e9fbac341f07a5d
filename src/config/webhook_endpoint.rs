//! A webhook, as the settings say.

use std::path::PathBuf;

use reqwest::Url;

use crate::base::event_kind::EventKind;
use crate::base::secret::Secret;
use crate::base::webhook_name::WebhookName;

/// A receiver of events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookEndpoint {
    /// Its name in paths, metrics and Redis.
    pub name: WebhookName,
    /// Where events are sent; it may hold a password.
    pub url: Secret,
    /// The file with the secret that signs events, or with two while it changes.
    pub secret_file: PathBuf,
    /// Which events are sent; empty: all.
    pub events: Vec<EventKind>,
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
