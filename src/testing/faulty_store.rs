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
use tokio::time::Instant;

use crate::base::clock::{Clock, UnixMillis};
use crate::base::ids::{
    Epoch, ErasureId, GatewayId, Group, ListName, LiveId, Login, SliceId, UserId,
};
use crate::base::session_key::SessionKey;
use crate::base::webhook_name::WebhookName;
use crate::config::{AttendanceForm, SeenIds};
use crate::features::WholeStore;
use crate::features::attendance::store::*;
use crate::features::erasure::store::*;
use crate::features::feeds::store::fanout_jobs::*;
use crate::features::feeds::store::lists::*;
use crate::features::feeds::store::statuses::*;
use crate::features::feeds::store::timelines::*;
use crate::features::history::store::*;
use crate::features::media::store::*;
use crate::features::profiles::store::*;
use crate::features::webhooks::store::*;
use crate::presence::erasing::ErasureNews;
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
    /// Somebody closes the live just before its next change.
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

    /// From now on, messages on this live's channel get no answer.
    pub(crate) fn hangs_for(&self, live: &LiveId) {
        self.faults.lock().hung.insert(live.clone());
    }

    /// Somebody closes the next live that changes, just before.
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

impl WholeStore for FaultyStore {
    fn for_clients(self: Arc<Self>) -> Arc<dyn WholeStore> {
        self
    }
}

/// Implements a trait of the store. The embedded store answers the calls, unless this store is
/// broken. The calls after `else` are written out.
macro_rules! answered_by_the_embedded_store {
    (
        $trait:ident {
            $(fn $name:ident(&self $(, $arg:ident: $type:ty)* $(,)?) -> $reply:ty;)*
            $(else $($written:tt)*)?
        }
    ) => {
        #[async_trait]
        impl $trait for FaultyStore {
            $(async fn $name(&self $(, $arg: $type)*) -> StoreResult<$reply> {
                self.works(stringify!($name)).await?;
                self.inner.$name($($arg),*).await
            })*
            $($($written)*)?
        }
    };
}

answered_by_the_embedded_store! {
    LiveStore {
        fn open_live(&self, wish: &OpenLive) -> OpenReply;
        fn load_live(&self, live: &LiveId) -> Option<LiveRecord>;
        fn keep_live(&self, told: &LiveRecord, message: &str) -> Standing;
        fn list_live(&self, live: &LiveId, opened_at: UnixMillis) -> ();
        fn begin_close(&self, wish: &CloseLive) -> CloseReply;
        fn lives_page(&self, after: Option<&ListedLive>, limit: usize) -> Vec<ListedLive>;
        fn delist(&self, live: &LiveId) -> ();
        fn take_walk_turn(&self, gateway: &GatewayId, ttl: Duration, dead: &HashSet<GatewayId>) -> bool;
        else
        async fn change_live(&self, wish: &ChangeLive) -> StoreResult<ChangeReply> {
            self.works("change_live").await?;
            let is_closing = std::mem::take(&mut self.faults.lock().closing);
            if is_closing {
                let close = CloseLive {
                    live: wish.live.clone(),
                    epoch: wish.epoch,
                    reason: CloseReason::Requested,
                    peaks: Peaks::default(),
                    uniques: false,
                    message: String::new(),
                };
                self.inner.begin_close(&close).await?;
            }
            self.inner.change_live(wish).await
        }
        async fn load_lives(&self, lives: &[LiveId]) -> Vec<StoreResult<Option<LiveRecord>>> {
            match self.works("load_lives").await {
                Ok(()) => self.inner.load_lives(lives).await,
                Err(why) => lives.iter().map(|_| Err(why.clone())).collect(),
            }
        }

        async fn are_listed(&self, lives: &[LiveId]) -> StoreResult<Vec<bool>> {
            self.works("are_listed").await?;
            if self.faults.lock().list_away {
                return Err(lost());
            }
            self.inner.are_listed(lives).await
        }

        /// The live stays on the list: a list may lag behind the records.
        async fn finish_close(&self, request: &FinishClose) -> StoreResult<Option<LiveRecord>> {
            self.works("finish_close").await?;
            let record = self.inner.finish_close(request).await?;
            if let Some(record) = &record {
                self.inner.list_live(&request.live, record.opened_at).await?;
            }
            Ok(record)
        }
    }
}

