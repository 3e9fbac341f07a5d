//! The options of `token` and `key`, which make credentials for development.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueHint};

use crate::base::identity::Role;
use crate::base::ids::{InvalidId, LiveId, UserId};

/// The lifetimes that a token may have.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(366 * 24 * 3600);

#[derive(Debug, Clone, Args)]
#[allow(missing_docs, reason = "the command says it")]
pub struct TokenArgs {
    /// Whose token it is
    #[arg(long, value_name = "USER", value_parser = UserId::parse)]
    pub(crate) sub: UserId,
    /// viewer, streamer or service
    #[arg(long, default_value = "viewer", value_parser = role)]
    pub(crate) role: Role,
    /// How long it lasts, 1s to 366d
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = lifetime)]
    pub(crate) ttl: Duration,
    /// The lives that it is limited to, as in 42,43
    #[arg(long, value_delimiter = ',', value_parser = live)]
    pub(crate) lives: Option<Vec<LiveId>>,
    /// The streamers whom the user follows, as in s1,s2
    #[arg(long, value_name = "STREAMERS", value_delimiter = ',', value_parser = streamer)]
    pub(crate) fan_of: Option<Vec<UserId>>,
    /// The user is in no figure
    #[arg(long)]
    pub(crate) no_count: bool,
    /// A private key in PEM that signs it, instead of jwt-hs256-secret-file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) jwt_private_key: Option<PathBuf>,
}

#[derive(Debug, Clone, Args)]
#[allow(missing_docs, reason = "the command says it")]
pub struct KeyArgs {
    /// Whose key it is
    #[arg(long, value_parser = name)]
    pub(crate) name: String,
    /// What it is good for, as in read,write,moderate
    #[arg(long, required = true, value_delimiter = ',', value_parser = ["read", "write", "moderate"])]
    pub(crate) scopes: Vec<String>,
}

fn role(word: &str) -> Result<Role, &'static str> {
    Role::from_word(word).ok_or("must be viewer, streamer or service")
}

fn lifetime(text: &str) -> Result<Duration, &'static str> {
    match humantime::parse_duration(text) {
        Ok(ttl) if (SHORTEST..=LONGEST).contains(&ttl) => Ok(ttl),
        _ => Err("must be a duration from 1s to 366d, such as 1h"),
    }
}

fn live(text: &str) -> Result<LiveId, InvalidId> {
    LiveId::parse(text.trim())
}

fn streamer(text: &str) -> Result<UserId, InvalidId> {
    UserId::parse(text.trim())
}

fn name(text: &str) -> Result<String, &'static str> {
    let is_right = (1..=64).contains(&text.len())
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(&b));
    if is_right {
        Ok(text.to_owned())
    } else {
        Err("must be 1 to 64 of A-Z a-z 0-9 _ . -")
    }
}
