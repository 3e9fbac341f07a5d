//! The walk over all open lives: one gateway at a time makes it, once a minute and at once when a gateway was buried. It
//! sweeps the dead, finishes closes that somebody began, closes slices of older epochs, notes gateways that stand in a slice
//! without a lease, closes lives whose streamer is gone, and takes members out whom nobody holds.
//!
//! An error in one live is noted, and the walk goes on: a node that is away hides only its own lives. A streamer's time is
//! counted by this gateway's own clock from when it saw or heard that the streamer is gone, and a timer is set for its end.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::clock::{Millis, millis};
use crate::core::Core;
use crate::ids::{Epoch, GatewayId, LiveId, SliceId};
use crate::store::slice::Fence;
use crate::store::{
    CloseReason, ListedLive, LiveRecord, LiveState, OpenedBy, SliceReading, StoreError, StoreResult, Strays,
};

/// Lives looked after at a time.
const AT_A_TIME: usize = 64;

/// How many lives are read from the list at a time.
const PAGE: usize = 500;

/// Words of so many dead gateways are dropped in one walk at most.
const MOST_FORGOTTEN: usize = 100;

/// With one walk in so many a page of each slice is looked through for members whom no gateway holds.
const STRAYS_ROUNDS: u64 = 10;

/// What the walk is told of, and what it knows from one time to the next.
#[derive(Debug, Default)]
pub struct Walk {
    /// A gateway was buried.
    buried: Notify,
    /// A streamer is gone.
    gone: Notify,
    /// This gateway has the turn to walk.
    walks: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The dead whose members may still stand somewhere, and since when their burial is known.
    unswept: HashMap<GatewayId, Millis>,
    /// Lives whose streamer is gone.
    gone: HashMap<LiveId, Gone>,
}

/// A streamer who is gone, by this gateway's clock.
#[derive(Debug, Clone, Copy)]
struct Gone {
    since: Millis,
    /// When it is looked whether the streamer has come back.
    look_at: Millis,
    /// The last look had no answer: while the store was away nobody could tell it who is connected.
    failed: bool,
}

impl Walk {
    /// Gateways were buried.
    pub fn bury(&self, dead: &[GatewayId], now: Millis) {
        let mut state = self.state.lock();
        for gateway in dead {
            state.unswept.entry(gateway.clone()).or_insert(now);
        }
        self.buried.notify_one();
    }

    /// The streamer of these lives left a gateway, and was last heard then.
    pub fn streamer_gone(&self, lives: &[LiveId], since: Millis) {
        let mut state = self.state.lock();
        for live in lives {
            let gone = state.gone.entry(live.clone()).or_insert(Gone { since, look_at: since, failed: false });
            // Who came back and went again has all of the time anew.
            gone.since = gone.since.max(since);
        }
        self.gone.notify_one();
    }

    /// Another gateway says so. The one that walks judges them as well, should the other die meanwhile.
    pub fn heard_streamer_gone(&self, lives: &[LiveId], since: Millis) {
        if self.walks.load(Ordering::Relaxed) {
            self.streamer_gone(lives, since);
        }
    }

    /// The walk found a live without its streamer.
    fn found_gone(&self, live: &LiveId, now: Millis) {
        self.state.lock().gone.entry(live.clone()).or_insert(Gone { since: now, look_at: now, failed: false });
        self.gone.notify_one();
    }

    /// For how long the burial is known of whom has waited longest to be swept; nothing if nobody waits.
    pub fn oldest_unswept(&self, now: Millis) -> Duration {
        let first = self.state.lock().unswept.values().min().copied();
        first.map_or(Duration::ZERO, |at| Duration::from_millis(now.saturating_sub(at)))
    }

    /// Since when a gateway's burial is known, if it waits to be swept.
    fn buried_at(&self, gateway: &GatewayId) -> Option<Millis> {
        self.state.lock().unswept.get(gateway).copied()
    }
}

