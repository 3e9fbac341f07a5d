//! The walk over all open lives. One gateway at a time walks, once per `check-every` and at once after a burial. The
//! walk sweeps the dead, finishes closes that another gateway began, closes slices of older epochs, notes gateways that
//! have an entry without a lease, finds lives whose streamer is gone, and removes strays.
//!
//! The walk goes on after an error in one live: a node that is away hides only its own lives.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use tokio_util::sync::CancellationToken;

use crate::base::clock::{Clock, Millis, millis};
use crate::base::ids::{GatewayId, LiveId, SliceId};
use crate::presence::gateways::Gateways;
use crate::presence::streamers::Streamers;
use crate::store::Fence;
use crate::store::{ListedLive, LiveRecord, LiveState, OpenedBy, SliceOwners, Store, StoreError, StoreResult};
use crate::sync::lives::Lives;
use crate::sync::streamer_timeout::StreamerTimeout;
use crate::sync::sweep::Sweeper;
use crate::sync::user_upkeep::UserUpkeep;

/// Lives looked after at a time.
const AT_A_TIME: usize = 64;

/// How many lives are read from the list at a time.
const PAGE: usize = 500;

/// One walk drops the announced viewers of at most this many dead gateways.
const MOST_FORGOTTEN: usize = 100;

/// One walk in this many searches a page of each slice for strays.
const STRAYS_ROUNDS: u64 = 10;

pub struct Walk {
    pub gateways: Arc<Gateways>,
    pub streamers: Arc<Streamers>,
    pub store: Arc<dyn Store>,
    pub lives: Arc<Lives>,
    pub sweeper: Arc<Sweeper>,
    pub streamer_timeout: Arc<StreamerTimeout>,
    /// `None` if it is not tracked who is online on the platform.
    pub users: Option<UserUpkeep>,
    pub clock: Clock,
    pub lease: Duration,
    pub lease_refresh: Duration,
    pub check_every: Duration,
}

/// What the walker remembers from one walk to the next.
#[derive(Debug, Default)]
struct WalkState {
    /// When the next walk is due; `None` while another gateway walks.
    next: Option<Millis>,
    round: u64,
    /// Lives that are listed without a record, and since when.
    unrecorded: HashMap<LiveId, Millis>,
    /// Lives that could not be looked after.
    failed: Vec<LiveId>,
    /// The dead gateways that the last walk knew of.
    known_dead: HashSet<GatewayId>,
    /// Where the next search for strays goes on in each slice.
    cursors: HashMap<SliceId, u64>,
    /// The dead gateways whose announced viewers this walk drops.
    to_forget: Arc<[GatewayId]>,
}

