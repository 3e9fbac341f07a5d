//! A store for unit tests: the embedded store, whose calls a test can make fail, all or some. It
//! repeats members as SSCAN may, its list of open lives lags behind the records, and it counts
//! calls.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::base::clock::{Clock, UnixMillis};
use crate::base::ids::{Epoch, GatewayId, Group, LiveId, SliceId, UserId};
use crate::features::WholeStore;
use crate::store::calls::{Call, CallCopy, Door};
use crate::store::memory::MemoryStore;
use crate::store::*;

/// Members of a page; small, so that a scan takes several.
const SCAN_PAGE: usize = 3;

/// How long a call waits for a node that hangs.
const CALL_DEADLINE: Duration = Duration::from_secs(1);

/// The name of the gateway whose users [`FaultyStore::comes`] brings.
pub(crate) const ELSEWHERE: &str = "elsewhere";

/// Which calls have no answer while the others have.
#[derive(Default)]
struct Faults {
    /// The call of this name that comes after this number of others fails.
    once: Option<(&'static str, usize)>,
    /// Calls of this name wait for ever.
    hanging: Option<&'static str>,
    /// Looks at many slices learn nothing of this one.
    away: Option<SliceId>,
    /// Checks learn nothing of the list of open lives.
    list_away: bool,
    /// Another program has garbled this slice.
    garbled: Option<SliceId>,
    /// Somebody closes all lives just before the next change of one.
    closing: bool,
    /// Lives on whose channels messages hang.
    hung: HashSet<LiveId>,
}

/// The store.
pub(crate) struct FaultyStore {
    inner: MemoryStore,
    health: watch::Sender<Health>,
    broken: AtomicBool,
    faults: Mutex<Faults>,
    /// How many messages hang.
    publishing: AtomicU64,
    /// Numbers for the calls of the gateway that tests speak for.
    numbers: AtomicU64,
    /// How many reads of a slice began.
    pub(crate) scans: AtomicU64,
    /// How many calls came.
    pub(crate) calls: AtomicU64,
    /// Where messages of some gateway do not arrive.
    pub(crate) unheard: watch::Sender<Option<Doubt>>,
}

impl FaultyStore {
    pub(crate) fn new() -> Self {
        Self {
            inner: MemoryStore::new(Clock::start()),
            health: watch::Sender::new(Health::Up),
            broken: AtomicBool::default(),
            faults: Mutex::default(),
            publishing: AtomicU64::default(),
            numbers: AtomicU64::new(1),
            scans: AtomicU64::default(),
            calls: AtomicU64::default(),
            unheard: watch::Sender::new(None),
        }
    }

    /// The store behind the faults.
    pub(crate) fn memory(&self) -> &MemoryStore {
        &self.inner
    }

    /// From now on every call fails.
    pub(crate) fn breaks(&self) {
        self.broken.store(true, Ordering::SeqCst);
        self.health.send_replace(Health::Down);
    }

    /// From now on every call has an answer.
    pub(crate) fn heals(&self) {
        self.broken.store(false, Ordering::SeqCst);
        *self.faults.lock() = Faults::default();
        self.health.send_replace(Health::Up);
    }

    /// The call of this name that comes after `after` others fails, once.
    pub(crate) fn fails_once(&self, call: &'static str, after: usize) {
        self.faults.lock().once = Some((call, after));
    }

    /// From now on calls of this name wait for ever.
    pub(crate) fn hangs(&self, call: &'static str) {
        self.faults.lock().hanging = Some(call);
    }

    /// From now on looks and checks learn nothing of a slice, as if its node were away.
    pub(crate) fn loses(&self, slice: &SliceId) {
        self.faults.lock().away = Some(slice.clone());
    }

    /// From now on checks learn nothing of the list of open lives, as if its node were away.
    pub(crate) fn loses_the_list(&self) {
        self.faults.lock().list_away = true;
    }

    /// From now on looks at a slice and its close are answered with nonsense, until a pass.
    pub(crate) fn garbles(&self, slice: &SliceId) {
        self.faults.lock().garbled = Some(slice.clone());
    }

    /// Another program adds a user to the public set of a slice's members.
    pub(crate) fn adds_stranger(&self, slice: &SliceId, user: &UserId) {
        self.inner.write_as_another_program(slice, |slice| {
            slice.add_stranger(Group::All, user);
        });
    }

    /// From now on, messages on this live's channel get no answer.
    pub(crate) fn hangs_for(&self, live: &LiveId) {
        self.faults.lock().hung.insert(live.clone());
    }

    /// Somebody closes all lives just before the next change of one.
    pub(crate) fn closes_before_a_change(&self) {
        self.faults.lock().closing = true;
    }

    /// How many messages hang.
    pub(crate) fn publishing(&self) -> u64 {
        self.publishing.load(Ordering::SeqCst)
    }