/// Runs until told to stop: judges streamers who are gone.
pub async fn run_judge(core: Arc<Core>, stop: CancellationToken) {
    loop {
        let timer = next_timer(&core);
        tokio::select! {
            () = stop.cancelled() => return,
            () = core.walk.gone.notified() => {}
            () = async { core.clock.sleep_until(timer.unwrap_or(0)).await }, if timer.is_some() => {}
        }
        judge_streamers(&core).await;
    }
}

/// Runs until told to stop: walks when it is this gateway's turn.
pub async fn run(core: Arc<Core>, stop: CancellationToken) {
    let mut turn = tokio::time::interval(core.config.lease_refresh);
    turn.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut walker = Walker { round: rand::random_range(0..STRAYS_ROUNDS), ..Walker::default() };
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = turn.tick() => {}
            () = core.walk.buried.notified() => {}
        }
        walker.take_turn(&core).await;
    }
}

/// When a streamer who is gone is looked for next.
fn next_timer(core: &Core) -> Option<Millis> {
    core.config.streamer_timeout?;
    core.walk.state.lock().gone.values().map(|gone| gone.look_at).min()
}

/// Looks whether streamers who are gone have come back, and closes the lives of those whose time is up.
async fn judge_streamers(core: &Core) {
    let Some(timeout) = core.config.streamer_timeout.map(millis) else {
        return core.walk.state.lock().gone.clear();
    };
    let now = core.clock.now();
    let due: Vec<(LiveId, Gone)> = {
        let gone = &core.walk.state.lock().gone;
        gone.iter().filter(|(_, gone)| gone.look_at <= now).map(|(live, gone)| (live.clone(), *gone)).collect()
    };
    for (live, gone) in due {
        let is_up = gone.since + timeout <= now && !gone.failed;
        let next = match judge(core, &live, is_up).await {
            Ok(Verdict::Settled) => None,
            Ok(Verdict::Gone) if gone.failed => Some((now + millis(core.config.lease), false)),
            Ok(Verdict::Gone) => Some(((gone.since + timeout).min(now + timeout.div_ceil(6)), false)),
            Err(why) => {
                tracing::debug!(live_id = %live, error = %why, "a streamer was not judged, will try again");
                Some((now + millis(core.config.lease) / 3, true))
            }
        };
        let mut state = core.walk.state.lock();
        match (next, state.gone.get_mut(&live)) {
            (Some((look_at, failed)), Some(there)) => (there.look_at, there.failed) = (look_at, failed),
            // Who went once more meanwhile is not forgotten.
            (None, Some(there)) if there.since == gone.since => drop(state.gone.remove(&live)),
            (None, Some(there)) => there.look_at = now,
            (_, None) => {}
        }
    }
}

enum Verdict {
    /// The streamer is back, or the live is over.
    Settled,
    Gone,
}

/// One live whose streamer was gone; it is closed if the streamer's time is up.
async fn judge(core: &Core, live: &LiveId, is_up: bool) -> StoreResult<Verdict> {
    let record = core.store.load_live(live).await?;
    let open = record.filter(|record| record.state == LiveState::Open && record.opened_by == OpenedBy::Streamer);
    let Some(record) = open else { return Ok(Verdict::Settled) };
    if is_connected(core, &record).await? {
        return Ok(Verdict::Settled);
    }
    if !is_up {
        return Ok(Verdict::Gone);
    }
    core.lives.close_quietly(&record, CloseReason::StreamerTimeout).await?;
    Ok(Verdict::Settled)
}

/// Whether a live's streamer is connected to a gateway that lives.
async fn is_connected(core: &Core, record: &LiveRecord) -> StoreResult<bool> {
    if core.streamers.is_here(&record.streamer) {
        return Ok(true);
    }
    let gateways = core.store.streamer_gateways(&record.streamer).await?;
    let roster = core.liveness.roster();
    // Its own word of before is no sign: the streamer is not here.
    let counts = |gateway: &&GatewayId| !core.own_lease.is_own(gateway) && !roster.dead.contains(*gateway);
    for unknown in gateways.iter().filter(counts).filter(|gateway| roster.is_unknown(gateway)) {
        core.liveness.stands_somewhere(unknown, core.clock.now());
    }
    Ok(gateways.iter().any(|gateway| counts(&gateway)))
}

