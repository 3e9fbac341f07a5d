//! Reads the command line. The parser has the settings of the table, and the commands with their
//! options. A setting may stand before or after the name of the command. The parser only collects
//! the values of settings. [`load`](super::load) checks them, so that one mistake does not hide the
//! next.

use std::ffi::{OsStr, OsString};

use clap::builder::styling;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgMatches, Command, FromArgMatches, Subcommand};

use super::command::{CommandLine, Task};
use super::declared;
use super::given::{Given, GivenMap};
use super::mistakes::did_you_mean;
use super::settings::SETTINGS;
use super::shell;
use crate::base::exit;

pub(super) enum Invocation {
    Print(String),
    Do(Task, GivenMap),
    /// The command line makes no sense. The mistakes say why.
    Nothing,
}

const AFTER_HELP: &str = "\
Every setting can also be an environment variable, such as ROLLCALL_HEARTBEAT for --heartbeat, or a key in the file
of --config, such as heartbeat = \"5s\". A flag overrides a variable, and a variable overrides the file. Durations look
like 250ms, 5s or 1m30s.

When ready, the gateway prints one line to standard output: listening on http://ADDR:PORT. Logs go to standard error.
Colours are for terminals only, and for none if NO_COLOR is set.

audit, explain, events and keys need --redis and take the settings of the gateways, such as --lease and --key-prefix.
check-config takes the settings as serve does. token signs with --jwt-hs256-secret-file or --jwt-private-key;
--jwt-audience and --jwt-issuer go into the token.

Exit codes:";

/// The end of the help.
fn after_help() -> String {
    let mut help = AFTER_HELP.to_owned();
    for (code, what) in exit::CODES {
        help += &format!("\n  {code:>3}  {what}");
    }
    help
}

fn command() -> Command {
    let mut command = Command::new("rollcall")
        .version(env!("CARGO_PKG_VERSION"))
        .about("A live-stream room presence gateway: who is in the room now, exactly, in Redis.")
        .after_help(after_help())
        .styles(styling::Styles::plain());
    for setting in SETTINGS.iter() {
        command = command.arg(setting.flag());
    }
    CommandLine::augment_subcommands(command)
}

pub(super) fn read(
    args: impl IntoIterator<Item = OsString>,
    mistakes: &mut Vec<String>,
) -> Invocation {
    let mut args: Vec<OsString> = args.into_iter().collect();
    // clap stops at the first mistake. Note it, remove its cause, and read the rest again.
    loop {
        let err = match command().try_get_matches_from(&args) {
            Ok(matches) => break given(&matches, mistakes),
            Err(err) => err,
        };
        if matches!(
            err.kind(),
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
        ) {
            break Invocation::Print(err.to_string().trim_end().to_owned());
        }
        // The word that is missing now may have been removed as the cause of an earlier mistake.
        if err.kind() != ErrorKind::MissingRequiredArgument || mistakes.is_empty() {
            mistakes.push(mistake(&err));
        }
        if !remove(&mut args, &culprit(&err)) {
            break Invocation::Nothing;
        }
    }
}

/// The flag or the word that is wrong, such as `--lease`, or the placeholder of a word that is
/// missing, as `<LIVE>`.
fn culprit(err: &clap::Error) -> String {
    let shown = text(err, ContextKind::InvalidArg)
        .or_else(|| text(err, ContextKind::InvalidSubcommand))
        .unwrap_or_default();
    let first = shown.split([' ', '=']).next();
    first.unwrap_or_default().to_owned()
}

fn text(err: &clap::Error, kind: ContextKind) -> Option<String> {
    match err.get(kind)? {
        ContextValue::String(text) => Some(text.clone()),
        ContextValue::Strings(texts) => Some(texts.join(", ")),
        ContextValue::StyledStr(text) => Some(text.to_string()),
        _ => None,
    }
}