    /// Another gateway claims a user as a fan, in the slice that is the user's.
    pub(crate) fn comes(&self, live: &str, user: &str) {
        self.changes(&LiveId::parse(live).unwrap(), user, |call, user| {
            call.fans.push(user)
        });
    }

    /// Another gateway claims a user no longer, in any live.
    pub(crate) fn goes(&self, user: &str) {
        for listed in at_once(self.inner.lives_page(None, MAX_BATCH)).unwrap() {
            self.changes(&listed.live, user, |call, user| call.leaves.push(user));
        }
    }

    fn changes(&self, live: &LiveId, user: &str, change: impl FnOnce(&mut Apply, UserId)) {
        let user = UserId::parse(user).unwrap();
        let gateway = GatewayId::parse(ELSEWHERE).unwrap();
        let record = at_once(self.inner.load_live(live))
            .unwrap()
            .expect("a live");
        let slice = SliceId::of_live(live.clone(), user.slice_index(record.slices), record.slices);
        let slices = [slice.clone()];
        let mut looks = at_once(self.inner.look(&slices, &gateway, Entries::Own));
        let look = looks.remove(0).unwrap();
        let follows = match look.entry {
            Some(SliceEntry::At { number, .. })
                if look.fence == Some(Fence::Open(record.epoch)) =>
            {
                Some(number)
            }
            _ => None,
        };
        let number = self.numbers.fetch_add(1, Ordering::SeqCst);
        let mut call = Apply {
            slice,
            epoch: record.epoch,
            gateway,
            number,
            follows,
            known: SliceSize::default(),
            more: false,
            bye: false,
            uniques: true,
            joins: Vec::new(),
            fans: Vec::new(),
            since: Vec::new(),
            lives: Vec::new(),
            leaves: Vec::new(),
            left: None,
        };
        change(&mut call, user);
        let reply = at_once(self.inner.apply(&call)).unwrap();
        assert!(matches!(reply, ApplyReply::Done(_)), "{reply:?}");
    }

    async fn works(&self, call: &str) -> StoreResult<()> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        if self.faults.lock().hanging == Some(call) {
            std::future::pending::<()>().await;
        }
        if self.broken.load(Ordering::SeqCst) || self.fails_now(call) {
            return Err(lost());
        }
        Ok(())
    }

    fn fails_now(&self, call: &str) -> bool {
        let once = &mut self.faults.lock().once;
        match once {
            Some((name, 0)) if *name == call => once.take().is_some(),
            Some((name, after)) if *name == call => {
                *after -= 1;
                false
            }
            _ => false,
        }
    }

    fn closes_now(&self) -> bool {
        std::mem::take(&mut self.faults.lock().closing)
    }

    /// Somebody closes all lives.
    async fn close_all(&self) -> StoreResult<()> {
        for ListedLive { live, .. } in self.inner.lives_page(None, MAX_BATCH).await? {
            let Some(record) = self.inner.load_live(&live).await? else {
                continue;
            };
            let close = CloseLive {
                live,
                epoch: record.epoch,
                reason: CloseReason::Requested,
                peaks: Peaks::default(),
                uniques: false,
                message: String::new(),
            };
            self.inner.begin_close(&close).await?;
        }
        Ok(())
    }

    fn is_list_away(&self) -> bool {
        self.faults.lock().list_away
    }

    fn is_away(&self, slice: &SliceId) -> bool {
        self.faults.lock().away.as_ref() == Some(slice)
    }

    fn is_garbled(&self, slice: &SliceId) -> bool {
        self.faults.lock().garbled.as_ref() == Some(slice)
    }
}

fn lost() -> StoreError {
    StoreError::Lost("redis.internal:6379".to_owned())
}

fn garbled_key() -> StoreError {
    StoreError::Nonsense("WRONGTYPE".to_owned())
}

/// The answer of a call that waits for nothing. The calls of the embedded store are such.
fn at_once<T>(call: impl Future<Output = T>) -> T {
    call.now_or_never().expect("an answer at once")
}

impl Status for FaultyStore {
    fn health(&self) -> watch::Receiver<Health> {
        self.health.subscribe()
    }

    fn parts(&self) -> watch::Receiver<Arc<Parts>> {
        self.inner.parts()
    }

    fn kind(&self) -> &'static str {
        self.inner.kind()
    }
}

impl Store for FaultyStore {}

impl WholeStore for FaultyStore {
    fn for_clients(self: Arc<Self>) -> Arc<dyn WholeStore> {
        self
    }
}

impl Door for FaultyStore {
    type Behind = MemoryStore;

    fn behind(&self) -> &MemoryStore {
        &self.inner
    }

