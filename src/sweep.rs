//! Owns what becomes of gateways that died: their members are taken out of the store by whoever notices.
//!
//! Two ways to notice. A gateway that holds a live is told, with each lease refresh, which peers are late
//! ([`Suspects`]); and one gateway at a time walks the list of open lives for those that no room here holds
//! ([`run_orphans`]), many in one call, and looks at those by themselves that need somebody. A suspect is swept when its
//! lease has run out and not before: the store judges that by its own clock, so a gateway that wakes up in time loses
//! nothing.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use xxhash_rust::xxh3::xxh3_64;

use crate::clock::{Millis, millis};
use crate::core::Core;
use crate::ids::{GatewayId, LiveId, SliceId};
use crate::store::{
    CheckSlice, CloseReason, LiveState, MAX_SURVEYED, OpenedBy, Silent, StoreError, StoreResult, Strays, Survey,
};

/// Sweeps and looks at orphaned lives that run at a time.
const AT_A_TIME: usize = 32;

/// How many lives are read from the list at a time.
const PAGE: usize = 500;

/// How often suspects are looked through.
const TICK: Duration = Duration::from_millis(200);

/// With one walk over the open lives in so many a live is looked through for members whom no gateway holds: once a minute
/// with the usual lease refresh.
const STRAYS_ROUNDS: u64 = 12;

/// Gateways that are late, each with the time at which its lease runs out; negative: before this gateway began. Bounded
/// by slices times dead gateways.
#[derive(Debug)]
pub struct Suspects {
    lease: Duration,
    due: Mutex<HashMap<(SliceId, GatewayId), i64>>,
}

fn signed(time: Millis) -> i64 {
    i64::try_from(time).unwrap_or(i64::MAX)
}

impl Suspects {
    /// Nobody is suspected.
    pub fn new(lease: Duration) -> Self {
        Self { lease, due: Mutex::default() }
    }

    /// Notes who is late in a slice.
    pub fn add(&self, slice: &SliceId, silent: Vec<Silent>, now: Millis) {
        if silent.is_empty() {
            return;
        }
        let mut due = self.due.lock();
        for Silent { gateway, quiet } in silent {
            let at = signed(now).saturating_add(signed(millis(self.lease))).saturating_sub(signed(millis(quiet)));
            due.entry((slice.clone(), gateway)).or_insert(at);
        }
    }

    fn take_due(&self, now: Millis) -> Vec<((SliceId, GatewayId), i64)> {
        self.due.lock().extract_if(|_, at| *at < signed(now)).collect()
    }

    /// How long ago the lease ran out of whom has waited longest to be swept; nothing if nobody waits.
    pub fn oldest(&self, now: Millis) -> Duration {
        let first = self.due.lock().values().min().copied();
        first.map_or(Duration::ZERO, |at| age(at, now))
    }
}

/// How long ago a lease ran out.
fn age(at: i64, now: Millis) -> Duration {
    Duration::from_millis(u64::try_from(signed(now).saturating_sub(at)).unwrap_or(0))
}

/// Runs until told to stop: sweeps suspects when their leases have run out.
pub async fn run_suspects(core: Arc<Core>, stop: CancellationToken) {
    let mut tick = tokio::time::interval(TICK);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = tick.tick() => {}
        }
        let due = core.suspects.take_due(core.clock.now());
        stream::iter(due)
            .for_each_concurrent(AT_A_TIME, |((slice, gateway), ran_out)| {
                let core = &core;
                async move {
                    if let Err(why) = sweep(core, (&slice, &gateway), ran_out).await {
                        // The next lease refresh, or the next walk over the list, names it again.
                        tracing::debug!(live_id = %slice.live, gateway_id = %gateway, error = %why, "sweep failed");
                    }
                }
            })
            .await;
    }
}

/// Takes out all that a dead gateway holds in a slice, call by call, until it is empty or the gateway is back.
async fn sweep(core: &Core, (slice, gateway): (&SliceId, &GatewayId), ran_out: i64) -> StoreResult<()> {
    let mut released = 0;
    loop {
        let swept = core.store.sweep(slice, gateway, core.config.lease).await?;
        released += swept.released;
        core.metrics.swept_members.inc_by(swept.released);
        if let Some(room) = core.rooms.get(&slice.live)
            && let Some(place) = room.slices().iter().position(|own| own.id == *slice)
        {
            core.note_card(&room, place, (swept.card, swept.at));
        }
        if swept.done {
            break;
        }
    }
    if released > 0 {
        core.metrics.ghost_age_seconds.observe(age(ran_out, core.clock.now()).as_secs_f64());
        tracing::info!(live_id = %slice.live, slice = slice.index, gateway_id = %gateway, members = released, "swept a dead gateway");
    }
    Ok(())
}

/// Runs until told to stop: walks the open lives that no room here holds, when it is this gateway's turn.
pub async fn run_orphans(core: Arc<Core>, stop: CancellationToken) {
    let mut tick = tokio::time::interval(core.config.lease_refresh);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut unrecorded: HashSet<LiveId> = HashSet::new();
    let mut round = 0;
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = tick.tick() => {}
        }
        round += 1;
        match walk(&core, &unrecorded, round).await {
            Ok(found) => unrecorded = found,
            Err(why) => tracing::debug!(error = %why, "could not walk the open lives"),
        }
    }
}

