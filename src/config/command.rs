//! The commands, such as `audit`, and their options. An option is not a setting: it applies to one
//! run, and can only be given as a flag.

mod credentials;
mod pattern;

use std::path::PathBuf;

use clap::builder::RangedU64ValueParser;
use clap::{Args, Subcommand, ValueEnum, ValueHint};
use clap_complete::Shell;

use super::review::SettingInForce;
use crate::base::gateway_url::GatewayUrl;
use crate::base::ids::{LiveId, UserId};
use crate::base::webhook_name::WebhookName;
pub use credentials::{KeyArgs, TokenArgs};

/// The gateway that runs here with the default settings.
const HERE: &str = "http://127.0.0.1:8080";

/// Stands for the live in a [`KeyPattern`].
const LIVE_ID: &str = "{live_id}";

/// The commands that the command line may name.
#[derive(Debug, Subcommand)]
pub(super) enum CommandLine {
    #[command(flatten)]
    Task(Task),
    /// Print completions for a shell
    Completions { shell: Shell },
    /// Print the manual page
    Man,
}

/// What the process does with its settings.
#[derive(Debug, Subcommand)]
pub enum Task {
    /// Run a gateway, as without a command
    Serve,
    /// Search Redis for what is missing or should not exist
    Audit(AuditArgs),
    /// Show who is counted in a live, which gateway holds them, and why
    Explain(ExplainArgs),
    /// List or replay the events that were given up
    Events(EventsArgs),
    /// Print the open lives as a gateway tells them, once or every few seconds
    Lives(LivesArgs),
    /// Count the keys in Redis that match a pattern, by kind, with their memory
    Keys(KeysArgs),
    /// Check the settings and the files that they name, and print every setting with its origin
    CheckConfig(CheckArgs),
    /// Print a token for development
    Token(TokenArgs),
    /// Print a new API key and, below it, its line for the file of --api-keys
    Key(KeyArgs),
}

impl Task {
    /// Whether the command reads the store, and takes the settings of the gateways that use it.
    pub(super) fn reads_store(&self) -> bool {
        matches!(
            self,
            Self::Audit(_) | Self::Explain(_) | Self::Events(_) | Self::Keys(_)
        )
    }

    /// Whether the command works with settings that contradict each other, because it does nothing
    /// that a gateway does.
    pub(super) fn stands_alone(&self) -> bool {
        matches!(self, Self::Token(_) | Self::Key(_) | Self::Lives(_))
    }
}

#[derive(Debug, Clone, Args)]
#[allow(missing_docs, reason = "the command says it")]
pub struct AuditArgs {
    #[command(flatten)]
    pub(crate) gateways: GatewayArgs,
    /// Repair what can be repaired safely
    #[arg(long)]
    pub(crate) fix: bool,
    /// Check every follow and every login too, which takes long in a large graph
    #[arg(long)]
    pub(crate) users: bool,
    /// Only compare each open live with the users in a key of another program: its name, with {live_id} for
    /// the live, as in online:{live_id}
    #[arg(long, value_name = "KEY", conflicts_with_all = ["fix", "users", "top", "urls"])]
    #[arg(value_parser = KeyPattern::parse)]
    pub(crate) against: Option<KeyPattern>,
    /// With --against: compare the fans only, and not all viewers
    #[arg(long, requires = "against")]
    pub(crate) fans: bool,
    /// How many of the biggest keys to show
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = up_to_1000())]
    pub(crate) top: usize,
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Clone, Args)]
#[allow(missing_docs, reason = "the command says it")]
pub struct ExplainArgs {
    #[arg(value_parser = LiveId::parse)]
    pub(crate) live: LiveId,
    #[arg(value_parser = UserId::parse)]
    pub(crate) user: Option<UserId>,
    #[command(flatten)]
    pub(crate) gateways: GatewayArgs,
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Clone, Args)]
#[allow(missing_docs, reason = "the command says it")]
pub struct EventsArgs {
    #[command(subcommand)]
    pub(crate) action: EventsAction,
    /// The webhook that did not take them, by its name in the settings
    #[arg(long, value_name = "NAME", global = true, default_value = "default")]
    #[arg(value_parser = webhook_name)]
    pub(crate) webhook: WebhookName,
    /// Print one JSON document
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

fn webhook_name(text: &str) -> Result<WebhookName, &'static str> {
    WebhookName::parse(text).map_err(|_| "a webhook's name has 1 to 32 characters of a-z 0-9 -")
}

