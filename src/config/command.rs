//! Reads the command, such as `audit`, and its options from the command line. An option is not a setting: it applies
//! to one run, and can only be given as a flag.

mod looks;
mod mint;
mod shared;

use std::ffi::OsString;

use clap::builder::ValueParser;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches};

use self::shared::{format, gateways, number};
use super::mistakes::did_you_mean;
use crate::base::ids::{LiveId, UserId};
pub use looks::{CheckArgs, Connect, KeysArgs, LivesArgs, LivesSort};
pub use mint::{KeyArgs, TokenArgs};
pub use shared::{GatewayArgs, OutputFormat};

const HEADING: &str = "Options of the commands";

/// The default of `--top`.
const TOP: usize = 10;

/// The value of `--watch` that is given without one.
const WATCH: &str = "5";

/// What the process does with its settings.
#[derive(Debug)]
pub enum Task {
    /// Run a gateway.
    Serve,
    /// Search Redis for what is wrong.
    Audit(AuditArgs),
    /// Explain who is counted in a live, and why.
    Explain(ExplainArgs),
    /// Look at the events that were given up, or send them again.
    Events(EventsArgs),
    /// Show the open lives.
    Lives(LivesArgs),
    /// Count the keys in Redis.
    Keys(KeysArgs),
    /// Check the settings that a gateway would run with.
    CheckConfig(CheckArgs),
    /// Make a token.
    Token(TokenArgs),
    /// Make an API key.
    Key(KeyArgs),
}

impl Task {
    /// Whether the command reads the store, and takes the settings of the gateways that use it.
    pub(super) fn reads_store(&self) -> bool {
        matches!(self, Self::Audit(_) | Self::Explain(_) | Self::Events(_) | Self::Keys(_))
    }

    /// Whether the command does nothing that a gateway does, so that it does not matter how the settings fit together.
    pub(super) fn stands_alone(&self) -> bool {
        matches!(self, Self::Token(_) | Self::Key(_) | Self::Lives(_))
    }
}

/// Which findings an audit repairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fix {
    /// None.
    Nothing,
    /// Those that can be repaired safely while gateways run.
    Safe,
}

/// What an audit checks of users.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Users {
    /// Changes that were left half done.
    Changes,
    /// These, and every follow and every login.
    Each,
}

/// The options of `rollcall audit`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditArgs {
    pub(crate) gateways: GatewayArgs,
    pub(crate) format: OutputFormat,
    pub(crate) fix: Fix,
    pub(crate) users: Users,
    /// How many of the biggest keys the report shows.
    pub(crate) top: usize,
}

/// The options of `rollcall explain`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExplainArgs {
    pub(crate) live: LiveId,
    pub(crate) user: Option<UserId>,
    pub(crate) gateways: GatewayArgs,
    pub(crate) format: OutputFormat,
}

/// What `rollcall events` does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventsAction {
    /// List the events that were given up.
    List,
    /// Put one of them at the end of the stream, by its entry.
    Replay(String),
    /// Put all of them there.
    ReplayAll,
}

/// The options of `rollcall events`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventsArgs {
    pub(crate) action: EventsAction,
    pub(crate) format: OutputFormat,
}

/// The name of each command, and what it does.
pub(super) const COMMANDS: &[(&str, &str)] = &[
    ("serve", "Run a gateway, as without a command"),
    ("audit", "Search Redis for what is missing or should not exist"),
    ("explain", "Show who is counted in a live, and why"),
    ("events", "List or replay the events that were given up"),
    ("lives", "Show the open lives, once or every few seconds"),
    ("keys", "Count the keys in Redis that match a pattern, by kind, with their memory"),
    ("check-config", "Check the settings and the files that they name"),
    ("token", "Print a token for development"),
    ("key", "Print a new API key"),
    ("completions", "Print completions for bash, elvish, fish, powershell or zsh"),
    ("man", "Print the manual page"),
];

/// The name, the placeholder of the value and the help of each flag.
const OPTIONS: &[(&str, Option<&str>, &str)] = &[
    ("gateway", Some("URL"), "A gateway to ask what it holds, as http[s]://host:port; may be repeated"),
    ("api-key-file", Some("FILE"), "A file with an API key with the scope read, for the gateways"),
    ("gateway-ca", Some("FILE"), "A PEM file of certificate authorities to trust for gateways; default: the system's"),
    ("json", None, "Print one JSON document; lives: a line of JSON for each live"),
    ("fix", None, "audit: repair what can be repaired safely"),
    ("users", None, "audit: check every follow and every login too, which takes long in a large graph"),
    ("top", Some("N"), "audit: how many of the biggest keys to show, 0 to 1000 [default: 10]"),
    ("sort", Some("FIGURE"), "lives: by viewers or by fans, largest first [default: viewers]"),
    ("once", None, "lives: print the table once, as it is done without --watch"),
    ("watch", Some("[SECONDS]"), "lives: print the table again every so many seconds, 1 to 3600, or every 5"),
    ("count", Some("N"), "keys: how many keys to list one by one, 0 to 1000 [default: 10]"),
    ("connect", None, "check-config: ask Redis too, and the URL of jwt-jwks"),
    ("all", None, "events replay: every event that was given up"),
    ("sub", Some("USER"), "token: whose token it is"),
    ("role", Some("ROLE"), "token: viewer, streamer or service [default: viewer]"),
    ("ttl", Some("DURATION"), "token: how long it lasts, 1s to 366d [default: 1h]"),
    ("lives", Some("LIVES"), "token: the lives that it is limited to, as in 42,43"),
    ("fan-of", Some("STREAMERS"), "token: the streamers whom the user follows, as in s1,s2"),
    ("no-count", None, "token: the user is in no figure"),
    ("jwt-private-key", Some("FILE"), "token: a private key in PEM that signs it, instead of jwt-hs256-secret-file"),
    ("name", Some("NAME"), "key: whose key it is"),
    ("scopes", Some("SCOPES"), "key: what it is good for, as in read,write,moderate"),
];