/// One walk over the list. Answers the lives that it found without a record.
async fn walk(core: &Core, before: &HashSet<LiveId>, round: u64) -> StoreResult<HashSet<LiveId>> {
    let mut unrecorded = HashSet::new();
    if !core.store.take_sweeper_turn(&core.id, core.config.lease_refresh * 2).await? {
        return Ok(unrecorded);
    }
    let mut after = None;
    loop {
        let page = core.store.lives_page(after.as_ref(), PAGE).await?;
        let Some(last) = page.last().cloned() else { return Ok(unrecorded) };
        let orphans = page
            .into_iter()
            .map(|listed| listed.live)
            .filter(|live| core.rooms.get(live).is_none_or(|room| !room.is_used()));
        let due = due(core, orphans.collect(), round).await?;
        let found: Vec<(LiveId, StoreResult<bool>)> = stream::iter(due)
            .map(|(live, search)| async move {
                let recorded = look_after(core, &live, before, search).await;
                (live, recorded)
            })
            .buffer_unordered(AT_A_TIME)
            .collect()
            .await;
        for (live, recorded) in found {
            match recorded {
                Ok(true) => {}
                Ok(false) => drop(unrecorded.insert(live)),
                // One record that another program garbled must not hide the lives behind it.
                Err(why @ StoreError::Nonsense(_)) => {
                    tracing::warn!(live_id = %live, error = %why, "cannot look after a live");
                }
                Err(why) => return Err(why),
            }
        }
        after = Some(last);
    }
}

/// What is looked for in a live by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Search {
    /// Gateways and streamers that are silent, closes that nobody finishes.
    Silence,
    /// Members whom no gateway holds, besides.
    Strays,
}

/// Which of some lives are to be looked at by themselves. The others need nobody, but the lives take turns at being searched
/// for strays.
async fn due(core: &Core, lives: Vec<LiveId>, round: u64) -> StoreResult<Vec<(LiveId, Search)>> {
    let turn = |live: &LiveId| xxh3_64(live.as_str().as_bytes()) % STRAYS_ROUNDS == round % STRAYS_ROUNDS;
    let (turns, others): (Vec<LiveId>, Vec<LiveId>) = lives.into_iter().partition(turn);
    let mut due: Vec<(LiveId, Search)> = turns.into_iter().map(|live| (live, Search::Strays)).collect();
    let survey = Survey { lease: core.suspicion(), streamer: core.config.streamer_seen_within() };
    for some in others.chunks(MAX_SURVEYED) {
        let needy = core.store.survey(some, survey).await?;
        due.extend(some.iter().zip(needy).filter(|(_, needy)| *needy).map(|(live, _)| (live.clone(), Search::Silence)));
    }
    Ok(due)
}

/// Looks after one live that no room here holds. Answers whether it has a record.
async fn look_after(core: &Core, live: &LiveId, unrecorded: &HashSet<LiveId>, search: Search) -> StoreResult<bool> {
    let Some(record) = core.store.load_live(live).await? else {
        // A gateway that holds the live writes its record again within a lease refresh; one that is still missing
        // after a whole round has nobody.
        if unrecorded.contains(live) {
            core.store.delist(live).await?;
        }
        return Ok(false);
    };
    match record.state {
        LiveState::Closed => core.store.delist(live).await?,
        LiveState::Closing => {
            tracing::info!(live_id = %live, "finishing a close that another gateway began");
            core.lives.finish(record).await?;
        }
        LiveState::Open => {
            if record.opened_by == OpenedBy::Streamer
                && let Some(silent) = core.store.streamer_silent(live).await?
            {
                let heard = core.streamers.last_heard(&record.streamer).is_some();
                if heard && silent >= core.config.streamer_seen_within() {
                    // No gateway with a room says that the streamer is here, though nobody else may be: a room says it.
                    // A live that closes at this moment is found closed with the next walk.
                    let _ = core.lives.find(live).await;
                } else if !heard && core.streamer_gave_up(silent) {
                    core.lives.close_quietly(&record, CloseReason::StreamerTimeout).await?;
                    return Ok(true);
                }
            }
            for slice in SliceId::all(live, record.slices) {
                let view = core.store.view_slice(&slice, core.suspicion()).await?;
                core.suspects.add(&slice, view.silent, core.clock.now());
                if search == Search::Strays && view.card > 0 {
                    drop_strays(core, slice).await?;
                }
            }
        }
    }
    Ok(true)
}

/// Takes members out of a slice whom no gateway holds. Gateways that hold the slice do so themselves; this is for one
/// that nobody holds. One call, but where there surely are strays.
async fn drop_strays(core: &Core, slice: SliceId) -> StoreResult<()> {
    let mut check = CheckSlice { slice, holder: None, cursor: 0, strays: Strays::Drop };
    loop {
        let page = core.store.check_slice(&check).await?;
        core.strays_dropped(&check.slice, &page);
        match page.next {
            Some(next) if page.card > page.held => check.cursor = next,
            _ => return Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suspect_is_as_old_as_the_store_says_even_if_this_gateway_is_younger() {
        let suspects = Suspects::new(Duration::from_secs(15));
        let slice = SliceId { live: LiveId::parse("42").unwrap(), index: 1, of: 1 };
        let silent = |name: &str, seconds| Silent {
            gateway: GatewayId::parse(name).unwrap(),
            quiet: Duration::from_secs(seconds),
        };
        suspects.add(&slice, vec![silent("late", 10)], 1_000);
        assert_eq!((suspects.take_due(6_000).len(), suspects.oldest(1_000)), (0, Duration::ZERO));
        suspects.add(&slice, vec![silent("dead", 615)], 2_000);
        assert_eq!(suspects.oldest(3_000), Duration::from_secs(601));
        let due = suspects.take_due(3_000);
        assert_eq!((due.len(), due[0].0.1.as_str(), age(due[0].1, 3_000)), (1, "dead", Duration::from_secs(601)));
        assert_eq!(suspects.take_due(6_001).len(), 1);
    }
}
