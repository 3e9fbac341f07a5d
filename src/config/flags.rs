//! Reads the command line, `rollcall [COMMAND] [--setting value]…`, with a parser built from the table of settings and
//! the options of the commands. It only collects values, and leaves the checks to [`load`](super::load), so that one
//! mistake does not hide the next.

use std::ffi::OsString;

use clap::builder::{ValueParser, styling};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, ArgMatches, Command};

use super::command::{self, Task};
use super::flag_value::value;
use super::given::{Given, GivenMap};
use super::mistakes::did_you_mean;
use super::settings::{self, SETTINGS, Setting};
use super::shell;
use crate::base::exit;

pub(super) enum Asked {
    Print(String),
    /// The task, or `None` if the command line names no known one; and the settings.
    Do(Option<Task>, GivenMap),
}

const AFTER_HELP: &str = "\
Every setting can also be an environment variable, such as ROLLCALL_HEARTBEAT for --heartbeat, or a key in the file
of --config, such as heartbeat = \"5s\". A flag overrides a variable, and a variable overrides the file. Durations look
like 250ms, 5s or 1m30s.

When ready, the gateway prints one line to standard output: listening on http://ADDR:PORT. Logs go to standard error.
Colours are for terminals only, and for none if NO_COLOR is set.

Commands: serve (the default) runs a gateway. audit searches Redis for entries that are missing or should not exist.
explain LIVE [USER] shows which users are counted in a live, which gateway holds them, and why. keys PATTERN counts the
keys in Redis, by kind, with their memory. These need --redis and take the settings of the gateways, such as --lease and
--key-prefix. lives shows the open lives as a gateway tells them, once or every few seconds. check-config takes
the settings as serve does, reads the files that they name, and prints every mistake and every setting with its origin.
token prints a token for development, signed with --jwt-hs256-secret-file or --jwt-private-key; --jwt-audience and
--jwt-issuer go into it. key prints a new API key and, below it, its line for the file of --api-keys. completions prints
what makes a shell complete these flags, man the manual page.

Exit codes:";

/// The end of the help.
fn after_help() -> String {
    exit::CODES.iter().fold(AFTER_HELP.to_owned(), |help, (code, what)| format!("{help}\n  {code:>3}  {what}"))
}

fn command() -> Command {
    let words = Arg::new("words").value_parser(ValueParser::os_string()).action(ArgAction::Append).num_args(0..);
    let command = Command::new("rollcall")
        .version(env!("CARGO_PKG_VERSION"))
        .about("A live-stream room presence gateway: who is in the room now, exactly, in Redis.")
        .override_usage(
            "rollcall [serve] [--SETTING VALUE]...\n       \
             rollcall audit --redis URL [--gateway URL]... [--api-key-file FILE] [--json] [--fix]\n               \
             [--users] [--top N]\n       \
             rollcall explain LIVE [USER] --redis URL [--gateway URL]... [--api-key-file FILE] [--json]\n       \
             rollcall events list --redis URL [--json]\n       \
             rollcall events replay ENTRY|--all --redis URL [--json]\n       \
             rollcall lives [--gateway URL]... [--api-key-file FILE] [--sort viewers|fans]\n               \
             [--watch [SECONDS]] [--json]\n       \
             rollcall keys PATTERN --redis URL [--count N] [--json]\n       \
             rollcall check-config [--config FILE] [--SETTING VALUE]... [--connect] [--json]\n       \
             rollcall token --sub USER [--role ROLE] [--ttl DURATION] --jwt-hs256-secret-file FILE\n       \
             rollcall key --name NAME --scopes read,write\n       \
             rollcall completions SHELL\n       \
             rollcall man",
        )
        .after_help(after_help())
        .styles(styling::Styles::plain())
        .arg(words.hide(true));
    let command = SETTINGS.iter().fold(command, |command, setting| command.arg(arg(setting)));
    command::args().fold(command, Command::arg)
}

