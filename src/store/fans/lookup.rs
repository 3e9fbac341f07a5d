//! The parts that all sources of fans have in common: the question, the answers, the errors, and
//! the file with the secret.

use std::collections::HashSet;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;

use crate::base::from_files::FromFiles;
use crate::base::ids::UserId;
use crate::base::metrics::Metrics;
use crate::base::secret::Secret;
use crate::store::StoreError;

/// The longest secret that is read from a file.
const LONGEST_SECRET: u64 = 64 * 1024;

/// For each user of the question, in the same order, whether the user is a fan; `None` if that is
/// unknown.
pub type FanAnswers = Vec<Option<bool>>;

/// A source that knows who follows whom.
#[async_trait]
pub trait FanLookup: Send + Sync {
    /// Asks about up to [`MAX_BATCH`](crate::store::MAX_BATCH) users of one streamer.
    ///
    /// # Errors
    /// The source has no answer for any of them.
    async fn ask(&self, streamer: &UserId, users: &[UserId]) -> Result<FanAnswers, FanError>;

    /// Asks about up to [`MAX_BATCH`](crate::store::MAX_BATCH) users of several streamers. An error
    /// for one streamer is no error for another.
    async fn ask_each(&self, asked: &[(UserId, Vec<UserId>)]) -> Vec<Result<FanAnswers, FanError>> {
        let mut answers = Vec::with_capacity(asked.len());
        for (streamer, users) in asked {
            answers.push(self.ask(streamer, users).await);
        }
        answers
    }

    /// The source's secret, if it has one in a file.
    fn secret_file(self: Arc<Self>) -> Option<Arc<dyn FromFiles>> {
        None
    }
}

/// Why a source did not answer. Its text holds no secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FanError {
    /// The store did not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Some users have an answer, and some have none.
    #[error("some users have no answer")]
    Partly,
    /// No answer within `fan-timeout`.
    #[error("no answer in time")]
    Timeout,
    /// No connection, or it broke.
    #[error("cannot be reached: {0}")]
    Unreachable(String),
    /// The service answered with another status than 200.
    #[error("answered with status {0}")]
    Status(u16),
    /// The database refused the login or the statement.
    #[error("refused: {0}")]
    Refused(String),
    /// The answer is longer than any right one.
    #[error("the answer is too long")]
    TooLong,
    /// The answer is not of the agreed shape.
    #[error("the answer is not as agreed: {0}")]
    Nonsense(String),
}

impl FanError {
    /// The label under which metrics count this error.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Store(_) => "store",
            Self::Partly => "partly",
            Self::Timeout => "timeout",
            Self::Unreachable(_) => "unreachable",
            Self::Status(_) => "status",
            Self::Refused(_) => "refused",
            Self::TooLong => "too_long",
            Self::Nonsense(_) => "nonsense",
        }
    }
}

/// Why a source cannot be used as it is set up. Its text holds no secret.
#[derive(Debug, thiserror::Error)]
pub enum FanSetupError {
    /// A file cannot be read, or has other content than it should have.
    #[error("{setting}: {}: {problem}", path.display())]
    File {
        /// The setting that names the file.
        setting: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// The URL or the TLS settings cannot be used.
    #[error("fan-url: {0}")]
    Url(String),
    /// No part of this program knows the source.
    #[error("fan-source: this program was built without this source")]
    Unknown,
}

impl FanSetupError {
    /// The error for the file that a setting names.
    pub(crate) fn file(setting: &'static str, path: &Path, problem: String) -> Self {
        Self::File {
            setting,
            path: path.to_owned(),
            problem,
        }
    }
}

/// The answers of a source that names the fans among the users of the question. A name that is not
/// in the question is counted, and otherwise ignored.
pub(crate) fn answers<'a>(
    users: &[UserId],
    fans: impl IntoIterator<Item = &'a str>,
    metrics: &Metrics,
) -> FanAnswers {
    let fans: HashSet<&str> = fans.into_iter().collect();
    let answers: FanAnswers = users
        .iter()
        .map(|user| Some(fans.contains(user.as_str())))
        .collect();
    let asked: HashSet<&str> = users.iter().map(UserId::as_str).collect();
    metrics
        .fan_strangers
        .inc_by(fans.difference(&asked).count() as u64);
    answers
}

/// The secret of `fan-secret-file`, without the white space around it.
pub(crate) fn secret(path: Option<&Path>) -> Result<Option<Secret>, FanSetupError> {
    let Some(path) = path else { return Ok(None) };
    let text = read_start(path)
        .map_err(|why| FanSetupError::file("fan-secret-file", path, why.to_string()))?;
    match text.trim() {
        "" => {
            let problem = "is empty".to_owned();
            Err(FanSetupError::file("fan-secret-file", path, problem))
        }
        secret => Ok(Some(Secret::new(secret))),
    }
}

/// Reads at most [`LONGEST_SECRET`] bytes of a file.
fn read_start(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    File::open(path)?
        .take(LONGEST_SECRET)
        .read_to_string(&mut text)?;
    Ok(text)
}
