//! A table of follows in PostgreSQL or MySQL. The statement is a setting. The streamer and the
//! users are bound to the statement as parameters, never written into it. The first column of each
//! row names a user who is a fan.
//!
//! PostgreSQL takes the users as one array. MySQL has no arrays: the list `(?)` grows to the number
//! of users, rounded up to a power of two, so that the server sees eleven statements and not a
//! thousand.

mod connections;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::TryStreamExt;
use sqlx::mysql::{MySqlArguments, MySqlConnectOptions, MySqlRow, MySqlSslMode};
use sqlx::postgres::{PgArguments, PgConnectOptions, PgRow, PgSslMode};
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, ConnectOptions, MySql, MySqlConnection, PgConnection, Postgres, Row};

use crate::base::from_files::FromFiles;
use crate::base::ids::UserId;
use crate::base::metrics::Metrics;
use crate::base::secret::Secret;
use crate::config::{Config, SqlIds};
use crate::store::MAX_BATCH;
use crate::store::fans::lookup::{FanAnswers, FanError, FanLookup, FanSetupError, answers, secret};
use connections::Connections;

const POSTGRES: &str =
    "SELECT user_id FROM follows WHERE streamer_id = $1 AND is_follow = 1 AND user_id = ANY($2)";
const MYSQL: &str =
    "SELECT user_id FROM follows WHERE streamer_id = ? AND is_follow = 1 AND user_id IN (?)";

/// Maximum rows of an answer. A statement may name a user more than once.
const MOST_ROWS: usize = 10 * MAX_BATCH;

enum Database {
    Postgres(Connections<PgConnection>),
    MySql(Connections<MySqlConnection>),
}

pub(crate) struct SqlFans {
    database: Database,
    url: Secret,
    secret_file: Option<PathBuf>,
    ca: Option<PathBuf>,
    statement: String,
    ids: SqlIds,
    timeout: Duration,
    metrics: Arc<Metrics>,
}

impl SqlFans {
    pub(crate) fn new(config: &Config, metrics: Arc<Metrics>) -> Result<Self, FanSetupError> {
        let url = config.fan_url.clone().unwrap_or_else(|| Secret::new(""));
        let secret = secret(config.fan_secret_file.as_deref())?;
        let ca = config.fan_ca.clone();
        let database = if url.reveal().starts_with("postgres") {
            let options = postgres(&url, secret.as_ref(), ca.as_ref())?;
            Database::Postgres(Connections::new(options, config.fan_calls))
        } else {
            let options = mysql(&url, secret.as_ref(), ca.as_ref())?;
            Database::MySql(Connections::new(options, config.fan_calls))
        };
        let statement = match (&config.fan_sql, &database) {
            (Some(statement), _) => statement.clone(),
            (None, Database::Postgres(_)) => POSTGRES.to_owned(),
            (None, Database::MySql(_)) => MYSQL.to_owned(),
        };
        Ok(Self {
            database,
            url,
            secret_file: config.fan_secret_file.clone(),
            ca,
            statement,
            ids: config.fan_sql_ids,
            timeout: config.fan_timeout,
            metrics,
        })
    }

    /// Whether the user's id may be in the table.
    fn can_be_asked(&self, user: &UserId) -> bool {
        self.ids == SqlIds::Text || integer(user).is_some()
    }

    /// The ids that the database names among these users.
    async fn fans(&self, streamer: &UserId, users: &[&UserId]) -> Result<Vec<String>, FanError> {
        match &self.database {
            Database::Postgres(connections) => {
                let mut lent = connections.take().await?;
                let query = bind_postgres(&self.statement, self.ids, streamer, users);
                let fans = read(query.fetch(&mut lent.connection), postgres_id).await?;
                connections.put_back(lent);
                Ok(fans)
            }
            Database::MySql(connections) => {
                let mut lent = connections.take().await?;
                let query = bind_mysql(&self.statement, self.ids, streamer, users);
                let fans = read(query.fetch(&mut lent.connection), mysql_id).await?;
                connections.put_back(lent);
                Ok(fans)
            }
        }
    }

    /// Reads the file with the secret, if there is one.
    fn read_secret(&self) -> Result<(), FanSetupError> {
        let secret = secret(self.secret_file.as_deref())?;
        let ca = self.ca.as_ref();
        match &self.database {
            Database::Postgres(connections) => {
                connections.log_in_with(postgres(&self.url, secret.as_ref(), ca)?)
            }
            Database::MySql(connections) => {
                connections.log_in_with(mysql(&self.url, secret.as_ref(), ca)?)
            }
        }
        Ok(())
    }
}

#[async_trait]
impl FanLookup for SqlFans {
    async fn ask(&self, streamer: &UserId, users: &[UserId]) -> Result<FanAnswers, FanError> {
        let asked: Vec<&UserId> = users
            .iter()
            .filter(|user| self.can_be_asked(user))
            .collect();
        if asked.is_empty() || !self.can_be_asked(streamer) {
            return Ok(vec![Some(false); users.len()]);
        }
        let fans = tokio::time::timeout(self.timeout, self.fans(streamer, &asked)).await;
        let fans = fans.unwrap_or(Err(FanError::Timeout))?;
        Ok(answers(
            users,
            fans.iter().map(String::as_str),
            &self.metrics,
        ))
    }

    fn secret_file(self: Arc<Self>) -> Option<Arc<dyn FromFiles>> {
        Some(self)
    }
}

impl FromFiles for SqlFans {
    fn name(&self) -> &'static str {
        "the secret of the fan source"
    }

    fn files(&self) -> Vec<PathBuf> {
        self.secret_file.iter().cloned().collect()
    }

    fn read_again(&self) -> Result<(), String> {
        self.read_secret().map_err(|why| why.to_string())
    }
}