    async fn through<T: Send + 'static>(
        &self,
        call: Call<'_>,
        answer: impl Future<Output = StoreResult<T>> + Send,
        _copy: impl FnOnce() -> CallCopy<MemoryStore, T> + Send,
    ) -> StoreResult<T> {
        self.works(call.name).await?;
        match call.name {
            "change_live" if self.closes_now() => {
                self.close_all().await?;
                answer.await
            }
            "are_listed" if self.is_list_away() => Err(lost()),
            "finish_close" => {
                let listed = self.inner.lives_page(None, MAX_BATCH).await?;
                let closed = answer.await;
                // A list may lag behind the records, so the live stays on it.
                for ListedLive { live, opened_at } in listed {
                    self.inner.list_live(&live, opened_at).await?;
                }
                closed
            }
            _ => answer.await,
        }
    }
}

#[async_trait]
impl Slices for FaultyStore {
    async fn apply(&self, call: &Apply) -> StoreResult<ApplyReply> {
        self.works("apply").await?;
        self.inner.apply(call).await
    }

    async fn claims_page(&self, slice: &SliceId, cursor: u64) -> StoreResult<ClaimsPage> {
        self.works("claims_page").await?;
        self.inner.claims_page(slice, cursor).await
    }

    async fn is_member(&self, slice: &SliceId, group: Group, user: &UserId) -> StoreResult<bool> {
        self.works("is_member").await?;
        self.inner.is_member(slice, group, user).await
    }

    async fn are_members(
        &self,
        slice: &SliceId,
        group: Group,
        users: &[UserId],
    ) -> StoreResult<Vec<bool>> {
        self.works("are_members").await?;
        self.inner.are_members(slice, group, users).await
    }

    async fn since_of(
        &self,
        slice: &SliceId,
        users: &[UserId],
    ) -> StoreResult<Vec<Option<UnixMillis>>> {
        self.works("since_of").await?;
        self.inner.since_of(slice, users).await
    }

    async fn look(
        &self,
        slices: &[SliceId],
        gateway: &GatewayId,
        entries: Entries,
    ) -> Vec<StoreResult<SliceLook>> {
        if let Err(why) = self.works("look").await {
            return slices.iter().map(|_| Err(why.clone())).collect();
        }
        let mut found = self.inner.look(slices, gateway, entries).await;
        for (slice, found) in slices.iter().zip(&mut found) {
            if self.is_garbled(slice) {
                *found = Err(garbled_key());
            } else if self.is_away(slice) {
                *found = Err(lost());
            }
        }
        found
    }

    /// Replaces what garbled the slice.
    async fn pass(&self, pass: &Pass) -> StoreResult<Option<Passed>> {
        self.works("pass").await?;
        self.faults
            .lock()
            .garbled
            .take_if(|garbled| *garbled == pass.slice);
        self.inner.pass(pass).await
    }

    async fn close_slice(&self, slice: &SliceId, epoch: Epoch) -> StoreResult<SliceTotals> {
        self.works("close_slice").await?;
        if self.is_garbled(slice) {
            return Err(garbled_key());
        }
        self.inner.close_slice(slice, epoch).await
    }

    /// Every page begins with the last member of the one before it, and the first comes again
    /// at the end.
    async fn members_page(
        &self,
        slice: &SliceId,
        group: Group,
        cursor: u64,
    ) -> StoreResult<MemberPage> {
        self.works("members_page").await?;
        if cursor == 0 {
            self.scans.fetch_add(1, Ordering::SeqCst);
        }
        let MemberPage { users: fans, next } = self.inner.members_page(slice, group, 0).await?;
        assert_eq!(next, None, "no test has more fans than fit a page");
        let from = cursor as usize;
        let to = (from + SCAN_PAGE).min(fans.len());
        let mut users = fans[from.saturating_sub(1).min(to)..to].to_vec();
        if to == fans.len() {
            users.extend(fans.first().cloned());
        }
        let next = if to < fans.len() {
            Some(to as u64)
        } else {
            None
        };
        Ok(MemberPage { users, next })
    }
}

#[async_trait]
impl Bus for FaultyStore {
    async fn publish(&self, channel: &Channel, message: String) -> StoreResult<u64> {
        self.works("publish").await?;
        if matches!(channel, Channel::Live(live) if self.faults.lock().hung.contains(live)) {
            self.publishing.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(CALL_DEADLINE).await;
            self.publishing.fetch_sub(1, Ordering::SeqCst);
            return Err(StoreError::Timeout);
        }
        self.inner.publish(channel, message).await
    }

    fn subscribe(&self, live: &LiveId) {
        self.inner.subscribe(live);
    }

    fn unsubscribe(&self, live: &LiveId) {
        self.inner.unsubscribe(live);
    }

    fn hear_moves(&self, live: &LiveId) {
        self.inner.hear_moves(live);
    }

    fn ignore_moves(&self, live: &LiveId) {
        self.inner.ignore_moves(live);
    }

    fn ask_ready(&self, channel: &Channel) {
        self.inner.ask_ready(channel);
    }

    fn events(&self) -> BusEvents {
        self.inner.events()
    }

    fn unheard(&self) -> watch::Receiver<Option<Doubt>> {
        self.unheard.subscribe()
    }
}
