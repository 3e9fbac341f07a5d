//! What every store promises, written once and run on each: on memory, on one Redis server and on a
//! Redis Cluster.

use rollcall::features::WholeStore;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rollcall::base::clock::{Clock, UnixMillis};
use rollcall::base::ids::{Epoch, GatewayId, Group, LiveId, OnlineSet, SliceId, UserId};
use rollcall::base::key_prefix::KeyPrefix;
use rollcall::base::metrics::Metrics;
use rollcall::base::secret::Secret;
use rollcall::store::memory::MemoryStore;
use rollcall::store::redis::{Access, ConnectError, RedisStore};
use rollcall::store::{
    Apply, ApplyRefusal, ApplyReply, Arrived, ClaimedUser, CloseLive, CloseReason, Drift, Entries,
    Fence, FinishClose, LiveRecord, LivingGateway, OpenLive, OpenReply, OpenedBy, Pass, Peaks,
    RecordEvents, SliceEntry, SliceLook, SliceSize, StoreResult, Terms, Uniques,
};

use crate::acl::Cluster;
use crate::redis_server::RedisServer;

mod answers;
mod attendance;
mod confirmed;
mod counts;
mod erasures;
mod events;
mod feeds;
mod follows;
mod former;
mod guests;
mod history;
mod infos;
mod leases;
mod lives;
mod messages;
mod other_sets;
mod passes;
mod profiles;
mod rebuilds;
mod removals;
mod rules;
mod session_ends;
mod sessions;
mod setups;
mod shared_secrets;
mod slices;
mod streamers;
mod streams;
mod visits;
mod wire;

pub use setups::{
    OPEN, arrived, closing, counting, figures, finish, given_up, is_fan, is_seen, later, lifting,
    loaded, named, paged, peaks, reads_new, removal, renewal, renewed, streamers_slice,
    users_slice, wish_of,
};

/// A time that no test outlives.
pub const LONG: Duration = Duration::from_secs(3600);

/// One test for each listed case on memory and on one server, and a function that runs all of them
/// on a cluster.
macro_rules! on_each {
    ($($case:ident),* $(,)?) => {
        mod on_memory {
            $(#[tokio::test]
            async fn $case() {
                super::$case(crate::conformance::memory()).await;
            })*
        }
        mod on_redis {
            $(#[tokio::test]
            async fn $case() {
                let server = crate::redis_server::RedisServer::start().await;
                super::$case(crate::conformance::redis(&server).await).await;
            })*
        }
        pub async fn on_cluster(cluster: &mut crate::acl::Cluster) {
            $(
                let store = cluster.begins(stringify!($case)).await;
                Box::pin($case(store)).await;
            )*
        }
    };
}
pub(crate) use on_each;

/// Every case on a cluster, one after the other.
pub async fn on_cluster(cluster: &mut Cluster) {
    answers::on_cluster(cluster).await;
    attendance::on_cluster(cluster).await;
    confirmed::on_cluster(cluster).await;
    counts::on_cluster(cluster).await;
    erasures::on_cluster(cluster).await;
    events::on_cluster(cluster).await;
    feeds::on_cluster(cluster).await;
    follows::on_cluster(cluster).await;
    guests::on_cluster(cluster).await;
    history::on_cluster(cluster).await;
    infos::on_cluster(cluster).await;
    leases::on_cluster(cluster).await;
    lives::on_cluster(cluster).await;
    messages::on_cluster(cluster).await;
    other_sets::on_cluster(cluster).await;
    passes::on_cluster(cluster).await;
    profiles::on_cluster(cluster).await;
    rebuilds::on_cluster(cluster).await;
    removals::on_cluster(cluster).await;
    rules::on_cluster(cluster).await;
    session_ends::on_cluster(cluster).await;
    sessions::on_cluster(cluster).await;
    shared_secrets::on_cluster(cluster).await;
    slices::on_cluster(cluster).await;
    streamers::on_cluster(cluster).await;
    streams::on_cluster(cluster).await;
    visits::on_cluster(cluster).await;
    wire::on_cluster(cluster).await;
}

pub fn memory() -> Arc<dyn WholeStore> {
    Arc::new(MemoryStore::new(Clock::start()))
}

pub async fn redis(server: &RedisServer) -> Arc<dyn WholeStore> {
    Arc::new(connect(&server.url()).await)
}

pub async fn connect(url: &str) -> RedisStore {
    try_connect(url, None).await.expect("a store")
}

