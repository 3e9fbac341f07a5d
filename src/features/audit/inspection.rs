//! The inputs and the results of an inspection, which the inspections of a live and of its slices
//! share.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use crate::base::clock::UnixMillis;
use crate::base::ids::{Epoch, GatewayId, LiveId, SliceId, UserId};
use crate::cli::leases::LeaseSnapshot;
use crate::features::audit::finding::AuditFinding;
use crate::features::audit::offered::Inspect;
use crate::features::audit::scan::scanned_id;
use crate::store::redis::RedisStore;
use crate::store::{LiveRecord, StoreError, StoreResult};

pub(crate) struct Inspector<'a> {
    pub store: &'a RedisStore,
    pub leases: &'a LeaseSnapshot,
    /// A burial, a sweep or a close that takes longer than this is a finding.
    pub overdue: Duration,
    /// They inspect slices, too.
    pub inspections: &'a [Box<dyn Inspect + 'a>],
}

/// The result of inspecting a slice, a live, or all lives.
#[derive(Debug, Default)]
pub(crate) struct Inspection {
    pub findings: Vec<AuditFinding>,
    /// Lives that are open or closing.
    pub lives: Vec<LiveRow>,
    /// Fans in slices of open lives.
    pub fans: u64,
    /// Viewers in slices of open lives.
    pub viewers: u64,
    /// The guests among them.
    pub guests: u64,
    /// Users online on the platform.
    pub users_online: u64,
    /// Whether a slice has lost its count: its gateways say again whom they hold.
    pub is_uncertain: bool,
    pub gateways: BTreeMap<GatewayId, Holding>,
}

/// A live that is open or closing.
#[derive(Debug, Serialize)]
pub(crate) struct LiveRow {
    pub live_id: LiveId,
    pub state: &'static str,
    pub streamer_id: UserId,
    pub epoch: Epoch,
    pub slices: u32,
    pub opened_at: UnixMillis,
    pub fans: u64,
    pub viewers: u64,
    pub guests: u64,
    pub gateways: u64,
    pub listed: bool,
}

/// The slices in which a gateway has an entry, and how many members it holds there.
#[derive(Debug, Clone, Default)]
pub(crate) struct Holding {
    pub slices: Vec<SliceId>,
    pub members: u64,
}

impl Inspection {
    pub(crate) fn add(&mut self, part: Self) {
        self.findings.extend(part.findings);
        self.lives.extend(part.lives);
        self.fans += part.fans;
        self.viewers += part.viewers;
        self.guests += part.guests;
        self.users_online += part.users_online;
        self.is_uncertain |= part.is_uncertain;
        for (gateway, holding) in part.gateways {
            let sum = self.gateways.entry(gateway).or_default();
            sum.slices.extend(holding.slices);
            sum.members += holding.members;
        }
    }

    /// Turns the error of unreadable content into a finding, so that the inspection goes on without
    /// it.
    pub(crate) fn readable<T>(
        &mut self,
        live: Option<&LiveId>,
        key: &str,
        answer: StoreResult<T>,
    ) -> StoreResult<Option<T>> {
        match answer {
            Ok(read) => Ok(Some(read)),
            Err(StoreError::Nonsense(why)) => {
                let mut finding = AuditFinding::unreadable(key, &why);
                if let Some(live) = live {
                    finding = finding.live(live);
                }
                self.findings.push(finding);
                Ok(None)
            }
            Err(why) => Err(why),
        }
    }
}

/// The slices that the live has according to its record.
pub(crate) fn slices_of(record: &LiveRecord) -> impl Iterator<Item = SliceId> {
    record.all_slices().map(scanned_id)
}
