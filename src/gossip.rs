//! Owns what gateways say to each other: counts, closes, removals and follows, in [`word`]s over the store's wire.
//!
//! Words are quick but may be lost; every one of them is made good without words. Viewers stand in the store too, written
//! and read with each lease refresh ([`refresh`]) and read when a room is made; the sizes of slices come with each
//! refresh; a close and a removal are seen by the next touch; a follow by the next fan check. So a gateway that hears
//! nothing is late by one lease refresh, and never wrong for longer. Only one that hears, and hears nobody else in a live,
//! looks at the viewers there less often (`renewal.rs`): a word that is lost all the same is made good within a minute.
//!
//! [`mouth`] tells, [`ear`] hears. A room says its counts at most once per flush interval, only on change, and once more
//! with each lease refresh. What waits to be said is state, not a queue: a room is marked once, and says what is so when
//! its turn comes.

pub mod ear;
pub mod mouth;
pub mod word;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::clock::{Clock, Millis, millis};
use crate::core::Core;
use crate::ids::{Epoch, GatewayId, LiveId, UserId};
use crate::metrics::Metrics;
use crate::rooms::Room;
use crate::rooms::peers::{Times, Turn};
use crate::rooms::tally::Heads;
use crate::store::{Channel, GatewayViewers, SayViewers, Store, StoreResult, ViewersReply};
use crate::wheel::Wheel;
use word::Word;

/// Words besides counts that wait to be told; more are dropped and counted.
const MAX_LETTERS: usize = 4_096;

/// Streamers named in one word.
const STREAMERS_A_WORD: usize = 500;

/// Words told at a time.
const AT_A_TIME: usize = 32;

/// How often rooms are looked at whose peers have fallen silent.
const TICK: Duration = Duration::from_millis(100);

/// What a room has told the other gateways, and what is to be told.
#[derive(Debug)]
pub struct Telling {
    queued: AtomicBool,
    /// To be told even if nothing changed.
    anew: AtomicBool,
    /// The others are to be asked for their counts.
    ask: AtomicBool,
    /// Something was told that is to be told once more.
    told: AtomicBool,
    /// Viewers as told last; `None` if that is not known.
    viewers: Mutex<Option<Heads>>,
    /// What the store has of this gateway, see [`Telling::stored`].
    stored: Mutex<Option<(u64, u64)>>,
    /// In which hearing the live's words are heard, see [`Gossip::hears_nobody`]; 0 is none.
    heard_in: AtomicU64,
    /// The number of the word that was found to stand under the gateway's own lease.
    covered: AtomicU64,
}

impl Default for Telling {
    fn default() -> Self {
        // Nobody misses a gateway that has no viewers.
        Self {
            queued: AtomicBool::new(false),
            anew: AtomicBool::new(false),
            ask: AtomicBool::new(false),
            told: AtomicBool::new(false),
            viewers: Mutex::new(Some(Heads::default())),
            stored: Mutex::new(None),
            heard_in: AtomicU64::new(0),
            covered: AtomicU64::new(0),
        }
    }
}

impl Telling {
    /// This gateway's word in the store, as (viewers, number), if it is the only one that stands there.
    pub fn stored(&self) -> Option<(u64, u64)> {
        *self.stored.lock()
    }

    /// The word of this number, as it stands in the store, stands under the gateway's own lease.
    pub fn note_covered(&self, word: u64) {
        self.covered.store(word, Ordering::Relaxed);
    }

    /// Whether the word of this number does, if it stands in the store.
    pub fn is_covered(&self, word: u64) -> bool {
        self.covered.load(Ordering::Relaxed) == word
    }

    /// Whether something is to be told yet, or once more.
    pub fn is_due(&self) -> bool {
        [&self.queued, &self.anew, &self.ask, &self.told].iter().any(|flag| flag.load(Ordering::Acquire))
    }
}

/// Something to tell that is no room's counts.
type Letter = (Channel, Word);

