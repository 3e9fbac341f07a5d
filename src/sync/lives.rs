//! Owns the way of a live from open to closed, as this gateway takes it: opening, finding, closing, letting go.
//!
//! A close that somebody asked for is carried out whether or not they still wait: it runs in a task of its own.
//! Its order is what makes it final: the record says `closing`, then every slice's fence is closed and its keys are
//! unlinked, then the record says `closed`, then it is answered. Called by sessions, the HTTP API, upkeep and the walk.

use std::sync::Arc;
use std::time::Duration;

use dashmap::DashMap;
use futures_util::{StreamExt, TryStreamExt, stream};
use tokio::sync::OnceCell;
use tokio_util::task::TaskTracker;

use crate::base::clock::Clock;
use crate::base::ids::{Epoch, GatewayId, LiveId, MAX_SLICES, SliceId, UserId};
use crate::base::metrics::Metrics;
use crate::peers::Outbox;
use crate::presence::bans::Known;
use crate::presence::checks::Checks;
use crate::presence::gateways::Gateways;
use crate::presence::{Installed, Room, Rooms};
use crate::store::Fence;
use crate::store::{
    CloseLive, CloseReason, CloseReply, Closure, GatewayViewers, LiveRecord, LiveState, OpenLive, OpenReply, OpenedBy,
    SliceReading, Store, StoreError, StoreResult,
};
use crate::sync::catch_up::load_bans;

/// Followers that one slice is meant for.
const FOLLOWERS_PER_SLICE: u64 = 50_000;

/// Slices closed or read at a time.
const SLICES_AT_A_TIME: usize = 32;

/// That a live is not open is remembered for so long, of so many lives: whoever asks for lives that are not there costs
/// no more than this.
const NOT_OPEN: (Duration, u64) = (Duration::from_secs(1), 10_000);

/// A wish to open a live.
#[derive(Debug, Clone)]
pub struct OpenWish {
    /// The live.
    pub live: LiveId,
    /// Its owner.
    pub streamer: UserId,
    /// How many slices, 1 to [`MAX_SLICES`]; from the follower count if not said.
    pub slices: Option<u32>,
    /// Over which role.
    pub by: OpenedBy,
}

/// A live that is open now.
#[derive(Debug, Clone)]
pub struct Opened {
    /// The live.
    pub record: LiveRecord,
    /// Whether this wish opened it.
    pub created: bool,
}

/// A live as it is now.
#[derive(Debug, Clone)]
pub struct LiveView {
    /// The live; with the highest peaks known.
    pub record: LiveRecord,
    /// Viewers online.
    pub viewers: u64,
    /// Fans online.
    pub fans: u64,
}

/// Why a live cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LiveError {
    /// No epoch is open.
    #[error("live {0} is not open")]
    NotOpen(LiveId),
    /// There is no record of it.
    #[error("live {0} was never opened")]
    NeverOpened(LiveId),
    /// Another streamer's live is open under this id.
    #[error("live {0} was opened by another streamer")]
    Owned(LiveId),
    /// The store did not do it.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What is known of lives and what happens to them.
pub struct Lives {
    parts: Arc<Parts>,
    /// One look-up per live at a time, whoever asks.
    finding: DashMap<LiveId, Arc<OnceCell<Found>>>,
    not_open: moka::sync::Cache<LiveId, ()>,
}

/// When a look-up began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    /// Somebody else had begun it.
    Before,
    /// When it was asked for.
    Now,
}

/// What a look-up answers to all who wait for it: the room of an open live.
pub type Found = Result<Arc<Room>, LiveError>;

/// What lives are made of; shared with the tasks that carry out closes.
pub struct Parts {
    /// The store's share for what clients ask.
    pub store: Arc<dyn Store>,
    pub rooms: Arc<Rooms>,
    pub gateways: Arc<Gateways>,
    pub checks: Arc<Checks>,
    pub outbox: Arc<Outbox>,
    pub metrics: Arc<Metrics>,
    pub clock: Clock,
    /// How long the record of a closed live is kept.
    pub closed_ttl: Duration,
    /// Tasks that must end before the process does.
    pub tasks: TaskTracker,
}