answered_by_the_embedded_store! {
    Slices {
        fn apply(&self, call: &Apply) -> ApplyReply;
        fn claims_page(&self, slice: &SliceId, cursor: u64) -> ClaimsPage;
        fn is_member(&self, slice: &SliceId, group: Group, user: &UserId) -> bool;
        fn are_members(&self, slice: &SliceId, group: Group, users: &[UserId]) -> Vec<bool>;
        fn since_of(&self, slice: &SliceId, users: &[UserId]) -> Vec<Option<UnixMillis>>;
        else
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
            self.faults.lock().garbled.take_if(|garbled| *garbled == pass.slice);
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
        async fn members_page(&self, slice: &SliceId, group: Group, cursor: u64) -> StoreResult<MemberPage> {
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
            let next = if to < fans.len() { Some(to as u64) } else { None };
            Ok(MemberPage { users, next })
        }
    }
}

answered_by_the_embedded_store! {
    StreamStore {
        fn load_streams(&self, live: &LiveId) -> KnownStreams;
        fn write_streams(&self, wish: &WriteStreams) -> StreamsReply;
        fn note_publishing(&self, digest: &str, publishing: &Publishing, lifetime: Duration) -> ();
        fn find_publishing(&self, digest: &str) -> Option<Publishing>;
    }
}

answered_by_the_embedded_store! {
    Counts {
        fn count_live(&self, wish: &CountLive) -> CountReply;
        fn rank_lives(&self, figures: &[(LiveId, Figures)]) -> ();
        fn ranked_figures(&self, lives: &[LiveId]) -> Vec<Option<Figures>>;
        fn top_lives(&self, rank: Rank, after: Option<&RankedLive>, limit: usize) -> Vec<RankedLive>;
    }
}

answered_by_the_embedded_store! {
    History {
        fn history(&self, of: &LiveEpoch, from: UnixMillis, to: UnixMillis) -> Vec<Point>;
        fn add_past_live(&self, summary: &Summary, keep: Duration) -> ();
        fn past_lives(&self, streamer: &UserId, after: Option<&PastLive>, limit: usize) -> Vec<Summary>;
        fn past_live(&self, streamer: &UserId, of: &LiveEpoch) -> Option<Summary>;
    }
}

answered_by_the_embedded_store! {
    LeaseStore {
        fn renew_lease(&self, renewal: &RenewLease) -> LeaseReply;
        fn end_lease(&self, gateway: &GatewayId) -> ();
    }
}

answered_by_the_embedded_store! {
    Streamers {
        fn claim_live(&self, streamer: &UserId, live: &LiveId, limits: ClaimLimits) -> Claimed;
        fn release_live(&self, streamer: &UserId, live: &LiveId, until: UnixMillis) -> ();
    }
}

answered_by_the_embedded_store! {
    Moderation {
        fn remove_user(&self, wish: &RemoveUser) -> RemoveReply;
        fn lift_ban(&self, wish: &LiftBan) -> LiftReply;
        fn removals_since(&self, live: &LiveId, epoch: Epoch, since: u64) -> Option<Removals>;
        fn bans_page(&self, live: &LiveId, after: Option<&Ban>, limit: usize) -> Vec<Ban>;
        fn restore_bans(&self, live: &LiveId, epoch: Epoch, bans: &[(UserId, Duration)]) -> ();
    }
}

answered_by_the_embedded_store! {
    Events {
        fn append_events(&self, events: &[Event], kept: u64) -> ();
        fn drop_old_events(&self, ages: &EventAges) -> ();
        fn settle_events(&self, appended: &[(LiveId, Vec<u64>)]) -> ();
        fn note_counts(&self, live: &LiveId, epoch: Epoch) -> NotedCounts;
        fn read_events(&self, request: &ReadEvents) -> SenderTurn;
        fn acknowledge_events(&self, queue: &WebhookQueue, entries: &[EntryId]) -> ();
        fn bury_event(
            &self,
            queue: &WebhookQueue,
            gateway: &GatewayId,
            entry: EntryId,
            dead: &DeadEvent,
            kept: u64
        ) -> BuryReply;
        fn end_sending(&self, queue: &WebhookQueue, gateway: &GatewayId) -> ();
        fn dead_events(
            &self,
            webhook: &WebhookName,
            after: Option<EntryId>,
            limit: usize
        ) -> Vec<(EntryId, DeadEvent)>;
        fn replay_dead(&self, webhook: &WebhookName, entry: EntryId) -> bool;
        fn events_after(&self, after: EntryId, until: UnixMillis) -> Vec<StreamEvent>;
        fn replay_events(&self, webhook: &WebhookName, events: &[Event], kept: u64) -> ();
    }
}

