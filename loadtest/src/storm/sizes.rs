//! How many fans Redis holds, counted as any other service would: with `SCARD` of every slice of a
//! live.

use anyhow::Context;

use crate::plan::CrowdPlan;
use crate::redis_stats::InlineClient;
use crate::target::Target;

/// Fans in Redis, over all lives of the plan.
pub(crate) async fn fans(redis: &Target, plan: &CrowdPlan) -> anyhow::Result<u64> {
    let mut redis = InlineClient::connect(redis).await?;
    let mut sum = 0;
    for live in 0..plan.lives as u32 {
        let live_id = plan.live_id(live);
        let slices = redis.ask(&format!("HGET live:{live_id} slices")).await?;
        let slices: u32 = slices
            .parse()
            .with_context(|| format!("the slices of {live_id}: {slices:?}"))?;
        for slice in 1..=slices {
            let part = if slices == 1 {
                String::new()
            } else {
                format!("_slice{slice}")
            };
            let card = redis
                .ask(&format!("SCARD online-fans:{live_id}{part}"))
                .await?;
            sum += card
                .parse::<u64>()
                .with_context(|| format!("a size: {card:?}"))?;
        }
    }
    Ok(sum)
}
