//! Reads keys, secrets and certificates again while the gateway runs: when a file has changed, on
//! SIGHUP, and when a back end asks. A part whose files cannot be used keeps its present content,
//! and the log says so.
//!
//! The reloader compares the content of the files, not their times: a Secret that Kubernetes mounts
//! changes by a link to another folder, which a watch on the file itself does not see.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest, Sha256};
use tokio::sync::Mutex;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::auth::tokens::Tokens;
use crate::base::from_files::FromFiles;
use crate::base::metrics::Metrics;

/// The time between two looks at the files.
const EVERY: Duration = Duration::from_secs(1);

/// The reloader compares only this many bytes of a file; no file of keys is longer.
const LONGEST: u64 = 1 << 20;

/// A hash of all files of a part.
type ContentHash = [u8; 32];

/// A part and its files.
struct WatchedFiles {
    part: Arc<dyn FromFiles>,
    /// The content that the part read last; `None` before the first look.
    read: Option<ContentHash>,
    /// The content at the last look, if it was different. The part reads changed files once two
    /// looks find the same content: somebody may be writing them.
    changing: Option<ContentHash>,
    /// The files could not be used when they were read last.
    is_bad: bool,
}

/// Knows all parts that come from files.
pub(crate) struct Reloader {
    watched: Mutex<Vec<WatchedFiles>>,
    /// The verifier of tokens, whose key set may come from a URL; `None` with `--auth off`.
    tokens: Option<Arc<Tokens>>,
    metrics: Arc<Metrics>,
}

impl Reloader {
    pub(crate) fn new(
        parts: Vec<Arc<dyn FromFiles>>,
        tokens: Option<Arc<Tokens>>,
        metrics: Arc<Metrics>,
    ) -> Self {
        let mut watched = Vec::new();
        for part in parts {
            if part.files().is_empty() {
                continue;
            }
            watched.push(WatchedFiles {
                part,
                read: None,
                changing: None,
                is_bad: false,
            });
        }
        Self {
            watched: Mutex::new(watched),
            tokens,
            metrics,
        }
    }

    /// Reads all files again and fetches the key set of a URL. Returns the names of the parts that
    /// were read.
    ///
    /// # Errors
    /// The problem of each part that stays as it was. The other parts are new.
    pub(crate) async fn reload(&self) -> Result<Vec<&'static str>, Vec<String>> {
        let mut done = Vec::new();
        let mut problems = Vec::new();
        let mut watched = self.watched.lock().await;
        for watched in watched.iter_mut() {
            let now = content(watched.part.files()).await;
            match watched.read_again(now).await {
                Ok(()) => done.push(watched.part.name()),
                Err(problem) => problems.push(problem),
            }
        }
        self.tell(&watched);
        drop(watched);
        // The fetch comes last, because it may take long.
        if let Some(tokens) = &self.tokens
            && tokens.has_url()
        {
            match tokens.fetch().await {
                Ok(()) => done.push("the key set of jwt-jwks"),
                Err(problem) => problems.push(problem),
            }
        }
        if problems.is_empty() {
            Ok(done)
        } else {
            Err(problems)
        }
    }

    /// Reads the files of each part that have changed, until `stop`.
    pub(crate) async fn watch(self: Arc<Self>, stop: CancellationToken) {
        let mut ticks = interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while stop.run_until_cancelled(ticks.tick()).await.is_some() {
            self.look().await;
        }
    }

    async fn look(&self) {
        let mut watched = self.watched.lock().await;
        for watched in watched.iter_mut() {
            watched.look().await;
        }
        self.tell(&watched);
    }

    fn tell(&self, watched: &[WatchedFiles]) {
        let bad = watched.iter().filter(|watched| watched.is_bad).count();
        self.metrics.files_unusable.set(bad as i64);
    }
}

impl WatchedFiles {
    async fn look(&mut self) {
        let now = content(self.part.files()).await;
        // The gateway may have waited for its store since it read the files, so the first look
        // reads them again.
        if self.read.is_none() || self.changing == Some(now) {
            // The problem is in the log.
            let _ = self.read_again(now).await;
        } else {
            self.changing = if self.read == Some(now) {
                None
            } else {
                Some(now)
            };
        }
    }

    /// Reads the files, which hold `now`.
    async fn read_again(&mut self, now: ContentHash) -> Result<(), String> {
        let is_first = self.read.replace(now).is_none();
        self.changing = None;
        let part = self.part.clone();
        let read = tokio::task::spawn_blocking(move || part.read_again()).await;
        let result = match read {
            Ok(result) => result,
            Err(why) => Err(format!("{}: {why}", self.part.name())),
        };
        self.is_bad = result.is_err();
        let what = self.part.name();
        match &result {
            Ok(()) if is_first => {}
            Ok(()) => tracing::info!(what, "files were read again"),
            Err(problem) => tracing::error!(
                what,
                problem,
                "files cannot be used; what was read before stays in force"
            ),
        }
        result
    }
}

/// The hash of the files. A file that cannot be read counts with the kind of its error, which may
/// change, too.
async fn content(files: Vec<PathBuf>) -> ContentHash {
    let read = tokio::task::spawn_blocking(move || {
        let mut sum = Sha256::new();
        for file in files {
            match read_start(&file) {
                Ok(text) => sum.update(Sha256::digest(text)),
                Err(why) => sum.update(why.kind().to_string()),
            }
        }
        ContentHash::from(sum.finalize())
    });
    read.await.unwrap_or_default()
}

fn read_start(file: &Path) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    File::open(file)?.take(LONGEST).read_to_end(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests;
