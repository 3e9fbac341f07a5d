//! Reads the settings file: flat TOML such as `heartbeat = "5s"`, with dashes or underscores in
//! names. An unknown key is a mistake. Each setting and each mistake knows its line. No mistake
//! quotes a line of the file, because the line may hold a password. `media` and `webhooks` are no
//! settings: they have a table for each media server and for each further webhook, which `media.rs`
//! and `webhooks.rs` read.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use toml::de::{DeTable, DeValue};

use super::given::{Given, GivenMap};
use super::media::MediaServer;
use super::mistakes::did_you_mean;
use super::settings::{self, SETTINGS};
use super::tables::{self, SettingsFile, SettingsTable, in_order};
use super::webhooks::WebhookEndpoint;

/// The maximum size of a settings file. It limits the bytes that are read if the path is wrong.
const MAX_BYTES: u64 = 64 * 1024;

/// What a file says.
#[derive(Debug, Default)]
pub(super) struct FromFile {
    pub given: GivenMap,
    pub media: Vec<MediaServer>,
    pub webhooks: Vec<WebhookEndpoint>,
}

pub(super) fn read(path: &Path, mistakes: &mut Vec<String>) -> FromFile {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes));
    if let Err(why) = read {
        // The kind of an I/O error is short, and the same on every system.
        let (path, why) = (path.display(), why.kind());
        mistakes.push(format!("file {path}: cannot be read: {why}"));
        return FromFile::default();
    }
    read_text(path, &bytes, mistakes)
}

/// What the text of a file at `path` says.
pub(super) fn read_text(path: &Path, text: &[u8], mistakes: &mut Vec<String>) -> FromFile {
    let name = format!("file {}", path.display());
    let mut file = FromFile::default();
    if text.len() as u64 > MAX_BYTES {
        mistakes.push(format!(
            "{name}: is longer than {} KiB, so probably not a settings file",
            MAX_BYTES / 1024
        ));
        return file;
    }
    let Ok(text) = str::from_utf8(text) else {
        mistakes.push(format!("{name}: is not valid UTF-8"));
        return file;
    };
    let source = SettingsFile { name, text };
    match DeTable::parse(text) {
        Ok(table) => file.take(&source, table.into_inner(), mistakes),
        Err(why) => {
            let line = source.line(why.span().unwrap_or_default().start);
            mistakes.push(format!(
                "{}: is not valid TOML, line {line}; use lines like: heartbeat = \"5s\"",
                source.name
            ));
        }
    }
    file
}

impl FromFile {
    fn take(&mut self, source: &SettingsFile<'_>, table: DeTable<'_>, mistakes: &mut Vec<String>) {
        for (key, value) in in_order(table) {
            let place = source.place(&key);
            match (key.get_ref().as_ref(), value) {
                (MediaServer::WORD, DeValue::Table(servers)) => {
                    self.media = tables::read(source, servers, mistakes);
                }
                (MediaServer::WORD, _) => mistakes.push(format!(
                    "media ({place}): must be tables, one a server, such as [media.main]"
                )),
                (WebhookEndpoint::WORD, DeValue::Table(webhooks)) => {
                    self.webhooks = tables::read(source, webhooks, mistakes);
                }
                (WebhookEndpoint::WORD, _) => mistakes.push(format!(
                    "webhooks ({place}): must be tables, one a receiver, such as [webhooks.main]"
                )),
                (key, value) => {
                    if let Err(problem) = self.take_setting(key, &value, &place) {
                        let key = key.escape_debug();
                        mistakes.push(format!("{key} ({place}): {problem}"));
                    }
                }
            }
        }
    }

    fn take_setting(&mut self, key: &str, value: &DeValue<'_>, place: &str) -> Result<(), String> {
        let name = key.replace('_', "-");
        let Some(setting) = SETTINGS.iter().find(|setting| setting.name == name) else {
            let meant = did_you_mean(&name, settings::names(), str::to_owned);
            return Err(format!("no such setting{meant}"));
        };
        if name == "config" {
            return Err("a settings file cannot name another one: use the flag".to_owned());
        }
        let given = Given {
            text: text(value),
            place: place.to_owned(),
        };
        match self.given.insert(&setting.name, given) {
            None => Ok(()),
            Some(_) => Err("is set twice, with a dash and with an underscore".to_owned()),
        }
    }
}

fn text(value: &DeValue<'_>) -> Result<String, String> {
    let kind = match value {
        DeValue::String(text) => return Ok(text.as_ref().to_owned()),
        DeValue::Integer(number) => {
            return match i64::from_str_radix(number.as_str(), number.radix()) {
                Ok(number) => Ok(number.to_string()),
                Err(_) => Err("is too large a number".to_owned()),
            };
        }
        DeValue::Boolean(switch) => return Ok(switch.to_string()),
        DeValue::Float(_) => "a decimal number",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    };
    Err(format!(
        "is {kind}; use a text in quotes, or a whole number"
    ))
}
