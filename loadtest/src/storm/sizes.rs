//! How many fans Redis holds, asked as any other service would: SCARD of a live's slices, over a bare connection.

use std::time::Duration;

use anyhow::{Context, bail};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::plan::CrowdPlan;
use crate::target::Target;

const DEADLINE: Duration = Duration::from_secs(10);

/// Fans in Redis, over all lives of the plan.
pub(crate) async fn fans(redis: &Target, plan: &CrowdPlan) -> anyhow::Result<u64> {
    tokio::time::timeout(DEADLINE, count(redis, plan)).await.context("Redis did not answer in time")?
}

async fn count(redis: &Target, plan: &CrowdPlan) -> anyhow::Result<u64> {
    let stream = TcpStream::connect(redis.address).await.with_context(|| format!("Redis at {}", redis.address))?;
    let mut stream = BufReader::new(stream);
    let mut sum = 0;
    for live in 0..plan.lives as u32 {
        let live_id = plan.live_id(live);
        let slices = ask(&mut stream, &format!("HGET live:{live_id} slices")).await?;
        let slices: u32 = slices.parse().with_context(|| format!("the slices of {live_id}: {slices:?}"))?;
        for slice in 1..=slices {
            let part = if slices == 1 { String::new() } else { format!("_slice{slice}") };
            let card = ask(&mut stream, &format!("SCARD online-fans:{live_id}{part}")).await?;
            sum += card.parse::<u64>().with_context(|| format!("a size: {card:?}"))?;
        }
    }
    Ok(sum)
}

/// The answer to an inline command: an integer or a bulk string.
async fn ask(stream: &mut BufReader<TcpStream>, command: &str) -> anyhow::Result<String> {
    stream.write_all(format!("{command}\r\n").as_bytes()).await?;
    let mut line = String::new();
    stream.read_line(&mut line).await?;
    let line = line.trim_end();
    match line.split_at_checked(1) {
        Some((":", number)) => Ok(number.to_owned()),
        Some(("$", length)) => {
            let length: usize = length.parse().with_context(|| format!("{command}: no such key"))?;
            let mut body = vec![0; length + 2];
            stream.read_exact(&mut body).await?;
            body.truncate(length);
            Ok(String::from_utf8(body)?)
        }
        _ => bail!("{command}: {line}"),
    }
}
