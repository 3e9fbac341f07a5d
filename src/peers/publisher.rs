//! The publisher sends messages to the peers. A room's counts and moves go out at most once per
//! flush interval, after a quiet time at once; all other messages go out at once. Each of those has
//! one attempt. A live whose counts could not be sent is checked a second later, and the counts are
//! sent again then. A room's moves that could not be told go into the next message.
//!
//! Each room and each message is a job of its own, so that only jobs on a node that hangs wait for
//! it.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::message::{PeerCounts, PeerMessage, SliceCard};
use crate::base::clock::{Millis, Moment, millis};
use crate::base::ids::GatewayId;
use crate::base::slow_jobs::SlowJobs;
use crate::peers::core::Core;
use crate::presence::tally::ViewerCount;
use crate::presence::{Room, Slice};
use crate::store::{Channel, SliceSize, StoreResult};

/// Maximum jobs at the same time. Jobs that have taken longer than [`SLOW`] do not count: they wait
/// for a node that hangs.
const MAX_JOBS: usize = 128;

/// A job that takes this long is waiting for a node that hangs.
const SLOW: Duration = Duration::from_millis(100);

/// Maximum jobs at the same time, slow ones included. They leave room for other calls to the node that
/// hangs.
const MAX_ALL_JOBS: usize = 512;

/// The wait before a live is checked whose counts could not be sent. The back-off of the live's
/// checks does not apply here: they also ask the nodes of its slices.
const RETRY_DELAY_MS: Millis = 1_000;

pub struct Publisher {
    pub core: Arc<Core>,
}

/// Messages and rooms that wait for a job, and the jobs under way.
#[derive(Default)]
struct PublisherWork {
    messages: VecDeque<(Channel, PeerMessage)>,
    rooms: VecDeque<Arc<Room>>,
    /// Rooms with a job under way, by their address, and whether they are to be published once more
    /// after it.
    busy: HashMap<usize, bool>,
    jobs: JoinSet<Done>,
}

/// The result of a job.
enum Done {
    Nothing,
    /// The room that was published.
    Room(Arc<Room>),
}

impl PublisherWork {
    fn is_waiting(&self) -> bool {
        !(self.messages.is_empty() && self.rooms.is_empty())
    }
}

fn address(room: &Arc<Room>) -> usize {
    Arc::as_ptr(room).addr()
}

