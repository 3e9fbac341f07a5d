//! `rollcall audit` reads Redis from outside. It finds keys that should not exist, keys that are
//! missing, and differences between gateways and Redis. With `--fix` it makes the repairs that are
//! safe while gateways run.
//!
//! Gateways keep writing while an audit reads. An audit therefore inspects every suspect a second
//! time, a moment later, and reports only what is still wrong then.

pub(crate) mod against;
pub(crate) mod claims;
pub(crate) mod counts;
pub(crate) mod drift;
pub(crate) mod finding;
pub(crate) mod fix;
pub(crate) mod ids;
pub(crate) mod inspection;
pub(crate) mod live;
pub(crate) mod members;
pub(crate) mod memory;
pub(crate) mod offered;
pub(crate) mod platform;
pub(crate) mod redis;
pub(crate) mod report;
pub(crate) mod scan;
pub(crate) mod scripts;
pub(crate) mod slice;
pub(crate) mod users;

use std::time::Duration;

use anyhow::anyhow;
use futures_util::{StreamExt, TryStreamExt, stream};
use tokio::time::{Instant, sleep};

use self::against::Comparison;
use self::drift::AskedGateway;
use self::finding::{AuditFinding, contains_kind};
use self::fix::Fixer;
use self::ids::IdInspector;
use self::inspection::{Inspection, Inspector};
use self::memory::MemoryInspector;
use self::offered::Inspect;
use self::platform::PlatformInspector;
use self::report::Report;
use self::scan::{FoundKeys, MAX_CONCURRENT_READS};
use self::users::UserInspector;
use crate::base::exit;
use crate::base::ids::Group;
use crate::cli::common::{open, print, seconds};
use crate::cli::gateways;
use crate::cli::gateways::GatewayApi;
use crate::cli::leases::LeaseSnapshot;
use crate::config::{AuditArgs, Config};
use crate::store::StoreResult;
use crate::store::redis::RedisStore;

pub use finding::{FindingKind, Severity};
pub(crate) use offered::Offered;

/// Says what the features offer, with or without a look at every user.
type OfferFn = for<'a> fn(&Config, &'a RedisStore, every_user: bool) -> Offered<'a>;

/// The minimum time between the two looks. A gateway has written every change that does not wait by
/// then. An audit waits longer if two flushes, or one and a quarter lease refreshes, take longer.
const SECOND_LOOK: Duration = Duration::from_millis(1_500);

/// The time that a burial, a sweep or a close may take beyond `lease`.
const GRACE: Duration = Duration::from_secs(2);

/// Runs an audit, writes its report to standard output and returns the exit code.
pub(crate) async fn run(config: &Config, args: &AuditArgs, offer: OfferFn) -> anyhow::Result<u8> {
    if let Some(key) = &args.against {
        let group = if args.fans { Group::Fans } else { Group::All };
        return against::run(config, Comparison { key, group }, args.json).await;
    }
    let gateways = gateways::open(&args.gateways)?;
    let store = open(config).await?;
    let report = audit(&store, config, args, gateways, offer)
        .await
        .map_err(|why| anyhow!("the command cannot continue: {why}"))?;
    let code = if report.findings.is_empty() {
        exit::STOPPED
    } else {
        exit::FINDINGS
    };
    Ok(print(code, &report, args.json))
}

