//! Owns what the program can be asked to do besides serving, and the options that go with it. They are flags only: unlike
//! settings they say what is wanted this time, not how things are.

use std::ffi::OsString;

use clap::builder::ValueParser;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches};

use super::Mistake;
use crate::audit::GatewayUrl;
use crate::ids::{LiveId, UserId};

const HEADING: &str = "Options of audit and explain";

/// How many of the biggest keys are shown unless another number is asked for.
const TOP: usize = 10;

/// What the program does.
#[derive(Debug)]
pub(super) enum Task {
    Serve,
    Audit(AuditWish),
    Explain(ExplainWish),
}

/// How what was found is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// For people.
    Text,
    /// One JSON document.
    Json,
}

/// What becomes of findings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mend {
    /// They are reported.
    Nothing,
    /// Those are put right that the protocol can put right safely.
    WhatIsSafe,
}

/// A wish for `rollcall audit`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditWish {
    /// Gateways whose truth is compared with the store's.
    pub gateways: Vec<GatewayUrl>,
    /// How it is written.
    pub form: Form,
    /// What becomes of findings.
    pub mend: Mend,
    /// How many of the biggest keys are shown.
    pub top: usize,
}

/// A wish for `rollcall explain`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExplainWish {
    /// The live.
    pub live: LiveId,
    /// The user whose place is explained.
    pub user: Option<UserId>,
    /// Gateways that are asked too.
    pub gateways: Vec<GatewayUrl>,
    /// How it is written.
    pub form: Form,
}

/// Name, what follows it, what it is.
const OPTIONS: &[(&str, Option<&str>, &str)] = &[
    ("gateway", Some("URL"), "A gateway to ask what it holds, http://host:port; may be given again for others"),
    ("json", None, "Write one JSON document"),
    ("fix", None, "audit: put right what can be put right safely"),
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

/// How one of these flags is used.
pub(super) fn usage(flag: &str) -> Option<String> {
    let (name, hint, _) = OPTIONS.iter().find(|(name, ..)| flag.strip_prefix("--") == Some(name))?;
    Some(hint.map_or_else(|| format!("--{name}, once and with no value"), |hint| format!("--{name} {hint}")))
}

/// What the words ask for, with its options.
pub(super) fn task(words: &[&OsString], matches: &ArgMatches, mistakes: &mut Vec<Mistake>) -> Option<Task> {
    let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    let before = mistakes.len();
    let mut refuse = |subject: &str, problem: String| mistakes.push(Mistake { subject: subject.to_owned(), problem });
    let given = |name: &str| matches.value_source(name) == Some(ValueSource::CommandLine);
    let only = |command: &[&str], refuse: &mut dyn FnMut(&str, String)| {
        for (name, ..) in OPTIONS.iter().filter(|(name, ..)| given(name) && !command.contains(name)) {
            refuse(&format!("--{name} (flag)"), "is none of this command's; see rollcall --help".to_owned());
        }
    };
    let form = if matches.get_flag("json") { Form::Json } else { Form::Text };
    let task = match words.as_slice() {
        [] | ["serve"] => {
            only(&[], &mut refuse);
            Task::Serve
        }
        ["audit"] => {
            let mend = if matches.get_flag("fix") { Mend::WhatIsSafe } else { Mend::Nothing };
            let top = top(matches).unwrap_or_else(|problem| {
                refuse("--top (flag)", problem);
                TOP
            });
            Task::Audit(AuditWish { gateways: gateways(matches, &mut refuse), form, mend, top })
        }
        ["audit", ..] => {
            refuse("a word after audit", "audit takes no words, only flags; see rollcall --help".to_owned());
            return None;
        }
        ["explain", live, user @ ..] if user.len() <= 1 => {
            only(&["gateway", "json"], &mut refuse);
            let live = LiveId::parse(live).map_err(|why| refuse("LIVE, after explain", why.to_string())).ok();
            let user = user
                .first()
                .map(|user| UserId::parse(user).map_err(|why| refuse("USER, after explain", why.to_string())).ok());
            let gateways = gateways(matches, &mut refuse);
            Task::Explain(ExplainWish { live: live?, user: user.flatten(), gateways, form })
        }
        ["explain", ..] => {
            refuse("explain", "is followed by a live and perhaps a user: rollcall explain LIVE [USER]".to_owned());
            return None;
        }
        // Not quoted: it may be the second half of a password with a space in it.
        _ => {
            refuse(
                "a word that is no flag",
                "only `serve`, `audit` or `explain LIVE [USER]` may stand there; values with spaces need quotes"
                    .to_owned(),
            );
            return None;
        }
    };
    (mistakes.len() == before).then_some(task)
}

fn gateways(matches: &ArgMatches, refuse: &mut dyn FnMut(&str, String)) -> Vec<GatewayUrl> {
    let urls = matches.get_many::<OsString>("gateway").into_iter().flatten();
    let read = urls.filter_map(|url| {
        let url = GatewayUrl::parse(&url.to_string_lossy());
        url.map_err(|problem| refuse("--gateway (flag)", problem.to_owned())).ok()
    });
    read.collect()
}

fn top(matches: &ArgMatches) -> Result<usize, String> {
    let values: Vec<_> = matches.get_many::<OsString>("top").into_iter().flatten().collect();
    match values.as_slice() {
        [] => Ok(TOP),
        [value] => match value.to_string_lossy().parse() {
            Ok(top @ 0..=1_000) => Ok(top),
            _ => Err("must be a number from 0 to 1000".to_owned()),
        },
        more => Err(format!("is given {} times; once is right", more.len())),
    }
}