impl Publisher {
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        let flush = millis(self.core.config.flush);
        let mut next_round = Moment::START;
        let mut woken = false;
        let slow = Arc::new(SlowJobs::new(SLOW));
        let mut work = PublisherWork::default();
        loop {
            while work.is_waiting() && work.jobs.len() < MAX_ALL_JOBS.min(MAX_JOBS + slow.count()) {
                self.start_next(&mut work, &slow);
            }
            tokio::select! {
                () = stop.cancelled() => break,
                Some(done) = work.jobs.join_next(), if !work.jobs.is_empty() => {
                    // A job that panicked is a bug, and the wiring stops the process.
                    match done {
                        Ok(Done::Nothing) => {}
                        Ok(Done::Room(room)) => {
                            if work.busy.remove(&address(&room)) == Some(true) {
                                work.rooms.push_back(room);
                            }
                        }
                        Err(_) => return,
                    }
                }
                () = slow.more() => {}
                () = self.core.to_peers.messages.wait(), if work.messages.is_empty() => {
                    work.messages.extend(self.core.to_peers.messages.take());
                }
                () = self.core.rooms.to_publish.wait(), if !woken => woken = true,
                () = self.core.clock.sleep_until(next_round), if woken => {
                    woken = false;
                    next_round = self.core.clock.now() + flush;
                    work.rooms.extend(self.core.rooms.to_publish.take());
                }
            }
        }
        // Jobs under way end first, so that the goodbye knows what the peers were told.
        while work.jobs.join_next().await.is_some() {}
    }

    /// Starts the next job. Messages go first. A room has one job at a time, which sends what is
    /// true by then.
    fn start_next(self: &Arc<Self>, work: &mut PublisherWork, slow: &Arc<SlowJobs>) {
        let this = self.clone();
        let slow = slow.clone();
        if let Some((on, message)) = work.messages.pop_front() {
            work.jobs.spawn(async move {
                if let Err(why) = slow
                    .watch(this.send(&on, &message, &this.core.gateways.id()))
                    .await
                {
                    tracing::debug!(error = %why, "a message was not sent");
                }
                Done::Nothing
            });
        } else if let Some(room) = work.rooms.pop_front() {
            if let Some(again) = work.busy.get_mut(&address(&room)) {
                *again = true;
                return;
            }
            work.busy.insert(address(&room), false);
            work.jobs.spawn(async move {
                slow.watch(this.publish(room.clone())).await;
                Done::Room(room)
            });
        }
    }

    /// Answers how many gateways were subscribed.
    async fn send(&self, on: &Channel, message: &PeerMessage, own: &GatewayId) -> StoreResult<u64> {
        let reached = self.core.store.publish(on, message.text(own)).await?;
        self.core.metrics.peer_messages_sent.inc();
        Ok(reached)
    }

    /// Sends a room's counts if they changed.
    async fn publish(&self, room: Arc<Room>) {
        room.schedule.publish_queued.clear();
        if room.end().is_some() {
            return;
        }
        let updates = take_unpublished(&room);
        if let Err(why) = self.tell_counts(&room, SliceUpdates::of(&updates)).await {
            tracing::debug!(
                live_id = %room.record.live, error = %why,
                "counts were not sent, will try again"
            );
            for (slice, _) in updates {
                slice.set_unpublished();
            }
            room.figures.published.require();
            self.core
                .checks
                .check_at(&room, self.core.clock.now() + RETRY_DELAY_MS);
        }
        self.tell_moves(&room).await;
    }

    /// Tells who came and who left, if a gateway wants to hear it.
    async fn tell_moves(&self, room: &Arc<Room>) {
        let Some(batch) = room.moves.take() else {
            return;
        };
        let message = PeerMessage::Moved {
            users: batch.users.iter().cloned().collect(),
            anybody: batch.anybody,
        };
        match self
            .send(
                &Channel::Moves(room.record.live.clone()),
                &message,
                &self.core.gateways.id(),
            )
            .await
        {
            Ok(reached) => room.moves.told(&batch, reached),
            Err(why) => {
                tracing::debug!(
                    live_id = %room.record.live, error = %why,
                    "moves were not told, will try again"
                );
                room.moves.failed(batch);
                self.core.rooms.publish(room);
            }
        }
    }

    /// Tells the peers the sizes of slices that changed, and how many viewers this gateway has:
    /// that tells them whose lease matters.
    async fn tell_counts(&self, room: &Arc<Room>, slices: SliceUpdates) -> StoreResult<()> {
        let is_required = room.figures.published.take_required();
        let asks = room.figures.published.take_asks();
        let number = self.core.to_peers.next_number();
        let count = room.figures.own_viewers();
        let has_changed = !slices.is_empty() || room.figures.published.differs_from(count);
        if !is_required && !asks && !has_changed {
            return Ok(());
        }
        let message = PeerMessage::Counts(PeerCounts {
            asks,
            ..counts(room, number, count, slices)
        });
        if let Err(why) = self
            .send(&channel(room), &message, &self.core.gateways.id())
            .await
        {
            if asks {
                room.figures.published.ask();
            }
            return Err(why);
        }
        // The peers know at least this count by now. The next message tells of later changes.
        room.figures.published.note(count);
        Ok(())
    }

    /// Tells the peers of every live that this gateway, which stops, has no viewers any more, and the
    /// sizes that the last flush left.
    pub async fn say_goodbye(&self) {
        stream::iter(self.core.rooms.all())
            .for_each_concurrent(MAX_JOBS, |room| self.leave(room))
            .await;
    }

    async fn leave(&self, room: Arc<Room>) {
        let updates = SliceUpdates::of(&take_unpublished(&room));
        let message = PeerMessage::Counts(counts(
            &room,
            self.core.to_peers.next_number(),
            ViewerCount::default(),
            updates,
        ));
        if let Err(why) = self
            .send(&channel(&room), &message, &self.core.gateways.id())
            .await
        {
            tracing::debug!(live_id = %room.record.live, error = %why, "could not say goodbye");
        }
    }
}

/// New sizes of slices, the indexes of those in a rebuild, and the guests of those that have some.
#[derive(Default)]
struct SliceUpdates {
    slices: Vec<SliceCard>,
    rebuilds: Vec<u32>,
    guests: Vec<(u32, u64)>,
}

impl SliceUpdates {
    fn of(slices: &[(&Slice, SliceSize)]) -> Self {
        let mut updates = Self::default();
        for (slice, size) in slices {
            updates.slices.push((
                slice.id.index,
                size.card,
                size.fans,
                size.leaves,
                size.version,
                size.incarnation,
            ));
            if size.rebuild {
                updates.rebuilds.push(slice.id.index);
            }
            if size.guests > 0 {
                updates.guests.push((slice.id.index, size.guests));
            }
        }
        updates
    }