/// What one gateway knows from one walk to the next.
#[derive(Debug, Default)]
struct Walker {
    /// When the next walk is due; `None` while another gateway walks.
    next: Option<Millis>,
    round: u64,
    /// Lives that were listed and had no record, and since when.
    unrecorded: HashMap<LiveId, Millis>,
    /// Lives that could not be looked after.
    failed: Vec<LiveId>,
    /// The dead whom the last walk knew of.
    met: HashSet<GatewayId>,
    /// Where the next look for strays goes on in a slice, and where this one does.
    cursors: HashMap<SliceId, u64>,
    cursors_before: HashMap<SliceId, u64>,
    /// The dead whose words on viewers are dropped wherever the walk comes by.
    forgotten: Arc<[GatewayId]>,
}

impl Walker {
    async fn take_turn(&mut self, core: &Core) {
        match core.store.take_sweeper_turn(&core.id(), core.config.lease_refresh * 2).await {
            Ok(true) => core.walk.walks.store(true, Ordering::Relaxed),
            Ok(false) => return self.lose_turn(core),
            Err(why) => return tracing::debug!(error = %why, "the turn to walk was not taken"),
        }
        let now = core.clock.now();
        let buried: HashSet<GatewayId> = core.walk.state.lock().unswept.keys().cloned().collect();
        let regular = self.next.is_none_or(|next| next <= now);
        let roster = core.liveness.roster();
        let others = roster.dead.iter().filter(|dead| !buried.contains(*dead));
        // Those who were just buried first: of the others most words went with an earlier walk.
        self.forgotten = buried.iter().chain(others).take(MOST_FORGOTTEN).cloned().collect();
        let walked = if regular || !buried.is_subset(&self.met) {
            self.met.clone_from(&buried);
            self.round += u64::from(regular);
            let every = millis(core.config.check_every);
            self.next = Some(now + every - every / 10 + rand::random_range(0..=every / 5));
            self.walk(core, regular && self.round.is_multiple_of(STRAYS_ROUNDS)).await
        } else {
            let failed = std::mem::take(&mut self.failed);
            self.look_after_all(core, failed, false).await;
            Ok(())
        };
        match walked {
            // Until then the dead may stand in lives that could not be reached.
            Ok(()) if self.failed.is_empty() => {
                core.walk.state.lock().unswept.retain(|gateway, _| !buried.contains(gateway));
            }
            Ok(()) => {}
            Err(why) => tracing::debug!(error = %why, "could not walk the open lives"),
        }
    }

    /// Who takes the turn over walks at once, and meets all the dead.
    fn lose_turn(&mut self, core: &Core) {
        *self = Self { round: self.round, ..Self::default() };
        core.walk.walks.store(false, Ordering::Relaxed);
        core.walk.state.lock().unswept.clear();
    }

    /// One walk over the list.
    async fn walk(&mut self, core: &Core, strays: bool) -> StoreResult<()> {
        let mut after: Option<ListedLive> = None;
        let ttl = core.config.lease_refresh * 2;
        let known = std::mem::take(&mut self.unrecorded);
        self.failed.clear();
        if strays {
            // Of a slice that the list no longer leads to, the cursor is forgotten.
            self.cursors_before = std::mem::take(&mut self.cursors);
        }
        loop {
            let page = match core.store.lives_page(after.as_ref(), PAGE).await {
                Ok(page) => page,
                Err(why) => {
                    self.next = None;
                    return Err(why);
                }
            };
            let Some(last) = page.last().cloned() else { break };
            self.look_after_all(core, page.into_iter().map(|listed| listed.live).collect(), strays).await;
            after = Some(last);
            // A long walk keeps its turn.
            if !core.store.take_sweeper_turn(&core.id(), ttl).await? {
                self.lose_turn(core);
                return Ok(());
            }
        }
        for (live, since) in &mut self.unrecorded {
            *since = known.get(live).copied().unwrap_or(*since);
        }
        self.delist(core).await;
        Ok(())
    }

