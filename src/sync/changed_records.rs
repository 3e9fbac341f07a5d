//! Reads the records that a peer changed: ends the room of a live that is over, and carries out
//! removals. It reads a bounded number of records at a time. Further lives are checked a moment
//! later.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::base::ids::LiveId;
use crate::peers::core::Core;
use crate::store::StoreResult;
use crate::sync::catch_up::CatchUp;
use crate::sync::lives::Lives;

/// Maximum lives that are looked at at the same time.
const MAX_LOOKS: usize = 256;

pub struct ChangedRecords {
    pub core: Arc<Core>,
    pub lives: Arc<Lives>,
    pub catch_up: Arc<CatchUp>,
}

/// The lives that are being looked at.
#[derive(Default)]
struct Looks {
    /// The value is true if the record changed again during the look, which may have missed that.
    under_way: HashMap<LiveId, bool>,
    tasks: JoinSet<LiveId>,
}

impl ChangedRecords {
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        let mut looks = Looks::default();
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.core.checks.changed_records.wait() => {
                    for live in self.core.checks.changed_records.take() {
                        self.look(live, &mut looks);
                    }
                }
                Some(done) = looks.tasks.join_next(), if !looks.tasks.is_empty() => {
                    // A look that panicked is a bug, and the wiring stops the process.
                    let Ok(live) = done else { return };
                    if looks.under_way.remove(&live) == Some(true) {
                        self.look(live, &mut looks);
                    }
                }
            }
        }
    }

    fn look(self: &Arc<Self>, live: LiveId, looks: &mut Looks) {
        if let Some(again) = looks.under_way.get_mut(&live) {
            *again = true;
            return;
        }
        if looks.under_way.len() >= MAX_LOOKS {
            return self
                .core
                .checks
                .check_soon(self.core.rooms.get(&live).into_iter().collect());
        }
        looks.under_way.insert(live.clone(), false);
        let this = self.clone();
        looks.tasks.spawn(async move {
            if let Err(why) = this.look_at_record(&live).await {
                tracing::debug!(
                    live_id = %live, error = %why,
                    "could not read a changed record, will try again"
                );
                this.core
                    .checks
                    .check_soon(this.core.rooms.get(&live).into_iter().collect());
            }
            live
        });
    }

    async fn look_at_record(&self, live: &LiveId) -> StoreResult<()> {
        let removals = self.lives.record_changed(live).await?;
        match (removals, self.core.rooms.get(live)) {
            (Some(removals), Some(room)) => self.catch_up.up_to(&room, removals).await,
            _ => Ok(()),
        }
    }
}
