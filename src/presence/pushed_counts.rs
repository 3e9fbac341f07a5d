//! The viewers of a room who get pushed counts. The room makes one frame for all of them, at most
//! one per [`EVERY`]; a viewer's socket sends the newest frame when its task runs.
//!
//! A room may have a hundred thousand such viewers, so it spreads them over several locks, and
//! wakes a few at a time.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwapOption;
use hashbrown::HashTable;
use parking_lot::Mutex;
use tokio_tungstenite::tungstenite::Utf8Bytes;

use super::conn::{Conn, Signals};
use super::throttle::{Shown, ThrottleStep};
use crate::base::clock::{Millis, Moment};

/// The least time between two frames of one live, in ms.
pub const EVERY: Millis = 2_000;

/// The number of locks over which the room spreads the viewers.
const SHARDS: usize = 32;

/// The most viewers woken before other tasks have their turn.
const MAX_WOKEN_PER_TURN: usize = 500;

/// The counts for all viewers. The first session that sends them makes the text for all.
#[derive(Debug)]
pub struct CountsFrame {
    pub shown: Shown,
    pub number: FrameNumber,
    pub plain: OnceLock<Utf8Bytes>,
    /// With the information about the live, and its revision, for sockets that have an older
    /// revision.
    pub with_info: OnceLock<(u32, Utf8Bytes)>,
}

/// The number of a frame, or of a viewer's first counts. Counts with a higher number are never
/// older.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameNumber {
    /// Within the room. A socket remembers the last one.
    pub place: u32,
    /// For the client. Numbers begin at a time, so that they grow although the room may have been
    /// evicted and made again since a socket was last in it.
    pub seq: u64,
}

/// The last counts sent, and their number.
#[derive(Debug)]
struct CountsPace {
    sent: Option<SentCounts>,
    /// A viewer saw other counts since.
    differs: bool,
    start: u64,
    place: u32,
}

/// The content of a frame.
#[derive(Debug, Clone, Copy)]
struct SentCounts {
    shown: Shown,
    /// The revision of the information about the live.
    info: u32,
}

impl SentCounts {
    /// Whether clients would see no difference.
    fn is_same(&self, other: &Self) -> bool {
        self.shown.is_same(&other.shown) && self.info == other.info
    }
}

impl CountsPace {
    fn next(&mut self) -> FrameNumber {
        self.place += 1;
        FrameNumber {
            place: self.place,
            seq: self.start + u64::from(self.place),
        }
    }
}

/// The viewers, made when the first one asks for counts: most rooms have none.
#[derive(Debug)]
struct Watchers {
    hasher: RandomState,
    shards: [Mutex<HashTable<Arc<Conn>>>; SHARDS],
    count: AtomicUsize,
    pace: Mutex<CountsPace>,
    frame: ArcSwapOption<CountsFrame>,
    /// The newcomers, each with the place of the user's slice.
    newcomers: Mutex<Vec<(usize, Arc<Conn>)>>,
}

#[derive(Debug, Default)]
pub struct PushedCounts(OnceLock<Box<Watchers>>);

impl PushedCounts {
    pub fn is_empty(&self) -> bool {
        match self.0.get() {
            Some(watchers) => watchers.count.load(Ordering::Acquire) == 0,
            None => true,
        }
    }

    /// Adds a viewer's socket.
    pub fn add(&self, conn: &Arc<Conn>, now: Moment) {
        let watchers = self.0.get_or_init(|| Box::new(Watchers::new(now)));
        let hash = watchers.hash(conn);
        let mut shard = watchers.shard(hash).lock();
        if shard.find(hash, |other| Arc::ptr_eq(other, conn)).is_none() {
            shard.insert_unique(hash, conn.clone(), |conn| watchers.hash(conn));
            watchers.count.fetch_add(1, Ordering::AcqRel);
        }
    }

    pub fn remove(&self, conn: &Arc<Conn>) {
        let Some(watchers) = self.0.get() else { return };
        let hash = watchers.hash(conn);
        let mut shard = watchers.shard(hash).lock();
        if let Ok(there) = shard.find_entry(hash, |other| Arc::ptr_eq(other, conn)) {
            there.remove();
            watchers.count.fetch_sub(1, Ordering::AcqRel);
            // After a peak.
            if shard.capacity() > 64 && shard.len() < shard.capacity() / 8 {
                let room = shard.len() * 2;
                shard.shrink_to(room, |conn| watchers.hash(conn));
            }
        }
    }