/// What waits to be said, and what the parts of the gateway say it with.
pub struct Gossip {
    me: GatewayId,
    store: Arc<dyn Store>,
    metrics: Arc<Metrics>,
    clock: Clock,
    lease: Duration,
    number: AtomicU64,
    /// Since when peers can be heard, see [`Times::audible`].
    audible: AtomicI64,
    /// The number of the present hearing, from 1; the next begins when words may be missed.
    hearing: AtomicU64,
    rooms: Mutex<Vec<Arc<Room>>>,
    rooms_wait: Notify,
    letters: Mutex<VecDeque<Letter>>,
    letters_wait: Notify,
    /// Rooms by the time at which a peer's silence counts.
    silences: Mutex<Wheel<Arc<Room>>>,
}

impl Gossip {
    /// Nothing is said yet.
    pub fn new(me: GatewayId, store: Arc<dyn Store>, metrics: Arc<Metrics>, clock: Clock, lease: Duration) -> Self {
        Self {
            me,
            store,
            metrics,
            clock,
            lease,
            number: AtomicU64::new(1),
            audible: AtomicI64::new(i64::MIN),
            hearing: AtomicU64::new(1),
            rooms: Mutex::default(),
            rooms_wait: Notify::new(),
            letters: Mutex::default(),
            letters_wait: Notify::new(),
            silences: Mutex::new(Wheel::new(millis(TICK), millis(lease) * 2, clock.now())),
        }
    }

    // ------------------------------------------------------------------------------------------------- to be said

    /// The room's counts may have changed. One atomic, save for the first time in a flush interval.
    pub fn mark(&self, room: &Arc<Room>) {
        if !room.telling.queued.swap(true, Ordering::AcqRel) {
            self.rooms.lock().push(room.clone());
            self.rooms_wait.notify_one();
        }
    }

    /// The room's counts are to be said whether or not they changed.
    pub fn repeat(&self, room: &Arc<Room>) {
        room.telling.anew.store(true, Ordering::Release);
        self.mark(room);
    }

    /// The room's counts are to be said, and the others are asked for theirs.
    pub fn hello(&self, room: &Arc<Room>) {
        room.telling.ask.store(true, Ordering::Release);
        self.repeat(room);
    }

    /// The live's record says that an epoch is closing.
    pub fn over(&self, live: &LiveId, epoch: Epoch) {
        self.post((Channel::Live(live.clone()), Word::Over { epoch }));
    }

    /// The store notes removals up to this number.
    pub fn removal(&self, live: &LiveId, epoch: Epoch, number: u64) {
        self.post((Channel::Live(live.clone()), Word::Removal { epoch, number }));
    }

    /// The follow graph changed.
    pub fn follow(&self, user: &UserId, streamer: &UserId) {
        self.post((Channel::Gateways, Word::follow(user, streamer)));
    }

    /// These streamers were heard here.
    fn streamers(&self, users: &[UserId]) {
        for some in users.chunks(STREAMERS_A_WORD) {
            let users = some.iter().map(UserId::to_string).collect();
            self.post((Channel::Gateways, Word::Streamers { users }));
        }
    }

    /// There is a room of the live: its words are heard from now on. Said again, it changes nothing.
    pub fn listen(&self, room: &Room) {
        self.store.listen(&room.record.live);
    }

    /// The room has ended. One that nobody needed any more has said that it has no viewers; nobody misses it.
    pub fn ended(&self, room: &Room) {
        self.store.unlisten(&room.record.live);
    }

    fn post(&self, letter: Letter) {
        let mut letters = self.letters.lock();
        if letters.len() >= MAX_LETTERS {
            Metrics::count(&self.metrics.words_ignored, "too_many_to_tell");
            return;
        }
        letters.push_back(letter);
        drop(letters);
        self.letters_wait.notify_one();
    }

    /// Numbers what is said of viewers, in words and in the store. Taken before the viewers are counted: whatever changes
    /// them later is said later, with a higher number.
    fn next_number(&self) -> u64 {
        self.number.fetch_add(1, Ordering::Relaxed)
    }

    // --------------------------------------------------------------------------------------------------- was heard