pub async fn try_connect(url: &str, ca: Option<PathBuf>) -> Result<RedisStore, ConnectError> {
    open(url, KeyPrefix::default(), ca).await
}

/// The store of an installation whose keys begin so.
pub async fn connect_as(url: &str, prefix: &str) -> RedisStore {
    let prefix = KeyPrefix::parse(prefix).expect("a prefix");
    open(url, prefix, None).await.expect("a store")
}

async fn open(
    url: &str,
    prefix: KeyPrefix,
    ca: Option<PathBuf>,
) -> Result<RedisStore, ConnectError> {
    let url = Secret::new(url);
    RedisStore::open(Access { url, prefix, ca }, Arc::new(Metrics::default())).await
}

pub fn user(n: usize) -> UserId {
    UserId::parse(&format!("u{n:06}")).expect("an id")
}

pub fn users(from: usize, to: usize) -> Vec<UserId> {
    (from..to).map(user).collect()
}

pub fn live(name: &str) -> LiveId {
    LiveId::parse(name).expect("an id")
}

pub fn gateway(name: &str) -> GatewayId {
    GatewayId::parse(name).expect("an id")
}

/// A living gateway that is heard everywhere.
pub fn living_gateway(name: &str, count: u64) -> LivingGateway {
    LivingGateway {
        gateway: gateway(name),
        count,
        unheard: BTreeSet::new(),
    }
}

pub fn slice() -> SliceId {
    SliceId::of_live(live("42"), 1, 1)
}

pub fn wish(name: &str) -> OpenLive {
    let message = format!("{name} opened");
    let (by, terms) = (OpenedBy::Service, Terms::default());
    OpenLive {
        live: live(name),
        streamer: user(9),
        slices: 1,
        by,
        terms,
        message,
    }
}

/// Opens a live of one slice. Its event is told.
pub async fn opened(store: &Arc<dyn WholeStore>, name: &str) -> LiveRecord {
    opened_as(store, &wish(name)).await
}

pub async fn opened_as(store: &Arc<dyn WholeStore>, wish: &OpenLive) -> LiveRecord {
    let record = opened_untold(store, wish).await;
    let numbers: Vec<u64> = record
        .events
        .pending
        .iter()
        .map(|event| event.number)
        .collect();
    store
        .settle_events(&[(record.live.clone(), numbers)])
        .await
        .expect("an answer");
    LiveRecord {
        events: RecordEvents::default(),
        stream: None,
        ..record
    }
}

/// The same, and the event waits in the record.
pub async fn opened_untold(store: &Arc<dyn WholeStore>, wish: &OpenLive) -> LiveRecord {
    match store.open_live(wish).await.expect("an answer") {
        OpenReply::Opened(record) => record,
        other => panic!("{other:?}"),
    }
}

/// A wish to close what is open.
pub fn end(record: &LiveRecord) -> CloseLive {
    CloseLive {
        live: record.live.clone(),
        epoch: record.epoch,
        reason: CloseReason::Requested,
        peaks: Peaks::default(),
        uniques: true,
        message: format!("{} closes", record.live),
    }
}

/// Ends a close in which nobody was counted.
pub async fn finish_close(
    store: &Arc<dyn WholeStore>,
    live: &LiveId,
    epoch: Epoch,
    keep: Duration,
) -> StoreResult<Option<LiveRecord>> {
    let (arrived, uniques) = (Arrived::default(), Some(Uniques::default()));
    store
        .finish_close(&FinishClose {
            live: live.clone(),
            epoch,
            arrived,
            uniques,
            keep,
        })
        .await
}

/// A gateway as the store sees it: it numbers its calls, believes in an epoch and knows the number
/// of its entry.
pub struct Caller {
    pub store: Arc<dyn WholeStore>,
    pub slice: SliceId,
    pub name: GatewayId,
    pub epoch: u64,
    pub number: u64,
    pub entry: Option<u64>,
}

impl Caller {
    pub fn new(store: &Arc<dyn WholeStore>, name: &str) -> Self {
        Self {
            store: Arc::clone(store),
            slice: slice(),
            name: gateway(name),
            epoch: 1,
            number: 0,
            entry: None,
        }
    }

    pub fn in_slice(self, slice: SliceId) -> Self {
        Self { slice, ..self }
    }

    pub fn in_epoch(self, epoch: u64) -> Self {
        Self { epoch, ..self }
    }