answered_by_the_embedded_store! {
    Deliveries {
        fn note_deliveries(&self, webhook: &WebhookName, deliveries: &[Delivery]) -> ();
        fn deliveries(
            &self,
            webhook: &WebhookName,
            before: Option<EntryId>,
            limit: usize
        ) -> Vec<(EntryId, Delivery)>;
        fn webhook_status(&self, webhook: &WebhookName) -> WebhookStatus;
    }
}

answered_by_the_embedded_store! {
    Follows {
        fn follow(&self, user: &UserId, streamer: &UserId) -> bool;
        fn unfollow(&self, user: &UserId, streamer: &UserId) -> bool;
        fn follows(&self, streamer: &UserId, users: &[UserId]) -> Vec<bool>;
        fn follow_count(&self, user: &UserId, edge: Edge) -> u64;
        fn newest_followed(&self, user: &UserId, most: usize) -> Vec<UserId>;
        fn follow_page(&self, user: &UserId, edge: Edge, after: Option<&Followed>, limit: usize) -> Vec<Followed>;
        else
        async fn finish_changes(&self) -> (FinishedChanges, StoreResult<()>) {
            self.inner.finish_changes().await
        }

        async fn are_following(&self, pairs: &[(UserId, UserId)]) -> Vec<StoreResult<bool>> {
            self.inner.are_following(pairs).await
        }
    }
}

answered_by_the_embedded_store! {
    Profiles {
        fn put_profile(&self, user: &UserId, login: &Login, name: &str) -> PutProfile;
        fn profile(&self, user: &UserId) -> Option<Profile>;
    }
}

answered_by_the_embedded_store! {
    Statuses {
        fn put_post(&self, status: &StatusId, post: &Post) -> Post;
        fn drop_post(&self, status: &StatusId) -> bool;
        fn count_posts(&self, author: &UserId) -> u64;
        else
        async fn posts(&self, statuses: &[StatusId]) -> Vec<StoreResult<Option<Post>>> {
            self.inner.posts(statuses).await
        }
    }
}

answered_by_the_embedded_store! {
    Timelines {
        fn timeline_len(&self, timeline: &Timeline) -> u64;
        fn add_to_timelines(&self, entry: &Entry, to: &[Timeline], looked: Instant) -> ();
        fn add_entries(&self, timeline: &Timeline, entries: &[Entry]) -> ();
        fn remove_from_timelines(&self, status: &StatusId, from: &[Timeline]) -> ();
        fn remove_entries(&self, timeline: &Timeline, statuses: &[StatusId]) -> ();
        else
        async fn read_timelines(
            &self,
            asked: &[(Timeline, Option<Entry>)],
            limit: usize,
        ) -> Vec<StoreResult<Vec<Entry>>> {
            if let Err(why) = self.works("read_timelines").await {
                return asked.iter().map(|_| Err(why.clone())).collect();
            }
            self.inner.read_timelines(asked, limit).await
        }

        async fn are_on_timelines(&self, asked: &[(Timeline, StatusId)]) -> Vec<StoreResult<bool>> {
            self.inner.are_on_timelines(asked).await
        }
    }
}

answered_by_the_embedded_store! {
    UserLists {
        fn put_in_list(&self, owner: &UserId, list: &ListName, member: &UserId) -> PutInList;
        fn take_out_of_list(&self, owner: &UserId, list: &ListName, member: &UserId) -> bool;
        fn list_members(&self, owner: &UserId, list: &ListName) -> Vec<UserId>;
    }
}

answered_by_the_embedded_store! {
    Answers {
        fn claim_answer(&self, name: &AnswerName, claim: &str, keep: Duration) -> Option<String>;
        fn keep_answer(&self, name: &AnswerName, claim: &str, answer: &str, keep: Duration) -> String;
    }
}

answered_by_the_embedded_store! {
    SessionEnds {
        fn end_sessions(&self, ended: &[EndedSession], message: &str) -> ();
        fn ended_sessions(&self, keys: &[SessionKey]) -> Vec<EndedSession>;
    }
}

answered_by_the_embedded_store! {
    SharedSecrets {
        fn share_secrets(&self, own: &[String]) -> Vec<String>;
    }
}