impl Lives {
    /// Wires it up.
    pub fn new(parts: Parts) -> Self {
        let not_open = moka::sync::Cache::builder().time_to_live(NOT_OPEN.0).max_capacity(NOT_OPEN.1).build();
        Self { parts: Arc::new(parts), finding: DashMap::new(), not_open }
    }

    /// Opens a live, or finds it open.
    ///
    /// # Errors
    /// [`LiveError::Owned`], or the store's.
    pub async fn open(&self, wish: OpenWish) -> Result<Opened, LiveError> {
        let (parts, live) = (self.parts.clone(), wish.live.clone());
        let opened = carry_out(&self.parts.tasks, async move { parts.open(&wish).await }).await;
        self.not_open.invalidate(&live);
        opened
    }

    /// The room of an open live, made if this gateway has none yet.
    ///
    /// # Errors
    /// [`LiveError::NotOpen`], or the store's.
    pub async fn find(&self, live: &LiveId) -> Found {
        if let Some(room) = self.parts.rooms.get(live) {
            return Ok(room);
        }
        if self.not_open.contains_key(live) {
            return Err(LiveError::NotOpen(live.clone()));
        }
        // One that began before this may have looked before the live was opened; the next one did not.
        let found = match self.look_up(live).await {
            (Err(LiveError::NotOpen(_)), Asked::Before) => self.look_up(live).await.0,
            (found, _) => found,
        };
        if let Err(LiveError::NotOpen(_)) = found {
            self.not_open.insert(live.clone(), ());
        }
        found
    }

    /// Whoever comes while a look-up is under way shares its answer, be it a failure; nobody's answer is kept.
    async fn look_up(&self, live: &LiveId) -> (Found, Asked) {
        let cell = self.finding.entry(live.clone()).or_default().clone();
        let mut asked = Asked::Before;
        let look = || {
            asked = Asked::Now;
            self.parts.load(live)
        };
        let found = cell.get_or_init(look).await.clone();
        self.finding.remove_if(live, |_, there| Arc::ptr_eq(there, &cell));
        (found, asked)
    }

    /// Closes whichever epoch of a live is open now, for good; closing a closed one answers its record.
    ///
    /// # Errors
    /// [`LiveError::NeverOpened`]; [`LiveError::NotOpen`] if another epoch began meanwhile; or the store's: then a
    /// close that has begun is finished by a later walk over the open lives, or by asking again.
    pub async fn close(&self, live: &LiveId, reason: CloseReason) -> Result<LiveRecord, LiveError> {
        let (parts, live) = (self.parts.clone(), live.clone());
        carry_out(&self.parts.tasks, async move {
            // The epoch is fixed first: a call that comes late must not close the next one.
            let record = match parts.store.load_live(&live).await? {
                Some(record) => record,
                // The store lost the record of a live that is open here: it is written again, to be closed for all.
                None => parts.rooms.get(&live).ok_or(LiveError::NeverOpened(live))?.record.clone(),
            };
            parts.close(&record, reason).await
        })
        .await
    }

    /// Closes this epoch of a live, and no other.
    ///
    /// # Errors
    /// [`LiveError::NotOpen`] if another epoch has begun since; otherwise as for [`Lives::close`].
    pub async fn close_epoch(&self, record: &LiveRecord, reason: CloseReason) -> Result<LiveRecord, LiveError> {
        let (parts, record) = (self.parts.clone(), record.clone());
        carry_out(&self.parts.tasks, async move { parts.close(&record, reason).await }).await
    }

    /// Closes this epoch if it is still open; nobody asked, so there is nobody to answer.
    ///
    /// # Errors
    /// The store's.
    pub async fn close_quietly(&self, record: &LiveRecord, reason: CloseReason) -> StoreResult<()> {
        tracing::info!(live_id = %record.live, epoch = %record.epoch, reason = reason.as_str(), "closing a live");
        match self.parts.close(record, reason).await {
            Ok(_) | Err(LiveError::NeverOpened(_) | LiveError::NotOpen(_) | LiveError::Owned(_)) => Ok(()),
            Err(LiveError::Store(why)) => Err(why),
        }
    }

