//! What gateways say to each other: counts, changes of records, follows, doubt, in [`word`]s over the store's channels.
//!
//! Nothing is said twice. Viewers stand in the store too, and are written and told in one step; whoever changes a record
//! tells it in the same step. So a word is lost only by a gateway that was cut off, and that one knows it: it checks all
//! that it holds ([`crate::check`]).
//!
//! [`mouth`] tells, [`ear`] hears. A room says its counts at most once per flush interval, only on change. What waits to be
//! said is state, not a queue: a room is marked once, and says what is so when its turn comes.

pub mod ear;
pub mod mouth;
pub mod word;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arc_swap::ArcSwap;
use futures_util::{StreamExt, stream};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::clock::Millis;
use crate::core::Core;
use crate::ids::{GatewayId, LiveId, UserId};
use crate::lease::Incarnation;
use crate::liveness::Roster;
use crate::metrics::Metrics;
use crate::rooms::Room;
use crate::rooms::tally::Heads;
use crate::store::{Channel, GatewayViewers, Store, StoreResult};
use word::Word;

/// Words besides counts that wait to be told; more are dropped and counted.
const MAX_LETTERS: usize = 4_096;

/// Words told at a time.
const AT_A_TIME: usize = 32;

/// A gateway's words on viewers are numbered from a random number below this one on: checks compare the sum of several
/// gateways' numbers, and two words that are taken for each other must not have the same number. 1,024 of them have a sum
/// that a script can still hold.
const FIRST_NUMBER: u64 = 1 << 40;

/// What a room has told the other gateways, and what is to be told.
#[derive(Debug, Default)]
pub struct Telling {
    queued: AtomicBool,
    /// The store has something else than it was told: it is to be told in any case.
    must: AtomicBool,
    /// Viewers as the store has them; `None` if it has none of this gateway's, or that is not known.
    told: Mutex<Option<Told>>,
}

/// What was told of viewers last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Told {
    heads: Heads,
    number: u64,
    at: Millis,
    /// In which life of this gateway.
    incarnation: u32,
}

impl Telling {
    /// What the store has of this gateway's viewers, and under which number, if it was told in this life.
    pub fn stored(&self, incarnation: u32) -> Option<(u64, u64)> {
        let told = *self.told.lock();
        told.filter(|told| told.incarnation == incarnation).map(|told| (told.heads.viewers, told.number))
    }

    /// The store may have something else: it is to be told again.
    pub fn forget(&self) {
        *self.told.lock() = None;
    }

    /// Whether the store was told something, and that before `then`.
    pub fn is_older_than(&self, then: Millis) -> bool {
        self.told.lock().is_some_and(|told| told.at < then)
    }

    /// Whether the store has, or may have, something else than it should: then the room may not be evicted, for nobody else
    /// would put it right.
    pub fn owes(&self, incarnation: u32, heads: Heads) -> bool {
        self.must.load(Ordering::Acquire) || self.is_due(incarnation, heads)
    }

    /// Whether the store is to be told of these viewers. It misses nobody of whom it was never told and who is not there.
    pub fn is_due(&self, incarnation: u32, heads: Heads) -> bool {
        match *self.told.lock() {
            Some(told) if told.incarnation == incarnation => told.heads != heads,
            _ => heads.viewers > 0,
        }
    }
}

/// Something to tell that is no room's counts.
type Letter = (Channel, Word);

/// What waits to be said, and what the parts of the gateway say it with.
pub struct Gossip {
    own: Arc<ArcSwap<Incarnation>>,
    store: Arc<dyn Store>,
    metrics: Arc<Metrics>,
    number: AtomicU64,
    rooms: Mutex<Vec<Arc<Room>>>,
    rooms_wait: Notify,
    letters: Mutex<VecDeque<Letter>>,
    letters_wait: Notify,
}