    /// The words about a live are heard from now on.
    fn note_ready(&self, room: &Room) {
        room.telling.heard_in.store(self.hearing.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Words may be missed from now on, until they are ready anew.
    fn note_deaf(&self) {
        self.hearing.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether the words about a live are heard, and none came from another gateway not long ago: one that comes into the
    /// live now will be heard.
    pub fn hears_nobody(&self, room: &Room) -> bool {
        room.telling.heard_in.load(Ordering::Relaxed) == self.hearing.load(Ordering::Relaxed) && !room.peers.are_known()
    }

    /// Takes in what the store knows of the viewers on other gateways. True if the figures changed.
    pub fn note_viewers(&self, room: &Arc<Room>, reply: ViewersReply) -> bool {
        let ViewersReply::Known { begins, mut gateways } = reply else { return false };
        gateways.retain(|field| field.gateway != self.me);
        self.turned(room, room.peers.read(&gateways, !begins, self.times(self.clock.now())))
    }

    /// Takes in a peer's word on its viewers. True if the figures changed.
    fn note_word(&self, room: &Arc<Room>, peer: &GatewayId, counts: &word::Counts) -> bool {
        let heads = Heads { viewers: counts.viewers, moving: counts.moving };
        self.turned(room, room.peers.heard(peer, heads, counts.number, self.times(self.clock.now())))
    }

    /// The store is back, and with it the peers' voices; or it is away.
    pub fn set_audible(&self, since: Option<Millis>) {
        self.audible.store(since.map_or(i64::MAX, |since| since as i64), Ordering::Relaxed);
    }

    fn times(&self, now: Millis) -> Times {
        Times { now, lease: millis(self.lease), audible: self.audible.load(Ordering::Relaxed) }
    }

    fn turned(&self, room: &Arc<Room>, turn: Turn) -> bool {
        if let Some(at) = turn.look_at {
            self.silences.lock().file(at, room.clone());
        }
        if turn.changed {
            room.note_peers();
        }
        turn.changed
    }

    /// Looks at the rooms in which a peer may have been silent for too long; answers those whose figures changed.
    fn silences(&self, now: Millis) -> Vec<Arc<Room>> {
        let due = self.silences.lock().due(now);
        let times = self.times(now);
        due.into_iter().filter(|room| room.end().is_none() && self.turned(room, room.peers.look(times))).collect()
    }
}

/// How old a word in the store may get before it is dropped there; until then a dead gateway's silence can be told from
/// a goodbye.
pub fn keep(lease: Duration) -> Duration {
    lease * 2
}

/// Viewers on all gateways that were heard of within the lease, by what the store knows.
pub fn fresh_viewers(gateways: &[GatewayViewers], lease: Duration) -> u64 {
    gateways.iter().filter(|field| field.age < lease).map(|field| field.viewers).sum()
}

/// With each lease refresh: says in the store how many viewers are here, reads how many are elsewhere, and repeats in
/// words what was told since the last one, in case that was lost. Where the store does not take it, words alone carry it.
///
/// # Errors
/// The store's. Nothing depends on it: the next refresh does it all again.
pub async fn refresh(core: &Core, room: &Arc<Room>) -> StoreResult<()> {
    let gossip = &core.gossip;
    // Once more, in case a room of the same live ended while this one was made.
    gossip.listen(room);
    if room.end().is_some() {
        // It ended meanwhile, and may have been unlistened to before this.
        gossip.ended(room);
        return Ok(());
    }
    let number = gossip.next_number();
    let say = SayViewers {
        live: room.record.live.clone(),
        epoch: room.record.epoch,
        gateway: core.id.clone(),
        viewers: room.own_viewers().viewers,
        number,
        keep: keep(core.config.lease),
    };
    let reply = core.store.say_viewers(&say).await.inspect_err(|_| gossip.repeat(room))?;
    let alone = matches!(&reply, ViewersReply::Known { gateways, .. } if gateways.len() == 1);
    *room.telling.stored.lock() = alone.then_some((say.viewers, number));
    if gossip.note_viewers(room, reply) {
        core.changed.mark(room);
    }
    if room.telling.told.swap(false, Ordering::AcqRel) {
        gossip.repeat(room);
    }
    Ok(())
}

/// The gateway stops: says of each live that nobody is here any more. Nothing is left behind that would count until the
/// lease has run out.
pub async fn goodbye(core: &Core) {
    let rooms = core.rooms.all();
    stream::iter(rooms)
        .for_each_concurrent(AT_A_TIME, |room| async move {
            if let Err(why) = mouth::leave(core, &room).await {
                tracing::debug!(live_id = %room.record.live, error = %why, "could not say goodbye");
            }
        })
        .await;
}
