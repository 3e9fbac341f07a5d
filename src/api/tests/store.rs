//! A store for tests of the HTTP edge: it repeats members as SSCAN may, fails when told to, and counts what is read.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::clock::UnixMillis;
use crate::ids::{Epoch, GatewayId, LiveId, SliceId, UserId};
use crate::store::*;

/// Members of a page; small, so that a scan takes several.
const SCAN_PAGE: usize = 3;

/// The store.
pub(crate) struct FakeStore {
    health: watch::Sender<Health>,
    broken: AtomicBool,
    now: AtomicU64,
    pub(crate) scans: AtomicU64,
    tables: Mutex<Tables>,
}

#[derive(Default)]
struct Tables {
    lives: BTreeMap<LiveId, LiveRecord>,
    fans: BTreeMap<(LiveId, u32), Vec<UserId>>,
    follows: Vec<(UserId, Followed)>,
}

impl FakeStore {
    pub(crate) fn new() -> Self {
        let (health, _) = watch::channel(Health::Up);
        Self {
            health,
            broken: AtomicBool::default(),
            now: AtomicU64::new(1_000),
            scans: AtomicU64::default(),
            tables: Mutex::default(),
        }
    }

    pub(crate) fn breaks(&self) {
        self.broken.store(true, Ordering::SeqCst);
        self.health.send_replace(Health::Down);
    }

    /// Puts a user into the slice that is theirs.
    pub(crate) fn comes(&self, live: &str, user: &str) {
        let (live, user) = (LiveId::parse(live).unwrap(), UserId::parse(user).unwrap());
        let mut tables = self.tables.lock();
        let slice = user.slice_index(tables.lives[&live].slices);
        tables.fans.entry((live, slice)).or_default().push(user);
    }

    /// Takes a user out of theirs.
    pub(crate) fn goes(&self, user: &str) {
        self.tables.lock().fans.values_mut().for_each(|fans| fans.retain(|fan| fan.as_str() != user));
    }

    fn tables(&self) -> StoreResult<parking_lot::MutexGuard<'_, Tables>> {
        if self.broken.load(Ordering::SeqCst) {
            return Err(StoreError::Lost("redis.internal:6379".to_owned()));
        }
        Ok(self.tables.lock())
    }

    fn tick(&self) -> u64 {
        self.now.fetch_add(1, Ordering::SeqCst)
    }
}

fn unused<T>() -> StoreResult<T> {
    Err(StoreError::Refused("not part of this store".to_owned()))
}

impl Store for FakeStore {
    fn health(&self) -> watch::Receiver<Health> {
        self.health.subscribe()
    }

    fn parts(&self) -> watch::Receiver<Arc<Parts>> {
        watch::Sender::new(Arc::new(Parts::one(*self.health.borrow()))).subscribe()
    }

    fn for_clients(self: Arc<Self>) -> Arc<dyn Store> {
        self
    }

    fn kind(&self) -> &'static str {
        "memory"
    }
}

#[async_trait]
impl Lives for FakeStore {
    async fn open_live(&self, wish: &OpenLive) -> StoreResult<OpenReply> {
        let mut tables = self.tables()?;
        let last = tables.lives.get(&wish.live);
        if let Some(record) = last.filter(|record| record.state != LiveState::Closed) {
            let record = record.clone();
            let own = record.streamer == wish.streamer;
            return Ok(if own { OpenReply::AlreadyOpen(record) } else { OpenReply::Owned(record) });
        }
        let record = LiveRecord {
            live: wish.live.clone(),
            state: LiveState::Open,
            streamer: wish.streamer.clone(),
            epoch: Epoch(last.map_or(0, |record| record.epoch.0) + 1),
            slices: wish.slices,
            opened_at: self.tick(),
            opened_by: wish.by,
            peaks: Peaks { viewers: 12, fans: 5 },
            closure: None,
            removals: 0,
        };
        tables.lives.insert(wish.live.clone(), record.clone());
        Ok(OpenReply::Opened(record))
    }

    async fn load_live(&self, live: &LiveId) -> StoreResult<Option<LiveRecord>> {
        Ok(self.tables()?.lives.get(live).cloned())
    }

    async fn touch_live(&self, _: &TouchLive) -> StoreResult<Standing> {
        unused()
    }

    async fn streamer_silent(&self, _: &LiveId) -> StoreResult<Option<Duration>> {
        unused()
    }

