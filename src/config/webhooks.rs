//! The further webhooks of the settings file: a table `[webhooks.<name>]` for each. Flags and
//! variables have no such tables. Secrets stay in files, so no entry has one; but a URL may hold a
//! password, and no mistake quotes it.

use std::path::PathBuf;

use toml::Value;

use super::media::Entry;
use super::mistakes::did_you_mean;
use super::settings;
use super::values::Config;
use super::webhook_endpoint::WebhookEndpoint;
use crate::base::webhook_name::WebhookName;

/// The keys of a table.
const KEYS: [&str; 3] = ["events", "secret-file", "url"];

/// Reads the entries. Adds each mistake, with the name of its key, to `mistakes`.
pub(super) fn read(entries: Vec<Entry>, mistakes: &mut Vec<String>) -> Vec<WebhookEndpoint> {
    let mut webhooks = Vec::new();
    for Entry { name, place, value } in entries {
        let subject = format!("webhooks.{}", name.escape_debug());
        let Some(webhook) = WebhookName::parse(&name) else {
            mistakes.push(format!(
                "{subject} ({place}): is no name of a webhook; a name has 1 to 32 characters of a-z 0-9 -"
            ));
            continue;
        };
        let Value::Table(table) = value else {
            mistakes.push(format!(
                "{subject} ({place}): is no table; write [{subject}], and its keys below"
            ));
            continue;
        };
        let mut keys = Keys {
            subject,
            place,
            values: Vec::new(),
            mistakes,
        };
        keys.take(table);
        webhooks.extend(keys.endpoint(webhook));
    }
    webhooks
}

/// The keys of one table. Every mistake is noted with its key and its place.
struct Keys<'a> {
    subject: String,
    place: String,
    /// The text of each key, `None` if it is wrong.
    values: Vec<(&'static str, Option<String>)>,
    mistakes: &'a mut Vec<String>,
}

impl Keys<'_> {
    fn wrong(&mut self, key: &str, problem: &str) {
        let Self { subject, place, .. } = self;
        let key = key.escape_debug();
        let mistake = format!("{subject}.{key} ({place}): {problem}");
        self.mistakes.push(mistake);
    }

    fn take(&mut self, table: toml::Table) {
        for (key, value) in table {
            let name = key.replace('_', "-");
            let Some(known) = KEYS.into_iter().find(|known| *known == name) else {
                let meant = did_you_mean(&name, KEYS.into_iter(), str::to_owned);
                self.wrong(&key, &format!("no such key{meant}"));
                continue;
            };
            match value {
                _ if self.has(known) => {
                    self.wrong(known, "is set twice, with a dash and with an underscore");
                }
                Value::String(text) if text.is_empty() => {
                    self.values.push((known, None));
                    self.wrong(known, "is empty: leave it out, or give it a value");
                }
                Value::String(text) => self.values.push((known, Some(text))),
                _ => {
                    self.values.push((known, None));
                    self.wrong(known, "must be a text in quotes");
                }
            }
        }
    }

    fn has(&self, key: &str) -> bool {
        self.values.iter().any(|(known, _)| *known == key)
    }

    /// The text of a key; `None` if the key is not there or is wrong.
    fn text(&self, key: &str) -> Option<String> {
        let (_, text) = self.values.iter().find(|(known, _)| *known == key)?;
        text.clone()
    }

    /// The text of a key that must be there. Notes it if the key is not there.
    fn required(&mut self, key: &str, problem: &str) -> Option<String> {
        if !self.has(key) {
            self.wrong(key, problem);
        }
        self.text(key)
    }

    /// The webhook; `None` if something is wrong, which is noted.
    fn endpoint(&mut self, name: WebhookName) -> Option<WebhookEndpoint> {
        let before = self.mistakes.len();
        let url = self.required("url", "is missing: where are the events sent?");
        let url = url.map(|url| settings::webhook(&url));
        if let Some(Err(problem)) = &url {
            self.wrong("url", problem);
        }
        let secret_file = self.required(
            "secret-file",
            "is missing: a receiver must know who sends the events",
        );
        let events = match self.text("events") {
            Some(text) => settings::events(&text),
            None => Ok(Vec::new()),
        };
        if let Err(problem) = &events {
            self.wrong("events", problem);
        }
        if self.mistakes.len() > before {
            return None;
        }
        Some(WebhookEndpoint {
            name,
            url: url?.ok()?,
            secret_file: PathBuf::from(secret_file?),
            events: events.ok()?,
        })
    }
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