/// The mistake in a sentence. It does not quote words and values, which may be a part of a
/// password.
fn mistake(err: &clap::Error) -> String {
    let culprit = culprit(err);
    let command = command();
    if matches!(
        err.kind(),
        ErrorKind::InvalidSubcommand | ErrorKind::UnknownArgument
    ) && !culprit.starts_with('-')
    {
        let names = command
            .get_subcommands()
            .map(Command::get_name)
            .filter(|name| *name != culprit);
        let near = did_you_mean(&culprit, names, str::to_owned);
        return format!(
            "a word that is not a flag: is no command, or one too many; see rollcall --help. A value with spaces needs \
             quotes, and so does a pattern with a *{near}"
        );
    }
    let arg = text(err, ContextKind::InvalidArg).unwrap_or_default();
    let problem = match err.kind() {
        ErrorKind::UnknownArgument => unknown_flag(&command, culprit.trim_start_matches('-')),
        ErrorKind::MissingRequiredArgument => {
            format!(
                "is missing. {}",
                text(err, ContextKind::Usage).unwrap_or_default()
            )
        }
        ErrorKind::MissingSubcommand => "needs a word; see rollcall events --help".to_owned(),
        ErrorKind::ArgumentConflict => match text(err, ContextKind::PriorArg) {
            Some(other) if other != arg => format!("does not go with {other}"),
            _ => "may be given only once".to_owned(),
        },
        ErrorKind::InvalidValue
            if text(err, ContextKind::InvalidValue).is_some_and(|value| value.is_empty()) =>
        {
            format!("has no value; use {}", arg.replace(['<', '>'], ""))
        }
        ErrorKind::InvalidValue => {
            format!(
                "must be one of {}",
                text(err, ContextKind::ValidValue).unwrap_or_default()
            )
        }
        _ => declared::problem(err),
    };
    let kind = if culprit.starts_with('-') {
        " (flag)"
    } else {
        ""
    };
    format!(
        "{}{kind}: {problem}",
        culprit.trim_matches(['<', '>']).escape_debug()
    )
}

fn unknown_flag(command: &Command, name: &str) -> String {
    let options: Vec<&str> = command
        .get_subcommands()
        .flat_map(Command::get_arguments)
        .filter_map(Arg::get_long)
        .collect();
    if options.contains(&name) {
        return "is not an option of this command; see rollcall --help".to_owned();
    }
    let settings = SETTINGS.iter().map(|setting| setting.name.as_str());
    let known = settings.chain(options);
    format!(
        "no such flag{}",
        did_you_mean(name, known, |name| format!("--{name}"))
    )
}

/// Whether an argument is the flag or the word of which clap complains.
fn is_culprit(arg: &OsStr, culprit: &str) -> bool {
    let arg = arg.to_string_lossy();
    // If one argument has several short flags (`-xyz`), clap names only the first unknown one.
    let short = culprit.starts_with('-')
        && !culprit.starts_with("--")
        && arg.starts_with('-')
        && !arg.starts_with("--");
    arg == culprit || arg.starts_with(&format!("{culprit}=")) || short
}

/// Removes a word, or a flag and the argument after it if that looks like its value. Returns whether
/// it found the word or the flag.
fn remove(args: &mut Vec<OsString>, culprit: &str) -> bool {
    if culprit.is_empty() {
        return false;
    }
    // If the flag stands twice, the one without a value is the last one.
    let Some(after_name) = args
        .iter()
        .skip(1)
        .rposition(|arg| is_culprit(arg, culprit))
    else {
        return false;
    };
    let at = after_name + 1;
    let joined = args.remove(at).to_string_lossy().contains('=');
    if !joined
        && culprit.starts_with('-')
        && args
            .get(at)
            .is_some_and(|next| !next.to_string_lossy().starts_with('-'))
    {
        args.remove(at);
    }
    true
}

fn given(matches: &ArgMatches, mistakes: &mut Vec<String>) -> Invocation {
    let task = match CommandLine::from_arg_matches(matches) {
        Ok(CommandLine::Task(task)) => task,
        Ok(CommandLine::Man | CommandLine::Completions { .. }) if !mistakes.is_empty() => {
            return Invocation::Nothing;
        }
        Ok(CommandLine::Man) => return Invocation::Print(shell::manual(&command())),
        Ok(CommandLine::Completions { shell }) => {
            return Invocation::Print(shell::completions(command(), shell));
        }
        Err(_) if matches.subcommand_name().is_none() => Task::Serve,
        Err(err) => {
            mistakes.push(mistake(&err));
            return Invocation::Nothing;
        }
    };
    // The matches of the last word have the settings that stand before it, too.
    let mut last = matches;
    while let Some((_, of_word)) = last.subcommand() {
        last = of_word;
    }
    let mut given = GivenMap::new();
    for setting in SETTINGS.iter() {
        if let Some(text) = value(last, &setting.name) {
            given.insert(
                &setting.name,
                Given {
                    text,
                    place: format!("flag --{}", setting.name),
                },
            );
        }
    }
    Invocation::Do(task, given)
}

/// The value of a flag that may be given once.
fn value(matches: &ArgMatches, flag: &str) -> Option<Result<String, String>> {
    let values: Vec<_> = matches.get_many::<OsString>(flag)?.collect();
    Some(match values.as_slice() {
        [value] => match value.to_str() {
            Some(text) => Ok(text.to_owned()),
            None => Err("is not valid UTF-8".to_owned()),
        },
        more => Err(format!(
            "is given {} times, but may be given only once",
            more.len()
        )),
    })
}