    /// The next call, not sent. Who joins a live is a fan there, since the first millisecond.
    pub fn next(&mut self, follows: Option<u64>, joins: &[UserId], leaves: &[UserId]) -> Apply {
        self.number += 1;
        let (joins, fans) = match self.slice.live() {
            Some(_) => (Vec::new(), joins.to_vec()),
            None => (joins.to_vec(), Vec::new()),
        };
        Apply {
            slice: self.slice.clone(),
            epoch: Epoch(self.epoch),
            gateway: self.name.clone(),
            number: self.number,
            follows,
            known: SliceSize::default(),
            more: false,
            bye: false,
            uniques: self.slice.live().is_some(),
            since: vec![1; fans.len()],
            lives: if self.slice.set == OnlineSet::Users {
                vec![Vec::new(); joins.len()]
            } else {
                Vec::new()
            },
            joins,
            fans,
            left: None,
            leaves: leaves.to_vec(),
        }
    }

    pub async fn call(
        &mut self,
        follows: Option<u64>,
        joins: &[UserId],
        leaves: &[UserId],
    ) -> ApplyReply {
        let call = self.next(follows, joins, leaves);
        self.store.apply(&call).await.expect("an answer")
    }

    /// Makes a call that must be done.
    pub async fn makes(&mut self, call: &Apply) -> SliceSize {
        match self.store.apply(call).await.expect("an answer") {
            ApplyReply::Done(size) => {
                self.entry = (!call.bye).then_some(call.number);
                size
            }
            refused => panic!("{} was refused: {refused:?}", self.name),
        }
    }

    pub async fn done(
        &mut self,
        follows: Option<u64>,
        joins: &[UserId],
        leaves: &[UserId],
    ) -> SliceSize {
        let call = self.next(follows, joins, leaves);
        self.makes(&call).await
    }

    pub async fn registers(&mut self, joins: &[UserId]) -> SliceSize {
        self.done(None, joins, &[]).await
    }

    /// A call that follows the last one.
    pub async fn changes(&mut self, joins: &[UserId], leaves: &[UserId]) -> SliceSize {
        self.done(self.entry, joins, leaves).await
    }

    /// The same of a slice that keeps times: whoever joins or leaves does so at this time.
    pub async fn changes_at(
        &mut self,
        at: UnixMillis,
        joins: &[UserId],
        leaves: &[UserId],
    ) -> SliceSize {
        let call = Apply {
            since: vec![at; joins.len()],
            left: Some(vec![at; leaves.len()]),
            ..self.next(self.entry, joins, leaves)
        };
        self.makes(&call).await
    }

    pub async fn joins(&mut self, joins: &[UserId]) -> SliceSize {
        self.changes(joins, &[]).await
    }

    pub async fn leaves(&mut self, leaves: &[UserId]) -> SliceSize {
        self.changes(&[], leaves).await
    }

    /// A call that changes nothing but the number.
    pub async fn moves_on(&mut self) -> SliceSize {
        self.changes(&[], &[]).await
    }

    /// A call that says of these users that they are there and no fans.
    pub async fn are_no_fans(&mut self, users: &[UserId]) -> SliceSize {
        let mut call = self.next(self.entry, users, &[]);
        call.joins = std::mem::take(&mut call.fans);
        self.makes(&call).await
    }

    /// The same call says that there is more to come.
    pub async fn says_some(&mut self, joins: &[UserId]) -> SliceSize {
        let call = Apply {
            more: true,
            ..self.next(self.entry, joins, &[])
        };
        self.makes(&call).await
    }

    pub async fn says_bye(&mut self) -> SliceSize {
        let call = Apply {
            bye: true,
            ..self.next(self.entry, &[], &[])
        };
        self.makes(&call).await
    }

    /// What the gateway finds.
    pub async fn looks(&self) -> SliceLook {
        look(&self.store, &self.slice, self.name.as_str()).await
    }

    /// A pass of this gateway through its slice, from its first page.
    pub fn pass(&self) -> Pass {
        pass(&self.slice, self.epoch)
    }
}

/// The answer to a call whose number does not fit, with the number of the entry that is there.
pub fn is_refused(reply: &ApplyReply, entry: Option<u64>) -> bool {
    matches!(reply, ApplyReply::Refused(ApplyRefusal { entry: found, .. }) if *found == entry)
}

/// An entry of a gateway that has said all.
pub fn at(number: u64) -> SliceEntry {
    SliceEntry::At {
        number,
        is_complete: true,
    }
}

/// A slice as a gateway finds it, with all entries, sorted.
pub async fn look(store: &Arc<dyn WholeStore>, slice: &SliceId, name: &str) -> SliceLook {
    try_look(store, slice, name).await.expect("a look")
}

