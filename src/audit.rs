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
mod leases;
mod report;
mod survey;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt, stream};
use tokio::time::{Instant, sleep};

use self::fix::Fixer;
use self::judge::{Judge, Judged};
use self::leases::Leases;
use self::survey::{LiveKeys, Survey};
use crate::config::{AuditWish, Config, Fix, Form};
use crate::exit;
use crate::ids::LiveId;
use crate::metrics::Metrics;
use crate::store::StoreResult;
use crate::store::redis::{Access, ConnectError, RedisStore};

pub use finding::{Finding, Kind, Severity};
pub use fix::Fixed;
pub use gateways::GatewayUrl;
pub use leases::LeaseTold;
pub use report::{BigKey, GatewayRow, LiveRow, Report};

/// Lives that are looked at at a time.
const AT_A_TIME: usize = 8;

/// The least time between two looks; two flushes, or a lease refresh and a quarter, if that is more.
const SECOND_LOOK: Duration = Duration::from_millis(500);

/// By so much longer than `lease` a lease may stand still before its gateway is buried, and a buried gateway's members may
/// stay.
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
    let late = config.lease + SWEPT_WITHIN;
    let survey = Survey::take(&store, wish.top).await?;
    let first = Look::take(&store, late, &survey.lives).await?;
    let (asked, unreachable) = drift::ask(&wish.gateways).await;
    let compared = drift::compare(&store, &asked, &survey.lives).await?;
    let mut report = Report::of(&survey, &first, &asked, &compared);
    if !first.findings.is_empty() || !compared.findings.is_empty() {
        let suspects = suspects(&survey.lives, &first.findings);
        sleep(SECOND_LOOK.max(config.flush * 2).max(config.lease_refresh * 5 / 4)).await;
        let second = Look::take(&store, late, &suspects).await?;
        report.findings = persisting(&first.findings, second.findings);
        report.findings.extend(drift::again(&store, &asked, compared.findings).await?);
        if wish.fix == Fix::Safe && !report.findings.is_empty() {
            let fixer =
                Fixer { store: &store, leases: &second.leases, keys: &survey.lives, closed_ttl: config.closed_ttl };
            for finding in &report.findings {
                report.fixed.extend(fixer.fix(finding).await?);
            }
            // What was not for this audit to put right may have been put right by gateways meanwhile.
            let before = std::mem::take(&mut report.findings);
            report.findings = persisting(&before, Look::take(&store, late, &suspects).await?.findings);
            let drift = before.into_iter().filter(|finding| finding.kind == Kind::GatewayDrift).collect();
            report.findings.extend(drift::again(&store, &asked, drift).await?);
        }
    }
    report.findings.extend(unreachable);
    report.sort();
    report.seconds = started.elapsed().as_secs_f64();
    Ok(report)
}

/// One look at every lease and at some lives.
#[derive(Debug)]
struct Look {
    leases: Leases,
    lives: Vec<Judged>,
    findings: Vec<Finding>,
}

impl Look {
    /// Reads the leases first: a gateway has a lease before it has anything else.
    async fn take(store: &RedisStore, late: Duration, lives: &BTreeMap<LiveId, LiveKeys>) -> StoreResult<Self> {
        let leases = Leases::read(store).await?;
        let judge = Judge { store, leases: &leases, late };
        let mut lives: Vec<Judged> = stream::iter(lives)
            .map(|(live, keys)| Box::pin(judge.live(live, keys)))
            .buffer_unordered(AT_A_TIME)
            .try_collect()
            .await?;
        let mut findings = leases.expired(late);
        findings.extend(lives.iter_mut().flat_map(|judged| judged.findings.drain(..)));
        Ok(Self { leases, lives, findings })
    }
}

/// The lives with something to look at again.
fn suspects(lives: &BTreeMap<LiveId, LiveKeys>, findings: &[Finding]) -> BTreeMap<LiveId, LiveKeys> {
    let suspected = findings.iter().filter_map(|finding| finding.live_id.as_ref());
    suspected.filter_map(|live| Some((live.clone(), lives.get(live)?.clone()))).collect()
}

/// What was found both times, as it is now.
fn persisting(before: &[Finding], now: Vec<Finding>) -> Vec<Finding> {
    now.into_iter().filter(|finding| before.iter().any(|earlier| earlier.is_same(finding))).collect()
}
