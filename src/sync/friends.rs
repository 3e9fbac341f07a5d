//! Tells viewers which of their friends are in the live with them ([`crate::presence::friends_here`]). Reads whom a
//! viewer follows once, and again after a change of it. Reads where those users are when they move: the gateway on
//! which they do publishes it after the store knows. So the cost follows joins, leaves and follows, not time.
//!
//! What is read because messages may have been missed is spread over time, as everything that is read after an outage.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::{StreamExt, stream};
use tokio_util::sync::CancellationToken;

use crate::base::clock::{Clock, Millis};
use crate::base::ids::LiveId;
use crate::base::metrics::Metrics;
use crate::peers::Outbox;
use crate::presence::friends_here::{Pace, Work};
use crate::presence::gateways::Gateways;
use crate::presence::{Room, Rooms};
use crate::store::{Channel, MAX_BATCH, Store, StoreResult, followed};

/// Rooms served at a time.
const AT_A_TIME: usize = 16;

/// Calls for one room before other rooms have their turn.
const STEPS: usize = 32;

/// The wait before failed calls are made again, in ms.
const RETRY: Millis = 1_000;

/// So many users are read per ms at most because messages may have been missed.
const DOUBTED_PER_MS: u64 = 20;

/// While there is work, viewers are told about this often, in ms.
const TELL_EVERY: Millis = 100;

pub struct FriendsTask {
    pub rooms: Arc<Rooms>,
    pub gateways: Arc<Gateways>,
    pub outbox: Arc<Outbox>,
    pub store: Arc<dyn Store>,
    pub metrics: Arc<Metrics>,
    pub clock: Clock,
    /// From when on more may be read because messages may have been missed.
    pub doubts_from: AtomicU64,
}

impl FriendsTask {
    pub async fn run(self, stop: CancellationToken) {
        // Rooms to serve again, each with the time, by address.
        let mut later: HashMap<usize, (Millis, Arc<Room>)> = HashMap::new();
        loop {
            let next = later.values().map(|(at, _)| *at).min();
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.rooms.to_befriend.wait() => {}
                () = self.clock.sleep_until(next.unwrap_or_default()), if next.is_some() => {}
            }
            let now = self.clock.now();
            let mut rooms = self.rooms.to_befriend.take();
            rooms.iter().for_each(|room| drop(later.remove(&address(room))));
            let due = later.extract_if(|_, (at, _)| *at <= now);
            rooms.extend(due.map(|(_, (_, room))| room));
            let served = stream::iter(rooms).map(|room| async {
                let again = self.serve(&room).await;
                again.map(|at| (address(&room), (at, room)))
            });
            later.extend(served.buffer_unordered(AT_A_TIME).filter_map(std::future::ready).collect::<Vec<_>>().await);
            self.metrics.friends_followed.set(self.rooms.follows.kept() as i64);
        }
    }

    /// Does what there is to do for a room; answers when to look again.
    async fn serve(&self, room: &Arc<Room>) -> Option<Millis> {
        room.friends_queued.clear();
        self.subscribe(&room.record.live);
        let mut told_at = self.clock.now();
        let mut again = None;
        for steps_left in (0..STEPS).rev() {
            let now = self.clock.now();
            if now >= told_at + TELL_EVERY {
                room.friends.tell(now);
                told_at = now;
            }
            let work = match room.friends.next(MAX_BATCH, now, self.pace(now)) {
                Work::Nothing => break,
                Work::Wait(at) => {
                    again = Some(at);
                    break;
                }
                work => work,
            };
            if let Err(why) = self.work(room, &work).await {
                tracing::debug!(live_id = %room.record.live, error = %why, "friends were not read, will try again");
                room.friends.failed(work);
                again = Some(self.clock.now() + RETRY);
                break;
            }
            if steps_left == 0 {
                again = Some(now);
            }
        }
        let due = room.friends.tell(self.clock.now());
        again.into_iter().chain(due).min()
    }

    /// Listens to the moves of a live while anybody in its room asks for friends.
    fn subscribe(&self, live: &LiveId) {
        match self.rooms.get(live) {
            Some(room) if !room.friends.is_empty() => self.store.hear_moves(live),
            room => {
                room.iter().for_each(|room| room.friends.set_deaf());
                self.store.ignore_moves(live);
            }
        }
    }

    fn pace(&self, now: Millis) -> Pace {
        let from = self.doubts_from.load(Ordering::Relaxed);
        if now < from { Pace::From(from) } else { Pace::Free }
    }

    async fn work(&self, room: &Arc<Room>, work: &Work) -> StoreResult<()> {
        let live = &room.record.live;
        match work {
            Work::Ask => {
                if room.moves.note_asked() {
                    self.rooms.publish(room);
                }
                let message = self.outbox.friends_asked();
                self.store.publish(&Channel::Live(live.clone()), message).await?;
                self.metrics.words_sent.inc();
            }
            Work::Load(askers) => {
                let reads = askers.iter().map(|asker| followed(self.store.as_ref(), asker.user()));
                let read = futures_util::future::try_join_all(reads).await?;
                for (asker, (users, partial)) in askers.iter().zip(read) {
                    self.note_read(users.len());
                    room.friends.loaded(asker, users, partial);
                }
            }
            Work::Look(users) => {
                let known = self.store.presence_of(users).await?;
                self.note_read(users.len());
                let (roster, own) = (self.gateways.roster(), self.gateways.id());
                let is_living = |gateway: &_| *gateway == own || roster.counts(gateway);
                let are_here: Vec<bool> = known.iter().map(|presence| presence.is_in(live, is_living)).collect();
                room.friends.looked(users, &are_here);
            }
            Work::Wait(_) | Work::Nothing => {}
        }
        Ok(())
    }

    /// Has what is in doubt wait for as long as so many users are worth.
    fn note_read(&self, users: usize) {
        let from = self.doubts_from.load(Ordering::Relaxed).max(self.clock.now());
        self.doubts_from.store(from + users as u64 / DOUBTED_PER_MS, Ordering::Relaxed);
    }
}

fn address(room: &Arc<Room>) -> usize {
    Arc::as_ptr(room) as usize
}
