//! Tells viewers which of their friends are in the live with them
//! ([`crate::presence::friends_here`]). Reads whom a viewer follows once, and again after a change
//! of it. Reads where those users are when they move: the gateway on which they do publishes it
//! after the store knows. So the cost follows joins, leaves and follows, not time. What one user
//! has read by joining again and again is bounded: beyond it, that user's answers come later.
//!
//! What is read because messages may have been missed is spread over time, as everything that is
//! read after an outage.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::future::join_all;
use futures_util::{StreamExt, stream};
use tokio_util::sync::CancellationToken;

use crate::base::backoff::RETRY_DELAY_MS;
use crate::base::clock::{Clock, Millis};
use crate::base::ids::{GatewayId, LiveId, UserId};
use crate::base::metrics::Metrics;
use crate::peers::Outbox;
use crate::presence::friends_here::{Asker, FollowsRead, Pace, Reading, Recent, Sighting, Work};
use crate::presence::gateways::{Gateways, Roster};
use crate::presence::user_budgets::UserBudgets;
use crate::presence::{Room, Rooms};
use crate::store::{Channel, LiveEpoch, MAX_BATCH, Store, StoreError, StoreResult, followed};

/// Rooms served at a time.
const AT_A_TIME: usize = 16;

/// Calls for one room before other rooms have their turn.
const STEPS: usize = 32;

/// So many users are read per ms at most because messages may have been missed.
const DOUBTED_PER_MS: u64 = 20;

/// While there is work, viewers are told about this often, in ms.
const TELL_EVERY: Millis = 100;

/// The wait for what another socket of the same user has read, in ms.
const UNTIL_READ: Millis = 50;

pub struct FriendsTask {
    pub rooms: Arc<Rooms>,
    pub gateways: Arc<Gateways>,
    pub outbox: Arc<Outbox>,
    pub store: Arc<dyn Store>,
    pub budgets: Arc<UserBudgets>,
    pub metrics: Arc<Metrics>,
    pub clock: Clock,
    /// From when on more may be read because messages may have been missed.
    pub doubts_from: AtomicU64,
}