    async fn begin_close(&self, wish: &CloseLive) -> StoreResult<CloseReply> {
        let at = self.tick();
        let mut tables = self.tables()?;
        let Some(record) = tables.lives.get_mut(&wish.live) else {
            return Ok(CloseReply::Absent);
        };
        if record.state == LiveState::Closed {
            return Ok(CloseReply::Closed(record.clone()));
        }
        record.state = LiveState::Closing;
        record.closure = Some(Closure { reason: wish.reason, at });
        Ok(CloseReply::Closing(record.clone()))
    }

    async fn finish_close(&self, live: &LiveId, _: Epoch) -> StoreResult<Option<LiveRecord>> {
        let mut tables = self.tables()?;
        tables.fans.retain(|(of, _), _| of != live);
        let record = tables.lives.get_mut(live);
        Ok(record.map(|record| {
            record.state = LiveState::Closed;
            record.clone()
        }))
    }

    /// Lists closed lives too: a list may lag behind the records.
    async fn lives_page(&self, after: Option<&ListedLive>, limit: usize) -> StoreResult<Vec<ListedLive>> {
        assert!(limit <= MAX_BATCH);
        let tables = self.tables()?;
        let listed = |r: &LiveRecord| ListedLive { live: r.live.clone(), opened_at: r.opened_at };
        let mut lives: Vec<_> = tables.lives.values().map(listed).collect();
        let place = |l: &ListedLive| (l.opened_at, l.live.clone());
        lives.sort_by_key(place);
        lives.retain(|l| after.is_none_or(|after| place(l) > place(after)));
        lives.truncate(limit);
        Ok(lives)
    }

    async fn delist(&self, _: &LiveId) -> StoreResult<()> {
        unused()
    }

    async fn take_sweeper_turn(&self, _: &GatewayId, _: Duration) -> StoreResult<bool> {
        unused()
    }
}

#[async_trait]
impl Slices for FakeStore {
    async fn apply(&self, _: &Apply) -> StoreResult<ApplyReply> {
        unused()
    }

    async fn view_slice(&self, slice: &SliceId, _: Duration) -> StoreResult<SliceView> {
        let card = self.tables()?.fans.get(&(slice.live.clone(), slice.index)).map_or(0, Vec::len) as u64;
        Ok(SliceView { card, held: 0, at: self.tick(), silent: Vec::new() })
    }

    async fn sweep(&self, _: &SliceId, _: &GatewayId, _: Duration) -> StoreResult<Swept> {
        unused()
    }

    async fn close_slice(&self, slice: &SliceId, _: Epoch) -> StoreResult<()> {
        self.tables()?.fans.remove(&(slice.live.clone(), slice.index));
        Ok(())
    }

    async fn fence(&self, _: &SliceId) -> StoreResult<Option<Epoch>> {
        unused()
    }

    async fn check_slice(&self, _: &CheckSlice) -> StoreResult<CheckedPage> {
        unused()
    }

    async fn held_page(&self, _: &SliceId, _: &GatewayId, _: u64) -> StoreResult<HeldPage> {
        unused()
    }

    /// Every page begins with the last member of the one before it, and the first comes again at the end.
    async fn fans_page(&self, slice: &SliceId, cursor: u64) -> StoreResult<MemberPage> {
        self.scans.fetch_add(u64::from(cursor == 0), Ordering::SeqCst);
        let fans = self.tables()?.fans.get(&(slice.live.clone(), slice.index)).cloned().unwrap_or_default();
        let from = cursor as usize;
        let to = (from + SCAN_PAGE).min(fans.len());
        let mut users = fans[from.saturating_sub(1).min(to)..to].to_vec();
        if to == fans.len() {
            users.extend(fans.first().cloned());
        }
        Ok(MemberPage { users, next: (to < fans.len()).then_some(to as u64) })
    }

    async fn is_fan_online(&self, slice: &SliceId, user: &UserId) -> StoreResult<bool> {
        Ok(self.tables()?.fans.get(&(slice.live.clone(), slice.index)).is_some_and(|fans| fans.contains(user)))
    }
}

#[async_trait]
impl Viewers for FakeStore {
    async fn say_viewers(&self, _: &SayViewers) -> StoreResult<ViewersReply> {
        unused()
    }

