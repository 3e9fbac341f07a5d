//! The tables of the settings file that have a name of their own: `[media.<name>]` and
//! `[webhooks.<name>]`. Flags and variables have no such tables. All values are texts. A mistake says
//! which key is wrong and where it stands, and quotes no value, because it may be a secret.

use std::convert::Infallible;
use std::fmt::Display;
use std::path::PathBuf;

use toml::Value;

use super::mistakes::did_you_mean;
use crate::base::ids::InvalidId;

/// One table, as it stands in the file.
pub(super) struct Table {
    /// Its name, which may be wrong.
    pub name: String,
    /// The file and the line.
    pub place: String,
    /// Its keys and values.
    pub value: Value,
}

/// The tables of one kind.
pub(super) struct Kind<N, T> {
    /// The word before the name: `media`.
    pub word: &'static str,
    /// The keys that such a table may have.
    pub keys: &'static [&'static str],
    /// Reads a name.
    pub name: fn(&str) -> Result<N, InvalidId>,
    /// Makes of the keys what the table describes. `None` if something is wrong, which is noted.
    pub make: fn(N, &mut Keys<'_>) -> Option<T>,
}

impl<N, T> Kind<N, T> {
    /// Reads tables. Adds each mistake, with the name of its key, to `mistakes`.
    pub(super) fn read(&self, entries: Vec<Table>, mistakes: &mut Vec<String>) -> Vec<T> {
        let mut made = Vec::new();
        for Table { name, place, value } in entries {
            let subject = format!("{}.{}", self.word, name.escape_debug());
            let name = match (self.name)(&name) {
                Ok(name) => name,
                Err(why) => {
                    mistakes.push(format!("{subject} ({place}): {why}"));
                    continue;
                }
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
            keys.take(table, self.keys);
            made.extend((self.make)(name, &mut keys));
        }
        made
    }
}

/// The keys of one table. Every mistake is noted with its key and its place.
pub(super) struct Keys<'a> {
    subject: String,
    place: String,
    /// The text of each key, `None` if it is wrong.
    values: Vec<(&'static str, Option<String>)>,
    mistakes: &'a mut Vec<String>,
}

impl<'a> Keys<'a> {
    /// The keys of an empty table.
    pub(super) fn none(mistakes: &'a mut Vec<String>) -> Self {
        Self {
            subject: String::new(),
            place: String::new(),
            values: Vec::new(),
            mistakes,
        }
    }
}

impl Keys<'_> {
    fn take(&mut self, table: toml::Table, all: &[&'static str]) {
        for (key, value) in table {
            let name = key.replace('_', "-");
            let Some(known) = all.iter().copied().find(|known| *known == name) else {
                let meant = did_you_mean(&name, all.iter().copied(), str::to_owned);
                self.wrong(&key, &format!("no such key{meant}"));
                continue;
            };
            match value {
                _ if self.has(known) => {
                    self.wrong(known, &"is set twice, with a dash and with an underscore");
                }
                Value::String(text) if text.is_empty() => {
                    self.values.push((known, None));
                    self.wrong(known, &"is empty: leave it out, or give it a value");
                }
                Value::String(text) => self.values.push((known, Some(text))),
                _ => {
                    self.values.push((known, None));
                    self.wrong(known, &"must be a text in quotes");
                }
            }
        }
    }

    /// Notes a mistake.
    pub(super) fn wrong(&mut self, key: &str, problem: &impl Display) {
        let Self { subject, place, .. } = self;
        let key = key.escape_debug();
        let mistake = format!("{subject}.{key} ({place}): {problem}");
        self.mistakes.push(mistake);
    }

    /// How many mistakes are noted.
    pub(super) fn mistakes(&self) -> usize {
        self.mistakes.len()
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.values.iter().any(|(known, _)| *known == key)
    }

    /// What `parse` makes of the text of a key. `None` if the key is not there, or is wrong, which is
    /// noted.
    pub(super) fn read<T, E: Display>(
        &mut self,
        key: &str,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        let (_, text) = self.values.iter().find(|(known, _)| *known == key)?;
        match parse(text.as_deref()?) {
            Ok(value) => Some(value),
            Err(problem) => {
                self.wrong(key, &problem);
                None
            }
        }
    }

    /// As [`Keys::read`]. Notes the problem if the key is not there.
    pub(super) fn required<T, E: Display>(
        &mut self,
        key: &str,
        problem: &impl Display,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        if !self.has(key) {
            self.wrong(key, problem);
        }
        self.read(key, parse)
    }
}

/// Reads the name of a file.
pub(super) fn file(text: &str) -> Result<PathBuf, Infallible> {
    Ok(PathBuf::from(text))
}
