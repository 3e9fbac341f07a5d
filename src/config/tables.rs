//! The tables of the settings file that have a name of their own: `[media.<name>]` and
//! `[webhooks.<name>]`. Flags and variables have no such tables. All values are texts. A mistake says
//! which key is wrong and where it stands, and quotes no value, because it may be a secret.

use clap::{Arg, Args, Command};
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::declared;
use super::mistakes::did_you_mean;

/// The settings file.
pub(super) struct SettingsFile<'a> {
    /// As mistakes call it.
    pub name: String,
    pub text: &'a str,
}

impl SettingsFile<'_> {
    /// The line of a byte of the text. The first line is 1.
    pub(super) fn line(&self, at: usize) -> usize {
        let before = self.text.bytes().take(at);
        before.filter(|byte| *byte == b'\n').count() + 1
    }

    /// Where a key of the file stands.
    pub(super) fn place(&self, key: &Spanned<DeString<'_>>) -> String {
        format!("{}, line {}", self.name, self.line(key.span().start))
    }
}

/// The entries of a table in the order of the file.
pub(super) fn in_order(table: DeTable<'_>) -> Vec<(Spanned<DeString<'_>>, DeValue<'_>)> {
    let mut entries = Vec::new();
    for (key, value) in table {
        entries.push((key, value.into_inner()));
    }
    entries.sort_by_key(|(key, _)| key.span().start);
    entries
}

/// A key, and what is wrong with it.
pub(super) type WrongKey = (String, String);

/// What a table describes. Its one argument that is no flag is its name.
pub(super) trait SettingsTable: Args {
    /// The word before the name: `media`.
    const WORD: &'static str;

    /// Adds what follows from the keys of the table, or says which of them do not fit it.
    fn complete(self, _keys: &[String]) -> Result<Self, Vec<WrongKey>> {
        Ok(self)
    }
}

/// Reads tables of one kind. Adds each mistake, with the name of its key, to `mistakes`.
pub(super) fn read<T: SettingsTable>(
    source: &SettingsFile<'_>,
    tables: DeTable<'_>,
    mistakes: &mut Vec<String>,
) -> Vec<T> {
    let mut made = Vec::new();
    for (name, value) in in_order(tables) {
        let place = source.place(&name);
        let name = name.get_ref();
        let subject = format!("{}.{}", T::WORD, name.escape_debug());
        let read = match (declared::check::<T>(&["--", name]), value) {
            (Err(why), _) => {
                mistakes.push(format!("{subject} ({place}): {why}"));
                continue;
            }
            (Ok(()), DeValue::Table(table)) => read_table(name, table),
            (Ok(()), _) => {
                mistakes.push(format!(
                    "{subject} ({place}): is no table; write [{subject}], and its keys below"
                ));
                continue;
            }
        };
        match read {
            Ok(described) => made.push(described),
            Err(wrong) => {
                for (key, problem) in wrong {
                    let key = key.escape_debug();
                    mistakes.push(format!("{subject}.{key} ({place}): {problem}"));
                }
            }
        }
    }
    made
}

fn read_table<T: SettingsTable>(name: &str, table: DeTable<'_>) -> Result<T, Vec<WrongKey>> {
    let declared = declared::command::<T>();
    let mut keys = Vec::new();
    let mut flags = Vec::new();
    let mut wrong = Vec::new();
    for (key, value) in in_order(table) {
        let key = key.get_ref().replace('_', "-");
        if keys.contains(&key) {
            let problem = "is set twice, with a dash and with an underscore";
            wrong.push((key, problem.to_owned()));
            continue;
        }
        match read_key::<T>(&declared, &key, &value) {
            Ok(flag) => flags.push(flag),
            Err(problem) => wrong.push((key.clone(), problem)),
        }
        keys.push(key);
    }
    for arg in declared.get_arguments() {
        if let Some(key) = arg.get_long()
            && arg.is_required_set()
            && !keys.iter().any(|given| given == key)
        {
            wrong.push((key.to_owned(), missing(arg)));
        }
    }
    if !wrong.is_empty() {
        return Err(wrong);
    }
    flags.extend(["--".to_owned(), name.to_owned()]);
    match declared::read::<T>(&flags) {
        Ok(described) => described.complete(&keys),
        Err(why) => Err(vec![(name.to_owned(), declared::problem(&why))]),
    }
}

/// The flag that says the same as a key, or what is wrong with it.
fn read_key<T: SettingsTable>(
    declared: &Command,
    key: &str,
    value: &DeValue<'_>,
) -> Result<String, String> {
    let known: Vec<&str> = declared.get_arguments().filter_map(Arg::get_long).collect();
    if !known.contains(&key) {
        let meant = did_you_mean(key, known.into_iter(), str::to_owned);
        return Err(format!("no such key{meant}"));
    }
    match value.as_str() {
        None => Err("must be a text in quotes".to_owned()),
        Some("") => Err("is empty: leave it out, or give it a value".to_owned()),
        Some(text) => {
            let flag = format!("--{key}={text}");
            declared::check::<T>(&[&flag])?;
            Ok(flag)
        }
    }
}

fn missing(arg: &Arg) -> String {
    let words = arg.get_possible_values();
    if words.is_empty() {
        let help = arg.get_help().map(ToString::to_string);
        return format!("is missing: {}", help.unwrap_or_default());
    }
    let words: Vec<&str> = words.iter().map(|word| word.get_name()).collect();
    format!("is missing; use one of {}", words.join(", "))
}