impl Gossip {
    /// Nothing is said yet.
    pub fn new(own: Arc<ArcSwap<Incarnation>>, store: Arc<dyn Store>, metrics: Arc<Metrics>) -> Self {
        Self {
            own,
            store,
            metrics,
            number: AtomicU64::new(rand::random_range(1..FIRST_NUMBER)),
            rooms: Mutex::default(),
            rooms_wait: Notify::new(),
            letters: Mutex::default(),
            letters_wait: Notify::new(),
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

    /// This gateway's id of now.
    pub fn own_id(&self) -> GatewayId {
        self.own.load().id.clone()
    }

    /// Which life of this gateway it is.
    pub fn incarnation(&self) -> u32 {
        self.own.load().number
    }

    /// What a live's channel is told by whoever changes its record.
    pub fn record_changed(&self) -> String {
        Word::Record.text(&self.own.load().id)
    }

    /// The store lost what it held of a live: the other gateways are to check it.
    pub fn doubt(&self, live: &LiveId) {
        self.post((Channel::Live(live.clone()), Word::Doubt));
    }

    /// The streamer of these lives left this gateway, and was silent for so long.
    pub fn streamer_gone(&self, lives: &[LiveId], silent: Millis) {
        self.post((Channel::Gateways, Word::gone(lives, silent)));
    }

    /// The follow graph changed.
    pub fn follow(&self, user: &UserId, streamer: &UserId) {
        self.post((Channel::Gateways, Word::follow(user, streamer)));
    }

    /// There is a room of the live: its words are heard from now on. Said again, it changes nothing.
    pub fn listen(&self, room: &Room) {
        self.store.subscribe(&room.record.live);
    }

    /// The room has ended. One that nobody needed any more has said that it has no viewers; nobody misses it.
    pub fn ended(&self, room: &Room) {
        self.store.unsubscribe(&room.record.live);
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

    /// Whatever is said of viewers from now on has a higher number than this.
    fn outnumber(&self, number: u64) {
        self.number.fetch_max(number + 1, Ordering::Relaxed);
    }

    /// The room's counts are to be said even if the store should have none.
    fn say(&self, room: &Arc<Room>) {
        room.telling.must.store(true, Ordering::Release);
        self.mark(room);
    }

    /// Numbers what is said of viewers, in words and in the store. Taken before the viewers are counted: whatever changes
    /// them later is said later, with a higher number.
    fn next_number(&self) -> u64 {
        self.number.fetch_add(1, Ordering::Relaxed)
    }

    /// Takes in what the store knows of the viewers on other gateways. True if the figures changed.
    pub fn note_viewers(&self, room: &Room, mut said: Vec<GatewayViewers>, roster: &Roster) -> bool {
        said.retain(|word| word.gateway != self.own.load().id);
        let changed = room.peers.read(&said, roster);
        if changed {
            room.note_peers();
        }
        changed
    }
}

/// Reads what the store knows of a room's viewers, and says once more what it does not know.
///
/// # Errors
/// The store's.
pub async fn read_again(core: &Core, room: &Arc<Room>) -> StoreResult<()> {
    let own = core.own_lease.incarnation();
    let before = room.telling.stored(own.number);
    // An epoch that is not open is found by the record.
    let Some(said) = core.store.view_viewers(&room.record.live, room.record.epoch).await? else { return Ok(()) };
    let there = said.iter().find(|word| word.gateway == own.id).map(|word| (word.viewers, word.number));
    if there != before && room.telling.stored(own.number) == before {
        room.telling.forget();
        core.gossip.outnumber(there.map_or(0, |(_, number)| number));
        core.gossip.say(room);
    }
    if core.gossip.note_viewers(room, said, &core.liveness.roster()) {
        core.changed.mark(room);
    }
    Ok(())
}

/// The gateway stops: says of each live that nobody is here any more.
pub async fn goodbye(core: &Core) {
    let rooms = core.rooms.all();
    stream::iter(rooms).for_each_concurrent(AT_A_TIME, |room| mouth::leave(core, room)).await;
}
