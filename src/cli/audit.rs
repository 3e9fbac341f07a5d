//! `rollcall audit` reads Redis from outside. It finds what should not be there, what is missing,
//! and where gateways and Redis disagree. With `--fix` it repairs what can be repaired safely while
//! gateways run.
//!
//! Gateways keep writing while an audit reads. An audit therefore looks at everything suspicious a
//! second time, a moment later, and reports only what is still wrong then.

mod attendance;
mod counts;
mod drift;
mod finding;
mod fix;
mod ids;
mod inspection;
mod live;
mod memory;
mod platform;
mod report;
mod scan;
mod slice;
mod statuses;
mod users;

use std::time::Duration;

use anyhow::anyhow;
use futures_util::{StreamExt, TryStreamExt, stream};
use tokio::time::{Instant, sleep};

use self::attendance::AttendanceInspector;
use self::drift::AskedGateway;
use self::finding::AuditFinding;
use self::fix::Fixer;
use self::inspection::{Inspection, Inspector};
use self::platform::PlatformInspector;
use self::report::Report;
use self::scan::{AT_A_TIME, FoundKeys};
use self::users::UserInspector;
use super::common::{open, print, seconds};
use super::gateways::{self, GatewayApi};
use super::leases::LeaseSnapshot;
use crate::base::exit;
use crate::config::{AuditArgs, Config};
use crate::store::StoreResult;
use crate::store::redis::RedisStore;

pub use finding::{FindingKind, Severity};

/// The least time between the two looks: a change that waits for nothing is in the record by then.
/// An audit waits longer if two flushes, or one and a quarter lease refreshes, take longer.
const SECOND_LOOK: Duration = Duration::from_millis(1_500);

/// A burial, a sweep and a close may each take `lease` and this much more.
const GRACE: Duration = Duration::from_secs(2);

/// Runs an audit, writes its report to standard output and answers the exit code.
pub async fn run(config: &Config, args: &AuditArgs) -> anyhow::Result<u8> {
    let gateways = gateways::open(&args.gateways)?;
    let store = open(config).await?;
    let report = audit(&store, config, args, gateways)
        .await
        .map_err(|why| anyhow!("the command cannot continue: {why}"))?;
    print(&report, args.json);
    Ok(if report.findings.is_empty() {
        exit::STOPPED
    } else {
        exit::FINDINGS
    })
}

