//! The settings: their names, defaults, units and the relations between them. Every timeout that an operator can set
//! is here. A fixed deadline is a constant in the file of the call that it bounds.
//!
//! A setting comes from a flag, else from the environment, else from the TOML file, else from its default. The
//! [table](SETTINGS) declares each setting once; flags, variables, file keys and help follow from it. An unknown name
//! is an error, so that a typo does not fall back to a default. [`load`] reports all mistakes at once, each with the
//! name of its setting, and never prints a secret.

mod command;
mod environment;
mod file;
mod flags;
mod given;
mod mistakes;
mod relations;
mod settings;
#[cfg(test)]
mod tests;
mod values;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;

use self::command::Task;
use self::given::{Given, GivenMap, Origin};
use self::mistakes::subject;

pub use command::{AuditArgs, ExplainArgs, Fix, GatewayArgs, OutputFormat};
pub use mistakes::{ConfigError, Mistake};
pub use settings::{SETTINGS, Setting, Shown, markdown_table};
pub use values::{AuthMode, Config, FanSource, ProxyProtocol};

/// What the process is asked to do.
#[derive(Debug)]
pub enum Loaded {
    /// Run a gateway.
    Serve(Box<Config>),
    /// Search Redis for what is wrong.
    Audit(Box<Config>, AuditArgs),
    /// Explain who is counted in a live, and why.
    Explain(Box<Config>, ExplainArgs),
    /// Print this text, the help or the version, and exit.
    Print(String),
}

/// Reads the settings of a process from its arguments (the first is the program's name), its environment, and the file
/// that one of these names.
pub fn load(
    args: impl IntoIterator<Item = OsString>,
    env: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<Loaded, ConfigError> {
    let mut mistakes = Vec::new();
    let (task, flags) = match flags::read(args, &mut mistakes) {
        flags::Asked::Print(text) => return Ok(Loaded::Print(text)),
        flags::Asked::Do(task, given) => (task, given),
    };
    let env = environment::read(env, &mut mistakes);
    let mut given = match flags.get("config").or(env.get("config")) {
        Some(Given { text: Ok(path), .. }) => file::read(Path::new(path), &mut mistakes),
        _ => GivenMap::new(),
    };
    given.extend(env);
    given.extend(flags);
    let (config, wrong) = take(&given, &mut mistakes);
    check_relations(&config, &given, &wrong, &mut mistakes);
    if !matches!(task, None | Some(Task::Serve)) && config.redis.is_none() && !wrong.contains("redis") {
        let problem = "is required: give --redis URL. A memory store is inside the process of its gateway and cannot \
                       be read from outside";
        mistakes.push(Mistake { subject: "redis".to_owned(), problem: problem.to_owned() });
    }
    let config = Box::new(config);
    match task {
        Some(task) if mistakes.is_empty() => Ok(match task {
            Task::Serve => Loaded::Serve(config),
            Task::Audit(args) => Loaded::Audit(config, args),
            Task::Explain(args) => Loaded::Explain(config, args),
        }),
        _ => Err(ConfigError { mistakes }),
    }
}

/// The settings that were given, over the defaults; and the names of those with a wrong value.
fn take(given: &GivenMap, mistakes: &mut Vec<Mistake>) -> (Config, BTreeSet<&'static str>) {
    let (mut config, mut wrong) = (Config::default(), BTreeSet::new());
    for setting in SETTINGS {
        let Some(Given { text, origin }) = given.get(setting.name) else { continue };
        let taken = match text {
            Ok(text) if text.is_empty() => Err(format!("is empty: leave it out, or give {}", setting.hint)),
            Ok(text) => (setting.take)(&mut config, text),
            Err(problem) => Err(problem.clone()),
        };
        if let Err(problem) = taken {
            wrong.insert(setting.name);
            mistakes.push(Mistake { subject: subject(setting, origin, text.as_deref().ok()), problem });
        }
    }
    (config, wrong)
}

/// Checks how the settings fit together, except those with a wrong value, whose mistakes are noted already.
fn check_relations(config: &Config, given: &GivenMap, wrong: &BTreeSet<&str>, mistakes: &mut Vec<Mistake>) {
    for broken in config.broken_relations() {
        if broken.between.iter().any(|name| wrong.contains(name)) {
            continue;
        }
        let subjects = SETTINGS.iter().filter(|s| broken.between.contains(&s.name)).map(|s| match given.get(s.name) {
            Some(given) => subject(s, &given.origin, given.text.as_deref().ok()),
            None => subject(s, &Origin::Default, s.default),
        });
        mistakes.push(Mistake { subject: subjects.collect::<Vec<_>>().join(", "), problem: broken.problem });
    }
}