answered_by_the_embedded_store! {
    FanoutJobs {
        fn enqueue_fanout(&self, job: &Job) -> ();
        fn take_fanouts(&self, worker: &GatewayId, most: usize) -> TakenJobs;
        fn keep_fanout(&self, worker: &GatewayId, job: &TakenJob) -> bool;
        fn finish_fanout(&self, worker: &GatewayId, job: &TakenJob) -> ();
        fn is_being_added(&self, status: &StatusId) -> bool;
        fn pulled_authors(&self) -> Vec<(UserId, UnixMillis)>;
        fn pulled_since(&self, author: &UserId) -> Option<UnixMillis>;
        fn set_pulled(&self, author: &UserId, since: Option<UnixMillis>) -> ();
    }
}

answered_by_the_embedded_store! {
    Erasures {
        fn ask_erasure(&self, user: &UserId) -> ErasureId;
        fn erasure(&self, id: &ErasureId) -> Option<Erasure>;
        fn erasure_news(&self, after: UnixMillis) -> ErasureNews;
        fn take_erasure(&self, worker: &GatewayId) -> Option<TakenErasure>;
        fn keep_erasure(&self, worker: &GatewayId, taken: &TakenErasure) -> bool;
        fn finish_erasure(&self, worker: &GatewayId, taken: &TakenErasure) -> ();
        fn erase_some(&self, user: &UserId, place: &str) -> ErasedSome;
    }
}

answered_by_the_embedded_store! {
    LastSeen {
        fn fix_seen_ids(&self, ids: SeenIds) -> SeenIds;
        fn note_seen(&self, seen: &[(UserId, UnixMillis)], apart: Duration) -> Vec<(UserId, UnixMillis)>;
        fn seen_in_slice(&self, slice: u32, from: UnixMillis, after: Option<&Seen>, limit: usize) -> Vec<Seen>;
        fn forget_seen(&self, slice: u32, before: UnixMillis) -> u64;
        else
        fn seen_order(&self) -> SeenIds {
            self.inner.seen_order()
        }
    }
}

answered_by_the_embedded_store! {
    OnlineUsers {
        fn count_online(&self, span: Span) -> OnlineCount;
        fn presence_of(&self, users: &[UserId]) -> Vec<UserPresence>;
        fn whereabouts_of(&self, users: &[UserId]) -> Vec<Whereabouts>;
    }
}

answered_by_the_embedded_store! {
    Attendance {
        fn fix_attendance_form(&self, form: AttendanceForm) -> AttendanceForm;
        fn begin_attendance(&self, of: &LiveEpoch, attended: &Attended) -> ();
        fn note_attendance(&self, of: &LiveEpoch, users: &[UserId]) -> Vec<UserId>;
        fn end_attendance(&self, of: &LiveEpoch, closed_at: UnixMillis) -> ();
        fn attended(&self, of: &LiveEpoch) -> Option<Attended>;
        fn attended_lives(&self, streamer: &UserId, from: UnixMillis, limit: usize) -> Vec<LiveEpoch>;
        fn attendance_parts(&self, lives: &[LiveEpoch]) -> Vec<u32>;
        fn attendees(&self, which: Attending, lives: &[LiveEpoch], part: u32) -> Attendees;
        fn have_attended(&self, of: &LiveEpoch, users: &[UserId]) -> Vec<bool>;
        fn attendance_due(&self, now: UnixMillis, limit: usize) -> Vec<LiveEpoch>;
        fn renew_attendance(&self, of: &LiveEpoch, attended: &Attended, next: UnixMillis) -> ();
        fn forget_attendance(&self, of: &LiveEpoch, attended: Option<&Attended>) -> ();
    }
}

answered_by_the_embedded_store! {
    LatestStays {
        fn latest_sessions(&self, of: &LiveEpoch, slices: u32, users: &[UserId]) -> Vec<Option<Stay>>;
    }
}

answered_by_the_embedded_store! {
    Sessions {
        fn count_sessions(&self, of: &LiveEpoch, slices: u32, span: Span) -> u64;
        fn sessions_in_slice(
            &self,
            of: &LiveEpoch,
            slice: &SliceId,
            from: UnixMillis,
            after: Option<&SessionPlace>,
            limit: usize,
        ) -> Vec<Session>;
        fn were_there(&self, of: &LiveEpoch, attended: &Attended, users: &[UserId], span: Span) -> Vec<bool>;
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
