//! Tells viewers which of their friends are in the live with them
//! ([`crate::presence::friends_here`]). The task reads a viewer's follows once, and again after they
//! change. It reads where the followed users are when they move: the gateway on which they move
//! publishes that after the store knows. So the cost follows joins, leaves and follows, not time.
//! The reads that one user can cause by joining again and again are bounded. Beyond the bound, that
//! user's answers come later.
//!
//! Reads that are made because messages may have been missed are spread over time, like all reads
//! after an outage.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::join_all;
use futures_util::{StreamExt, stream};
use tokio_util::sync::CancellationToken;

use crate::base::backoff::RETRY_DELAY_MS;
use crate::base::clock::{AtomicMoment, Millis, Moment};
use crate::base::ids::{GatewayId, LiveId, UserId};
use crate::peers::core::Core;
use crate::presence::Room;
use crate::presence::friends_here::{
    Asker, FollowsRead, FollowsReading, KnownFollows, Sighting, Work, WorkPace,
};
use crate::presence::gateways::Roster;
use crate::presence::user_budgets::UserBudgets;
use crate::store::LiveEpoch;
use crate::store::followed;
use crate::store::{Channel, MAX_BATCH, StoreError, StoreResult};
use crate::sync::features::Features;

const MAX_CONCURRENT_ROOMS: usize = 16;

/// Calls for one room before other rooms have their turn.
const STEPS: usize = 32;

/// Maximum users per ms that are read because messages may have been missed.
const DOUBTED_PER_MS: u64 = 20;

/// While there is work, viewers are told about this often, in ms.
const TELL_EVERY: Millis = 100;

/// The wait for what another socket of the same user has read, in ms.
const UNTIL_READ: Millis = 50;

pub struct FriendsTask {
    pub core: Arc<Core>,
    pub features: Features,
    pub budgets: Arc<UserBudgets>,
    /// The time from which on the task may make further reads because messages may have been missed.
    pub doubts_from: AtomicMoment,
}

