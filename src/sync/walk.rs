//! The walk over all open lives, and the sets of users of the platform. One gateway at a time
//! walks, once per `check-every` and at once after a burial. The walk tells all gateways what it
//! found, so that they need not look too. It sweeps the dead, finishes closes that another gateway
//! began, closes slices of older epochs, notes gateways that have an entry without a lease, finds
//! lives whose streamer is gone, and removes strays. It also finishes changes of the follow graph
//! and of logins that a gateway left half done, and tells followers of lives that were not
//! announced.
//!
//! The walk goes on after an error in one live: a node that is away hides only its own lives.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use tokio_util::sync::CancellationToken;

use crate::base::clock::{Clock, Millis, millis};
use crate::base::ids::{Epoch, GatewayId, Group, LiveId, PLATFORM_EPOCH, SliceId};
use crate::peers::Outbox;
use crate::peers::survey::Surveys;
use crate::presence::absent_streamers::AbsentStreamers;
use crate::presence::checks::Checks;
use crate::presence::gateways::{Gateways, Roster};
use crate::store::{
    CALL_DEADLINE, Counted, Fence, Figures, Holders, LATEST_ENTRY, ListedLive, LiveRecord,
    LiveState, MAX_BATCH, SliceSize, SliceSurvey, Store, StoreError, StoreResult, both,
};
use crate::sync::attendance::AttendanceUpkeep;
use crate::sync::count::count_nobody;
use crate::sync::events::announce;
use crate::sync::events::count_events::CountEvents;
use crate::sync::feeds::Feeds;
use crate::sync::follows::Follows;
use crate::sync::lives::Lives;
use crate::sync::mend::Mender;
use crate::sync::streamer_timeout::StreamerTimeout;
use crate::sync::sweep::{Searched, Sweeper};
use crate::sync::user_upkeep::UserUpkeep;

/// Lives looked after at a time.
const AT_A_TIME: usize = 64;

/// How many lives are read from the list at a time.
const PAGE: usize = 500;

/// The large slices of each live are searched for strays, a page each, in one walk of this many.
/// Where there certainly are some, every walk searches, and so it does in small slices.
const STRAYS_ROUNDS: u64 = 30;

/// Why lives are looked after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Occasion {
    /// It is time. All gateways are told what is found, and the lives whose turn it is are searched
    /// for strays.
    Regular,
    /// A gateway was buried, a buried one may have made entries since, a live could not be reached
    /// before, or a walk ended early.
    Extra,
}

pub struct Walk {
    pub gateways: Arc<Gateways>,
    pub absent_streamers: Arc<AbsentStreamers>,
    pub store: Arc<dyn Store>,
    pub lives: Arc<Lives>,
    pub sweeper: Arc<Sweeper>,
    pub mender: Arc<Mender>,
    pub feeds: Arc<Feeds>,
    pub follows: Arc<Follows>,
    pub outbox: Arc<Outbox>,
    pub checks: Arc<Checks>,
    pub streamer_timeout: Arc<StreamerTimeout>,
    /// `None` if it is not tracked who is online on the platform.
    pub users: Option<UserUpkeep>,
    pub attendance: AttendanceUpkeep,
    pub clock: Clock,
    pub lease: Duration,
    pub lease_refresh: Duration,
    pub check_every: Duration,
    /// `None` if counts are no events.
    pub count_events: Option<Arc<CountEvents>>,
    /// About how many events the stream keeps.
    pub events_kept: u64,
}

/// A gateway's estimate of the time at Redis may be off by so much.
const CLOCK_SLACK: Duration = Duration::from_millis(500);

/// What the walker remembers from one walk to the next.
#[derive(Debug, Default)]
struct WalkState {
    /// When the next regular walk is due; `None` while another gateway walks.
    next: Option<Millis>,
    round: u64,
    /// Whether the last walk ended early: nobody has looked after the lives behind the error.
    ended_early: bool,
    /// Lives that are listed without a record, as far as this gateway knows, and since when.
    unrecorded: HashMap<LiveId, Millis>,
    /// Lives that could not be looked after.
    failed: Vec<LiveId>,
    /// Whether the platform could not be looked after.
    platform_failed: bool,
    /// The dead gateways that the last walk knew of.
    known_dead: HashSet<GatewayId>,
    known_living: BTreeSet<GatewayId>,
    /// When the late calls of the first and of the last gateway that has appeared are over; `None`
    /// if a walk has been made after both.
    late_calls_over: Option<(Millis, Millis)>,
    /// Where the next search for strays goes on in each group of a slice.
    cursors: HashMap<(SliceId, Group), u64>,
}

