//! What the gateway that walks does for users of the platform: it forgets those who were seen too long ago, and drops
//! what dead gateways said of whereabouts.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::base::clock::{Clock, millis};
use crate::base::ids::{GatewayId, USERS_SLICES};
use crate::config::SeenIds;
use crate::presence::gateways::{Gateways, Roster};
use crate::store::{MAX_BATCH, Span, Store, StoreResult, WhereaboutsPage};

pub struct UserUpkeep {
    pub gateways: Arc<Gateways>,
    pub store: Arc<dyn Store>,
    pub clock: Clock,
    /// How long it is remembered when a user was seen last.
    pub remember: Duration,
    pub ids: SeenIds,
    pub search: Mutex<Search>,
}

/// One round takes about this long at most: the gateway must keep its turn to walk.
const ROUND: Duration = Duration::from_millis(500);

/// One round forgets about this many users at most.
const FORGOTTEN_A_ROUND: usize = 20_000;

/// Where the search for the words of dead gateways stands.
#[derive(Debug, Clone, Copy)]
pub struct Search {
    slice: u32,
    cursor: u64,
    /// How many slices are to be searched to their end: all of them after a burial, and when the turn to walk begins.
    wanted: u32,
}

impl Default for Search {
    fn default() -> Self {
        Self { slice: 1, cursor: 0, wanted: 0 }
    }
}

impl UserUpkeep {
    /// Whether a search of all slices goes on.
    pub fn is_wanted(&self) -> bool {
        self.search.lock().wanted > 0
    }

    /// One round. If `all` slices are to be searched for what the dead said, that takes as many rounds as it takes;
    /// otherwise one page of one is searched.
    pub async fn look_after(&self, all: bool) -> StoreResult<()> {
        if all {
            // The rest of the present slice was read before.
            self.search.lock().wanted = USERS_SLICES + 1;
        }
        self.search_words().await?;
        self.forget_old().await?;
        // A store that lost its data is told again how ids are written.
        let fixed = self.store.fix_seen_ids(self.ids).await?;
        if fixed != self.ids {
            tracing::error!(
                wanted = self.ids.as_str(),
                fixed = fixed.as_str(),
                "another gateway fixed another form of last-seen-ids; stop one of them"
            );
        }
        Ok(())
    }

    async fn forget_old(&self) -> StoreResult<()> {
        let before = self.clock.unix().saturating_sub(millis(self.remember));
        let old = Span { from: 0, to: before.saturating_sub(1) };
        if self.store.count_online(old).await?.seen == 0 {
            return Ok(());
        }
        forget_before(self.store.as_ref(), before, FORGOTTEN_A_ROUND).await.map(drop)
    }

    async fn search_words(&self) -> StoreResult<()> {
        let began = self.clock.now();
        loop {
            let at = *self.search.lock();
            let next = self.search_page(at).await?;
            let mut search = self.search.lock();
            (search.slice, search.cursor) = (next.slice, next.cursor);
            if next.cursor == 0 {
                search.wanted = search.wanted.saturating_sub(1);
            }
            if search.wanted == 0 || self.clock.now() >= began + millis(ROUND) {
                return Ok(());
            }
        }
    }

    /// Searches a page; answers where to go on.
    async fn search_page(&self, at: Search) -> StoreResult<Search> {
        let page = self.store.whereabouts_page(at.slice, at.cursor).await?;
        let roster = self.gateways.roster();
        let now = self.clock.now();
        page.gateways.iter().filter(|it| roster.is_unknown(it)).for_each(|it| self.gateways.note_unlisted(it, now));
        forget_the_dead(self.store.as_ref(), &roster, at.slice, &page).await?;
        Ok(match page.next {
            Some(cursor) => Search { cursor, ..at },
            None => Search { slice: at.slice % USERS_SLICES + 1, cursor: 0, ..at },
        })
    }
}

/// Drops what dead gateways say on a page of whereabouts.
pub async fn forget_the_dead(
    store: &dyn Store,
    roster: &Roster,
    slice: u32,
    page: &WhereaboutsPage,
) -> StoreResult<()> {
    let dead: Vec<GatewayId> = page.gateways.iter().filter(|it| roster.dead.contains(*it)).cloned().collect();
    let users = page.users();
    for some in users.chunks(MAX_BATCH) {
        store.forget_whereabouts(slice, &dead, some).await?;
    }
    if users.is_empty() {
        store.forget_whereabouts(slice, &dead, &[]).await?;
    }
    Ok(())
}

/// Forgets users who were seen before a time, up to about `most`. How many, and whether there may be more.
pub async fn forget_before(store: &dyn Store, before: u64, most: usize) -> StoreResult<(u64, bool)> {
    let mut forgotten = 0;
    for slice in 1..=USERS_SLICES {
        loop {
            if forgotten >= most as u64 {
                return Ok((forgotten, true));
            }
            let some = store.forget_seen(slice, before).await?;
            forgotten += some;
            if some < MAX_BATCH as u64 {
                break;
            }
        }
    }
    Ok((forgotten, false))
}
