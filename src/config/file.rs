//! Reads the settings file: flat TOML such as `heartbeat = "5s"`, with dashes or underscores in
//! names. An unknown key is a mistake. Each setting and each mistake knows its line. No mistake
//! quotes a line of the file, because the line may hold a password. `media` is no setting: it has a
//! table for each media server, which `media.rs` reads.

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

/// The maximum size of a settings file. It limits the bytes that are read if the path is wrong.
const MAX_BYTES: u64 = 64 * 1024;

/// The key of the tables of media servers.
const MEDIA: &str = "media";

/// What a file says.
#[derive(Debug, Default)]
pub(super) struct FromFile {
    pub given: GivenMap,
    pub media: Vec<MediaServer>,
}

/// A key of the file, the line on which it stands, and its value.
type Entry = (String, usize, Value);

/// What a file has, key by key.
#[derive(Default)]
struct Entries {
    /// In the order of the file.
    settings: Vec<Entry>,
    media: Vec<Entry>,
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
    let mut servers = Vec::new();
    for (name, line, value) in entries.media {
        let place = format!("{file}, line {line}");
        servers.push(media::Entry { name, place, value });
    }
    FromFile {
        given: given(&file, entries.settings, mistakes),
        media: media::read(servers, mistakes),
    }
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
        if key.get_ref() != MEDIA {
            entries.settings.push((key.into_inner(), line, value));
            continue;
        }
        let Value::Table(_) = value else {
            let problem = "media must be tables, one a server, such as [media.main]";
            return Err(format!("line {line}: {problem}"));
        };
        entries.media = media_entries(&text);
    }
    entries.settings.sort_by_key(|(_, line, _)| *line);
    Ok(entries)
}

/// The tables of media servers, each with its own line. `text` is TOML, and its `media` is a table.
fn media_entries(text: &str) -> Vec<Entry> {
    #[derive(Deserialize)]
    struct OnlyMedia {
        media: BTreeMap<Spanned<String>, Value>,
    }
    let Ok(read) = toml::from_str::<OnlyMedia>(text) else {
        return Vec::new();
    };
    let mut entries: Vec<Entry> = Vec::new();
    for (name, value) in read.media {
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
