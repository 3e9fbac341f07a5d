//! The further webhooks of the settings file: a table `[webhooks.<name>]` for each. Secrets stay in
//! files, so no table has one; but a URL may hold a password.

use super::settings;
use super::tables::{self, Keys, Kind, Table};
use super::values::Config;
use super::webhook_endpoint::WebhookEndpoint;
use crate::base::webhook_name::WebhookName;

const TABLES: Kind<WebhookName, WebhookEndpoint> = Kind {
    word: "webhooks",
    keys: &["events", "secret-file", "url"],
    name: WebhookName::parse,
    make: endpoint,
};

/// Reads the entries. Adds each mistake, with the name of its key, to `mistakes`.
pub(super) fn read(entries: Vec<Table>, mistakes: &mut Vec<String>) -> Vec<WebhookEndpoint> {
    TABLES.read(entries, mistakes)
}

fn endpoint(name: WebhookName, keys: &mut Keys<'_>) -> Option<WebhookEndpoint> {
    let before = keys.mistakes();
    let url = keys.required(
        "url",
        &"is missing: where are the events sent?",
        settings::webhook,
    );
    let secret_file = keys.required(
        "secret-file",
        &"is missing: a receiver must know who sends the events",
        tables::file,
    );
    let events = keys.read("events", settings::events);
    if keys.mistakes() > before {
        return None;
    }
    Some(WebhookEndpoint {
        name,
        url: url?,
        secret_file: secret_file?,
        events: events.unwrap_or_default(),
    })
}

impl Config {
    /// Every webhook: first the one of `webhook-url`, then those of the settings file.
    pub fn webhook_endpoints(&self) -> Vec<WebhookEndpoint> {
        let mut endpoints = Vec::new();
        if let Some(url) = &self.webhook_url
            && let Some(secret_file) = &self.webhook_secret_file
        {
            endpoints.push(WebhookEndpoint {
                name: WebhookName::default(),
                url: url.clone(),
                secret_file: secret_file.clone(),
                events: self.webhook_events.clone(),
            });
        }
        endpoints.extend(self.webhooks.iter().cloned());
        endpoints
    }

    /// What is wrong with the entries beside the other settings.
    pub(super) fn webhook_mistakes(&self) -> Vec<String> {
        let mut mistakes = Vec::new();
        for webhook in &self.webhooks {
            let name = &webhook.name;
            if name.is_default() {
                mistakes.push(format!(
                    "webhooks.{name}: this is the name of the webhook of webhook-url; use another one"
                ));
            }
            for event in &webhook.events {
                if let Some(setting) = self.switched_off(*event) {
                    mistakes.push(format!(
                        "webhooks.{name}.events: {event} needs {setting} on"
                    ));
                }
            }
        }
        mistakes
    }
}