impl WalkState {
    /// Whether this walk searches a live for strays.
    fn has_strays_turn(&self, live: &LiveId) -> bool {
        xxhash_rust::xxh3::xxh3_64(live.as_str().as_bytes()) % STRAYS_ROUNDS
            == self.round % STRAYS_ROUNDS
    }

    /// Whether it is time to look for late entries. A gateway that appears may be one that was
    /// buried while it could not reach Redis. What it sent before it knew may have arrived after
    /// the sweep of its former id.
    fn note_living(&mut self, roster: &Roster, now: Millis) -> bool {
        if !roster.dead.is_empty() && !roster.living.is_subset(&self.known_living) {
            // A call that began under the former id is sent before its deadline.
            let over = now + millis(CALL_DEADLINE + LATEST_ENTRY + CLOCK_SLACK);
            // Gateways that appear one after another do not put the walk off.
            self.late_calls_over =
                Some((self.late_calls_over.map_or(over, |(first, _)| first), over));
        }
        self.known_living.clone_from(&roster.living);
        let Some((_, last)) = self.late_calls_over.take_if(|(first, _)| *first <= now) else {
            return false;
        };
        self.late_calls_over = (last > now).then_some((last, last));
        true
    }
}

impl Walk {
    /// Runs until told to stop: walks when it is this gateway's turn.
    pub async fn run(self, stop: CancellationToken) {
        let mut turn = tokio::time::interval(self.lease_refresh);
        turn.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut memory = WalkState {
            round: rand::random_range(0..STRAYS_ROUNDS),
            ..WalkState::default()
        };
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
            Ok(true) => self.absent_streamers.judge_all(true),
            Ok(false) => return self.lose_turn(memory),
            Err(why) => return tracing::debug!(error = %why, "the turn to walk was not taken"),
        }
        let now = self.clock.now();
        let buried = self.gateways.unswept();
        let regular = memory.next.is_none_or(|next| next <= now);
        let roster = self.gateways.roster();
        let someone_died = !buried.is_subset(&memory.known_dead);
        let late_calls_over = memory.note_living(&roster, now);
        let walked = if regular || memory.ended_early || someone_died || late_calls_over {
            memory.known_dead.clone_from(&buried);
            if regular {
                memory.round += 1;
                memory.next = Some(now + millis(self.check_every));
            }
            let occasion = if regular {
                Occasion::Regular
            } else {
                Occasion::Extra
            };
            self.look_after_platform(memory, occasion).await;
            let walked = self.walk(memory, occasion).await;
            if regular {
                self.look_after_users().await;
                self.attendance.take_turn().await;
            }
            walked
        } else {
            if memory.platform_failed {
                self.look_after_platform(memory, Occasion::Extra).await;
            }
            let failed = std::mem::take(&mut memory.failed);
            self.look_after_all(memory, failed, Occasion::Extra).await;
            Ok(())
        };
        memory.ended_early = walked.is_err();
        match walked {
            // Until every live was reached, the dead may still have members in the others.
            Ok(()) if memory.failed.is_empty() && !memory.platform_failed => {
                self.gateways.swept(&buried)
            }
            Ok(()) => {}
            Err(why) => {
                tracing::debug!(error = %why, "could not walk the open lives, will try again")
            }
        }
    }

    async fn look_after_users(&self) {
        let Some(users) = &self.users else { return };
        if let Err(why) = users.run_round().await {
            tracing::debug!(error = %why, "could not look after users, will try again");
        }
    }

    async fn keep_turn(&self) -> StoreResult<bool> {
        let roster = self.gateways.roster();
        self.store
            .take_walk_turn(&self.gateways.id(), self.lease_refresh * 2, &roster.dead)
            .await
    }

    /// Forgets what was known: a gateway that gets the turn back walks at once and sweeps all the
    /// dead.
    fn lose_turn(&self, memory: &mut WalkState) {
        *memory = WalkState {
            round: memory.round,
            ..WalkState::default()
        };
        self.absent_streamers.judge_all(false);
        self.gateways.forget_unswept();
    }

    /// Finishes follows and other changes of several keys that a gateway left half done.
    async fn finish_changes(&self) {
        let (finished, all) = self.store.finish_changes().await;
        finished
            .follows
            .iter()
            .for_each(|(user, streamer)| self.follows.tell(user, streamer));
        if finished.count > 0 {
            tracing::info!(
                changes = finished.count,
                "finished changes that a gateway left"
            );
        }
        if let Err(why) = all {
            tracing::debug!(error = %why, "a change that a gateway left could not be finished");
        }
    }

    /// One walk over the list.
    async fn walk(&self, memory: &mut WalkState, occasion: Occasion) -> StoreResult<()> {
        self.finish_changes().await;
        let mut after: Option<ListedLive> = None;
        memory.failed.clear();
        let searched = memory.cursors.keys().filter_map(|(slice, _)| slice.live());
        let mut gone: HashSet<LiveId> = searched.chain(memory.unrecorded.keys()).cloned().collect();
        loop {
            let page = self.store.lives_page(after.as_ref(), PAGE).await?;
            let Some(last) = page.last().cloned() else {
                break;
            };
            for listed in &page {
                gone.remove(&listed.live);
            }
            self.look_after_all(
                memory,
                page.into_iter().map(|listed| listed.live).collect(),
                occasion,
            )
            .await;
            after = Some(last);
            // A long walk keeps its turn.
            if !self.keep_turn().await? {
                self.lose_turn(memory);
                return Ok(());
            }
        }
        memory
            .cursors
            .retain(|(slice, _), _| slice.live().is_none_or(|live| !gone.contains(live)));
        memory.unrecorded.retain(|live, _| !gone.contains(live));
        self.delist(memory).await;
        Ok(())
    }

    /// Looks after some lives, and notes those that could not be reached.
    async fn look_after_all(&self, memory: &mut WalkState, lives: Vec<LiveId>, occasion: Occasion) {
        let records = self.store.load_lives(&lives).await;
        if let Err(why) = self.repair_ranks(&records).await {
            tracing::debug!(error = %why, "ranks were not compared with the records");
        }
        for (live, _) in lives
            .iter()
            .zip(&records)
            .filter(|(_, record)| !matches!(record, Ok(None)))
        {
            memory.unrecorded.remove(live);
        }
        let open = records
            .iter()
            .flatten()
            .flatten()
            .filter(|record| record.state == LiveState::Open);
        self.finish_events(open.clone()).await;
        let slices: Vec<SliceId> = open.clone().flat_map(LiveRecord::all_slices).collect();
        let open: Vec<LiveRecord> = open.cloned().collect();
        let found = self.store.survey(&slices).await;
        if occasion == Occasion::Regular {
            self.tell_found(&open, &found).await;
            self.feeds.announce_missing(&open).await;
            self.attendance.begin_missing(&open).await;
        }
        let mut found = slices.into_iter().zip(found);
        let looks = lives.into_iter().zip(records).map(|(live, record)| {
            let slices = match &record {
                Ok(Some(open)) if open.state == LiveState::Open => {
                    found.by_ref().take(open.all_slices().count()).collect()
                }
                _ => Vec::new(),
            };
            (live, record, slices)
        });
        let looks: Vec<_> = stream::iter(looks.collect::<Vec<_>>())
            .map(|(live, record, slices)| async move {
                (self.look_after(&live, record, slices).await, live)
            })
            .buffer_unordered(AT_A_TIME)
            .collect()
            .await;
        let mut to_search = Vec::new();
        for (found, live) in looks {
            match found {
                Ok(WalkedLive::Done) => {}
                Ok(WalkedLive::Unrecorded) => {
                    // A gateway that holds the live writes the record again.
                    self.outbox.doubt(&live);
                    memory.unrecorded.entry(live).or_insert(self.clock.now());
                }
                Ok(WalkedLive::Open(mut slices)) => {
                    if !memory.has_strays_turn(&live) {
                        slices.retain(WalkedSlice::is_small);
                    }
                    if occasion == Occasion::Regular {
                        to_search.extend(slices);
                    }
                }
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
        self.search(memory, to_search).await;
    }

    /// Searches slices for what only another program can have written: small ones as a whole, and a
    /// page of large ones. Many small ones are looked at in one call, because a script that
    /// searches a slice costs Redis ten times as much.
    async fn search(&self, memory: &mut WalkState, walked: Vec<WalkedSlice>) {
        let (small, large): (Vec<_>, Vec<_>) = walked.into_iter().partition(WalkedSlice::is_small);
        let asked: Vec<Holders> = small.iter().map(WalkedSlice::holders).collect();
        let differ = self.store.differ_from_held(&asked).await;
        for (slice, differs) in small.iter().zip(differ) {
            if differs == Ok(false) {
                continue;
            }
            if let Err(why) = self.mender.repair(&slice.id, slice.epoch).await {
                tracing::debug!(set = %slice.id.set, error = %why, "could not search a slice");
            }
        }
        self.drop_strays(memory, large.into_iter().map(|slice| slice.id).collect())
            .await;
    }

    /// Writes events that a gateway left pending.
    async fn finish_events<'a>(&self, open: impl Iterator<Item = &'a LiveRecord> + Clone) {
        if let Err(why) = announce(self.store.as_ref(), open.clone(), self.events_kept).await {
            tracing::warn!(error = %why, "events that wait in records were not written, will try again");
        }
        let Some(count_events) = &self.count_events else {
            return;
        };
        let figures =
            |counted: Option<Counted>| counted.map(|counted| counted.figures).unwrap_or_default();
        open.filter(|record| figures(record.counted) != figures(record.events.told))
            .for_each(|record| count_events.changed(&record.live, record.epoch));
    }

    /// Tells all gateways what was found in the store of open lives and, in the same order, of
    /// their slices.
    async fn tell_found(&self, open: &[LiveRecord], mut slices: &[StoreResult<SliceSurvey>]) {
        let mut surveys = Surveys::default();
        for record in open {
            let Some((these, others)) = slices.split_at_checked(record.all_slices().count()) else {
                break;
            };
            slices = others;
            // What could not be read is left to the gateways' own checks.
            let these: StoreResult<Vec<SliceSurvey>> = these.iter().cloned().collect();
            if let Ok(these) = these
                && these.iter().all(SliceSurvey::looks_right)
            {
                surveys.add(record, &these);
            }
        }
        self.outbox.surveyed(surveys);
    }

    /// Takes lives off the list that have had no record for the length of a lease: a gateway that
    /// holds such a live open would have written the record again by then.
    async fn delist(&self, memory: &mut WalkState) {
        let now = self.clock.now();
        let is_gone = |since: &Millis| now.saturating_sub(*since) > millis(self.lease);
        let gone = memory
            .unrecorded
            .iter()
            .filter(|(_, since)| is_gone(since))
            .map(|(live, _)| live.clone());
        for live in gone.collect::<Vec<_>>() {
            match self.store.delist(&live).await {
                Ok(()) => drop(memory.unrecorded.remove(&live)),
                Err(why) => {
                    tracing::debug!(live_id = %live, error = %why, "a live was not taken off the list")
                }
            }
        }
    }

    /// Searches one page of each group of each slice.
    async fn drop_strays(&self, memory: &mut WalkState, slices: Vec<SliceId>) {
        for slice in slices {
            for group in slice.set.groups() {
                let place = (slice.clone(), *group);
                let cursor = memory.cursors.get(&place).copied().unwrap_or(0);
                match self.sweeper.drop_strays(&slice, *group, cursor).await {
                    Ok(Searched {
                        next: Some(next), ..
                    }) => drop(memory.cursors.insert(place, next)),
                    Ok(Searched { next: None, .. }) => drop(memory.cursors.remove(&place)),
                    Err(why) => {
                        tracing::debug!(set = %slice.set, error = %why, "could not search for strays")
                    }
                }
            }
        }
    }

    /// Sweeps the users whom dead gateways hold in sets of the platform.
    async fn look_after_platform(&self, memory: &mut WalkState, occasion: Occasion) {
        let platforms = self.sweeper.rooms.platforms();
        let slices: Vec<SliceId> = platforms
            .flat_map(|platform| platform.slices())
            .map(|slice| slice.id.clone())
            .collect();
        let read: Vec<_> = slices
            .iter()
            .cloned()
            .zip(self.store.survey(&slices).await)
            .collect();
        let looked: Vec<StoreResult<WalkedSlice>> = stream::iter(read)
            .map(|(slice, found)| async move {
                let found = self.read_or_repair(&slice, found).await?;
                self.look_after_slice(slice, PLATFORM_EPOCH, found).await
            })
            .buffer_unordered(AT_A_TIME)
            .collect()
            .await;
        let mut swept = Ok(());
        let mut walked = Vec::with_capacity(looked.len());
        for looked in looked {
            match looked {
                Ok(slice) => walked.push(slice),
                Err(why) => swept = both(swept, Err(why)),
            }
        }
        memory.platform_failed = swept.as_ref().is_err_and(StoreError::is_worth_a_retry);
        if let Err(why) = swept {
            tracing::debug!(error = %why, "could not look after the users of the platform");
        }
        if occasion == Occasion::Regular {
            if !memory.round.is_multiple_of(STRAYS_ROUNDS) {
                walked.retain(WalkedSlice::is_small);
            }
            self.search(memory, walked).await;
        }
    }

    /// Sweeps the dead gateways among those with an entry in an open slice, and removes what nobody
    /// can hold.
    async fn look_after_slice(
        &self,
        slice: SliceId,
        epoch: Epoch,
        found: SliceSurvey,
    ) -> StoreResult<WalkedSlice> {
        let SliceSurvey {
            parts,
            card,
            fans,
            may_be_in_doubt,
            ..
        } = found;
        let held: u64 = parts.iter().map(|part| part.held).sum();
        let held_fans: u64 = parts.iter().map(|part| part.held_fans).sum();
        let gateways: Vec<GatewayId> = parts.into_iter().map(|part| part.gateway).collect();
        self.sweeper.sweep_dead(&slice, &gateways).await?;
        // Certainly strays. Others are as many as the users whom several gateways hold, at most.
        if card > held {
            self.sweeper.drop_strays(&slice, Group::All, 0).await?;
        }
        if fans > held_fans {
            self.sweeper.drop_strays(&slice, Group::Fans, 0).await?;
        }
        if may_be_in_doubt {
            self.mend(&slice, epoch).await?;
        }
        let overlap = held > card || held_fans > fans;
        Ok(WalkedSlice {
            id: slice,
            epoch,
            gateways,
            members: card,
            overlap,
        })
    }

    /// Repairs a slice in doubt, perhaps one of which no gateway has a room. A doubt that has just
    /// begun is left to the gateways that have one, and to the next walk.
    async fn mend(&self, slice: &SliceId, epoch: Epoch) -> StoreResult<()> {
        let wait = self.mender.mend(slice, epoch, SliceSize::default()).await?;
        if let Some(live) = slice.live().filter(|_| wait > 0) {
            self.outbox.doubt(live);
        }
        Ok(())
    }

    /// What was read of a slice. A slice that cannot be read because another program wrote there is
    /// repaired, so that the next walk can read it, and the gateways with users there write them
    /// again.
    async fn read_or_repair(
        &self,
        slice: &SliceId,
        found: StoreResult<SliceSurvey>,
    ) -> StoreResult<SliceSurvey> {
        if let Err(why) = &found
            && self.mender.heal(slice, why).await
        {
            self.have_checked(slice);
        }
        found
    }

    /// Has all gateways, this one too, check the set of a slice soon.
    fn have_checked(&self, slice: &SliceId) {
        let rooms = &self.sweeper.rooms;
        match slice.live() {
            Some(live) => {
                self.outbox.doubt(live);
                self.checks
                    .check_soon(rooms.get(live).into_iter().collect());
            }
            None => {
                self.outbox.doubt_platform();
                rooms.look_again_at_platform();
            }
        }
    }

    async fn look_after(
        &self,
        live: &LiveId,
        record: StoreResult<Option<LiveRecord>>,
        slices: Vec<ReadSlice>,
    ) -> StoreResult<WalkedLive> {
        let Some(record) = record? else {
            return Ok(WalkedLive::Unrecorded);
        };
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
            LiveState::Open => self.look_after_open(&record, slices).await,
        }
    }

    /// The slices of a live, its record and its streamer's presence may lie on different nodes: an
    /// error in one of them does not keep the others from being looked after.
    async fn look_after_open(
        &self,
        record: &LiveRecord,
        read: Vec<ReadSlice>,
    ) -> StoreResult<WalkedLive> {
        let roster = self.gateways.roster();
        let mut result = Ok(());
        let mut slices = Vec::with_capacity(read.len());
        let mut users = 0;
        for (slice, found) in read {
            // The dead are swept now, or were not yet when the slice was read.
            let parts = found.iter().flat_map(|found| &found.parts);
            users += parts
                .filter(|part| !roster.dead.contains(&part.gateway))
                .map(|part| part.held)
                .sum::<u64>();
            match self.look_after_slice_of(record, slice, found).await {
                Ok(walked) => slices.extend(walked),
                Err(why) => result = both(result, Err(why)),
            }
        }
        // The last viewers may have gone with a dead gateway.
        let is_empty = users == 0 && result.is_ok();
        if is_empty
            && record
                .counted
                .is_some_and(|counted| !counted.figures.is_zero())
        {
            // If it is too early, the next walk does it.
            let counted = count_nobody(self.store.as_ref(), &record.live, record.epoch).await;
            result = both(result, counted.map(drop));
        }
        both(result, self.judge_streamer(record).await).map(|()| WalkedLive::Open(slices))
    }

    /// Looks after a slice of an open live, or closes it if it is of an older epoch.
    async fn look_after_slice_of(
        &self,
        record: &LiveRecord,
        slice: SliceId,
        found: StoreResult<SliceSurvey>,
    ) -> StoreResult<Option<WalkedSlice>> {
        let found = self.read_or_repair(&slice, found).await?;
        if let Some(Fence::Open(older)) = found.fence.filter(|fence| fence.epoch() < record.epoch) {
            tracing::warn!(
                live_id = %record.live, slice = slice.index, epoch = %older,
                "closing a slice of an older epoch"
            );
            self.store.close_slice(&slice, older).await?;
            return Ok(None);
        }
        self.look_after_slice(slice, record.epoch, found)
            .await
            .map(Some)
    }

    async fn judge_streamer(&self, record: &LiveRecord) -> StoreResult<()> {
        if self.streamer_timeout.timeout_of(record).is_some() {
            if self.streamer_timeout.is_connected(record).await? {
                self.absent_streamers.found_present(&record.live);
            } else {
                self.absent_streamers
                    .found_absent(&record.live, self.clock.now());
            }
        }
        Ok(())
    }
}