fn arg(setting: &Setting) -> Arg {
    let default = setting.default.map_or_else(|| "none".to_owned(), str::to_owned);
    let short = format!("{} [default: {default}]", setting.doc);
    let details = if setting.more.is_empty() { String::new() } else { format!(".\n{}", setting.more) };
    let long = format!("{}{details}\n[default: {default}] [env: {}]", setting.doc, setting.env_name());
    let arg = Arg::new(setting.name);
    let arg = match setting.bare {
        Some(value) => arg.num_args(0..=1).default_missing_value(value),
        None => arg,
    };
    arg.long(setting.name)
        .value_name(setting.hint)
        .value_parser(ValueParser::os_string())
        .action(ArgAction::Append)
        .help_heading(setting.group)
        .help(short)
        .long_help(long)
}

pub(super) fn read(args: impl IntoIterator<Item = OsString>, mistakes: &mut Vec<String>) -> Asked {
    let mut args: Vec<OsString> = args.into_iter().collect();
    // clap stops at the first argument that it does not know. Note that one, remove it, and read the rest again.
    loop {
        let err = match command().try_get_matches_from(&args) {
            Ok(matches) => return given(&matches, mistakes),
            Err(err) => err,
        };
        if matches!(err.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
            return Asked::Print(err.to_string().trim_end().to_owned());
        }
        let culprit = match err.get(ContextKind::InvalidArg) {
            Some(ContextValue::String(shown)) => shown.split([' ', '=']).next().unwrap_or_default().to_owned(),
            _ => String::new(),
        };
        let problem = if let Some(setting) = SETTINGS.iter().find(|s| culprit.strip_prefix("--") == Some(s.name)) {
            format!("has no value; use --{} {}", setting.name, setting.hint)
        } else if let Some(usage) = command::usage(&culprit) {
            format!("use {usage}")
        } else {
            let known = settings::names().chain(command::names());
            format!("no such flag{}", did_you_mean(culprit.trim_start_matches('-'), known, |name| format!("--{name}")))
        };
        mistakes.push(format!("{} (flag): {problem}", culprit.escape_debug()));
        if !remove(&mut args, &culprit) {
            return Asked::Do(None, GivenMap::new());
        }
    }
}

/// Removes a flag and what looks like its value. Answers whether the flag was there.
fn remove(args: &mut Vec<OsString>, culprit: &str) -> bool {
    let is_it = |arg: &OsString| {
        let arg = arg.to_string_lossy();
        // Of several short flags in one word (`-xyz`), clap names only the first unknown one.
        let short = !culprit.starts_with("--") && arg.starts_with('-') && !arg.starts_with("--");
        arg == culprit || arg.starts_with(&format!("{culprit}=")) || short
    };
    // If the flag stands twice, the one without a value is the last one.
    let found = args.iter().skip(1).rposition(is_it).map(|at| at + 1).filter(|_| !culprit.is_empty());
    let Some(at) = found else { return false };
    let joined = args.remove(at).to_string_lossy().contains('=');
    if !joined && args.get(at).is_some_and(|next| !next.to_string_lossy().starts_with('-')) {
        args.remove(at);
    }
    true
}

fn given(matches: &ArgMatches, mistakes: &mut Vec<String>) -> Asked {
    let words: Vec<_> = matches.get_many::<OsString>("words").into_iter().flatten().collect();
    let as_text: Vec<_> = words.iter().map(|word| word.to_str().unwrap_or_default()).collect();
    match as_text.as_slice() {
        ["help"] => return Asked::Print(command().render_long_help().to_string().trim_end().to_owned()),
        ["man"] => return Asked::Print(shell::manual(command())),
        ["completions", rest @ ..] => {
            return shell::completions(command(), rest).map_or_else(
                |problem| {
                    mistakes.push(problem);
                    Asked::Do(None, GivenMap::new())
                },
                Asked::Print,
            );
        }
        _ => {}
    }
    let task = command::task(&words, matches, mistakes);
    let mut given = GivenMap::new();
    for setting in SETTINGS {
        if let Some(text) = value(matches, setting.name) {
            given.insert(setting.name, Given { text, place: format!("flag --{}", setting.name) });
        }
    }
    Asked::Do(task, given)
}