    /// Finishes a close that was begun, here or elsewhere.
    ///
    /// # Errors
    /// The store's.
    pub async fn finish(&self, record: LiveRecord) -> StoreResult<()> {
        self.parts.finish(record).await.map(drop)
    }

    /// The store says that a room's epoch is over: tells its sockets. `record` is how the live stands now.
    ///
    /// # Errors
    /// The store's, if a close must be finished and could not.
    pub async fn let_go(&self, room: &Arc<Room>, record: LiveRecord) -> StoreResult<()> {
        if record.epoch == room.record.epoch && record.state == LiveState::Closing {
            return self.finish(record).await;
        }
        let own = record.epoch == room.record.epoch;
        let held: Vec<SliceId> = room
            .slices()
            .iter()
            .filter(|slice| slice.lock().desired().is_registered())
            .map(|slice| slice.id.clone())
            .collect();
        self.parts.end(room, if own { record } else { self.parts.superseded(room) });
        // What this gateway wrote after the fence was forgotten goes too; a newer epoch's slices are left alone.
        close_slices(self.parts.store.as_ref(), held.into_iter(), room.record.epoch).await
    }

    /// A live's record changed: ends its room here if the live is over. A close is the gateway's to finish that began
    /// it. Answers the number of the last removal if the live goes on.
    ///
    /// # Errors
    /// The store's.
    pub async fn look_again(&self, live: &LiveId) -> StoreResult<Option<u64>> {
        let parts = &self.parts;
        let Some(room) = parts.rooms.get(live) else { return Ok(None) };
        // No record is no close: a check has it written again.
        let Some(record) = parts.store.load_live(live).await? else { return Ok(None) };
        let epoch = room.record.epoch;
        if record.epoch < epoch {
            return Ok(None);
        }
        if record.epoch == epoch && record.state == LiveState::Open {
            return Ok(Some(record.removals));
        }
        if record.epoch > epoch || record.state == LiveState::Closed {
            self.let_go(&room, record).await?;
            return Ok(None);
        }
        let peaks = record.peaks.max(room.peaks());
        parts.end(&room, LiveRecord { peaks, ..record });
        Ok(None)
    }

    /// A live as it is now.
    ///
    /// # Errors
    /// [`LiveError::NeverOpened`], or the store's.
    pub async fn view(&self, live: &LiveId) -> Result<LiveView, LiveError> {
        let parts = &self.parts;
        if let Some(room) = parts.rooms.get(live) {
            let figures = room.figures();
            let record = LiveRecord { peaks: room.peaks(), ..room.record.clone() };
            return Ok(LiveView { record, viewers: figures.viewers, fans: figures.fans });
        }
        let record = parts.store.load_live(live).await?.ok_or_else(|| LiveError::NeverOpened(live.clone()))?;
        let (mut viewers, mut fans) = (0, 0);
        if record.state == LiveState::Open {
            let slices = parts.read_slices(&record).await?;
            fans = slices.iter().map(|(_, reading)| reading.card).sum();
            let roster = parts.gateways.roster();
            let said = parts.viewers(&record).await.unwrap_or_default();
            viewers = said.iter().filter(|word| roster.counts(&word.gateway)).map(|word| word.viewers).sum();
        }
        Ok(LiveView { record, viewers, fans })
    }
}

/// Runs in a task of its own, so that whoever asked may go away without stopping it half way.
async fn carry_out<T: Send + 'static>(
    tasks: &TaskTracker,
    work: impl Future<Output = Result<T, LiveError>> + Send + 'static,
) -> Result<T, LiveError> {
    match tasks.spawn(work).await {
        Ok(done) => done,
        Err(_) => Err(LiveError::Store(StoreError::Lost("the task that carried it out ended".to_owned()))),
    }
}

/// How many slices a live of so many followers gets: a power of two, one slice per 50,000.
fn slices_for(followers: u64) -> u32 {
    let wanted = followers.div_ceil(FOLLOWERS_PER_SLICE).max(1);
    wanted.next_power_of_two().min(u64::from(MAX_SLICES)) as u32
}