pub async fn try_look(
    store: &Arc<dyn WholeStore>,
    slice: &SliceId,
    name: &str,
) -> StoreResult<SliceLook> {
    let slices = std::slice::from_ref(slice);
    let mut looks = store.look(slices, &gateway(name), Entries::All).await;
    let mut found = looks.remove(0)?;
    found.entries.sort_by(|(one, _), (other, _)| one.cmp(other));
    Ok(found)
}

/// The epoch of a slice's fence.
pub async fn fence(store: &Arc<dyn WholeStore>, slice: &SliceId) -> StoreResult<Option<Epoch>> {
    Ok(try_look(store, slice, "nobody")
        .await?
        .fence
        .map(Fence::epoch))
}

/// A pass through everything, from its first page. Its gateway knows nothing of the slice.
pub fn pass(slice: &SliceId, epoch: u64) -> Pass {
    Pass {
        slice: slice.clone(),
        epoch: Epoch(epoch),
        known: SliceSize::default(),
        wrong: None,
        dead: Vec::new(),
        from: None,
        only_claims: false,
    }
}

/// What all pages of a pass did.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct WholePass {
    pub pages: usize,
    pub released: u64,
    pub drift: Drift,
    /// The size after the last page.
    pub size: SliceSize,
}

/// Makes a pass, from its first page to the last. `None` if the slice does not belong to its epoch.
pub async fn passes(store: &Arc<dyn WholeStore>, mut pass: Pass) -> Option<WholePass> {
    let mut whole = WholePass::default();
    loop {
        let page = store.pass(&pass).await.expect("a page")?;
        whole.pages += 1;
        whole.released += page.released;
        whole.drift.stray += page.drift.stray;
        whole.drift.missing += page.drift.missing;
        whole.size = page.size;
        pass.from = page.next;
        if page.next.is_none() {
            return Some(whole);
        }
    }
}

/// Takes the claims of dead gateways out, each of which was heard last at the time beside it. Does
/// nothing to a slice of another epoch.
pub async fn sweep(
    store: &Arc<dyn WholeStore>,
    slice: &SliceId,
    epoch: u64,
    dead: &[(&str, UnixMillis)],
) -> WholePass {
    let pass = Pass {
        dead: dead.iter().map(|(name, at)| (gateway(name), *at)).collect(),
        only_claims: true,
        ..pass(slice, epoch)
    };
    passes(store, pass).await.unwrap_or_default()
}

/// Every fan of a slice of a live, or every user of another slice, sorted.
pub async fn fans(store: &Arc<dyn WholeStore>, slice: &SliceId) -> Vec<UserId> {
    members(
        store,
        slice,
        if slice.live().is_some() {
            Group::Fans
        } else {
            Group::All
        },
    )
    .await
}

/// Everybody in a group of a slice, sorted, by paging through it; nobody may be missed, and a page
/// is at most about 1,000.
pub async fn members(store: &Arc<dyn WholeStore>, slice: &SliceId, group: Group) -> Vec<UserId> {
    let mut all = Vec::new();
    let mut cursor = Some(0);
    while let Some(from) = cursor {
        let page = store
            .members_page(slice, group, from)
            .await
            .expect("a page");
        assert!(page.users.len() <= 1_200, "a page of {}", page.users.len());
        all.extend(page.users);
        cursor = page.next;
    }
    all.sort();
    all.dedup();
    all
}

/// Every user with a claim, sorted, by paging through them.
pub async fn claims(store: &Arc<dyn WholeStore>, slice: &SliceId) -> Vec<ClaimedUser> {
    let mut all: Vec<ClaimedUser> = Vec::new();
    let mut cursor = Some(0);
    while let Some(from) = cursor {
        let page = store.claims_page(slice, from).await.expect("a page");
        assert!(page.users.len() <= 1_200, "a page of {}", page.users.len());
        all.extend(page.users);
        cursor = page.next;
    }
    all.sort_by(|one, other| one.user.cmp(&other.user));
    all.dedup();
    all
}

/// Everybody on whom a gateway has a claim, sorted.
pub async fn claimed(store: &Arc<dyn WholeStore>, slice: &SliceId, by: &GatewayId) -> Vec<UserId> {
    let mut users = Vec::new();
    for claimed in claims(store, slice).await {
        if claimed.by.iter().any(|(of, _)| of.as_ref() == Some(by)) {
            users.push(claimed.user);
        }
    }
    users
}
