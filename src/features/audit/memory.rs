//! Finds masters that have no memory left. Such a master refuses writes that need memory, above all
//! joins. The sets then lack fans whom gateways hold in their own memory, and an audit without
//! `--gateway` does not see these.

use async_trait::async_trait;

use crate::features::audit::finding::{AuditFinding, FindingKind, contains_kind};
use crate::features::audit::offered::Inspect;
use crate::store::StoreResult;
use crate::store::redis::RedisStore;
use crate::store::redis::inspect::MasterMemory;

pub(crate) struct MemoryInspector<'a> {
    pub(crate) store: &'a RedisStore,
}

#[async_trait(?Send)]
impl Inspect for MemoryInspector<'_> {
    async fn inspect(&mut self) -> StoreResult<Vec<AuditFinding>> {
        let masters = self.store.memory_of_masters().await?;
        Ok(masters
            .iter()
            .filter(|(_, memory)| memory.is_full())
            .map(|(host, memory)| finding(host, memory))
            .collect())
    }

    async fn inspect_again(&mut self, before: &[AuditFinding]) -> StoreResult<Vec<AuditFinding>> {
        if contains_kind(before, FindingKind::FullMaster) {
            self.inspect().await
        } else {
            Ok(Vec::new())
        }
    }
}

fn finding(host: &str, memory: &MasterMemory) -> AuditFinding {
    let MasterMemory {
        used,
        limit,
        policy,
    } = memory;
    let consequence = match policy.as_str() {
        "noeviction" => {
            "it refuses writes that need memory, so sets may lack fans who joined".to_owned()
        }
        policy => format!("its maxmemory-policy {policy} may drop keys of gateways"),
    };
    let detail =
        format!("{host} uses {used} bytes of the {limit} that maxmemory allows: {consequence}");
    AuditFinding::new(FindingKind::FullMaster, detail)
}