impl Parts {
    async fn open(&self, wish: &OpenWish) -> Result<Opened, LiveError> {
        let slices = match wish.slices {
            Some(slices) => slices.clamp(1, MAX_SLICES),
            None => slices_for(self.store.follower_count(&wish.streamer).await?),
        };
        let message = self.outbox.record_changed();
        let wish = OpenLive { live: wish.live.clone(), streamer: wish.streamer.clone(), slices, by: wish.by, message };
        loop {
            let (record, created) = match self.store.open_live(&wish).await? {
                OpenReply::Opened(record) => (record, true),
                OpenReply::AlreadyOpen(record) => (record, false),
                OpenReply::Owned(record) if record.state == LiveState::Open => return Err(LiveError::Owned(wish.live)),
                // Each round finishes a close or fails, so this ends.
                OpenReply::Changed => continue,
                OpenReply::Owned(record) | OpenReply::Closing(record) => {
                    self.finish(record).await?;
                    continue;
                }
            };
            self.install(record.clone(), created).await?;
            return Ok(Opened { record, created });
        }
    }

    async fn load(&self, live: &LiveId) -> Found {
        match self.store.load_live(live).await? {
            Some(record) if record.state == LiveState::Open => Ok(self.install(record, false).await?),
            _ => Err(LiveError::NotOpen(live.clone())),
        }
    }

    /// Makes the room, with what the store holds already: other gateways' fans, or a dead one's.
    async fn install(&self, record: LiveRecord, fresh: bool) -> StoreResult<Arc<Room>> {
        if let Some(room) = self.rooms.get(&record.live)
            && room.record.epoch == record.epoch
        {
            return Ok(room);
        }
        let (slices, viewers, bans) = if fresh {
            (Vec::new(), Some(Vec::new()), Known::default())
        } else {
            let bans = load_bans(self.store.as_ref(), &record);
            let (slices, viewers, bans) = tokio::join!(self.read_slices(&record), self.viewers(&record), bans);
            (slices?, viewers, bans?)
        };
        let now = self.clock.now();
        match self.rooms.install(record, bans, now) {
            Installed::Known(room) => Ok(room),
            Installed::New(room, old) => {
                if let Some(old) = old {
                    let over = self.superseded(&old);
                    self.end(&old, over);
                }
                for slice in room.slices() {
                    room.note_card(slice, (0, 0), now);
                }
                for (place, reading) in slices {
                    let slice = &room.slices()[place];
                    room.note_card(slice, (reading.card, reading.version), now);
                    let in_epoch = reading.fence == Some(Fence::Open(room.record.epoch));
                    if let Some(number) = reading.entry.filter(|_| in_epoch) {
                        slice.lock().found(number, reading.held, self.gateways.own.incarnation().number);
                    }
                }
                match viewers {
                    Some(said) => _ = room.read_viewers(said, &self.gateways.id(), &self.gateways.roster()),
                    None => room.remote.set_unread(),
                }
                // What changes between the reading and the listening is found by the check that follows it.
                self.store.subscribe(&room.record.live);
                self.checks.admit(&room);
                Ok(room)
            }
        }
    }

    /// What the gateways said of their viewers; `None` if that cannot be had, which keeps nobody from joining.
    async fn viewers(&self, record: &LiveRecord) -> Option<Vec<GatewayViewers>> {
        let said = self.store.view_viewers(&record.live, record.epoch).await;
        said.inspect_err(|why| tracing::debug!(live_id = %record.live, error = %why, "no viewers of others"))
            .ok()
            .flatten()
    }

    /// Each slice by its place, as this gateway sees it.
    async fn read_slices(&self, record: &LiveRecord) -> StoreResult<Vec<(usize, SliceReading)>> {
        let own: GatewayId = self.gateways.id();
        stream::iter(SliceId::all(&record.live, record.slices))
            .map(|slice| {
                let own = &own;
                async move { Ok((slice.index as usize - 1, self.store.read_slice(&slice, own).await?)) }
            })
            .buffer_unordered(SLICES_AT_A_TIME)
            .try_collect()
            .await
    }