impl FriendsTask {
    pub async fn run(self, stop: CancellationToken) {
        // Rooms to serve again, each with the time.
        let mut later: BTreeMap<LiveEpoch, (Moment, Arc<Room>)> = BTreeMap::new();
        loop {
            let next = later.values().map(|(at, _)| *at).min();
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.core.rooms.friends_to_update.wait() => {}
                () = self.core.clock.sleep_until(next.unwrap_or_default()), if next.is_some() => {}
            }
            let now = self.core.clock.now();
            let mut rooms = self.core.rooms.friends_to_update.take();
            for room in &rooms {
                later.remove(&room.record.live_epoch());
            }
            let due = later.extract_if(.., |_, (at, _)| *at <= now);
            rooms.extend(due.map(|(_, (_, room))| room));
            let served = stream::iter(rooms).map(|room| async {
                let at = self.serve(&room).await?;
                Some((at, room))
            });
            let served: Vec<Option<(Moment, Arc<Room>)>> = served
                .buffer_unordered(MAX_CONCURRENT_ROOMS)
                .collect()
                .await;
            for (at, room) in served.into_iter().flatten() {
                later.insert(room.record.live_epoch(), (at, room));
            }
            self.core
                .metrics
                .friends_followed
                .set(self.core.rooms.follows.kept() as i64);
        }
    }

    /// Does what there is to do for a room; answers when to look again.
    async fn serve(&self, room: &Arc<Room>) -> Option<Moment> {
        room.schedule.friends_queued.clear();
        self.subscribe(&room.record.live);
        let mut told_at = self.core.clock.now();
        let mut again = None;
        for steps_left in (0..STEPS).rev() {
            let now = self.core.clock.now();
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
                tracing::debug!(
                    live_id = %room.record.live, error = %why,
                    "friends were not read, will try again"
                );
                room.friends.failed(left);
                again = Some(self.core.clock.now() + RETRY_DELAY_MS);
                break;
            }
            if steps_left == 0 {
                again = Some(now);
            }
        }
        let due = room.friends.tell(self.core.clock.now());
        [again, due].into_iter().flatten().min()
    }

    /// Listens to the moves of a live while anybody in its room asks for friends.
    fn subscribe(&self, live: &LiveId) {
        match self.core.rooms.get(live) {
            Some(room) if !room.friends.is_empty() => self.core.store_for_clients.hear_moves(live),
            room => {
                if let Some(room) = room {
                    room.friends.set_deaf();
                }
                self.core.store_for_clients.ignore_moves(live);
            }
        }
    }

    fn pace(&self, now: Moment) -> WorkPace {
        let from = self.doubts_from.load();
        if now < from {
            WorkPace::From(from)
        } else {
            WorkPace::Free
        }
    }

    /// Does some work; `Err` has the work that is left.
    async fn work(&self, room: &Arc<Room>, work: Work) -> Result<(), (Work, StoreError)> {
        match work {
            Work::Ask => self.ask(room).await.map_err(|why| (Work::Ask, why)),
            Work::Load(askers) => {
                let loads = askers.iter().map(|asker| self.load(room, asker));
                let mut left = Vec::new();
                let mut failure = None;
                for (asker, loaded) in askers.iter().zip(join_all(loads).await) {
                    if let Err(why) = loaded {
                        left.push(asker.clone());
                        failure = Some(why);
                    }
                }
                match failure {
                    Some(why) => Err((Work::Load(left), why)),
                    None => Ok(()),
                }
            }
            Work::Look(users) => match self.look(room, &users).await {
                Ok(()) => Ok(()),
                Err(why) => Err((Work::Look(users), why)),
            },
            Work::Wait(_) | Work::Nothing => Ok(()),
        }
    }

    /// Looks where users are. Hidden ones are nowhere, whoever asks: friends are told to users.
    async fn look(&self, room: &Room, users: &[UserId]) -> StoreResult<()> {
        let known = self.core.store_for_clients.whereabouts_of(users).await?;
        self.note_read(users.len());
        let roster = self.core.gateways.roster();
        let own = self.core.gateways.id();
        let mut there = Vec::new();
        let mut seen = Vec::with_capacity(users.len());
        for (user, words) in users.iter().zip(&known) {
            let sighting = sighting(&room.record.live, words, &roster, &own);
            if sighting != Sighting::Gone {
                there.push(user.clone());
            }
            seen.push((user, sighting));
        }
        let hidden = self.features.hidden_among(&there).await?;
        for (user, sighting) in &mut seen {
            if hidden.contains(*user) {
                *sighting = Sighting::Gone;
            }
        }
        room.friends.looked(seen.into_iter());
        Ok(())
    }

    /// Takes in a viewer's follows, unless the user has caused so many reads that this one has to
    /// wait.
    async fn load(&self, room: &Room, asker: &Arc<Asker>) -> StoreResult<()> {
        let user = asker.user();
        let now = self.core.clock.now();
        let may_read_at = self.budgets.may_read_at(user, now);
        if may_read_at > now {
            room.friends.load_at(asker, may_read_at);
            return Ok(());
        }
        let (read, from_store) = match self.core.rooms.recent_follows.get(user, now) {
            KnownFollows::Read(read) => (read, 0),
            KnownFollows::UnderWay => {
                room.friends.load_at(asker, now + UNTIL_READ);
                return Ok(());
            }
            KnownFollows::Unknown(reading) => {
                let read = self.read_follows(user, &reading).await?;
                let count = read.users.len().max(1);
                (read, count)
            }
        };
        let to_look = room.friends.loaded(asker, &read);
        self.budgets.note_read(user, from_store + to_look, now);
        Ok(())
    }

    async fn read_follows(
        &self,
        user: &UserId,
        reading: &FollowsReading,
    ) -> StoreResult<FollowsRead> {
        let recent = &self.core.rooms.recent_follows;
        let (users, partial) = match followed(self.core.store_for_clients.as_ref(), user).await {
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
        recent.end(user, reading, &read, self.core.clock.now());
        self.note_read(read.users.len());
        Ok(read)
    }

    async fn ask(&self, room: &Arc<Room>) -> StoreResult<()> {
        if room.moves.note_asked() {
            self.core.rooms.publish(room);
        }
        let message = self.core.to_peers.friends_asked();
        self.core
            .store_for_clients
            .publish(&Channel::Live(room.record.live.clone()), message)
            .await?;
        self.core.metrics.peer_messages_sent.inc();
        Ok(())
    }

    /// Puts off the reads that doubts cause by the time that this number of users is worth.
    fn note_read(&self, users: usize) {
        let from = self.doubts_from.load().max(self.core.clock.now());
        self.doubts_from.store(from + users as u64 / DOUBTED_PER_MS);
    }
}

/// What the store's words about a user say of whether the user is in a live.
fn sighting(
    live: &LiveId,
    words: &[(GatewayId, LiveId)],
    roster: &Roster,
    own: &GatewayId,
) -> Sighting {
    let mut may_be_here = false;
    for (gateway, there) in words {
        if there != live {
            continue;
        }
        if gateway == own || roster.counts(gateway) {
            return Sighting::Here;
        }
        if roster.is_unknown(gateway) {
            may_be_here = true;
        }
    }
    if may_be_here {
        Sighting::Unsure
    } else {
        Sighting::Gone
    }
}
