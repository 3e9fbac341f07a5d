//! `rollcall check-config` tells what is wrong with the settings that a gateway would run with, and
//! with the files that they name, and where each setting comes from. The files are read by the code
//! with which a gateway reads them. It asks nobody unless it is told to, and shows no secret. Told
//! to, it tries out on Redis what a gateway needs there, with keys that are gone a moment later.

use std::collections::HashSet;
use std::fmt::{self, Display, Formatter};
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tokio::time::Instant;

use super::common::{access, open, print};
use super::tables::{count, table};
use crate::auth::api_keys::ApiKeys;
use crate::auth::tokens::Tokens;
use crate::base::clock::Clock;
use crate::base::exit;
use crate::base::metrics::Metrics;
use crate::base::terminal::harmless;
use crate::config::{AuthMode, CheckArgs, Config, SettingInForce};
use crate::edge::listener::tls;
use crate::store::memory::MemoryStore;
use crate::store::redis::{ConnectError, RedisStore, TriedOut};
use crate::store::{Store, fans};
use crate::sync::webhooks::Receiver;

/// A Redis that is not there yet is asked again after this time.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

#[derive(Debug, Serialize)]
struct Verdict<'a> {
    /// What a gateway would not start with.
    mistakes: Vec<String>,
    /// Who does not answer, or lacks what a gateway needs; null if nobody was asked.
    unreachable: Option<Vec<String>>,
    /// What is allowed and probably not intended.
    warnings: Vec<String>,
    settings: &'a [SettingInForce],
}

/// Checks, writes what it found to standard output and answers the exit code.
pub async fn run(config: &Config, args: &CheckArgs) -> anyhow::Result<u8> {
    let mut mistakes = args.mistakes.clone();
    mistakes.extend(wrong_files(config));
    let mut warnings = config.warnings();
    let mut unreachable = None;
    if args.connect {
        let asked = ask(config).await;
        mistakes.extend(asked.mistakes);
        warnings.extend(asked.warnings);
        unreachable = Some(asked.unreachable);
    }
    // The files and Redis may tell the same.
    let mut told = HashSet::new();
    mistakes.retain(|mistake| told.insert(mistake.clone()));
    let code = match (
        mistakes.is_empty(),
        unreachable.as_ref().is_none_or(Vec::is_empty),
    ) {
        (false, _) => exit::WRONG_SETTINGS,
        (true, false) => exit::UNAVAILABLE,
        (true, true) => exit::STOPPED,
    };
    print(
        &Verdict {
            mistakes,
            unreachable,
            warnings,
            settings: &args.settings,
        },
        args.json,
    );
    Ok(code)
}

/// What is wrong with the files that the settings name.
pub(crate) fn wrong_files(config: &Config) -> Vec<String> {
    let mut wrong: Vec<String> = Vec::new();
    if config.auth == AuthMode::Jwt {
        wrong.extend(Tokens::wrong_files(config).iter().map(ToString::to_string));
    }
    wrong.extend(ApiKeys::open(config).err().map(|why| why.to_string()));
    if let (Some(chain), Some(key)) = (&config.tls_cert, &config.tls_key) {
        wrong.extend(tls::wrong_files(chain, key).iter().map(ToString::to_string));
    }
    if let Some(access) = access(config) {
        wrong.extend(
            RedisStore::check(&access)
                .err()
                .map(|why| format!("redis: {why}")),
        );
    }
    wrong.extend(Receiver::of(config).err());
    let nobody: Arc<dyn Store> = Arc::new(MemoryStore::new(Clock::start()));
    wrong.extend(
        fans::open(config, &nobody, &Arc::default())
            .err()
            .map(|why| why.to_string()),
    );
    wrong
}

/// What those say whom a gateway asks before it serves.
#[derive(Debug, Default)]
struct Asked {
    mistakes: Vec<String>,
    unreachable: Vec<String>,
    warnings: Vec<String>,
}

async fn ask(config: &Config) -> Asked {
    let mut asked = Asked::default();
    if config.redis.is_some() {
        match try_redis(config).await {
            Ok(found) => {
                let wrong = found.refusals.into_iter().chain(found.away);
                asked
                    .unreachable
                    .extend(wrong.map(|why| format!("redis: {why}")));
                asked.warnings.extend(
                    found
                        .warnings
                        .into_iter()
                        .map(|warning| format!("redis: {warning}")),
                );
            }
            Err(why) if why.is_mistake() => asked.mistakes.push(format!("redis: {why}")),
            Err(why) => asked.unreachable.push(format!("redis: {why}")),
        }
    }
    if config.auth == AuthMode::Jwt
        && let Ok((_, Some(fetcher))) = Tokens::open(config, Arc::new(Metrics::default()))
    {
        let refused = fetcher.first(config.wait_for_store).await.err();
        asked
            .unreachable
            .extend(refused.map(|why| format!("jwt-jwks: {why}")));
    }
    asked
}

/// Tries out on each master of Redis what a gateway needs. Waits for Redis as long as a gateway
/// would.
async fn try_redis(config: &Config) -> Result<TriedOut, ConnectError> {
    let deadline = Instant::now() + config.wait_for_store;
    loop {
        let tried = try_redis_once(config).await;
        let may_pass = match &tried {
            Ok(found) => !found.away.is_empty(),
            Err(why) => why.may_pass(),
        };
        if !may_pass || Instant::now() >= deadline {
            return tried;
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

async fn try_redis_once(config: &Config) -> Result<TriedOut, ConnectError> {
    open(config).await?.try_out().await
}

impl Display for Verdict<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let value = |setting: &SettingInForce| setting.value.clone().unwrap_or_default();
        let rows = self.settings.iter().map(|setting| {
            [
                setting.name.to_owned(),
                value(setting),
                setting.origin.clone(),
            ]
        });
        f.write_str("the settings in force:")?;
        table(f, ["setting", "value", "from"], &rows.collect::<Vec<_>>())?;
        for warning in &self.warnings {
            write!(f, "\nwarning: {}", harmless(warning))?;
        }
        let unreachable = self.unreachable.as_deref().unwrap_or_default();
        for problem in self.mistakes.iter().chain(unreachable) {
            write!(f, "\n{}", harmless(problem))?;
        }
        match (
            self.mistakes.len() + unreachable.len(),
            self.unreachable.is_some(),
        ) {
            (0, false) => f.write_str("\nnothing is wrong; nobody was asked (--connect asks)"),
            (0, true) => f.write_str("\nnothing is wrong"),
            (wrong, _) => write!(f, "\n{} wrong", count(wrong, "thing")),
        }
    }
}
