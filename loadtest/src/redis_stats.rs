//! Redis's own count of the commands it ran, asked over a bare connection with inline commands.
//!
//! The count of our own `INFO` calls is left out, so two readings differ by what others asked of Redis.

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
        let exchange = tokio::time::timeout(DEADLINE, info(target, "commandstats")).await;
        let text = exchange.context("Redis did not answer INFO in time")??;
        Ok(Self::parse(&text))
    }

    /// What was called since `earlier`, commands that were not called left out.
    pub(crate) fn since(&self, earlier: &Self) -> BTreeMap<String, u64> {
        let before = |name: &str| earlier.0.get(name).copied().unwrap_or_default();
        let delta = self.0.iter().map(|(name, calls)| (name.clone(), calls.saturating_sub(before(name))));
        delta.filter(|(_, calls)| *calls > 0).collect()
    }

    fn parse(text: &str) -> Self {
        let line = |line: &str| {
            let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
            let calls = rest.split(',').next()?.parse().ok()?;
            (name != "info").then(|| (name.to_owned(), calls))
        };
        Self(text.lines().filter_map(line).collect())
    }
}

async fn info(target: &Target, section: &str) -> anyhow::Result<String> {
    let stream = TcpStream::connect(target.address).await.with_context(|| format!("Redis at {}", target.address))?;
    let mut stream = BufReader::new(stream);
    stream.write_all(format!("INFO {section}\r\n").as_bytes()).await?;
    let mut head = String::new();
    stream.read_line(&mut head).await?;
    let Some(length) = head.trim_end().strip_prefix('$').and_then(|length| length.parse::<usize>().ok()) else {
        bail!("Redis refused INFO: {}", head.trim_end());
    };
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    Ok(String::from_utf8_lossy(&body).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_readings_differ_by_what_was_called() {
        let before =
            CommandCounts::parse("# Commandstats\r\ncmdstat_info:calls=4,usec=1\r\ncmdstat_hset:calls=2,usec=9\r\n");
        let after = CommandCounts::parse(
            "cmdstat_info:calls=9,usec=1\r\ncmdstat_hset:calls=7,usec=9\r\ncmdstat_config|get:calls=1,usec=3\r\n",
        );
        let expected = BTreeMap::from([("hset".to_owned(), 5), ("config|get".to_owned(), 1)]);
        assert_eq!(after.since(&before), expected);
        assert!(after.since(&after).is_empty());
    }
}