    fn is_empty(&self) -> bool {
        self.slices.is_empty()
    }
}

/// Takes the new sizes of a room's slices.
fn take_unpublished(room: &Room) -> Vec<(&Slice, SliceSize)> {
    let mut updates = Vec::new();
    for slice in room.slices() {
        if let Some(size) = slice.take_unpublished() {
            updates.push((slice, size));
        }
    }
    updates
}

fn channel(room: &Room) -> Channel {
    Channel::Live(room.record.live.clone())
}

fn counts(room: &Room, number: u64, count: ViewerCount, updates: SliceUpdates) -> PeerCounts {
    let ViewerCount {
        viewers,
        away,
        watching,
    } = count;
    let SliceUpdates {
        slices,
        rebuilds,
        guests,
    } = updates;
    PeerCounts {
        epoch: room.record.epoch,
        number,
        viewers,
        away,
        watching,
        asks: false,
        slices,
        rebuilds,
        guests,
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;
    use crate::config::Config;
    use crate::store::{Bus, BusEvent, BusEvents};
    use crate::testing::{FaultyStore, open_live, parts_on};

    /// Waits for what a gateway publishes of a live.
    async fn heard(events: &mut BusEvents, live: &str) {
        loop {
            match events.next().await.unwrap() {
                BusEvent::Message {
                    channel: Channel::Live(on),
                    ..
                } if on.as_str() == live => return,
                _ => {}
            }
        }
    }

    /// Many lives whose node hangs, and two whose node answers.
    #[tokio::test(start_paused = true)]
    async fn what_waits_for_a_node_that_hangs_holds_up_nothing_else() {
        let store = Arc::new(FaultyStore::new());
        let parts = parts_on(&Config::default(), store.clone());
        let sessions = &parts.app.sessions;
        for n in 0..MAX_JOBS * 2 {
            let room = open_live(sessions, &format!("hung{n}")).await;
            store.hangs_for(&room.record.live);
            room.figures.published.require();
            parts.app.core.rooms.publish(&room);
        }
        let (answers, told) = (
            open_live(sessions, "answers").await,
            open_live(sessions, "told").await,
        );
        let mut events = store.events();
        let stop = CancellationToken::new();
        let running = tokio::spawn(parts.publisher.clone().run(stop.clone()));
        tokio::time::sleep(SLOW / 2).await;
        parts.app.core.to_peers.doubt(&told.record.live);
        answers.figures.published.require();
        parts.app.core.rooms.publish(&answers);
        // Half of those that hang wait for a place until the others are slow.
        timeout(SLOW * 2, heard(&mut events, "told"))
            .await
            .expect("a message");
        timeout(
            SLOW * 2 + Config::default().flush,
            heard(&mut events, "answers"),
        )
        .await
        .expect("counts");
        stop.cancel();
        running.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_room_has_one_job_at_a_time_and_the_next_one_sends_what_is_true_then() {
        let store = Arc::new(FaultyStore::new());
        let parts = parts_on(&Config::default(), store.clone());
        let room = open_live(&parts.app.sessions, "42").await;
        store.hangs_for(&room.record.live);
        let stop = CancellationToken::new();
        let running = tokio::spawn(parts.publisher.clone().run(stop.clone()));
        for _ in 0..3 {
            room.figures.published.require();
            parts.app.core.rooms.publish(&room);
            tokio::time::sleep(SLOW * 4).await;
        }
        assert_eq!(store.publishing(), 1);
        stop.cancel();
        running.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn counts_that_were_not_sent_do_not_wait_for_the_back_off_of_checks() {
        let store = Arc::new(FaultyStore::new());
        let parts = parts_on(&Config::default(), store.clone());
        let room = open_live(&parts.app.sessions, "42").await;
        // A slice on another node has had no answer for long.
        (0..10).for_each(|_| room.schedule.check.unanswered());
        assert!(room.schedule.check.wait() > RETRY_DELAY_MS);
        room.schedule.check.take(Moment::NEVER);
        store.hangs_for(&room.record.live);
        room.figures.published.require();
        parts.publisher.publish(room.clone()).await;
        assert_eq!(
            room.schedule.check.at(),
            parts.app.core.clock.now() + RETRY_DELAY_MS
        );
    }
}
