//! Reads the command, such as `audit`, and its options from the command line. An option is not a setting: it applies
//! to one run, and can only be given as a flag.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::ValueParser;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches};

use super::mistakes::Mistake;
use crate::base::gateway_url::GatewayUrl;
use crate::base::ids::{LiveId, UserId};

const HEADING: &str = "Options of audit and explain";

/// The default of `--top`.
const TOP: usize = 10;

#[derive(Debug)]
pub(super) enum Task {
    Serve,
    Audit(AuditArgs),
    Explain(ExplainArgs),
}

/// How a command writes its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputFormat {
    /// Tables and sentences for people.
    Text,
    /// One JSON document.
    Json,
}

/// Which findings an audit repairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fix {
    /// None.
    Nothing,
    /// Those that can be repaired safely while gateways run.
    Safe,
}

/// Which gateways a command asks, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatewayArgs {
    pub(crate) urls: Vec<GatewayUrl>,
    /// `None`: without a key.
    pub(crate) api_key_file: Option<PathBuf>,
    /// `None`: the certificate authorities of the system.
    pub(crate) ca: Option<PathBuf>,
}

/// The options of `rollcall audit`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditArgs {
    pub(crate) gateways: GatewayArgs,
    pub(crate) format: OutputFormat,
    pub(crate) fix: Fix,
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

/// The name, the placeholder of the value and the help of each flag.
const OPTIONS: &[(&str, Option<&str>, &str)] = &[
    ("gateway", Some("URL"), "A gateway to ask what it holds, as http[s]://host:port; may be repeated"),
    ("api-key-file", Some("FILE"), "A file with an API key with the scope read, for the gateways"),
    ("gateway-ca", Some("FILE"), "A PEM file of certificate authorities to trust for gateways; default: the system's"),
    ("json", None, "Print one JSON document"),
    ("fix", None, "audit: repair what can be repaired safely"),
    ("top", Some("N"), "audit: how many of the biggest keys to show, 0 to 1000 [default: 10]"),
];

/// The flags of the commands.
pub(super) fn args() -> impl Iterator<Item = Arg> {
    OPTIONS.iter().map(|(name, hint, doc)| {
        let arg = Arg::new(*name).long(*name).help_heading(HEADING).help(*doc);
        match hint {
            Some(hint) => arg.value_name(*hint).value_parser(ValueParser::os_string()).action(ArgAction::Append),
            None => arg.action(ArgAction::SetTrue),
        }
    })
}

/// How to use an option of the commands; `None` for any other flag.
pub(super) fn usage(flag: &str) -> Option<String> {
    let (name, hint, _) = OPTIONS.iter().find(|(name, ..)| flag.strip_prefix("--") == Some(name))?;
    Some(hint.map_or_else(|| format!("--{name}, once and with no value"), |hint| format!("--{name} {hint}")))
}

/// Reads the command from the words of the command line, and its options from the flags.
pub(super) fn task(words: &[&OsString], matches: &ArgMatches, mistakes: &mut Vec<Mistake>) -> Option<Task> {
    let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    let before = mistakes.len();
    let mut refuse = |subject: &str, problem: String| mistakes.push(Mistake { subject: subject.to_owned(), problem });
    let given = |name: &str| matches.value_source(name) == Some(ValueSource::CommandLine);
    let only = |command: &[&str], refuse: &mut dyn FnMut(&str, String)| {
        for (name, ..) in OPTIONS.iter().filter(|(name, ..)| given(name) && !command.contains(name)) {
            refuse(&format!("--{name} (flag)"), "is not an option of this command; see rollcall --help".to_owned());
        }
    };
    let format = if matches.get_flag("json") { OutputFormat::Json } else { OutputFormat::Text };
    let task = match words.as_slice() {
        [] | ["serve"] => {
            only(&[], &mut refuse);
            Task::Serve
        }
        ["audit"] => {
            let fix = if matches.get_flag("fix") { Fix::Safe } else { Fix::Nothing };
            let top = top(matches).unwrap_or_else(|problem| {
                refuse("--top (flag)", problem);
                TOP
            });
            Task::Audit(AuditArgs { gateways: gateways(matches, &mut refuse), format, fix, top })
        }
        ["audit", ..] => {
            refuse("a word after audit", "audit takes no words, only flags; see rollcall --help".to_owned());
            return None;
        }
        ["explain", live, user @ ..] if user.len() <= 1 => {
            only(&["gateway", "api-key-file", "gateway-ca", "json"], &mut refuse);
            let live = LiveId::parse(live).map_err(|why| refuse("LIVE, after explain", why.to_string())).ok();
            let user = user.first().and_then(|user| {
                UserId::parse(user).map_err(|why| refuse("USER, after explain", why.to_string())).ok()
            });
            let gateways = gateways(matches, &mut refuse);
            Task::Explain(ExplainArgs { live: live?, user, gateways, format })
        }
        ["explain", ..] => {
            refuse("explain", "needs a live, and takes a user: rollcall explain LIVE [USER]".to_owned());
            return None;
        }
        // The message does not quote the word, which may be the second half of a password with a space in it.
        _ => {
            refuse(
                "a word that is not a flag",
                "only `serve`, `audit` and `explain LIVE [USER]` are commands; a value with spaces needs quotes"
                    .to_owned(),
            );
            return None;
        }
    };
    (mistakes.len() == before).then_some(task)
}

fn gateways(matches: &ArgMatches, refuse: &mut dyn FnMut(&str, String)) -> GatewayArgs {
    let urls = matches.get_many::<OsString>("gateway").into_iter().flatten();
    let read = urls.filter_map(|url| {
        let url = GatewayUrl::parse(&url.to_string_lossy());
        url.map_err(|problem| refuse("--gateway (flag)", problem.to_owned())).ok()
    });
    let urls = read.collect();
    let mut file = |name: &str| match once(matches, name) {
        Ok(file) => file.map(PathBuf::from),
        Err(problem) => {
            refuse(&format!("--{name} (flag)"), problem);
            None
        }
    };
    GatewayArgs { urls, api_key_file: file("api-key-file"), ca: file("gateway-ca") }
}

fn top(matches: &ArgMatches) -> Result<usize, String> {
    match once(matches, "top")?.map(|value| value.to_string_lossy().parse()) {
        None => Ok(TOP),
        Some(Ok(top @ 0..=1_000)) => Ok(top),
        Some(_) => Err("must be a number from 0 to 1000".to_owned()),
    }
}

/// The value of an option that may be given once.
fn once<'a>(matches: &'a ArgMatches, name: &str) -> Result<Option<&'a OsString>, String> {
    let values: Vec<_> = matches.get_many::<OsString>(name).into_iter().flatten().collect();
    match values.as_slice() {
        [] => Ok(None),
        [value] => Ok(Some(value)),
        more => Err(format!("is given {} times, but may be given only once", more.len())),
    }
}