fn postgres(
    url: &Secret,
    secret: Option<&Secret>,
    ca: Option<&PathBuf>,
) -> Result<PgConnectOptions, FanSetupError> {
    let mut options: PgConnectOptions = parse(url)?;
    if let Some(secret) = secret {
        options = options.password(secret.reveal());
    }
    if let Some(ca) = ca {
        options = options.ssl_mode(PgSslMode::VerifyFull).ssl_root_cert(ca);
    }
    Ok(options
        .application_name("rollcall")
        .disable_statement_logging())
}

fn mysql(
    url: &Secret,
    secret: Option<&Secret>,
    ca: Option<&PathBuf>,
) -> Result<MySqlConnectOptions, FanSetupError> {
    let mut options: MySqlConnectOptions = parse(url)?;
    if let Some(secret) = secret {
        options = options.password(secret.reveal());
    }
    if let Some(ca) = ca {
        options = options.ssl_mode(MySqlSslMode::VerifyIdentity).ssl_ca(ca);
    }
    Ok(options.disable_statement_logging())
}

/// Reads a URL. The library must not log here, because it would log the values of parameters that
/// it does not know.
fn parse<O: std::str::FromStr<Err = sqlx::Error>>(url: &Secret) -> Result<O, FanSetupError> {
    let silent = tracing::subscriber::NoSubscriber::default();
    let parsed = tracing::subscriber::with_default(silent, || url.reveal().parse());
    parsed.map_err(|_| {
        FanSetupError::Url("cannot be read, or has a parameter with a wrong value".to_owned())
    })
}

/// The user's id as an integer, if it is written in the usual form of integers: `7` and `007` are
/// two users.
fn integer(user: &UserId) -> Option<i64> {
    let number: i64 = user.as_str().parse().ok()?;
    if number.to_string() == user.as_str() {
        Some(number)
    } else {
        None
    }
}

fn bind_postgres<'q>(
    statement: &str,
    ids: SqlIds,
    streamer: &'q UserId,
    users: &[&'q UserId],
) -> Query<'q, Postgres, PgArguments> {
    let query = sqlx::query(AssertSqlSafe(statement.to_owned()));
    match ids {
        SqlIds::Text => {
            let users: Vec<&str> = users.iter().map(|user| user.as_str()).collect();
            query.bind(streamer.as_str()).bind(users)
        }
        SqlIds::Integer => {
            let users: Vec<i64> = users.iter().filter_map(|user| integer(user)).collect();
            query.bind(integer(streamer)).bind(users)
        }
    }
}

/// Binds each user to a place of the list, and the last user to all places that are left.
fn bind_mysql<'q>(
    statement: &str,
    ids: SqlIds,
    streamer: &'q UserId,
    users: &[&'q UserId],
) -> Query<'q, MySql, MySqlArguments> {
    let mut query = sqlx::query(AssertSqlSafe(with_places(statement, users.len())));
    let all = users
        .iter()
        .chain(users.last().into_iter().cycle())
        .take(places(users.len()));
    query = match ids {
        SqlIds::Text => query.bind(streamer.as_str()),
        SqlIds::Integer => query.bind(integer(streamer)),
    };
    for user in all {
        query = match ids {
            SqlIds::Text => query.bind(user.as_str()),
            SqlIds::Integer => query.bind(integer(user)),
        };
    }
    query
}

fn places(users: usize) -> usize {
    users.next_power_of_two()
}

/// The statement with enough places in its list for this number of users.
fn with_places(statement: &str, users: usize) -> String {
    statement.replacen(
        "(?)",
        &format!("({})", vec!["?"; places(users)].join(",")),
        1,
    )
}

/// Reads the ids in the first column.
async fn read<R>(
    mut rows: impl futures_util::Stream<Item = Result<R, sqlx::Error>> + Unpin,
    id: impl Fn(&R) -> Result<String, sqlx::Error>,
) -> Result<Vec<String>, FanError> {
    let mut ids = Vec::new();
    while let Some(row) = rows.try_next().await? {
        if ids.len() == MOST_ROWS {
            return Err(FanError::TooLong);
        }
        ids.push(id(&row).map_err(|why| FanError::Nonsense(why.to_string()))?);
    }
    Ok(ids)
}

fn postgres_id(row: &PgRow) -> Result<String, sqlx::Error> {
    if let Ok(text) = row.try_get::<String, _>(0) {
        return Ok(text);
    }
    if let Ok(number) = row.try_get::<i64, _>(0) {
        return Ok(number.to_string());
    }
    Ok(row.try_get::<i32, _>(0)?.to_string())
}

fn mysql_id(row: &MySqlRow) -> Result<String, sqlx::Error> {
    if let Ok(text) = row.try_get::<String, _>(0) {
        return Ok(text);
    }
    if let Ok(number) = row.try_get::<i64, _>(0) {
        return Ok(number.to_string());
    }
    if let Ok(number) = row.try_get::<u64, _>(0) {
        return Ok(number.to_string());
    }
    // A column whose collation is binary.
    let bytes = row.try_get::<Vec<u8>, _>(0)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

impl From<sqlx::Error> for FanError {
    fn from(why: sqlx::Error) -> Self {
        match why {
            sqlx::Error::Database(refusal) => Self::Refused(refusal.message().to_owned()),
            sqlx::Error::ColumnDecode { .. }
            | sqlx::Error::ColumnIndexOutOfBounds { .. }
            | sqlx::Error::Decode(_) => Self::Nonsense(why.to_string()),
            other => Self::Unreachable(other.to_string()),
        }
    }
}

#[cfg(test)]
mod tests;