/// The flags of the commands.
pub(super) fn args() -> impl Iterator<Item = Arg> {
    OPTIONS.iter().map(|(name, hint, doc)| {
        let arg = Arg::new(*name).long(*name).help_heading(HEADING).help(*doc);
        match hint {
            Some(optional) if optional.starts_with('[') => {
                let arg = arg.value_name(optional.trim_matches(['[', ']'])).value_parser(ValueParser::os_string());
                arg.action(ArgAction::Append).num_args(0..=1).default_missing_value(WATCH)
            }
            Some(hint) => arg.value_name(*hint).value_parser(ValueParser::os_string()).action(ArgAction::Append),
            None => arg.action(ArgAction::SetTrue),
        }
    })
}

/// The names of the flags of the commands.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    OPTIONS.iter().map(|(name, ..)| *name)
}

/// How to use an option of the commands; `None` for any other flag.
pub(super) fn usage(flag: &str) -> Option<String> {
    let (name, hint, _) = OPTIONS.iter().find(|(name, ..)| flag.strip_prefix("--") == Some(name))?;
    Some(hint.map_or_else(|| format!("--{name}, once and with no value"), |hint| format!("--{name} {hint}")))
}

/// Reads the command from the words of the command line, and its options from the flags.
pub(super) fn task(words: &[&OsString], matches: &ArgMatches, mistakes: &mut Vec<String>) -> Option<Task> {
    let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    let before = mistakes.len();
    let mut refuse = |subject: &str, problem: &str| mistakes.push(format!("{subject}: {problem}"));
    let given = |name: &str| matches.value_source(name) == Some(ValueSource::CommandLine);
    let only = |command: &[&str], refuse: &mut dyn FnMut(&str, &str)| {
        for (name, ..) in OPTIONS.iter().filter(|(name, ..)| given(name) && !command.contains(name)) {
            refuse(&format!("--{name} (flag)"), "is not an option of this command; see rollcall --help");
        }
    };
    let format = format(matches);
    let task = match words.as_slice() {
        [] | ["serve"] => {
            only(&[], &mut refuse);
            Task::Serve
        }
        ["audit"] => {
            only(&["gateway", "api-key-file", "gateway-ca", "json", "fix", "users", "top"], &mut refuse);
            let fix = if matches.get_flag("fix") { Fix::Safe } else { Fix::Nothing };
            let top = number(matches, "top", TOP, &mut refuse);
            let users = if matches.get_flag("users") { Users::Each } else { Users::Changes };
            Task::Audit(AuditArgs { gateways: gateways(matches, &mut refuse), format, fix, users, top })
        }
        ["audit", ..] => {
            refuse("a word after audit", "audit takes no words, only flags; see rollcall --help");
            return None;
        }
        ["explain", live, user @ ..] if user.len() <= 1 => {
            only(&["gateway", "api-key-file", "gateway-ca", "json"], &mut refuse);
            let live = LiveId::parse(live).map_err(|why| refuse("LIVE, after explain", &why.to_string())).ok();
            let user = user.first().and_then(|user| {
                UserId::parse(user).map_err(|why| refuse("USER, after explain", &why.to_string())).ok()
            });
            let gateways = gateways(matches, &mut refuse);
            Task::Explain(ExplainArgs { live: live?, user, gateways, format })
        }
        ["explain", ..] => {
            refuse("explain", "needs a live, and takes a user: rollcall explain LIVE [USER]");
            return None;
        }
        ["events", "list"] => {
            only(&["json"], &mut refuse);
            Task::Events(EventsArgs { action: EventsAction::List, format })
        }
        ["events", "replay", entry @ ..] if entry.len() + usize::from(matches.get_flag("all")) == 1 => {
            only(&["all", "json"], &mut refuse);
            let one = |entry: &&str| EventsAction::Replay((*entry).to_owned());
            Task::Events(EventsArgs { action: entry.first().map_or(EventsAction::ReplayAll, one), format })
        }
        ["events", ..] => {
            refuse("events", "needs a word: rollcall events list, rollcall events replay ENTRY or replay --all");
            return None;
        }
        ["lives"] => {
            only(looks::LIVES, &mut refuse);
            Task::Lives(looks::lives(matches, &mut refuse))
        }
        ["keys", words @ ..] => {
            only(looks::KEYS, &mut refuse);
            Task::Keys(looks::keys(words, matches, &mut refuse)?)
        }
        ["check-config"] => {
            only(looks::CHECK, &mut refuse);
            Task::CheckConfig(looks::check(matches))
        }
        ["token"] => {
            only(mint::TOKEN, &mut refuse);
            Task::Token(mint::token(matches, &mut refuse)?)
        }
        ["key"] => {
            only(mint::KEY, &mut refuse);
            Task::Key(mint::key(matches, &mut refuse)?)
        }
        // The message does not quote the word, which may be the second half of a password with a space in it.
        [word, ..] => {
            let others = COMMANDS.iter().map(|(name, _)| *name).filter(|name| name != word);
            let near = did_you_mean(word, others, str::to_owned);
            let known = "only `serve`, `audit`, `explain LIVE [USER]`, `events list`, `events replay`, `lives`, \
                         `keys PATTERN`, `check-config`, `token`, `key`, `completions SHELL` and `man` are commands; a \
                         value with spaces needs quotes";
            refuse("a word that is not a flag", &format!("{known}{near}"));
            return None;
        }
    };
    (mistakes.len() == before).then_some(task)
}
