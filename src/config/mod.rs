//! The settings: their names, defaults, units and the relations between them. Every timeout that an
//! operator can set is here. A fixed deadline is a constant in the file of the call that it bounds.
//!
//! A setting comes from a flag, else from the environment, else from the TOML file, else from its
//! default. A field of [`Config`] declares each setting once; flags, variables, file keys and
//! help follow from it. An unknown name is an error, so that a typo does not fall back to a default.
//! [`load`] reports all mistakes at once, each with the name of its setting, and never prints a
//! secret.

mod command;
mod declared;
mod environment;
mod file;
mod flags;
mod given;
mod media;
mod mistakes;
mod relations;
mod review;
mod secret_files;
mod settings;
mod shell;
mod tables;
#[cfg(test)]
mod tests;
mod values;
mod webhooks;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;

use self::file::FromFile;
use self::given::{Given, GivenMap};
use self::relations::Relations;

pub use command::{
    AuditArgs, CheckArgs, EventsAction, EventsArgs, ExplainArgs, GatewayArgs, KeyArgs, KeyPattern,
    KeysArgs, LivesArgs, LivesSort, Task, TokenArgs,
};
pub use media::{JsonPlace, Mapping, Meaning, MediaServer, Placeholder, Template};
pub use mistakes::ConfigError;
pub use review::SettingInForce;
pub use settings::{Config, SETTINGS, Setting, markdown_table};
pub(crate) use values::number_of;
pub use values::{AttendanceForm, AuthMode, FanKey, FanSource, Jwks, SeenIds, SqlIds};
pub use webhooks::WebhookEndpoint;

/// The task of the process.
#[derive(Debug)]
pub enum Loaded {
    /// Carry out a task with these settings.
    Run(Task, Box<Config>),
    /// Print this text, the help or the version, and exit.
    Print(String),
}

/// Reads the settings of a process from its arguments (the first is the program's name), its
/// environment, and the file that one of these names. `check-config` receives the mistakes among its
/// arguments. For any other task they are the error.
///
/// # Errors
/// All mistakes.
pub fn load(
    args: impl IntoIterator<Item = OsString>,
    env: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<Loaded, ConfigError> {
    let mut mistakes = Vec::new();
    let (task, flags) = match flags::read(args, &mut mistakes) {
        flags::Invocation::Print(text) => return Ok(Loaded::Print(text)),
        flags::Invocation::Do(task, given) => (task, given),
        flags::Invocation::Nothing => return Err(ConfigError { mistakes }),
    };
    let env = environment::read(env, &mut mistakes);
    let path = match flags.get("config").or(env.get("config")) {
        Some(Given { text: Ok(path), .. }) => Some(PathBuf::from(path)),
        _ => None,
    };
    let FromFile {
        mut given,
        media,
        webhooks,
    } = match &path {
        Some(path) => file::read(path, &mut mistakes),
        None => FromFile::default(),
    };
    let file_has_secret = given
        .iter()
        .any(|(name, given)| may_hold_secret(name, given))
        || media.iter().any(MediaServer::has_secret_in_file)
        || webhooks.iter().any(WebhookEndpoint::has_secret_in_file);
    let file_with_secrets = if file_has_secret { path } else { None };
    given.extend(env);
    given.extend(flags);
    let (mut config, wrong) = take(&given, &mut mistakes);
    config.file_with_secrets = file_with_secrets;
    config.media = media;
    config.webhooks = webhooks;
    if !task.stands_alone() {
        config.check_relations(Relations {
            given: &given,
            wrong: &wrong,
            mistakes: &mut mistakes,
        });
    }
    if task.reads_store() && config.redis.is_none() && !wrong.contains("redis") {
        let mistake = "redis: is required: give --redis URL. A memory store is inside the process of its gateway and \
                       cannot be read from outside";
        mistakes.push(mistake.to_owned());
    }
    match task {
        Task::CheckConfig(args) => {
            let args = CheckArgs {
                mistakes,
                settings: review::in_force(&given, &wrong, &config),
                ..args
            };
            Ok(Loaded::Run(Task::CheckConfig(args), Box::new(config)))
        }
        task if mistakes.is_empty() => Ok(Loaded::Run(task, Box::new(config))),
        _ => Err(ConfigError { mistakes }),
    }
}

/// Whether a setting of the file has a password, or a query that may be one.
fn may_hold_secret(name: &str, given: &Given) -> bool {
    let is_hidden = SETTINGS
        .iter()
        .any(|setting| setting.name == name && setting.may_hold_secret);
    let Ok(text) = &given.text else {
        return false;
    };
    is_hidden && text.contains(['@', '?'])
}

/// Reads the text of a settings file as [`load`] does. Returns how many mistakes it has.
#[cfg(any(test, fuzzing))]
pub(crate) fn mistakes_in(text: &[u8]) -> usize {
    let mut mistakes = Vec::new();
    let FromFile {
        given,
        media,
        webhooks,
    } = file::read_text(std::path::Path::new("fuzz"), text, &mut mistakes);
    let (mut config, wrong) = take(&given, &mut mistakes);
    config.media = media;
    config.webhooks = webhooks;
    config.check_relations(Relations {
        given: &given,
        wrong: &wrong,
        mistakes: &mut mistakes,
    });
    mistakes.len()
}

/// The given settings over the defaults, and the names of the settings with a wrong value.
fn take(all: &GivenMap, mistakes: &mut Vec<String>) -> (Config, BTreeSet<&'static str>) {
    let mut right = Vec::new();
    let mut wrong = BTreeSet::new();
    for setting in SETTINGS.iter() {
        let Some(given) = all.get(setting.name.as_str()) else {
            continue;
        };
        match taken(setting, given) {
            Ok(flag) => right.push(flag),
            Err(problem) => {
                wrong.insert(setting.name.as_str());
                mistakes.push(format!("{}: {problem}", setting.subject(Some(given))));
            }
        }
    }
    // Each is right by itself, so all of them are.
    let config = declared::read(&right).unwrap_or_default();
    (config, wrong)
}

/// The flag that says the same, or what is wrong with it.
fn taken(setting: &Setting, given: &Given) -> Result<String, String> {
    let text = given.text.clone()?;
    if text.is_empty() {
        return Err(format!("is empty: leave it out, or give {}", setting.hint));
    }
    let flag = format!("--{}={text}", setting.name);
    declared::check::<Config>(&[&flag])?;
    Ok(flag)
}
