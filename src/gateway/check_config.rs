//! `rollcall check-config` checks the settings that a gateway would run with and the files that they
//! name, and prints where each setting comes from. It reads the files with the code of a gateway,
//! and shows no secret. It asks other systems only with `--connect`: then it tries out on Redis what
//! a gateway needs there, with keys that are gone a moment later.

use crate::cli::common::open;
use std::collections::HashSet;
use std::fmt::{self, Display, Formatter};
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tokio::time::Instant;

use crate::auth::api_keys::ApiKeys;
use crate::auth::presence_secret::PresenceSecret;
use crate::auth::tokens::Tokens;
use crate::base::exit;
use crate::base::metrics::Metrics;
use crate::base::terminal::harmless;
use crate::cli::common::{access, print};
use crate::cli::tables::{count, table};
use crate::config::{AuthMode, CheckArgs, Config, SettingInForce};
use crate::edge::listener::tls;
use crate::features;
use crate::store::redis::{ConnectError, RedisStore, TriedOut};

/// The delay before another attempt to reach Redis.
const RETRY_DELAY: Duration = Duration::from_millis(500);

#[derive(Debug, Serialize)]
struct ConfigVerdict<'a> {
    /// The mistakes that stop a gateway from starting.
    mistakes: Vec<String>,
    /// The systems that do not answer, or lack what a gateway needs. Null if the command asked none.
    unreachable: Option<Vec<String>>,
    /// Which secret is behind sessions without a WebSocket. Null if the command asked nobody.
    presence_secret: Option<&'static str>,
    /// Settings that are allowed and probably not intended.
    warnings: Vec<String>,
    settings: &'a [SettingInForce],
}

/// Checks the settings, writes the verdict to standard output and returns the exit code.
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
    // The check of the files and the connection to Redis may report the same mistake.
    let mut told = HashSet::new();
    mistakes.retain(|mistake| told.insert(mistake.clone()));
    let code = if !mistakes.is_empty() {
        exit::WRONG_SETTINGS
    } else if unreachable.as_ref().is_some_and(|who| !who.is_empty()) {
        exit::UNAVAILABLE
    } else {
        exit::STOPPED
    };
    let verdict = ConfigVerdict {
        mistakes,
        unreachable,
        presence_secret: args.connect.then(|| presence_secret(config)),
        warnings,
        settings: &args.settings,
    };
    Ok(print(code, &verdict, args.json))
}

/// Which secret is behind sessions without a WebSocket.
fn presence_secret(config: &Config) -> &'static str {
    if config.presence_secret_file.is_some() {
        "that of presence-secret-file, which must be the same for all gateways"
    } else if config.redis.is_some() {
        "one that the gateways share in Redis"
    } else {
        "one that this gateway makes up, because it has no Redis"
    }
}

/// The mistakes in the files that the settings name.
pub(crate) fn wrong_files(config: &Config) -> Vec<String> {
    let mut wrong: Vec<String> = Vec::new();
    if config.auth == AuthMode::Jwt {
        wrong.extend(Tokens::wrong_files(config).iter().map(ToString::to_string));
    }
    if let Err(why) = ApiKeys::open(config) {
        wrong.push(why.to_string());
    }
    if let Some(chain) = &config.tls_cert
        && let Some(key) = &config.tls_key
    {
        wrong.extend(tls::wrong_files(chain, key).iter().map(ToString::to_string));
    }
    if let Some(access) = access(config)
        && let Err(why) = RedisStore::check(&access)
    {
        wrong.push(format!("redis: {why}"));
    }
    if let Err(why) = PresenceSecret::open(config.presence_secret_file.clone()) {
        wrong.push(why);
    }
    wrong.extend(features::wrong_files(config));
    wrong
}

/// The answers of the systems that a gateway asks before it serves.
#[derive(Debug, Default)]
struct SystemAnswers {
    mistakes: Vec<String>,
    unreachable: Vec<String>,
    warnings: Vec<String>,
}

async fn ask(config: &Config) -> SystemAnswers {
    let mut asked = SystemAnswers::default();
    if config.redis.is_some() {
        match try_redis(config).await {
            Ok(found) => {
                for why in found.refusals.into_iter().chain(found.away) {
                    asked.unreachable.push(format!("redis: {why}"));
                }
                for warning in found.warnings {
                    asked.warnings.push(format!("redis: {warning}"));
                }
            }
            Err(why) if why.is_mistake() => asked.mistakes.push(format!("redis: {why}")),
            Err(why) => asked.unreachable.push(format!("redis: {why}")),
        }
    }
    if config.auth == AuthMode::Jwt
        && let Ok((_, Some(fetcher))) = Tokens::open(config, Arc::new(Metrics::default()))
        && let Err(why) = fetcher.first(config.wait_for_store).await
    {
        asked.unreachable.push(format!("jwt-jwks: {why}"));
    }
    asked
}

/// Tries out on each master of Redis what a gateway needs. Waits for Redis for as long as a gateway
/// does.
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
        tokio::time::sleep(RETRY_DELAY).await;
    }
}

async fn try_redis_once(config: &Config) -> Result<TriedOut, ConnectError> {
    open(config).await?.try_out().await
}

impl Display for ConfigVerdict<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut rows = Vec::new();
        for setting in self.settings {
            rows.push([
                setting.name.to_owned(),
                setting.value.clone().unwrap_or_default(),
                setting.origin.clone(),
            ]);
        }
        f.write_str("the settings in force:")?;
        table(f, ["setting", "value", "from"], &rows)?;
        if let Some(secret) = self.presence_secret {
            write!(
                f,
                "\nthe secret behind sessions without a WebSocket: {secret}"
            )?;
        }
        for warning in &self.warnings {
            write!(f, "\nwarning: {}", harmless(warning))?;
        }
        let unreachable = self.unreachable.as_deref().unwrap_or_default();
        for problem in self.mistakes.iter().chain(unreachable) {
            write!(f, "\n{}", harmless(problem))?;
        }
        let wrong = self.mistakes.len() + unreachable.len();
        if wrong > 0 {
            write!(f, "\n{} wrong", count(wrong, "thing"))
        } else if self.unreachable.is_some() {
            f.write_str("\nnothing is wrong")
        } else {
            f.write_str("\nnothing is wrong; nobody was asked (--connect asks)")
        }
    }
}