impl Walk {
    /// Runs until told to stop: walks when it is this gateway's turn.
    pub async fn run(self, stop: CancellationToken) {
        let mut turn = tokio::time::interval(self.lease_refresh);
        turn.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut memory = WalkState { round: rand::random_range(0..STRAYS_ROUNDS), ..WalkState::default() };
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = turn.tick() => {}
                () = self.gateways.next_burial() => {}
            }
            self.take_turn(&mut memory).await;
        }
    }

    async fn take_turn(&self, memory: &mut WalkState) {
        match self.keep_turn().await {
            Ok(true) => self.streamers.judge_all(true),
            Ok(false) => return self.lose_turn(memory),
            Err(why) => return tracing::debug!(error = %why, "the turn to walk was not taken"),
        }
        let now = self.clock.now();
        let buried = self.gateways.unswept();
        let regular = memory.next.is_none_or(|next| next <= now);
        let roster = self.gateways.roster();
        let others = roster.dead.iter().filter(|dead| !buried.contains(*dead));
        // Newly buried gateways first: an earlier walk has dropped the viewers of most others.
        memory.to_forget = buried.iter().chain(others).take(MOST_FORGOTTEN).cloned().collect();
        let someone_died = !buried.is_subset(&memory.known_dead);
        let walked = if regular || someone_died {
            self.look_after_users(someone_died).await;
            memory.known_dead.clone_from(&buried);
            memory.round += u64::from(regular);
            let every = millis(self.check_every);
            memory.next = Some(now + every - every / 10 + rand::random_range(0..=every / 5));
            self.walk(memory, regular && memory.round.is_multiple_of(STRAYS_ROUNDS)).await
        } else {
            let failed = std::mem::take(&mut memory.failed);
            self.look_after_all(memory, failed, false).await;
            Ok(())
        };
        match walked {
            // Until every live was reached, the dead may still have members in the others.
            Ok(()) if memory.failed.is_empty() => self.gateways.swept(&buried),
            Ok(()) => {}
            Err(why) => tracing::debug!(error = %why, "could not walk the open lives"),
        }
    }

    async fn look_after_users(&self, someone_died: bool) {
        let Some(users) = &self.users else { return };
        if let Err(why) = users.look_after(someone_died).await {
            tracing::debug!(error = %why, "could not look after users, will try again");
        }
    }

    async fn keep_turn(&self) -> StoreResult<bool> {
        self.store.take_walk_turn(&self.gateways.id(), self.lease_refresh * 2).await
    }

    /// Forgets what was known: a gateway that gets the turn back walks at once and sweeps all the dead.
    fn lose_turn(&self, memory: &mut WalkState) {
        *memory = WalkState { round: memory.round, ..WalkState::default() };
        self.streamers.judge_all(false);
        self.gateways.forget_unswept();
    }

    /// One walk over the list.
    async fn walk(&self, memory: &mut WalkState, strays: bool) -> StoreResult<()> {
        let mut after: Option<ListedLive> = None;
        let known = std::mem::take(&mut memory.unrecorded);
        memory.failed.clear();
        let mut gone: HashSet<LiveId> = memory.cursors.keys().map(|slice| slice.live.clone()).collect();
        loop {
            let page = match self.store.lives_page(after.as_ref(), PAGE).await {
                Ok(page) => page,
                Err(why) => {
                    memory.next = None;
                    return Err(why);
                }
            };
            let Some(last) = page.last().cloned() else { break };
            for listed in &page {
                gone.remove(&listed.live);
            }
            self.look_after_all(memory, page.into_iter().map(|listed| listed.live).collect(), strays).await;
            after = Some(last);
            // A long walk keeps its turn.
            if !self.keep_turn().await? {
                self.lose_turn(memory);
                return Ok(());
            }
        }
        memory.cursors.retain(|slice, _| !gone.contains(&slice.live));
        for (live, since) in &mut memory.unrecorded {
            *since = known.get(live).copied().unwrap_or(*since);
        }
        self.delist(memory).await;
        Ok(())
    }

    /// Looks after some lives, and notes those that could not be reached.
    async fn look_after_all(&self, memory: &mut WalkState, lives: Vec<LiveId>, strays: bool) {
        let to_forget = memory.to_forget.clone();
        let records = self.store.load_lives(&lives).await;
        let open = records.iter().flatten().flatten().filter(|record| record.state == LiveState::Open);
        let slices: Vec<SliceId> = open.flat_map(|record| SliceId::all(&record.live, record.slices)).collect();
        let mut owners = slices.iter().cloned().zip(self.store.slice_owners(&slices).await);
        let found = lives.into_iter().zip(records).map(|(live, record)| {
            let slices = match &record {
                Ok(Some(open)) if open.state == LiveState::Open => owners.by_ref().take(open.slices as usize).collect(),
                _ => Vec::new(),
            };
            (live, record, slices)
        });
        let looks: Vec<_> = stream::iter(found.collect::<Vec<_>>())
            .map(|(live, record, slices)| {
                let to_forget = to_forget.clone();
                async move { (self.look_after(&live, record, slices, &to_forget).await, live) }
            })
            .buffer_unordered(AT_A_TIME)
            .collect()
            .await;
        for (found, live) in looks {
            match found {
                Ok(WalkedLive::Done) => {}
                Ok(WalkedLive::Unrecorded) => drop(memory.unrecorded.insert(live, self.clock.now())),
                Ok(WalkedLive::Open(slices)) if strays => self.drop_strays(memory, slices).await,
                Ok(WalkedLive::Open(_)) => {}
                // A live that another program garbled will be no better next time.
                Err(why @ StoreError::Nonsense(_)) => {
                    tracing::warn!(live_id = %live, error = %why, "cannot look after a live");
                }
                Err(why) => {
                    tracing::debug!(live_id = %live, error = %why, "could not look after a live, will try again");
                    memory.failed.push(live);
                }
            }
        }
    }

    /// Takes lives off the list that have had no record for the length of a lease: a gateway that holds such a live
    /// open would have written the record again by then.
    async fn delist(&self, memory: &mut WalkState) {
        let now = self.clock.now();
        let is_gone = |since: &Millis| now.saturating_sub(*since) > millis(self.lease);
        let gone = memory.unrecorded.iter().filter(|(_, since)| is_gone(since)).map(|(live, _)| live.clone());
        for live in gone.collect::<Vec<_>>() {
            match self.store.delist(&live).await {
                Ok(()) => drop(memory.unrecorded.remove(&live)),
                Err(why) => tracing::debug!(live_id = %live, error = %why, "a live was not taken off the list"),
            }
        }
    }

    /// Searches one page of each slice.
    async fn drop_strays(&self, memory: &mut WalkState, slices: Vec<SliceId>) {
        for slice in slices {
            let cursor = memory.cursors.get(&slice).copied().unwrap_or(0);
            match self.sweeper.drop_strays(&slice, cursor).await {
                Ok(Some(next)) => drop(memory.cursors.insert(slice, next)),
                Ok(None) => drop(memory.cursors.remove(&slice)),
                Err(why) => tracing::debug!(live_id = %slice.live, error = %why, "could not search for strays"),
            }
        }
    }

    async fn look_after(
        &self,
        live: &LiveId,
        record: StoreResult<Option<LiveRecord>>,
        slices: Vec<ReadSlice>,
        to_forget: &[GatewayId],
    ) -> StoreResult<WalkedLive> {
        let Some(record) = record? else { return Ok(WalkedLive::Unrecorded) };
        match record.state {
            LiveState::Closed => {
                self.store.delist(live).await?;
                Ok(WalkedLive::Done)
            }
            LiveState::Closing => {
                tracing::info!(live_id = %live, "finishing a close that another gateway began");
                self.lives.finish(record).await?;
                Ok(WalkedLive::Done)
            }
            LiveState::Open => self.look_after_open(&record, slices, to_forget).await,
        }
    }

    async fn look_after_open(
        &self,
        record: &LiveRecord,
        read: Vec<ReadSlice>,
        to_forget: &[GatewayId],
    ) -> StoreResult<WalkedLive> {
        if record.opened_by == OpenedBy::Streamer && self.streamer_timeout.timeout.is_some() {
            if self.streamer_timeout.is_connected(record).await? {
                self.streamers.found_present(&record.live);
            } else {
                self.streamers.found_absent(&record.live, self.clock.now());
            }
        }
        let mut slices = Vec::with_capacity(read.len());
        for (slice, owners) in read {
            let SliceOwners { fence, gateways } = owners?;
            if let Some(Fence::Open(older)) = fence.filter(|fence| fence.epoch() < record.epoch) {
                tracing::warn!(
                    live_id = %record.live, slice = slice.index, epoch = %older,
                    "closing a slice of an older epoch"
                );
                self.store.close_slice(&slice, older).await?;
                continue;
            }
            self.sweeper.sweep_dead(&slice, &gateways).await?;
            if gateways.is_empty() && self.store.read_slice(&slice, &self.gateways.id()).await?.card > 0 {
                self.sweeper.drop_strays(&slice, 0).await?;
            }
            slices.push(slice);
        }
        if !to_forget.is_empty() {
            self.store.forget_viewers(&record.live, to_forget).await?;
        }
        Ok(WalkedLive::Open(slices))
    }
}

/// A slice as the walk read it.
type ReadSlice = (SliceId, StoreResult<SliceOwners>);

/// What a look at a live found.
enum WalkedLive {
    Done,
    /// The live is listed and has no record.
    Unrecorded,
    /// The live is open; its slices.
    Open(Vec<SliceId>),
}