/// What `rollcall events` does.
#[derive(Debug, Clone, Subcommand)]
pub enum EventsAction {
    /// List the events that were given up
    List,
    /// Have events sent again
    Replay {
        /// One event, as the list names it
        #[arg(required_unless_present = "all", conflicts_with = "all")]
        entry: Option<String>,
        /// Every event that was given up
        #[arg(long)]
        all: bool,
    },
}

#[derive(Debug, Clone, Args)]
#[allow(missing_docs, reason = "the command says it")]
pub struct LivesArgs {
    #[command(flatten)]
    gateways: GatewayArgs,
    /// The figure of which the largest come first
    #[arg(long, value_name = "FIGURE", value_enum, default_value_t = LivesSort::Viewers)]
    pub(crate) sort: LivesSort,
    /// Print the table once, as it is done without --watch
    #[arg(long)]
    pub once: bool,
    /// Print the table again every 5 seconds, or every so many
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "5")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=3_600), conflicts_with_all = ["once", "json"])]
    pub(crate) watch: Option<u64>,
    /// Print a line of JSON for each live
    #[arg(long)]
    pub(crate) json: bool,
}

impl LivesArgs {
    /// At least one gateway. If one does not answer, the command asks the next.
    pub(crate) fn gateways(&self) -> GatewayArgs {
        let mut gateways = self.gateways.clone();
        if gateways.urls.is_empty() {
            gateways.urls.extend(GatewayUrl::parse(HERE));
        }
        gateways
    }
}

/// By which figure lives are sorted, largest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LivesSort {
    /// By viewers.
    #[value(help = None)]
    Viewers,
    /// By fans.
    #[value(help = None)]
    Fans,
}

impl LivesSort {
    /// The word of the query of the HTTP API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Viewers => "viewers",
            Self::Fans => "fans",
        }
    }
}

#[derive(Debug, Clone, Args)]
#[allow(missing_docs, reason = "the command says it")]
pub struct KeysArgs {
    /// A glob such as 'online-fans:*', without the prefix of the installation, and in quotes: else
    /// the shell replaces it with names of files
    #[arg(value_parser = pattern::parse)]
    pub(crate) pattern: String,
    /// How many keys to list one by one
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = up_to_1000())]
    pub(crate) count: usize,
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Clone, Args)]
#[allow(missing_docs, reason = "the command says it")]
pub struct CheckArgs {
    /// Ask Redis too, and the URL of jwt-jwks
    #[arg(long)]
    pub(crate) connect: bool,
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
    /// What is wrong with the settings.
    #[arg(skip)]
    pub(crate) mistakes: Vec<String>,
    #[arg(skip)]
    pub(crate) settings: Vec<SettingInForce>,
}

/// Which gateways a command asks, and how.
#[derive(Debug, Clone, Args)]
pub struct GatewayArgs {
    /// A gateway to ask what it holds, as http[s]://host:port; may be repeated
    #[arg(long = "gateway", value_name = "URL", value_parser = GatewayUrl::parse)]
    pub(crate) urls: Vec<GatewayUrl>,
    /// A file with an API key with the scope read, for the gateways
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) api_key_file: Option<PathBuf>,
    /// A PEM file of certificate authorities to trust for gateways, instead of the system's
    #[arg(long = "gateway-ca", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) ca: Option<PathBuf>,
}

/// The name of a key of another program, one for each live.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyPattern {
    before: String,
    after: String,
}

impl KeyPattern {
    /// Reads a name that has `{live_id}` once.
    fn parse(text: &str) -> Result<Self, &'static str> {
        match text.split_once(LIVE_ID) {
            Some((before, after)) if !after.contains(LIVE_ID) => Ok(Self {
                before: before.to_owned(),
                after: after.to_owned(),
            }),
            _ => Err("the name of a key has {live_id} once, as in online:{live_id}"),
        }
    }

    /// The key of a live.
    pub(crate) fn of(&self, live: &LiveId) -> String {
        format!("{}{live}{}", self.before, self.after)
    }

    /// The live whose key this is; `None` if it is another key.
    pub(crate) fn live_of(&self, key: &str) -> Option<LiveId> {
        let rest = key.strip_prefix(self.before.as_str())?;
        let live = rest.strip_suffix(self.after.as_str())?;
        LiveId::parse(live).ok()
    }

    /// A glob that every such key matches.
    pub(crate) fn glob(&self) -> String {
        format!("{}*{}", literally(&self.before), literally(&self.after))
    }
}

/// A glob that only this text matches.
fn literally(text: &str) -> String {
    let mut glob = String::with_capacity(text.len());
    for character in text.chars() {
        if matches!(character, '*' | '?' | '[' | ']' | '\\' | '^') {
            glob.push('\\');
        }
        glob.push(character);
    }
    glob
}

fn up_to_1000() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(0..=1_000)
}