    async fn view_viewers(&self, _: &LiveId, _: Epoch, _: Duration) -> StoreResult<ViewersReply> {
        self.tables().map(|_| ViewersReply::Known { begins: true, gateways: Vec::new() })
    }

    async fn forget_viewers(&self, _: &LiveId, _: &GatewayId, _: u64) -> StoreResult<()> {
        unused()
    }

    async fn close_viewers(&self, _: &LiveId, _: Epoch) -> StoreResult<()> {
        self.tables().map(drop)
    }
}

#[async_trait]
impl Renewals for FakeStore {
    async fn renew(&self, _: &GatewayId, lives: &[Renewal]) -> Vec<Found> {
        vec![Found::Nothing; lives.len()]
    }
}

#[async_trait]
impl Leases for FakeStore {
    async fn renew_own_lease(&self, _: &GatewayId, _: Duration, _: UnixMillis) -> StoreResult<Option<OwnLease>> {
        Ok(None)
    }
}

#[async_trait]
impl Surveys for FakeStore {
    async fn survey(&self, lives: &[LiveId], _: Survey) -> StoreResult<Vec<bool>> {
        Ok(vec![true; lives.len()])
    }
}

#[async_trait]
impl Moderation for FakeStore {
    async fn remove_user(&self, _: &RemoveUser) -> StoreResult<RemoveReply> {
        self.tables().map(|_| RemoveReply::Full)
    }

    async fn lift_ban(&self, _: &LiveId, _: Epoch, _: &UserId) -> StoreResult<LiftReply> {
        self.tables().map(|_| LiftReply::NotBanned)
    }

    async fn removals_since(&self, _: &LiveId, _: Epoch, _: u64) -> StoreResult<Option<Removals>> {
        unused()
    }

    async fn bans_page(&self, _: &LiveId, _: Option<&Ban>, _: usize) -> StoreResult<Vec<Ban>> {
        unused()
    }

    async fn restore_bans(&self, _: &LiveId, _: Epoch, _: &[(UserId, Duration)]) -> StoreResult<()> {
        unused()
    }
}

/// Nobody is there to hear anything.
#[async_trait]
impl Wire for FakeStore {
    async fn tell(&self, _: &Channel, _: String) -> StoreResult<()> {
        Ok(())
    }

    fn listen(&self, _: &LiveId) {}

    fn unlisten(&self, _: &LiveId) {}

    fn hear(&self) -> Hearing {
        Hearing::silence()
    }
}

#[async_trait]
impl Follows for FakeStore {
    async fn follow(&self, user: &UserId, streamer: &UserId) -> StoreResult<bool> {
        let at = self.tick();
        let mut tables = self.tables()?;
        let new = !tables.follows.iter().any(|(from, to)| from == user && to.user == *streamer);
        if new {
            tables.follows.push((user.clone(), Followed { user: streamer.clone(), at }));
        }
        Ok(new)
    }

    async fn unfollow(&self, user: &UserId, streamer: &UserId) -> StoreResult<bool> {
        let mut tables = self.tables()?;
        let before = tables.follows.len();
        tables.follows.retain(|(from, to)| from != user || to.user != *streamer);
        Ok(tables.follows.len() < before)
    }

    async fn follows(&self, _: &UserId, users: &[UserId]) -> StoreResult<Vec<bool>> {
        Ok(vec![false; users.len()])
    }

    async fn follower_count(&self, streamer: &UserId) -> StoreResult<u64> {
        Ok(self.tables()?.follows.iter().filter(|(_, to)| to.user == *streamer).count() as u64)
    }

    async fn follow_page(
        &self,
        user: &UserId,
        edge: Edge,
        after: Option<&Followed>,
        limit: usize,
    ) -> StoreResult<Vec<Followed>> {
        assert!(limit <= MAX_BATCH);
        let tables = self.tables()?;
        let ends = tables.follows.iter().filter_map(|(from, to)| match edge {
            Edge::Following => (from == user).then(|| to.clone()),
            Edge::Followers => (to.user == *user).then(|| Followed { user: from.clone(), at: to.at }),
        });
        let place = |f: &Followed| std::cmp::Reverse((f.at, f.user.clone()));
        let mut ends: Vec<_> = ends.filter(|f| after.is_none_or(|after| place(f) > place(after))).collect();
        ends.sort_by_key(place);
        ends.truncate(limit);
        Ok(ends)
    }
}
