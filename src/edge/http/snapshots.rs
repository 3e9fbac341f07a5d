//! Sorted copies of slices, for listings of viewers or fans. The cache reads a whole slice, keeps
//! the copy for a few seconds, and shares it among all listings that began before the read.
//!
//! The cache is bounded in bytes, in age and in parallel reads. It reads a slice again when the copy
//! is gone, so any gateway can answer any page.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use moka::future::Cache;
use tokio::sync::Semaphore;

use crate::base::clock::Clock;
use crate::base::ids::{Epoch, Group, OnlineSet, SliceId, UserId};
use crate::store::{Store, StoreError, StoreResult};

/// How long a copy serves later pages: longer than a client takes from page to page.
const KEPT_FOR: Duration = Duration::from_secs(10);

/// Maximum bytes of all copies. The cache reads a slice that is larger again for each page.
const KEPT_BYTES: u64 = 64 << 20;

/// Bytes that one user of a copy takes in addition to the id: the pointer, the reference counts,
/// and the allocator's overhead.
const USER_OVERHEAD: usize = 48;

/// Maximum slices that the cache reads at a time: few, so that listings do not push the flusher's
/// calls out of the store's queue.
const MAX_CONCURRENT_READS: usize = 4;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct SnapshotKey {
    set: OnlineSet,
    listed: Listed,
    epoch: Epoch,
    slice: u32,
}

/// Which users of a slice a copy has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Listed {
    /// Those in the public set of a group.
    Group(Group),
    /// All members, and the guests, whom no public set has.
    WithGuests,
}

/// The users of a group of one slice, sorted and without duplicates.
pub(crate) struct Snapshot {
    /// When the read began.
    read_at: u64,
    users: Vec<UserId>,
}

impl Snapshot {
    /// The users after a given one, or all.
    pub(crate) fn after(&self, last: Option<&UserId>) -> &[UserId] {
        match last {
            Some(last) => &self.users[self.users.partition_point(|user| user <= last)..],
            None => &self.users,
        }
    }

    /// The users after a given one, or all, whose ids begin with `prefix`.
    pub(crate) fn beginning_with(&self, prefix: &str, last: Option<&UserId>) -> &[UserId] {
        let users = self.after(last);
        let users = &users[users.partition_point(|user| user.as_str() < prefix)..];
        &users[..users.partition_point(|user| user.as_str().starts_with(prefix))]
    }

    fn weight(&self) -> u32 {
        let bytes: usize = self
            .users
            .iter()
            .map(|user| user.as_str().len() + USER_OVERHEAD)
            .sum();
        u32::try_from(bytes).unwrap_or(u32::MAX)
    }
}

#[derive(Clone)]
pub(crate) struct Snapshots {
    store: Arc<dyn Store>,
    clock: Clock,
    kept: Cache<SnapshotKey, Arc<Snapshot>>,
    reads: Arc<Semaphore>,
    last_stamp: Arc<AtomicU64>,
}

impl Snapshots {
    pub(crate) fn new(store: Arc<dyn Store>, clock: Clock) -> Self {
        let kept = Cache::builder()
            .weigher(|_, snapshot: &Arc<Snapshot>| snapshot.weight())
            .max_capacity(KEPT_BYTES)
            .time_to_live(KEPT_FOR)
            .build();
        Self {
            store,
            clock,
            kept,
            reads: Arc::new(Semaphore::new(MAX_CONCURRENT_READS)),
            last_stamp: Arc::default(),
        }
    }

    /// Microseconds since 1970, but never the same number twice, so that one gateway can order any
    /// two moments.
    pub(crate) fn stamp(&self) -> u64 {
        let now = self.clock.unix().saturating_mul(1_000);
        let before = self
            .last_stamp
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |last| {
                Some(next_stamp(now, last))
            });
        match before {
            Ok(last) => next_stamp(now, last),
            // The update above never fails.
            Err(_) => now,
        }
    }

    /// A copy of these users of a slice that was read after `began`: a kept one, or one that is read
    /// now. Parallel requests share one read.
    pub(crate) async fn since(
        &self,
        began: u64,
        slice: SliceId,
        listed: Listed,
        epoch: Epoch,
    ) -> StoreResult<Arc<Snapshot>> {
        let key = SnapshotKey {
            set: slice.set.clone(),
            listed,
            epoch,
            slice: slice.index,
        };
        // A moment in the future comes from another gateway's clock, or a client forged it. A read
        // that begins now is new enough for it.
        let began = began.min(self.stamp());
        // The kept copy, or the read under way, may be older than the listing. Then the cache drops
        // it, and reads the slice again.
        for _ in 0..2 {
            let read = self.read(slice.clone(), listed);
            let snapshot = self
                .kept
                .try_get_with_by_ref(&key, read)
                .await
                .map_err(|error| StoreError::clone(&error))?;
            if snapshot.read_at > began {
                return Ok(snapshot);
            }
            self.kept.invalidate(&key).await;
        }
        // Another listing's older read came first, twice.
        self.read(slice, listed).await
    }

    async fn read(&self, slice: SliceId, listed: Listed) -> StoreResult<Arc<Snapshot>> {
        // Nothing closes the semaphore, and a read without a permit would do no harm.
        let _permit = self.reads.acquire().await.ok();
        let read_at = self.stamp();
        let mut users = match listed {
            Listed::Group(group) => self.store.members(&slice, group).await?,
            Listed::WithGuests => self.with_guests(&slice).await?,
        };
        users.sort_unstable();
        users.dedup();
        users.shrink_to_fit();
        Ok(Arc::new(Snapshot { read_at, users }))
    }

    /// The members of a slice, and the guests among those on whom there are claims.
    async fn with_guests(&self, slice: &SliceId) -> StoreResult<Vec<UserId>> {
        let mut users = self.store.members(slice, Group::All).await?;
        let mut cursor = Some(0);
        while let Some(from) = cursor {
            let page = self.store.claims_page(slice, from).await?;
            let claimed = page.users.into_iter().map(|claimed| claimed.user);
            users.extend(claimed.filter(UserId::is_guest));
            cursor = page.next;
        }
        Ok(users)
    }
}

/// The stamp of `now`, or the next one after `last` if that is later.
fn next_stamp(now: u64, last: u64) -> u64 {
    now.max(last.saturating_add(1))
}