impl FriendsTask {
    pub async fn run(self, stop: CancellationToken) {
        // Rooms to serve again, each with the time.
        let mut later: BTreeMap<LiveEpoch, (Millis, Arc<Room>)> = BTreeMap::new();
        loop {
            let next = later.values().map(|(at, _)| *at).min();
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.rooms.to_befriend.wait() => {}
                () = self.clock.sleep_until(next.unwrap_or_default()), if next.is_some() => {}
            }
            let now = self.clock.now();
            let mut rooms = self.rooms.to_befriend.take();
            rooms
                .iter()
                .for_each(|room| drop(later.remove(&room.record.live_epoch())));
            let due = later.extract_if(.., |_, (at, _)| *at <= now);
            rooms.extend(due.map(|(_, (_, room))| room));
            let served = stream::iter(rooms).map(|room| async {
                let again = self.serve(&room).await;
                again.map(|at| (room.record.live_epoch(), (at, room)))
            });
            later.extend(
                served
                    .buffer_unordered(AT_A_TIME)
                    .filter_map(std::future::ready)
                    .collect::<Vec<_>>()
                    .await,
            );
            self.metrics
                .friends_followed
                .set(self.rooms.follows.kept() as i64);
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
            if let Err((left, why)) = self.work(room, work).await {
                tracing::debug!(live_id = %room.record.live, error = %why, "friends were not read, will try again");
                room.friends.failed(left);
                again = Some(self.clock.now() + RETRY_DELAY_MS);
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
        if now < from {
            Pace::From(from)
        } else {
            Pace::Free
        }
    }

    /// Does some work; `Err` has what is left of it.
    async fn work(&self, room: &Arc<Room>, work: Work) -> Result<(), (Work, StoreError)> {
        match work {
            Work::Ask => self.ask(room).await.map_err(|why| (Work::Ask, why)),
            Work::Load(askers) => {
                let loads = askers.iter().map(|asker| self.load(room, asker));
                let (mut left, mut failure) = (Vec::new(), None);
                for (asker, loaded) in askers.iter().zip(join_all(loads).await) {
                    if let Err(why) = loaded {
                        left.push(asker.clone());
                        failure = Some(why);
                    }
                }
                failure.map_or(Ok(()), |why| Err((Work::Load(left), why)))
            }
            Work::Look(users) => match self.store.whereabouts_of(&users).await {
                Ok(known) => {
                    self.note_read(users.len());
                    let (roster, own) = (self.gateways.roster(), self.gateways.id());
                    let seen = known
                        .iter()
                        .map(|words| sighting(&room.record.live, words, (&roster, &own)));
                    room.friends.looked(users.iter().zip(seen));
                    Ok(())
                }
                Err(why) => Err((Work::Look(users), why)),
            },
            Work::Wait(_) | Work::Nothing => Ok(()),
        }
    }

    /// Takes in whom a viewer follows, unless the user had so much read that this has to wait.
    async fn load(&self, room: &Room, asker: &Arc<Asker>) -> StoreResult<()> {
        let (user, now) = (asker.user(), self.clock.now());
        let may_read_at = self.budgets.may_read_at(user, now);
        if may_read_at > now {
            room.friends.load_at(asker, may_read_at);
            return Ok(());
        }
        let (read, from_store) = match self.rooms.recent_follows.get(user, now) {
            Recent::Read(read) => (read, 0),
            Recent::UnderWay => {
                room.friends.load_at(asker, now + UNTIL_READ);
                return Ok(());
            }
            Recent::Unknown(reading) => {
                let read = self.read_follows(user, &reading).await?;
                let count = read.users.len().max(1);
                (read, count)
            }
        };
        let to_look = room.friends.loaded(asker, &read);
        self.budgets.note_read(user, from_store + to_look, now);
        Ok(())
    }

    async fn read_follows(&self, user: &UserId, reading: &Reading) -> StoreResult<FollowsRead> {
        let recent = &self.rooms.recent_follows;
        let (users, partial) = match followed(self.store.as_ref(), user).await {
            Ok(read) => read,
            Err(why) => {
                recent.give_up(user, reading);
                return Err(why);
            }
        };
        let read = FollowsRead {
            users: users.into(),
            partial,
        };
        recent.end(user, reading, &read, self.clock.now());
        self.note_read(read.users.len());
        Ok(read)
    }

    async fn ask(&self, room: &Arc<Room>) -> StoreResult<()> {
        if room.moves.note_asked() {
            self.rooms.publish(room);
        }
        let message = self.outbox.friends_asked();
        self.store
            .publish(&Channel::Live(room.record.live.clone()), message)
            .await?;
        self.metrics.words_sent.inc();
        Ok(())
    }

    /// Has what is in doubt wait for as long as so many users are worth.
    fn note_read(&self, users: usize) {
        let from = self
            .doubts_from
            .load(Ordering::Relaxed)
            .max(self.clock.now());
        self.doubts_from
            .store(from + users as u64 / DOUBTED_PER_MS, Ordering::Relaxed);
    }
}

/// What these words say of whether a user is in a live.
fn sighting(
    live: &LiveId,
    words: &[(GatewayId, LiveId)],
    (roster, own): (&Roster, &GatewayId),
) -> Sighting {
    let mut says = words
        .iter()
        .filter(|(_, there)| there == live)
        .map(|(gateway, _)| gateway);
    let is_living = |gateway: &GatewayId| gateway == own || roster.counts(gateway);
    if says.clone().any(is_living) {
        return Sighting::Here;
    }
    if says.any(|gateway| roster.is_unknown(gateway)) {
        Sighting::Unsure
    } else {
        Sighting::Gone
    }
}