async fn audit(
    store: &RedisStore,
    config: &Config,
    args: &AuditArgs,
    gateways: Vec<GatewayApi>,
) -> StoreResult<Report> {
    let started = Instant::now();
    let (keys, totals) = scan::find_keys(store, args.top).await?;
    // The walk finishes what was left, once per `check-every` and some more.
    let (overdue, walked) = (config.lease + GRACE, config.check_every * 2 + GRACE);
    let users = UserInspector {
        store,
        overdue: walked,
        every_user: args.users,
    };
    let platform = PlatformInspector::new(store, walked, config.remember, args.users);
    let attendance = AttendanceInspector::new(store, args.users);
    let mut auditor = Auditor {
        store,
        overdue,
        keys: &keys,
        asked: Vec::new(),
        users,
        platform,
        attendance,
    };
    let (leases, mut first) = auditor.inspect(&keys).await?;
    first.findings.extend(auditor.users.inspect().await?);
    first
        .findings
        .extend(auditor.platform.inspect(&leases).await?);
    first.findings.extend(auditor.attendance.inspect().await?);
    first.findings.extend(ids::inspect(store, &keys).await?);
    let (asked, unreachable) = drift::ask(gateways).await;
    auditor.asked = asked;
    first.findings.extend(memory::full_masters(store).await?);
    for gateway in &mut auditor.asked {
        first.findings.extend(gateway.unwritten(Duration::ZERO));
        first
            .findings
            .extend(gateway.compare_all(store, &keys).await?);
    }
    let suspected = std::mem::take(&mut first.findings);
    let mut report = Report::new(first, &leases, &auditor.asked, totals);
    if !suspected.is_empty() {
        sleep(
            SECOND_LOOK
                .max(config.flush * 2)
                .max(config.lease_refresh * 5 / 4),
        )
        .await;
        let (leases, findings) = auditor.confirm(&suspected).await?;
        report.findings = findings;
        if args.fix && !report.findings.is_empty() {
            let fixer = Fixer {
                store,
                leases: &leases,
                keys: &keys,
                closed_ttl: config.closed_ttl,
            };
            for finding in &report.findings {
                report.fixed.extend(
                    fixer
                        .fix(finding, (&auditor.attendance, &auditor.platform))
                        .await?,
                );
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
    keys: &'a FoundKeys,
    asked: Vec<AskedGateway>,
    users: UserInspector<'a>,
    platform: PlatformInspector<'a>,
    attendance: AttendanceInspector<'a>,
}

impl Auditor<'_> {
    /// Inspects every lease, and these lives and slices. It reads the leases first, because a
    /// gateway has a lease before it has anything else.
    async fn inspect(&self, keys: &FoundKeys) -> StoreResult<(LeaseSnapshot, Inspection)> {
        let leases = LeaseSnapshot::read(self.store).await?;
        let inspector = Inspector {
            store: self.store,
            leases: &leases,
            overdue: self.overdue,
        };
        let lives =
            stream::iter(&keys.lives).map(|(live, keys)| Box::pin(inspector.live(live, keys)));
        let add = async |mut all: Inspection, live| {
            all.add(live);
            Ok(all)
        };
        let mut all = lives
            .buffer_unordered(AT_A_TIME)
            .try_fold(Inspection::default(), add)
            .await?;
        all.add(inspector.platform(&keys.platform).await?);
        all.findings
            .extend(leases.living().filter(|(_, age)| *age > self.overdue).map(
                |(gateway, age)| {
                    let detail = format!(
                        "its lease was renewed {} ago, and no gateway has buried it",
                        seconds(age)
                    );
                    AuditFinding::new(FindingKind::ExpiredLease, detail)
                        .gateway(gateway)
                        .key(self.store.keys().leases())
                },
            ));
        Ok((leases, all))
    }

    /// Looks again, and answers the findings that remain, with their present figures; and the
    /// leases of that moment.
    async fn confirm(
        &mut self,
        before: &[AuditFinding],
    ) -> StoreResult<(LeaseSnapshot, Vec<AuditFinding>)> {
        let lives = before
            .iter()
            .filter_map(|finding| finding.subject.live_id.as_ref());
        let lives = lives
            .filter_map(|live| Some((live.clone(), self.keys.lives.get(live)?.clone())))
            .collect();
        let slices = before
            .iter()
            .filter_map(|finding| finding.subject.slice.as_ref());
        let platform = slices
            .filter_map(|slice| Some((slice.clone(), self.keys.platform.get(slice)?.clone())))
            .collect();
        let suspects = FoundKeys { lives, platform };
        let (leases, now) = self.inspect(&suspects).await?;
        let mut findings = now.findings;
        findings.retain(|finding| before.iter().any(|earlier| earlier.is_same(finding)));
        for AuditFinding { subject, .. } in before
            .iter()
            .filter(|finding| finding.kind == FindingKind::GatewayDrift)
        {
            let gateway = self
                .asked
                .iter_mut()
                .find(|gateway| subject.gateway_id.as_ref() == Some(&gateway.id));
            if let (Some(gateway), Some(slice)) = (gateway, &subject.slice) {
                findings.extend(gateway.compare(self.store, slice).await?);
            }
        }
        let is_found = |kind| before.iter().any(|finding| finding.kind == kind);
        if is_found(FindingKind::UnwrittenChanges) {
            for gateway in &mut self.asked {
                gateway.look_again().await;
                findings.extend(gateway.unwritten(SECOND_LOOK));
            }
        }
        if is_found(FindingKind::FullMaster) {
            findings.extend(memory::full_masters(self.store).await?);
        }
        findings.extend(self.users.confirm(before).await?);
        findings.extend(self.platform.confirm(&leases, before).await?);
        findings.extend(self.attendance.confirm(before).await?);
        findings.extend(ids::confirm(self.store, &suspects, before).await?);
        Ok((leases, findings))
    }
}