/// Ranks are repaired where the record was written this long ago, in ms: a gateway ranks a live
/// after it wrote the record.
const RANKED_BY_NOW: Millis = 10_000;

impl Walk {
    /// Ranks lives whose ranks differ from the figures in the record: a gateway died between the
    /// two, or the store lost some.
    async fn repair_ranks(&self, records: &[StoreResult<Option<LiveRecord>>]) -> StoreResult<()> {
        let now = self.clock.unix();
        let is_old = |record: &&LiveRecord| {
            record
                .counted
                .is_none_or(|counted| counted.at + RANKED_BY_NOW < now)
        };
        let open = records
            .iter()
            .flatten()
            .flatten()
            .filter(|record| record.state == LiveState::Open);
        let figures = |record: &LiveRecord| {
            record
                .counted
                .map(|counted| counted.figures)
                .unwrap_or_default()
        };
        let (lives, counted): (Vec<LiveId>, Vec<Figures>) = open
            .filter(is_old)
            .map(|record| (record.live.clone(), figures(record)))
            .unzip();
        let ranked = self.store.ranked_figures(&lives).await?;
        let pairs = lives.into_iter().zip(counted).zip(ranked);
        let wrong: Vec<_> = pairs
            .filter(|((_, counted), ranked)| Some(*counted) != *ranked)
            .map(|(live, _)| live)
            .collect();
        if wrong.is_empty() {
            Ok(())
        } else {
            self.store.rank_lives(&wrong).await
        }
    }
}