async fn audit(
    store: &RedisStore,
    config: &Config,
    args: &AuditArgs,
    gateways: Vec<GatewayApi>,
    offer: OfferFn,
) -> StoreResult<Report> {
    let started = Instant::now();
    let (keys, totals) = scan::find_keys(store, args.top).await?;
    let overdue = config.lease + GRACE;
    // The walk of a gateway finishes interrupted work. It comes round once per `check-every`.
    let walked = config.check_every * 2 + GRACE;
    let offered = offer(config, store, args.users);
    let mut inspections: Vec<Box<dyn Inspect + '_>> = vec![
        Box::new(MemoryInspector { store }),
        Box::new(IdInspector { store, keys: &keys }),
        Box::new(UserInspector {
            store,
            overdue: walked,
            every_user: args.users,
        }),
        Box::new(PlatformInspector::new(store, walked, config.remember)),
    ];
    inspections.extend(offered.inspections);
    let mut auditor = Auditor {
        store,
        overdue,
        keys: &keys,
        asked: Vec::new(),
        inspections,
    };
    let (leases, mut first) = auditor.inspect(&keys).await?;
    for inspection in &mut auditor.inspections {
        first.findings.extend(inspection.inspect().await?);
    }
    let (asked, unreachable) = drift::ask(gateways).await;
    auditor.asked = asked;
    for gateway in &mut auditor.asked {
        first.findings.extend(gateway.unwritten(Duration::ZERO));
        let with_entry = match first.gateways.get(&gateway.id) {
            Some(holding) => &holding.slices[..],
            None => &[],
        };
        let differences = gateway.compare_all(store, with_entry).await?;
        first.findings.extend(differences);
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
                features: &offered.features,
                store,
                leases: &leases,
                closed_ttl: config.closed_ttl,
                inspections: &auditor.inspections,
            };
            for finding in &report.findings {
                report.fixed.extend(fixer.fix(finding).await?);
            }
            // Meanwhile gateways may have made the repairs that an audit leaves to them.
            let (_, remaining) = auditor.confirm(&report.findings).await?;
            report.findings = remaining;
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
    inspections: Vec<Box<dyn Inspect + 'a>>,
}

impl Auditor<'_> {
    /// Inspects every lease, and the lives and slices of `keys`. It reads the leases first, because
    /// a gateway has a lease before it has anything else.
    async fn inspect(&self, keys: &FoundKeys) -> StoreResult<(LeaseSnapshot, Inspection)> {
        let leases = LeaseSnapshot::read(self.store).await?;
        let inspector = Inspector {
            store: self.store,
            leases: &leases,
            overdue: self.overdue,
            inspections: &self.inspections,
        };
        let mut all = inspect_lives(&inspector, keys).await?;
        all.add(inspector.platform(&keys.platform).await?);
        for (gateway, age) in leases.living() {
            if age <= self.overdue {
                continue;
            }
            let detail = format!(
                "its lease was renewed {} ago, and no gateway has buried it",
                seconds(age)
            );
            all.findings.push(
                AuditFinding::new(FindingKind::ExpiredLease, detail)
                    .gateway(gateway)
                    .key(self.store.keys().leases()),
            );
        }
        Ok((leases, all))
    }

    /// Inspects again what `before` is about. Returns the leases of that moment and the findings
    /// that remain, with their present figures.
    async fn confirm(
        &mut self,
        before: &[AuditFinding],
    ) -> StoreResult<(LeaseSnapshot, Vec<AuditFinding>)> {
        let mut suspects = FoundKeys::default();
        for finding in before {
            if let Some(live) = &finding.subject.live_id
                && let Some(keys) = self.keys.lives.get(live)
            {
                suspects.lives.insert(live.clone(), keys.clone());
            }
            if let Some(slice) = &finding.subject.slice
                && self.keys.platform.contains(slice)
            {
                suspects.platform.insert(slice.clone());
            }
        }
        let (leases, now) = self.inspect(&suspects).await?;
        let mut findings = now.findings;
        for finding in before {
            if finding.kind != FindingKind::GatewayDrift {
                continue;
            }
            let subject = &finding.subject;
            let gateway = self
                .asked
                .iter_mut()
                .find(|gateway| subject.gateway_id.as_ref() == Some(&gateway.id));
            if let Some(gateway) = gateway
                && let Some(slice) = &subject.slice
            {
                findings.extend(gateway.compare(self.store, slice).await?);
            }
        }
        if contains_kind(before, FindingKind::UnwrittenChanges) {
            for gateway in &mut self.asked {
                gateway.look_again().await;
                findings.extend(gateway.unwritten(SECOND_LOOK));
            }
        }
        for inspection in &mut self.inspections {
            findings.extend(inspection.inspect_again(before).await?);
        }
        findings.retain(|finding| before.iter().any(|earlier| earlier.is_same(finding)));
        Ok((leases, findings))
    }
}

async fn inspect_lives(inspector: &Inspector<'_>, keys: &FoundKeys) -> StoreResult<Inspection> {
    let mut lives = stream::iter(&keys.lives)
        .map(|(live, keys)| Box::pin(inspector.live(live, keys)))
        .buffer_unordered(MAX_CONCURRENT_READS);
    let mut all = Inspection::default();
    while let Some(live) = lives.try_next().await? {
        all.add(live);
    }
    Ok(all)
}