    async fn close(&self, asked: &LiveRecord, reason: CloseReason) -> Result<LiveRecord, LiveError> {
        let live = &asked.live;
        let mut rewritten = false;
        loop {
            let room = self.rooms.get(live).filter(|room| room.record.epoch == asked.epoch);
            let peaks = room.as_ref().map(|room| room.peaks()).unwrap_or_default();
            let message = self.outbox.record_changed();
            let wish = CloseLive { live: live.clone(), epoch: asked.epoch, reason, peaks, message };
            match self.store.begin_close(&wish).await? {
                CloseReply::Closing(record) => return Ok(self.finish(record).await?),
                CloseReply::Closed(record) => {
                    if let Some(room) = room {
                        self.end(&room, record.clone());
                    }
                    return Ok(record);
                }
                CloseReply::OtherEpoch(_) => return Err(LiveError::NotOpen(live.clone())),
                CloseReply::Absent if asked.state == LiveState::Open && !rewritten => {
                    rewritten = true;
                    self.store.keep_live(asked, &self.outbox.record_changed()).await?;
                }
                CloseReply::Absent => return Err(LiveError::NeverOpened(live.clone())),
            }
        }
    }

    /// From `closing` to `closed`: lets go of the sockets, closes every slice, then the record.
    async fn finish(&self, record: LiveRecord) -> StoreResult<LiveRecord> {
        if let Some(room) = self.rooms.get(&record.live)
            && room.record.epoch == record.epoch
        {
            let peaks = record.peaks.max(room.peaks());
            self.end(&room, LiveRecord { peaks, ..record.clone() });
        }
        let finished = finish_in_store(self.store.as_ref(), &record, self.closed_ttl).await?;
        if let Some(closure) = record.closure {
            Metrics::count(&self.metrics.lives_closed, closure.reason.as_str());
        }
        // The record may be a newer epoch's by now; the close that is answered is this one.
        let finished = finished.filter(|finished| finished.epoch == record.epoch);
        Ok(finished.unwrap_or(LiveRecord { state: LiveState::Closed, ..record }))
    }

    /// The end of a room whose epoch was replaced by a newer one, as far as it is known.
    fn superseded(&self, room: &Room) -> LiveRecord {
        let closure = Closure { reason: CloseReason::Requested, at: self.clock.unix() };
        let peaks = room.peaks();
        LiveRecord { state: LiveState::Closed, closure: Some(closure), peaks, ..room.record.clone() }
    }

    /// Ends a room. Its sockets are told slice by slice, beside what the caller goes on with: a million of them take
    /// seconds, and neither the slices' fences nor the answer wait for that.
    fn end(&self, room: &Arc<Room>, record: LiveRecord) {
        if !room.close(record) {
            return;
        }
        self.rooms.remove(room);
        self.store.unsubscribe(&room.record.live);
        self.checks.look_after(room);
        let (room, metrics) = (room.clone(), self.metrics.clone());
        self.tasks.spawn(async move {
            for slice in room.slices() {
                let released = room.release(slice);
                metrics.leaves_by("closed", released as u64);
                tokio::task::yield_now().await;
            }
            room.release_listeners();
        });
    }
}

/// The part of a close that the store sees, from `closing` to `closed`: every slice is closed, then the record. Answers
/// the record as it is then, which may be of a newer epoch.
pub(crate) async fn finish_in_store(
    store: &dyn Store,
    record: &LiveRecord,
    keep: Duration,
) -> StoreResult<Option<LiveRecord>> {
    close_slices(store, SliceId::all(&record.live, record.slices), record.epoch).await?;
    store.finish_close(&record.live, record.epoch, keep).await
}

async fn close_slices(
    store: &dyn Store,
    slices: impl Iterator<Item = SliceId> + Send,
    epoch: Epoch,
) -> StoreResult<()> {
    stream::iter(slices)
        .map(|slice| async move { store.close_slice(&slice, epoch).await })
        .buffer_unordered(SLICES_AT_A_TIME)
        .try_collect()
        .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_follow_the_follower_count() {
        for (followers, slices) in
            [(0, 1), (50_000, 1), (50_001, 2), (150_000, 4), (1_000_000, 32), (100_000_000, 256), (u64::MAX / 2, 256)]
        {
            assert_eq!(slices_for(followers), slices, "{followers}");
        }
    }
}