/// A slice as the walk read it.
type ReadSlice = (SliceId, StoreResult<SliceSurvey>);

/// What a look at a live found.
enum WalkedLive {
    Done,
    /// The live is listed and has no record.
    Unrecorded,
    /// The live is open; its slices.
    Open(Vec<WalkedSlice>),
}

/// A slice that the walk has looked after.
struct WalkedSlice {
    id: SliceId,
    epoch: Epoch,
    /// The gateways with an entry.
    gateways: Vec<GatewayId>,
    members: u64,
    /// As in [`Holders`].
    overlap: bool,
}

impl WalkedSlice {
    fn holders(&self) -> Holders {
        Holders {
            slice: self.id.clone(),
            gateways: self.gateways.clone(),
            overlap: self.overlap,
        }
    }

    /// Whether each walk searches it for strays.
    fn is_small(&self) -> bool {
        self.members <= MAX_BATCH as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ids::{OnlineSet, USERS_SLICES, UserId};
    use crate::config::Config;
    use crate::gateway::parts::Parts;
    use crate::store::{Lease, Leases, LiveStore, OpenedBy, Slices, Terms};
    use crate::sync::lives::OpenWish;
    use crate::testing::{ELSEWHERE, FaultyStore, open_live, parts_on};

    /// A gateway beside one that was buried. Its tasks do not run.
    fn beside_a_dead_one() -> (Parts, Arc<FaultyStore>) {
        let store = Arc::new(FaultyStore::new());
        let parts = parts_on(&Config::default(), store.clone());
        let (own, dead) = (
            Lease { born: 0, count: 1 },
            vec![(GatewayId::parse(ELSEWHERE).unwrap(), 0)],
        );
        let gateways = &parts.walk.gateways;
        gateways.looked(
            &gateways.id(),
            &Leases {
                own,
                living: Vec::new(),
                dead,
            },
            (0, 0),
        );
        (parts, store)
    }

    /// How many members these slices have.
    async fn cards(store: &FaultyStore, slices: impl Iterator<Item = SliceId>) -> Vec<u64> {
        let found = store.survey(&slices.collect::<Vec<_>>()).await;
        found.into_iter().map(|found| found.unwrap().card).collect()
    }

    #[tokio::test]
    async fn a_node_that_is_away_keeps_no_slice_on_another_from_being_swept() {
        let (parts, store) = beside_a_dead_one();
        let (live, streamer) = (LiveId::parse("42").unwrap(), UserId::parse("s1").unwrap());
        let terms = Terms {
            streamer_timeout: Some(Duration::from_secs(60)),
            ..Terms::default()
        };
        let wish = OpenWish {
            live: live.clone(),
            streamer,
            slices: Some(2),
            by: OpenedBy::Service,
            terms,
        };
        parts.app.lives.open(wish).await.unwrap();
        let record = store.load_live(&live).await.unwrap().unwrap();
        let slices: Vec<SliceId> = record.all_slices().collect();
        (0..10).for_each(|n| store.comes("42", &format!("u{n}")));

        let mut memory = WalkState::default();
        store.fails_once("is_member", 0);
        store.loses(&slices[0]);
        parts.walk.take_turn(&mut memory).await;
        assert_eq!(cards(&store, slices[1..2].iter().cloned()).await, [0]);
        assert_eq!(memory.failed, [live]);
        assert!(!parts.walk.gateways.unswept().is_empty());
        store.heals();
        assert_ne!(
            cards(&store, slices[..2].iter().cloned()).await,
            [0, 0],
            "one could not be reached"
        );
        parts.walk.take_turn(&mut memory).await;
        assert_eq!(cards(&store, slices[..2].iter().cloned()).await, [0, 0]);
        assert!(parts.walk.gateways.unswept().is_empty());
    }

    #[tokio::test]
    async fn a_garbled_slice_does_not_hide_that_another_could_not_be_reached() {
        for (garbled, away) in [(0, 1), (1, 0)] {
            let (parts, store) = beside_a_dead_one();
            let (live, streamer) = (LiveId::parse("42").unwrap(), UserId::parse("s1").unwrap());
            let (by, terms) = (OpenedBy::Service, Terms::default());
            let wish = OpenWish {
                live: live.clone(),
                streamer,
                slices: Some(2),
                by,
                terms,
            };
            parts.app.lives.open(wish).await.unwrap();
            let record = store.load_live(&live).await.unwrap().unwrap();
            let users = SliceId::all(OnlineSet::Users, USERS_SLICES);
            for slices in [record.all_slices().collect::<Vec<_>>(), users.collect()] {
                let mut memory = WalkState::default();
                store.garbles(&slices[garbled]);
                store.loses(&slices[away]);
                parts.walk.take_turn(&mut memory).await;
                let failed = memory
                    .failed
                    .iter()
                    .map(LiveId::as_str)
                    .chain(memory.platform_failed.then_some("users"));
                let expected = if slices[0].live().is_some() {
                    "42"
                } else {
                    "users"
                };
                assert_eq!(failed.collect::<Vec<_>>(), [expected]);
                assert!(!parts.walk.gateways.unswept().is_empty());
            }
        }
    }

    #[tokio::test]
    async fn a_live_whose_foreign_keys_were_removed_is_checked_at_once() {
        let (parts, store) = beside_a_dead_one();
        let room = open_live(&parts.app.sessions, "42").await;
        store.garbles(&room.slices()[0].id);
        room.check.take_doubt();
        parts.walk.take_turn(&mut WalkState::default()).await;
        assert!(room.check.take_doubt());
    }

    #[tokio::test]
    async fn a_walk_that_ends_early_begins_anew_before_the_dead_are_called_swept() {
        let (parts, store) = beside_a_dead_one();
        for n in 0..=PAGE {
            open_live(&parts.app.sessions, &format!("L{n}")).await;
            store.comes(&format!("L{n}"), "u1");
        }
        let members = async || {
            let listed = store.lives_page(None, PAGE + 1).await.unwrap();
            let slices = listed
                .into_iter()
                .map(|listed| SliceId::of_live(listed.live, 1, 1));
            cards(&store, slices).await.into_iter().sum::<u64>()
        };
        assert_eq!(members().await, PAGE as u64 + 1);
        let mut memory = WalkState::default();
        store.fails_once("take_walk_turn", 1);
        parts.walk.take_turn(&mut memory).await;
        assert_eq!(members().await, 1, "the walk ended after the first page");
        let (next, round) = (memory.next, memory.round);
        parts.walk.take_turn(&mut memory).await;
        assert_eq!(members().await, 0);
        assert!(parts.walk.gateways.unswept().is_empty());
        assert_eq!(
            (memory.next, memory.round),
            (next, round),
            "it is no regular walk, which costs much more"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_walk_that_ends_early_does_not_put_off_the_end_of_a_live_without_a_record() {
        let (parts, store) = beside_a_dead_one();
        store
            .list_live(&LiveId::parse("42").unwrap(), 1)
            .await
            .unwrap();
        let is_listed = async || !store.lives_page(None, 1).await.unwrap().is_empty();
        let mut memory = WalkState::default();
        parts.walk.take_turn(&mut memory).await;
        tokio::time::advance(parts.walk.check_every).await;
        store.fails_once("take_walk_turn", 1);
        parts.walk.take_turn(&mut memory).await;
        assert!(is_listed().await);
        tokio::time::advance(parts.walk.lease_refresh).await;
        parts.walk.take_turn(&mut memory).await;
        assert!(!is_listed().await);
    }

    fn roster(living: &[&str], dead: &[&str]) -> Roster {
        let ids = |names: &[&str]| {
            names
                .iter()
                .map(|name| GatewayId::parse(name).unwrap())
                .collect::<Vec<_>>()
        };
        let mut roster = Roster::default();
        roster.living.extend(ids(living));
        roster.dead.extend(ids(dead));
        roster
    }

    #[test]
    fn late_entries_are_looked_for_once_after_a_gateway_has_appeared_beside_a_dead_one() {
        let mut memory = WalkState::default();
        assert!(
            !memory.note_living(&roster(&["a", "b"], &[]), 0) && memory.late_calls_over.is_none(),
            "nobody is dead"
        );
        assert!(
            !memory.note_living(&roster(&["a"], &["b"]), 1) && memory.late_calls_over.is_none()
        );
        assert!(
            !memory.note_living(&roster(&["a", "c"], &["b"]), 1_000),
            "its calls may still arrive"
        );
        assert!(!memory.note_living(&roster(&["a", "c"], &["b"]), 8_299));
        assert!(memory.note_living(&roster(&["a", "c"], &["b"]), 8_300));
        assert!(
            !memory.note_living(&roster(&["a", "c"], &["b"]), 8_301)
                && memory.late_calls_over.is_none()
        );
    }

    #[test]
    fn gateways_that_appear_one_after_another_do_not_put_the_walk_off() {
        let mut memory = WalkState::default();
        let mut living = vec!["a"];
        memory.note_living(&roster(&living, &["x"]), 0);
        let mut walks = Vec::new();
        for now in (0..20_000).step_by(100) {
            if matches!(now, 1_000 | 4_000 | 7_000) {
                living.push(["b", "c", "d"][living.len() - 1]);
            }
            walks.extend(
                memory
                    .note_living(&roster(&living, &["x"]), now)
                    .then_some(now),
            );
        }
        // 7.3 s after the first and after the last; the very first look came at 0.
        assert_eq!(walks, [7_300, 14_300]);
    }
}
