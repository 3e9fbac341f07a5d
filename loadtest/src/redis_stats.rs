//! What Redis reports about itself, asked with inline commands over a connection of its own.
//!
//! [`CommandCounts`] leaves out the `INFO` calls of this program, so that two readings differ by
//! what others asked.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::target::Target;

const DEADLINE: Duration = Duration::from_secs(5);

/// Calls by command name (`hset`, `config|get`, …) since Redis's statistics began.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct CommandCounts(BTreeMap<String, u64>);

impl CommandCounts {
    pub(crate) async fn read(target: &Target) -> anyhow::Result<Self> {
        let text = InlineClient::connect(target)
            .await?
            .ask("INFO commandstats")
            .await?;
        Ok(Self::parse(&text))
    }

    /// What was called since `earlier`, commands that were not called left out.
    pub(crate) fn since(&self, earlier: &Self) -> BTreeMap<String, u64> {
        let mut since = BTreeMap::new();
        for (name, calls) in &self.0 {
            let before = earlier.0.get(name).copied().unwrap_or_default();
            if *calls > before {
                since.insert(name.clone(), calls - before);
            }
        }
        since
    }

    /// The number of commands since `earlier`.
    pub(crate) fn total_since(&self, earlier: &Self) -> f64 {
        self.since(earlier).values().sum::<u64>() as f64
    }

    fn parse(text: &str) -> Self {
        Self(text.lines().filter_map(calls_in).collect())
    }
}

/// A command and the number of its calls, in a line of `INFO commandstats`.
fn calls_in(line: &str) -> Option<(String, u64)> {
    let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
    let calls = rest.split(',').next()?.parse().ok()?;
    // The reading itself calls INFO.
    if name == "info" {
        return None;
    }
    Some((name.to_owned(), calls))
}

/// A connection for commands without a client library, whose answers are integers or bulk strings.
pub(crate) struct InlineClient(BufReader<TcpStream>);

impl InlineClient {
    pub(crate) async fn connect(target: &Target) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(target.address)
            .await
            .with_context(|| format!("Redis at {}", target.address))?;
        Ok(Self(BufReader::new(stream)))
    }

    pub(crate) async fn ask(&mut self, command: &str) -> anyhow::Result<String> {
        let answer = tokio::time::timeout(DEADLINE, self.exchange(command)).await;
        answer.with_context(|| format!("Redis did not answer {command} in time"))?
    }

    async fn exchange(&mut self, command: &str) -> anyhow::Result<String> {
        self.0
            .write_all(format!("{command}\r\n").as_bytes())
            .await?;
        let mut line = String::new();
        self.0.read_line(&mut line).await?;
        match line.trim_end().split_at_checked(1) {
            Some((":", number)) => Ok(number.to_owned()),
            Some(("$", length)) => {
                let length: usize = length
                    .parse()
                    .with_context(|| format!("{command}: no such key"))?;
                let mut body = vec![0; length + 2];
                self.0.read_exact(&mut body).await?;
                body.truncate(length);
                Ok(String::from_utf8(body)?)
            }
            _ => bail!("Redis refused {command}: {}", line.trim_end()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_readings_differ_by_what_was_called() {
        let before = CommandCounts::parse(
            "# Commandstats\r\ncmdstat_info:calls=4,usec=1\r\ncmdstat_hset:calls=2,usec=9\r\n",
        );
        let after = CommandCounts::parse(
            "cmdstat_info:calls=9,usec=1\r\ncmdstat_hset:calls=7,usec=9\r\ncmdstat_config|get:calls=1,usec=3\r\n",
        );
        let expected = BTreeMap::from([("hset".to_owned(), 5), ("config|get".to_owned(), 1)]);
        assert_eq!(after.since(&before), expected);
        assert!(after.since(&after).is_empty());
    }
}
