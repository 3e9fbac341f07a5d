//! What each store script costs Redis, beside plain commands that do the same for each member. The
//! cost is shown by the number of members in a call, and by the number of gateways with an entry in
//! the slice (plain commands have none).
//!
//! The cost is the CPU time of Redis above idle. Scripts are called without waiting for replies,
//! and plain commands go in one pipeline per call, so neither pays for round trips.

mod plain;
mod scripted;
mod work;

use std::time::{Duration, Instant};

use anyhow::Context;
use futures_util::{StreamExt, TryStreamExt, stream};

use crate::bench::figures::{Figures, Who};
use crate::bench::servers::Redis;
use crate::bench::settings::Bench;
use plain::Plain;
use scripted::Scripted;
use work::{AT_ONCE, Batch, By, SIZES, Shape, Work};

pub(super) const NAME: &str = "scripts";
/// The background thread of Redis needs this long to free unlinked keys.
const FREED_AFTER: Duration = Duration::from_millis(3);
/// No further round begins after this time.
const NO_ROUND_AFTER: Duration = Duration::from_secs(20);

pub(super) async fn run(bench: &Bench, figures: &mut Figures) -> anyhow::Result<()> {
    let redis = Redis::start().await?;
    redis
        .follow(SIZES.into_iter().max().context("no size")?, 1)
        .await?;
    let meter = Meter::start(
        &redis,
        bench.pick(Duration::from_secs(1), Duration::from_millis(100)),
    )
    .await?;
    let scripted = Scripted::connect(&redis).await?;
    let plain = Plain {
        client: redis.client.clone(),
    };
    let began = Instant::now();
    let mut epoch = 0;
    // The first round only loads the scripts and opens the connections.
    for turn in 0..=bench.rounds as u64 {
        if turn > 1 && began.elapsed() > NO_ROUND_AFTER {
            break;
        }
        for shape in Shape::all() {
            epoch += 1;
            let calls = if turn == 0 { 1 } else { shape.calls(bench) };
            let batch = Batch {
                shape,
                calls,
                epoch,
            };
            scripted.prepare(batch).await?;
            plain.prepare(batch).await?;
            for work in Work::ALL {
                let ours = meter
                    .per_call(calls, |slice| scripted.call(work, slice, batch))
                    .await?;
                let name = work.name().filter(|_| turn > 0 && shape.measures(work));
                let mut note = |who, a_call| {
                    let Some(name) = name else { return };
                    let column = shape.name();
                    figures.note(
                        NAME,
                        who,
                        (&format!("{name}, {column}: a call"), "µs"),
                        a_call,
                    );
                    if shape.members > 1 {
                        let a_member = format!("{name}, {column}: a member");
                        figures.note(NAME, who, (&a_member, "µs"), a_call / shape.members as f64);
                    }
                };
                note(Who::Rollcall, ours);
                if shape.by == By::Members {
                    note(
                        Who::Naive,
                        meter
                            .per_call(calls, |slice| plain.call(work, slice, batch))
                            .await?,
                    );
                }
            }
        }
    }
    Ok(())
}

/// Measures the CPU time of Redis above its idle time.
struct Meter<'a> {
    redis: &'a Redis,
    /// Cores that an idle Redis uses.
    idle: f64,
}

impl<'a> Meter<'a> {
    async fn start(redis: &'a Redis, span: Duration) -> anyhow::Result<Self> {
        Ok(Self {
            redis,
            idle: redis.idle(span).await?,
        })
    }

    /// Makes this many calls and returns the microseconds of Redis's CPU time per call.
    async fn per_call<F: Future<Output = anyhow::Result<()>>>(
        &self,
        calls: usize,
        call: impl Fn(usize) -> F,
    ) -> anyhow::Result<f64> {
        let cpu = self.redis.server.cpu()?;
        let began = Instant::now();
        stream::iter((0..calls).map(call))
            .buffer_unordered(AT_ONCE)
            .try_collect::<Vec<()>>()
            .await?;
        tokio::time::sleep(FREED_AFTER).await;
        let seconds = began.elapsed().as_secs_f64();
        Ok((self.redis.server.cpu()? - cpu - self.idle * seconds) * 1e6 / calls as f64)
    }
}
