//! Reads the settings file: flat TOML such as `heartbeat = "5s"`, with dashes or underscores in
//! names. An unknown key is a mistake. Each setting and each mistake knows its line. No mistake
//! quotes a line of the file, because the line may hold a password. `media` and `webhooks` are no
//! settings: they have a table for each media server and for each further webhook, which `media.rs`
//! and `webhooks.rs` read.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde::Deserialize;
use toml::{Spanned, Value};

use super::given::{Given, GivenMap};
use super::media::{self, MediaServer};
use super::mistakes::did_you_mean;
use super::settings::{self, SETTINGS};
use super::tables::Table;
use super::webhook_endpoint::WebhookEndpoint;
use super::webhooks;

/// The maximum size of a settings file. It limits the bytes that are read if the path is wrong.
const MAX_BYTES: u64 = 64 * 1024;

/// The key of the tables of media servers.
const MEDIA: &str = "media";

/// The key of the tables of webhooks.
const WEBHOOKS: &str = "webhooks";

/// What a file says.
#[derive(Debug, Default)]
pub(super) struct FromFile {
    pub given: GivenMap,
    pub media: Vec<MediaServer>,
    pub webhooks: Vec<WebhookEndpoint>,
}

/// A key of the file, the line on which it stands, and its value.
type Entry = (String, usize, Value);

/// What a file has, key by key.
#[derive(Default)]
struct Entries {
    /// In the order of the file.
    settings: Vec<Entry>,
    media: Vec<Entry>,
    webhooks: Vec<Entry>,
}

/// The keys that are no settings.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Tables {
    media: BTreeMap<Spanned<String>, Value>,
    webhooks: BTreeMap<Spanned<String>, Value>,
}

pub(super) fn read(path: &Path, mistakes: &mut Vec<String>) -> FromFile {
    take(path, contents(path).and_then(parse), mistakes)
}

/// What the text of a file at `path` says.
#[cfg(any(test, fuzzing))]
pub(super) fn read_text(path: &Path, text: &[u8], mistakes: &mut Vec<String>) -> FromFile {
    take(path, parse(text.to_vec()), mistakes)
}

fn take(path: &Path, entries: Result<Entries, String>, mistakes: &mut Vec<String>) -> FromFile {
    let file = format!("file {}", path.display());
    let entries = match entries {
        Ok(entries) => entries,
        Err(problem) => {
            mistakes.push(format!("{file}: {problem}"));
            return FromFile::default();
        }
    };
    FromFile {
        given: given(&file, entries.settings, mistakes),
        media: media::read(tables(&file, entries.media), mistakes),
        webhooks: webhooks::read(tables(&file, entries.webhooks), mistakes),
    }
}

fn tables(file: &str, entries: Vec<Entry>) -> Vec<Table> {
    let mut tables = Vec::with_capacity(entries.len());
    for (name, line, value) in entries {
        let place = format!("{file}, line {line}");
        tables.push(Table { name, place, value });
    }
    tables
}

fn given(file: &str, entries: Vec<Entry>, mistakes: &mut Vec<String>) -> GivenMap {
    let mut given = GivenMap::new();
    for (key, line, value) in entries {
        let name = key.replace('_', "-");
        let place = format!("{file}, line {line}");
        let problem = match SETTINGS.iter().find(|s| s.name == name) {
            None => format!(
                "no such setting{}",
                did_you_mean(&name, settings::names(), str::to_owned)
            ),
            Some(s) if s.name == "config" => {
                "a settings file cannot name another one: use the flag".to_owned()
            }
            Some(s) if given.contains_key(s.name) => {
                "is set twice, with a dash and with an underscore".to_owned()
            }
            Some(s) => {
                let text = text(value);
                given.insert(s.name, Given { text, place });
                continue;
            }
        };
        mistakes.push(format!("{} ({place}): {problem}", key.escape_debug()));
    }
    given
}

fn contents(path: &Path) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes))
        // The kind of an I/O error is short, and the same on every system.
        .map_err(|err| format!("cannot be read: {}", err.kind()))?;
    Ok(bytes)
}

fn parse(bytes: Vec<u8>) -> Result<Entries, String> {
    if bytes.len() as u64 > MAX_BYTES {
        return Err(format!(
            "is longer than {} KiB, so probably not a settings file",
            MAX_BYTES / 1024
        ));
    }
    let text = String::from_utf8(bytes).map_err(|_| "is not valid UTF-8".to_owned())?;
    let table: BTreeMap<Spanned<String>, Value> = toml::from_str(&text).map_err(|err| {
        let line = match err.span() {
            Some(span) => line_of(&text, span.start),
            None => 1,
        };
        format!("is not valid TOML, line {line}; use lines like: heartbeat = \"5s\"")
    })?;
    let mut entries = Entries::default();
    for (key, value) in table {
        let line = line_of(&text, key.span().start);
        let problem = match key.as_ref().as_str() {
            MEDIA => "media must be tables, one a server, such as [media.main]",
            WEBHOOKS => "webhooks must be tables, one a receiver, such as [webhooks.main]",
            _ => {
                entries.settings.push((key.into_inner(), line, value));
                continue;
            }
        };
        let Value::Table(_) = value else {
            return Err(format!("line {line}: {problem}"));
        };
    }
    let Tables { media, webhooks } = toml::from_str(&text).unwrap_or_default();
    entries.media = table_entries(&text, media);
    entries.webhooks = table_entries(&text, webhooks);
    entries.settings.sort_by_key(|(_, line, _)| *line);
    Ok(entries)
}

/// The entries of these tables, each with its own line of the text.
fn table_entries(text: &str, tables: BTreeMap<Spanned<String>, Value>) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    for (name, value) in tables {
        let line = line_of(text, name.span().start);
        entries.push((name.into_inner(), line, value));
    }
    entries.sort_by_key(|(_, line, _)| *line);
    entries
}

/// The line of a byte of the text. The first line is 1.
fn line_of(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|b| *b == b'\n').count() + 1
}

fn text(value: Value) -> Result<String, String> {
    let kind = match value {
        Value::String(text) => return Ok(text),
        Value::Integer(number) => return Ok(number.to_string()),
        Value::Boolean(switch) => return Ok(switch.to_string()),
        Value::Float(_) => "a decimal number",
        Value::Datetime(_) => "a date",
        Value::Array(_) => "a list",
        Value::Table(_) => "a table",
    };
    Err(format!(
        "is {kind}; use a text in quotes, or a whole number"
    ))
}
