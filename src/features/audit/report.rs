//! The report of an audit: a JSON document for programs, tables for people.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

use serde::Serialize;

use crate::base::ids::GatewayId;
use crate::cli::leases::{LeaseSnapshot, LeaseStatus};
use crate::cli::tables::{count, table};
use crate::features::audit::drift::AskedGateway;
use crate::features::audit::finding::AuditFinding;
use crate::features::audit::fix::Fixed;
use crate::features::audit::inspection::{Holding, Inspection, LiveRow};
use crate::features::audit::scan::ScanTotals;

/// `docs/audit.md` describes the fields.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub findings: Vec<AuditFinding>,
    pub fixed: Vec<Fixed>,
    lives: Vec<LiveRow>,
    /// Users online on the platform.
    users_online: u64,
    gateways: Vec<GatewayRow>,
    #[serde(flatten)]
    totals: ScanTotals,
    pub seconds: f64,
}

/// A gateway that is alive, has an entry in a slice, or was asked.
#[derive(Debug, Serialize)]
struct GatewayRow {
    gateway_id: GatewayId,
    slices: u64,
    members: u64,
    #[serde(flatten)]
    lease: LeaseStatus,
    asked: bool,
    compared: u64,
    restless: u64,
}

impl Report {
    /// A report without findings.
    pub(crate) fn new(
        seen: Inspection,
        leases: &LeaseSnapshot,
        asked: &[AskedGateway],
        totals: ScanTotals,
    ) -> Self {
        let mut gateways: BTreeMap<GatewayId, Holding> = seen.gateways;
        let living = leases.living().map(|(gateway, _)| gateway);
        for gateway in living.chain(asked.iter().map(|gateway| &gateway.id)) {
            gateways.entry(gateway.clone()).or_default();
        }
        let mut rows = Vec::new();
        for (gateway_id, Holding { slices, members }) in gateways {
            let mut row = GatewayRow {
                slices: slices.len() as u64,
                members,
                lease: leases.get(&gateway_id).into(),
                asked: false,
                compared: 0,
                restless: 0,
                gateway_id,
            };
            if let Some(gateway) = asked.iter().find(|gateway| gateway.id == row.gateway_id) {
                row.asked = true;
                row.compared = gateway.compared;
                row.restless = gateway.restless;
            }
            rows.push(row);
        }
        Self {
            findings: Vec::new(),
            fixed: Vec::new(),
            lives: seen.lives,
            users_online: seen.users_online,
            gateways: rows,
            totals,
            seconds: 0.0,
        }
    }

    /// Sorts lives by id, and findings by severity.
    pub(crate) fn sort(&mut self) {
        self.lives.sort_by(|a, b| a.live_id.cmp(&b.live_id));
        self.findings.sort_by_cached_key(|finding| {
            let subject = &finding.subject;
            (
                finding.severity,
                finding.kind,
                subject.live_id.clone(),
                subject.slice.as_ref().map(|slice| slice.index),
                subject.gateway_id.clone(),
            )
        });
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let fans: u64 = self.lives.iter().map(|live| live.fans).sum();
        writeln!(
            f,
            "{}, {}, {} online, {}; {} keys of lives on {} in {:.1} s",
            count(self.lives.len(), "live"),
            count(fans as usize, "fan"),
            count(self.users_online as usize, "user"),
            count(self.gateways.len(), "gateway"),
            self.totals.live_keys,
            count(self.totals.masters, "master"),
            self.seconds
        )?;
        let mut lives = Vec::new();
        for live in &self.lives {
            lives.push([
                live.live_id.to_string(),
                live.state.to_owned(),
                live.epoch.to_string(),
                live.slices.to_string(),
                live.fans.to_string(),
                live.viewers.to_string(),
                live.gateways.to_string(),
            ]);
        }
        let titles = [
            "live", "state", "epoch", "slices", "fans", "viewers", "gateways",
        ];
        table(f, titles, &lives)?;
        let mut gateways = Vec::new();
        for gateway in &self.gateways {
            let compared = gateway.compared;
            gateways.push([
                gateway.gateway_id.to_string(),
                gateway.slices.to_string(),
                gateway.members.to_string(),
                gateway.lease.to_string(),
                match (gateway.asked, gateway.restless) {
                    (false, _) => "not asked".to_owned(),
                    (true, 0) => compared.to_string(),
                    (true, some) => format!("{compared}, and {some} that never stayed unchanged"),
                },
            ]);
        }
        let titles = ["gateway", "slices", "members", "lease", "slices compared"];
        table(f, titles, &gateways)?;
        for (title, keys) in [
            ("most members", &self.totals.biggest_by_members),
            ("most memory", &self.totals.biggest_by_bytes),
        ] {
            let mut rows = Vec::new();
            for key in keys {
                let bytes = match key.bytes {
                    Some(bytes) => bytes.to_string(),
                    None => "?".to_owned(),
                };
                rows.push([key.key.clone(), key.members.to_string(), bytes]);
            }
            table(f, [title, "members", "bytes"], &rows)?;
        }
        writeln!(f)?;
        if !self.fixed.is_empty() {
            writeln!(f, "repaired:")?;
            for fixed in &self.fixed {
                let kind = fixed.kind.as_str();
                writeln!(f, "{kind}{}: {}", fixed.subject, fixed.done)?;
            }
        }
        match (self.findings.len(), self.fixed.is_empty()) {
            (0, true) => write!(f, "nothing is wrong"),
            (0, false) => write!(f, "nothing is wrong any more"),
            (findings, true) => write!(f, "{}:", count(findings, "finding")),
            (findings, false) => write!(f, "{} left:", count(findings, "finding")),
        }?;
        for finding in &self.findings {
            write!(f, "\n{finding}")?;
        }
        Ok(())
    }
}