    /// Numbers the first counts of a new viewer. `read` returns the counts and the revision of the
    /// information, and runs under the lock of the numbers.
    pub fn first(&self, read: impl FnOnce() -> (Shown, u32)) -> Option<(Shown, FrameNumber)> {
        let watchers = self.0.get()?;
        let mut pace = watchers.pace.lock();
        let (shown, info) = read();
        let next = SentCounts { shown, info };
        if watchers.count.load(Ordering::Acquire) <= 1 {
            // No other viewer waits for counts.
            pace.sent = Some(next);
            pace.differs = false;
        } else {
            let is_same = match &pace.sent {
                Some(sent) => sent.is_same(&next),
                None => false,
            };
            if !is_same {
                pace.differs = true;
            }
        }
        Some((shown, pace.next()))
    }

    /// Numbers counts for one newcomer alone, which decide nothing about the frames.
    pub fn for_newcomer(&self, read: impl FnOnce() -> Shown) -> Option<(Shown, FrameNumber)> {
        let mut pace = self.0.get()?.pace.lock();
        Some((read(), pace.next()))
    }

    /// Has a viewer's socket woken when the store has answered a call on the user's slice, which is
    /// at this place.
    pub fn await_store(&self, conn: &Arc<Conn>, place: usize) {
        if let Some(watchers) = self.0.get() {
            watchers.newcomers.lock().push((place, conn.clone()));
        }
    }

    /// Wakes the newcomers of the slice at this place: the store has answered.
    pub fn store_answered(&self, place: usize) {
        let Some(watchers) = self.0.get() else { return };
        for (_, conn) in watchers
            .newcomers
            .lock()
            .extract_if(.., |(slice, _)| *slice == place)
        {
            conn.signal(Signals::COUNTS);
        }
    }

    /// Decides whether the viewers need the counts from `read`, and makes the frame. `read` is as
    /// for [`Self::first`].
    pub fn step(&self, read: impl FnOnce() -> (Shown, u32)) -> ThrottleStep {
        let Some(watchers) = self.0.get() else {
            return ThrottleStep::Nothing;
        };
        if self.is_empty() {
            return ThrottleStep::Nothing;
        }
        let mut pace = watchers.pace.lock();
        let (shown, info) = read();
        let next = SentCounts { shown, info };
        if let Some(sent) = pace.sent {
            if !pace.differs && sent.is_same(&next) {
                return ThrottleStep::Nothing;
            }
            let due = sent.shown.at + EVERY;
            if shown.at < due {
                return ThrottleStep::At(due);
            }
        }
        pace.sent = Some(next);
        pace.differs = false;
        let frame = CountsFrame {
            shown,
            number: pace.next(),
            plain: OnceLock::new(),
            with_info: OnceLock::new(),
        };
        // Under the lock, so that an older frame never replaces a newer one.
        watchers.frame.store(Some(Arc::new(frame)));
        ThrottleStep::Send
    }

    pub fn frame(&self) -> Option<Arc<CountsFrame>> {
        self.0.get()?.frame.load_full()
    }

    /// Wakes the viewers' sockets.
    pub async fn wake(&self) {
        let Some(watchers) = self.0.get() else { return };
        let mut woken = 0;
        for shard in &watchers.shards {
            let conns: Vec<Arc<Conn>> = shard.lock().iter().cloned().collect();
            for conn in conns {
                conn.signal(Signals::COUNTS);
                woken += 1;
                if woken % MAX_WOKEN_PER_TURN == 0 {
                    tokio::task::yield_now().await;
                }
            }
        }
    }

    /// Forgets all viewers: the room has ended.
    pub fn clear(&self) {
        let Some(watchers) = self.0.get() else { return };
        for shard in &watchers.shards {
            let gone = std::mem::take(&mut *shard.lock());
            watchers.count.fetch_sub(gone.len(), Ordering::AcqRel);
        }
        watchers.newcomers.lock().clear();
    }
}

