//! `rollcall audit` looks into Redis from outside: it finds what should not be there, what is missing, and where
//! gateways and Redis disagree. With `--fix` it repairs what the protocol can repair safely. [`explain`] is the other
//! command of this module; `main` runs both.
//!
//! Gateways keep writing while an audit reads. So an audit looks at everything suspicious a second time, a moment
//! later, and reports only what is still wrong then.

mod drift;
pub mod explain;
mod finding;
mod fix;
mod gateways;
mod inspect;
mod leases;
mod report;
mod scan;

use std::fmt::Display;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt, stream};
use serde::Serialize;
use tokio::time::{Instant, sleep};

use self::drift::AskedGateway;
use self::finding::Finding;
use self::fix::Fixer;
use self::inspect::{Inspection, Inspector};
use self::leases::LeaseSnapshot;
use self::report::Report;
use self::scan::KeysByLive;
use crate::base::exit;
use crate::base::metrics::Metrics;
use crate::config::{AuditArgs, Config, Fix, OutputFormat};
use crate::store::Fence;
use crate::store::redis::{Access, ConnectError, RedisStore};
use crate::store::{StoreError, StoreResult};

pub use finding::{Kind, Severity};

/// Lives or keys that are looked at concurrently.
const AT_A_TIME: usize = 8;

/// The least time between two looks; two flushes, or a lease refresh and a quarter, if that is more.
const SECOND_LOOK: Duration = Duration::from_millis(500);

/// Gateways have `lease` and so much more to bury a gateway, to sweep it and to finish a close.
const GRACE: Duration = Duration::from_secs(2);

/// Why a command cannot answer.
#[derive(Debug, thiserror::Error)]
enum AuditError {
    #[error("{0}")]
    Connect(#[from] ConnectError),
    #[error("the audit cannot go on: {0}")]
    Store(#[from] StoreError),
}

/// Runs an audit, writes its report to standard output and answers the exit code.
pub async fn run(config: &Config, args: &AuditArgs) -> u8 {
    match audit(config, args).await {
        Ok(report) => {
            print(&report, args.format);
            if report.findings.is_empty() { exit::STOPPED } else { exit::FINDINGS }
        }
        Err(why) => exit::say(exit::UNAVAILABLE, why),
    }
}

/// Writes to standard output. A reader that went away is no failure.
fn print(document: &(impl Serialize + Display), format: OutputFormat) {
    let text = match format {
        OutputFormat::Json => serde_json::to_string(document).unwrap_or_default(),
        OutputFormat::Text => document.to_string(),
    };
    let _ = writeln!(std::io::stdout(), "{text}");
}

async fn open(config: &Config) -> Result<RedisStore, AuditError> {
    let url = config.redis.clone().ok_or_else(|| ConnectError::Url("is not given".to_owned()))?;
    let access = Access { url, ca: config.redis_ca.clone() };
    Ok(RedisStore::open_without_canary(access, Arc::new(Metrics::default())).await?)
}

async fn audit(config: &Config, args: &AuditArgs) -> Result<Report, AuditError> {
    let started = Instant::now();
    let store = open(config).await?;
    let (keys, totals) = scan::find_keys(&store, args.top).await?;
    let mut auditor = Auditor { store: &store, overdue: config.lease + GRACE, keys: &keys, asked: Vec::new() };
    let (leases, mut first) = auditor.inspect(&keys).await?;
    let (asked, unreachable) = drift::ask(&args.gateways).await;
    auditor.asked = asked;
    first.findings.extend(drift::compare(&store, &mut auditor.asked, &keys).await?);
    let suspected = std::mem::take(&mut first.findings);
    let mut report = Report::new(first, &leases, &auditor.asked, totals);
    if !suspected.is_empty() {
        sleep(SECOND_LOOK.max(config.flush * 2).max(config.lease_refresh * 5 / 4)).await;
        let (leases, findings) = auditor.confirm(&suspected).await?;
        report.findings = findings;
        if args.fix == Fix::Safe && !report.findings.is_empty() {
            let fixer = Fixer { store: &store, leases: &leases, keys: &keys, closed_ttl: config.closed_ttl };
            for finding in &report.findings {
                report.fixed.extend(fixer.fix(finding).await?);
            }
            // Gateways may have repaired meanwhile what an audit leaves to them.
            report.findings = auditor.confirm(&report.findings).await?.1;
        }
    }
    report.findings.extend(unreachable);
    report.sort();
    report.seconds = started.elapsed().as_secs_f64();
    Ok(report)
}

struct Auditor<'a> {
    store: &'a RedisStore,
    overdue: Duration,
    keys: &'a KeysByLive,
    asked: Vec<AskedGateway>,
}

impl Auditor<'_> {
    /// Inspects every lease and some lives. The leases come first: a gateway has a lease before it has anything else.
    async fn inspect(&self, keys: &KeysByLive) -> StoreResult<(LeaseSnapshot, Inspection)> {
        let leases = LeaseSnapshot::read(self.store).await?;
        let inspector = Inspector { store: self.store, leases: &leases, overdue: self.overdue };
        let lives: Vec<Inspection> = stream::iter(keys)
            .map(|(live, keys)| Box::pin(inspector.live(live, keys)))
            .buffer_unordered(AT_A_TIME)
            .try_collect()
            .await?;
        let mut all = Inspection { findings: leases.expired(self.overdue), ..Inspection::default() };
        lives.into_iter().for_each(|live| all.add(live));
        Ok((leases, all))
    }

    /// Which findings are still so, with their present figures; and the leases of that moment.
    async fn confirm(&self, before: &[Finding]) -> StoreResult<(LeaseSnapshot, Vec<Finding>)> {
        let suspects = before.iter().filter_map(|finding| finding.subject.live_id.as_ref());
        let suspects = suspects.filter_map(|live| Some((live.clone(), self.keys.get(live)?.clone()))).collect();
        let (leases, now) = self.inspect(&suspects).await?;
        let mut findings = now.findings;
        findings.retain(|finding| before.iter().any(|earlier| earlier.is_same(finding)));
        findings.extend(drift::confirm(self.store, &self.asked, before).await?);
        Ok((leases, findings))
    }
}

/// Reads page after page, each from the cursor that the one before it answered.
async fn each_page<C, E>(mut cursor: C, mut read: impl AsyncFnMut(C) -> Result<Option<C>, E>) -> Result<(), E> {
    while let Some(next) = read(cursor).await? {
        cursor = next;
    }
    Ok(())
}

fn fence_name(fence: Fence) -> String {
    match fence {
        Fence::Open(epoch) => format!("open:{epoch}"),
        Fence::Closed(epoch) => format!("closed:{epoch}"),
    }
}
