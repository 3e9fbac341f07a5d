//! Owns the look into the store from outside: `rollcall audit`, and [`explain`]. It finds what should not be there, what
//! is missing, and where gateways and the store disagree; asked to, it puts right what the protocol can put right.
//!
//! The world moves while it is read. So nothing is believed at once: what a first look finds is looked at again a moment
//! later, and only what is still so is a finding. Members are compared by scripts, a page at a time, so that each
//! comparison is of one moment. Called by `main`.

mod drift;
pub mod explain;
mod finding;
mod fix;
mod gateways;
mod judge;
mod report;
mod survey;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt, stream};
use tokio::time::{Instant, sleep};

use self::fix::Fixer;
use self::judge::{Judge, Judged};
use self::survey::{LiveKeys, Survey};
use crate::config::{AuditWish, Config, Form, Mend};
use crate::exit;
use crate::ids::LiveId;
use crate::metrics::Metrics;
use crate::store::StoreResult;
use crate::store::redis::{Access, ConnectError, RedisStore};

pub use finding::{Finding, Kind, Severity};
pub use fix::Fixed;
pub use gateways::GatewayUrl;
pub use report::{BigKey, GatewayRow, LiveRow, Report};

/// Lives that are looked at at a time.
const AT_A_TIME: usize = 8;

/// The least time between two looks; two flushes if that is more.
const SECOND_LOOK: Duration = Duration::from_millis(500);

/// How much longer than `lease` a dead gateway's members may stay: so long sweeping takes at most.
const SWEPT_WITHIN: Duration = Duration::from_secs(2);

/// Why nothing can be said.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// There is no store to look into.
    #[error("{0}")]
    Connect(#[from] ConnectError),
    /// It stopped answering.
    #[error("the audit cannot go on: {0}")]
    Store(#[from] crate::store::StoreError),
}

/// Runs an audit, writes its report to standard output and answers the exit code.
pub async fn run(config: &Config, wish: &AuditWish) -> u8 {
    match audit(config, wish).await {
        Ok(report) => {
            let text = match wish.form {
                Form::Json => report.json(),
                Form::Text => report.text(),
            };
            report::print(&text);
            if report.findings.is_empty() { exit::STOPPED } else { exit::FINDINGS }
        }
        Err(why) => exit::say(exit::UNAVAILABLE, why),
    }
}

/// Opens the store that the settings name, which they must.
async fn open(config: &Config) -> Result<RedisStore, AuditError> {
    let nowhere = || ConnectError::Url("is not given".to_owned());
    let url = config.redis.clone().ok_or_else(nowhere)?;
    let access = Access { url, ca: config.redis_ca.clone() };
    Ok(RedisStore::open_to_look(access, Arc::new(Metrics::default())).await?)
}

/// Looks through the store.
///
/// # Errors
/// The store cannot be had, or stopped answering: half an audit says nothing.
pub async fn audit(config: &Config, wish: &AuditWish) -> Result<Report, AuditError> {
    let started = Instant::now();
    let store = open(config).await?;
    let survey = Survey::take(&store, wish.top).await?;
    let judge = Judge { store: &store, lease: config.lease, late: config.lease + SWEPT_WITHIN };
    let first = judge_all(&judge, &survey.lives).await?;
    let (asked, unreachable) = drift::ask(&wish.gateways).await;
    let compared = drift::compare(&store, &asked, &survey.lives).await?;
    let mut report = Report::of(&survey, &first, &asked, &compared);
    let suspects = suspects(&survey.lives, &first);
    if !suspects.is_empty() || !compared.findings.is_empty() {
        sleep(SECOND_LOOK.max(config.flush * 2)).await;
        report.findings = persisting(&first, judge_all(&judge, &suspects).await?);
        report.findings.extend(drift::again(&store, &asked, compared.findings).await?);
    }
    if wish.mend == Mend::WhatIsSafe && !report.findings.is_empty() {
        let fixer = Fixer { store: &store, lease: config.lease, keys: &survey.lives };
        for finding in &report.findings {
            report.fixed.extend(fixer.fix(finding).await?);
        }
        // What was not for this audit to put right may have been put right by gateways meanwhile.
        let drift = report.findings.iter().filter(|finding| finding.kind == Kind::GatewayDrift).cloned().collect();
        let left = judge_all(&judge, &suspects).await?.into_iter().flat_map(|judged| judged.findings);
        report.findings = left.filter(|left| report.findings.iter().any(|before| before.is_same(left))).collect();
        report.findings.extend(drift::again(&store, &asked, drift).await?);
    }
    report.findings.extend(unreachable);
    report.sort();
    report.seconds = started.elapsed().as_secs_f64();
    Ok(report)
}

async fn judge_all(judge: &Judge<'_>, lives: &BTreeMap<LiveId, LiveKeys>) -> StoreResult<Vec<Judged>> {
    stream::iter(lives)
        .map(|(live, keys)| Box::pin(judge.live(live, keys)))
        .buffer_unordered(AT_A_TIME)
        .try_collect()
        .await
}

/// The lives with something to look at again.
fn suspects(lives: &BTreeMap<LiveId, LiveKeys>, judged: &[Judged]) -> BTreeMap<LiveId, LiveKeys> {
    let suspected = judged.iter().filter(|judged| !judged.findings.is_empty()).map(|judged| &judged.live);
    suspected.filter_map(|live| Some((live.clone(), lives.get(live)?.clone()))).collect()
}

/// What was found both times, as it is now.
fn persisting(first: &[Judged], second: Vec<Judged>) -> Vec<Finding> {
    let before: Vec<&Finding> = first.iter().flat_map(|judged| &judged.findings).collect();
    let now = second.into_iter().flat_map(|judged| judged.findings);
    now.filter(|finding| before.iter().any(|earlier| earlier.is_same(finding))).collect()
}