impl Watchers {
    fn new(now: Moment) -> Self {
        Self {
            hasher: RandomState::new(),
            shards: std::array::from_fn(|_| Mutex::default()),
            count: AtomicUsize::new(0),
            pace: Mutex::new(CountsPace {
                sent: None,
                differs: false,
                start: now.as_millis() * 1_000,
                place: 0,
            }),
            frame: ArcSwapOption::empty(),
            newcomers: Mutex::default(),
        }
    }

    fn hash(&self, conn: &Arc<Conn>) -> u64 {
        self.hasher.hash_one(Arc::as_ptr(conn) as usize)
    }

    /// The table itself uses the other bits of the hash.
    fn shard(&self, hash: u64) -> &Mutex<HashTable<Arc<Conn>>> {
        &self.shards[(hash >> 32) as usize % SHARDS]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock::moment;
    use crate::presence::figures::{Figures, Quality};
    use crate::store::Arrived;
    use crate::testing;

    fn shown(at: Moment, viewers: u64) -> Shown {
        Shown {
            at,
            figures: Figures {
                viewers,
                ..Figures::default()
            },
            away: 0,
            watching: 0,
            confirmed: 0,
            arrived: Arrived::default(),
            stream: None,
            quality: Quality::Exact,
        }
    }

    fn step(pushed: &PushedCounts, at: Moment, viewers: u64, info: u32) -> ThrottleStep {
        pushed.step(|| (shown(at, viewers), info))
    }

    #[test]
    fn frames_go_out_on_change_and_at_most_once_per_two_seconds() {
        let pushed = PushedCounts::default();
        assert_eq!(
            step(&pushed, moment(0), 1, 0),
            ThrottleStep::Nothing,
            "nobody listens"
        );
        pushed.add(&testing::conn("u1"), moment(7));
        let (first, number) = pushed.first(|| (shown(moment(100), 1), 0)).unwrap();
        assert_eq!(
            (first.figures.viewers, number),
            (
                1,
                FrameNumber {
                    place: 1,
                    seq: 7_001
                }
            )
        );
        assert_eq!(step(&pushed, moment(200), 1, 0), ThrottleStep::Nothing);
        assert_eq!(
            step(&pushed, moment(300), 2, 0),
            ThrottleStep::At(moment(2_100))
        );
        assert_eq!(step(&pushed, moment(2_100), 2, 0), ThrottleStep::Send);
        assert_eq!(step(&pushed, moment(2_101), 2, 0), ThrottleStep::Nothing);
        assert_eq!(
            step(&pushed, moment(2_102), 2, 9),
            ThrottleStep::At(moment(4_100)),
            "new information"
        );
        let frame = pushed.frame().unwrap();
        assert_eq!((frame.shown.figures.viewers, frame.number.seq), (2, 7_002));
    }

    #[test]
    fn a_viewer_who_comes_keeps_nobody_else_from_the_frame_that_is_due() {
        let pushed = PushedCounts::default();
        pushed.add(&testing::conn("u1"), moment(0));
        pushed.first(|| (shown(moment(100), 1), 0));
        pushed.add(&testing::conn("u2"), moment(0));
        pushed.first(|| (shown(moment(1_500), 2), 0));
        assert_eq!(
            step(&pushed, moment(1_500), 2, 0),
            ThrottleStep::At(moment(2_100))
        );
    }

    #[tokio::test]
    async fn each_socket_is_there_once_and_is_woken() {
        let pushed = PushedCounts::default();
        let conns: Vec<_> = (0..2_000)
            .map(|n| testing::conn(&format!("u{n}")))
            .collect();
        conns
            .iter()
            .chain(&conns)
            .for_each(|conn| pushed.add(conn, moment(0)));
        conns[..500].iter().for_each(|conn| pushed.remove(conn));
        pushed.remove(&conns[0]);
        pushed.wake().await;
        let woken = conns
            .iter()
            .filter(|conn| !conn.take(Signals::COUNTS).is_empty())
            .count();
        assert_eq!(woken, 1_500);
        conns[500..].iter().for_each(|conn| pushed.remove(conn));
        assert!(pushed.is_empty());
    }
}
