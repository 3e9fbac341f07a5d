//! `rollcall audit` reads Redis from outside. It finds what should not be there, what is missing, and where gateways
//! and Redis disagree. With `--fix` it repairs what can be repaired safely while gateways run.
//!
//! Gateways keep writing while an audit reads. An audit therefore looks at everything suspicious a second time, a
//! moment later, and reports only what is still wrong then.

mod drift;
mod finding;
mod fix;
mod inspect;
mod paging;
mod report;
mod scan;

use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt, stream};
use tokio::time::{Instant, sleep};

use self::drift::AskedGateway;
use self::finding::AuditFinding;
use self::fix::Fixer;
use self::inspect::{Inspection, Inspector};
use self::paging::AT_A_TIME;
use self::report::Report;
use self::scan::KeysByLive;
use super::common::{CommandError, open, print};
use super::gateways;
use super::leases::LeaseSnapshot;
use crate::base::exit;
use crate::config::{AuditArgs, Config, Fix};
use crate::store::StoreResult;
use crate::store::redis::RedisStore;

pub use finding::{FindingKind, Severity};

/// The least time between the two looks. An audit waits longer if two flushes, or one and a quarter lease refreshes,
/// take longer.
const SECOND_LOOK: Duration = Duration::from_millis(500);

/// A burial, a sweep and a close may each take `lease` and this much more.
const GRACE: Duration = Duration::from_secs(2);

/// Runs an audit, writes its report to standard output and answers the exit code.
pub async fn run(config: &Config, args: &AuditArgs) -> u8 {
    match audit(config, args).await {
        Ok(report) => {
            print(&report, args.format);
            if report.findings.is_empty() { exit::STOPPED } else { exit::FINDINGS }
        }
        Err(why) => exit::say(why.exit_code(), why),
    }
}

async fn audit(config: &Config, args: &AuditArgs) -> Result<Report, CommandError> {
    let started = Instant::now();
    let gateways = gateways::open(&args.gateways)?;
    let store = open(config).await?;
    let (keys, totals) = scan::find_keys(&store, args.top).await?;
    let mut auditor = Auditor { store: &store, overdue: config.lease + GRACE, keys: &keys, asked: Vec::new() };
    let (leases, mut first) = auditor.inspect(&keys).await?;
    let (asked, unreachable) = drift::ask(gateways).await;
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
            // In the meantime gateways may have repaired what an audit leaves to them.
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
    /// Inspects every lease, and these lives. It reads the leases first, because a gateway has a lease before it has
    /// anything else.
    async fn inspect(&self, keys: &KeysByLive) -> StoreResult<(LeaseSnapshot, Inspection)> {
        let leases = LeaseSnapshot::read(self.store).await?;
        let inspector = Inspector { store: self.store, leases: &leases, overdue: self.overdue };
        let lives: Vec<Inspection> = stream::iter(keys)
            .map(|(live, keys)| Box::pin(inspector.live(live, keys)))
            .buffer_unordered(AT_A_TIME)
            .try_collect()
            .await?;
        let mut all = Inspection { findings: inspector.expired_leases(), ..Inspection::default() };
        lives.into_iter().for_each(|live| all.add(live));
        Ok((leases, all))
    }

    /// Looks again, and answers the findings that remain, with their present figures; and the leases of that moment.
    async fn confirm(&self, before: &[AuditFinding]) -> StoreResult<(LeaseSnapshot, Vec<AuditFinding>)> {
        let suspects = before.iter().filter_map(|finding| finding.subject.live_id.as_ref());
        let suspects = suspects.filter_map(|live| Some((live.clone(), self.keys.get(live)?.clone()))).collect();
        let (leases, now) = self.inspect(&suspects).await?;
        let mut findings = now.findings;
        findings.retain(|finding| before.iter().any(|earlier| earlier.is_same(finding)));
        findings.extend(drift::confirm(self.store, &self.asked, before).await?);
        Ok((leases, findings))
    }
}