    /// Looks after some lives. Those that could not be reached are noted.
    async fn look_after_all(&mut self, core: &Core, lives: Vec<LiveId>, strays: bool) {
        let forgotten = self.forgotten.clone();
        let looks: Vec<_> = stream::iter(lives)
            .map(|live| {
                let forgotten = forgotten.clone();
                async move { (look_after(core, &live, &forgotten).await, live) }
            })
            .buffer_unordered(AT_A_TIME)
            .collect()
            .await;
        for (found, live) in looks {
            match found {
                Ok(Found::Nothing) => {}
                Ok(Found::Unrecorded) => drop(self.unrecorded.insert(live, core.clock.now())),
                Ok(Found::Open(slices)) if strays => self.drop_strays(core, slices).await,
                Ok(Found::Open(_)) => {}
                // What another program garbled is no better the next time.
                Err(why @ StoreError::Nonsense(_)) => {
                    tracing::warn!(live_id = %live, error = %why, "cannot look after a live");
                }
                Err(why) => {
                    tracing::debug!(live_id = %live, error = %why, "could not look after a live, will try again");
                    self.failed.push(live);
                }
            }
        }
    }

    /// A gateway that holds a live writes its record again; one that is still missing after a lease has nobody.
    async fn delist(&mut self, core: &Core) {
        let now = core.clock.now();
        let gone = self.unrecorded.iter().filter(|(_, since)| now.saturating_sub(**since) > millis(core.config.lease));
        for live in gone.map(|(live, _)| live.clone()).collect::<Vec<_>>() {
            match core.store.delist(&live).await {
                Ok(()) => drop(self.unrecorded.remove(&live)),
                Err(why) => tracing::debug!(live_id = %live, error = %why, "a live was not taken off the list"),
            }
        }
    }

    /// One page of each slice.
    async fn drop_strays(&mut self, core: &Core, slices: Vec<(SliceId, SliceReading)>) {
        for (slice, reading) in slices {
            if reading.card == 0 {
                continue;
            }
            let cursor = self.cursors_before.get(&slice).copied().unwrap_or(0);
            match drop_strays(core, &slice, cursor).await {
                Ok(Some(next)) => drop(self.cursors.insert(slice, next)),
                Ok(None) => {}
                Err(why) => tracing::debug!(live_id = %slice.live, error = %why, "strays were not looked for"),
            }
        }
    }
}

/// What a look at a live found.
enum Found {
    Nothing,
    /// It is listed and has no record.
    Unrecorded,
    /// It is open; its slices as they were read.
    Open(Vec<(SliceId, SliceReading)>),
}

async fn look_after(core: &Core, live: &LiveId, forgotten: &[GatewayId]) -> StoreResult<Found> {
    let Some(record) = core.store.load_live(live).await? else { return Ok(Found::Unrecorded) };
    match record.state {
        LiveState::Closed => {
            core.store.delist(live).await?;
            Ok(Found::Nothing)
        }
        LiveState::Closing => {
            tracing::info!(live_id = %live, "finishing a close that another gateway began");
            core.lives.finish(record).await?;
            Ok(Found::Nothing)
        }
        LiveState::Open => look_after_open(core, &record, forgotten).await,
    }
}

async fn look_after_open(core: &Core, record: &LiveRecord, forgotten: &[GatewayId]) -> StoreResult<Found> {
    if record.opened_by == OpenedBy::Streamer && core.config.streamer_timeout.is_some() {
        if is_connected(core, record).await? {
            core.walk.state.lock().gone.remove(&record.live);
        } else {
            core.walk.found_gone(&record.live, core.clock.now());
        }
    }
    let own = core.id();
    let mut slices = Vec::with_capacity(record.slices as usize);
    for slice in SliceId::all(&record.live, record.slices) {
        let reading = core.store.read_slice(&slice, &own).await?;
        if let Some(older) = older_epoch(&reading, record.epoch) {
            tracing::warn!(live_id = %record.live, slice = slice.index, epoch = %older, "closing a slice of an older epoch");
            core.store.close_slice(&slice, older).await?;
            continue;
        }
        look_at_gateways(core, &slice, &reading.gateways).await?;
        if reading.card > 0 && reading.gateways.is_empty() && reading.entry.is_none() {
            drop_strays(core, &slice, 0).await?;
        }
        slices.push((slice, reading));
    }
    if !forgotten.is_empty() {
        core.store.forget_viewers(&record.live, forgotten).await?;
    }
    Ok(Found::Open(slices))
}

/// The epoch of a slice that is open in an older one than its live.
fn older_epoch(reading: &SliceReading, present: Epoch) -> Option<Epoch> {
    match reading.fence {
        Some(Fence::Open(epoch)) if epoch < present => Some(epoch),
        _ => None,
    }
}

/// Sweeps the dead among the gateways that have an entry in a slice, and notes those that are not known.
///
/// # Errors
/// The store's, of the first sweep that failed; the other gateways were looked at all the same.
pub(crate) async fn look_at_gateways(core: &Core, slice: &SliceId, gateways: &[GatewayId]) -> StoreResult<()> {
    let roster = core.liveness.roster();
    let own = core.id();
    let mut trouble = Ok(());
    for gateway in gateways {
        if roster.dead.contains(gateway) {
            trouble = sweep(core, slice, gateway).await.and(trouble);
        } else if roster.is_unknown(gateway) && *gateway != own {
            // This may be a former id of this gateway's: if its burial was lost, nobody else may be there to bury it again.
            core.liveness.stands_somewhere(gateway, core.clock.now());
        }
    }
    trouble
}

/// Takes out all that a dead gateway holds in a slice, call by call.
async fn sweep(core: &Core, slice: &SliceId, gateway: &GatewayId) -> StoreResult<()> {
    let mut released = 0;
    loop {
        let swept = core.store.sweep(slice, gateway, core.removals_a_call()).await?;
        released += swept.released;
        core.metrics.swept_members.inc_by(swept.released);
        note_size(core, slice, (swept.card, swept.version));
        if swept.done {
            break;
        }
    }
    if released > 0 {
        if core.rooms.get(&slice.live).is_none() {
            core.gossip.doubt(&slice.live);
        }
        if let Some(at) = core.walk.buried_at(gateway) {
            let age = Duration::from_millis(core.clock.now().saturating_sub(at));
            core.metrics.ghost_age_seconds.observe(age.as_secs_f64());
        }
        tracing::info!(live_id = %slice.live, slice = slice.index, gateway_id = %gateway, members = released, "swept a dead gateway");
    }
    Ok(())
}

/// The size of a slice, for a room of its live and for those that other gateways have.
fn note_size(core: &Core, slice: &SliceId, size: (u64, u64)) {
    match core.rooms.get(&slice.live) {
        Some(room) if room.record.slices == slice.of => core.note_card(&room, slice.index as usize - 1, size),
        _ => {}
    }
}

/// Takes members out of a slice whom no gateway holds: a page from `cursor` on, and where there surely are more, all of
/// them. Answers where the next look goes on.
///
/// # Errors
/// The store's.
pub(crate) async fn drop_strays(core: &Core, slice: &SliceId, cursor: u64) -> StoreResult<Option<u64>> {
    let mut cursor = cursor;
    loop {
        let page = core.store.strays(slice, cursor, core.removals_a_call(), Strays::Drop).await?;
        core.strays_dropped(slice, &page);
        note_size(core, slice, (page.card, page.version));
        match page.next {
            Some(next) if page.card > page.held => cursor = next,
            next => return Ok(next),
        }
    }
}
