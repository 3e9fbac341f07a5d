//! The publisher sends messages to the peers. A room's counts go out at most once per flush interval, after a quiet
//! time at once; all other messages go out at once. Each message has one attempt. A live whose counts could not be sent
//! is checked a moment later, and the counts are sent again then.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use tokio_util::sync::CancellationToken;

use super::Outbox;
use super::message::{Counts, PeerMessage, SliceCard};
use crate::base::clock::{Clock, Millis, millis};
use crate::base::ids::{GatewayId, OnlineSet};
use crate::base::metrics::Metrics;
use crate::presence::announced::Announcement;
use crate::presence::checks::Checks;
use crate::presence::gateways::Gateways;
use crate::presence::tally::ViewerCount;
use crate::presence::{Room, Rooms, Slice};
use crate::store::{AnnounceReply, AnnounceViewers, Arrived, Channel, CountUniques, Store, StoreResult};

/// Messages sent at a time.
const AT_A_TIME: usize = 32;

/// Rooms whose users one call counts.
const ROOMS_A_CALL: usize = 100;

pub struct Publisher {
    pub rooms: Arc<Rooms>,
    pub gateways: Arc<Gateways>,
    pub outbox: Arc<Outbox>,
    pub checks: Arc<Checks>,
    pub store: Arc<dyn Store>,
    pub metrics: Arc<Metrics>,
    pub clock: Clock,
    pub flush: Duration,
}

impl Publisher {
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        let flush = millis(self.flush);
        let mut next_round: Millis = 0;
        let mut woken = false;
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.outbox.messages.wait() => self.send_messages().await,
                () = self.rooms.to_publish.wait(), if !woken => woken = true,
                () = self.clock.sleep_until(next_round), if woken => {
                    woken = false;
                    next_round = self.clock.now() + flush;
                    let rooms = self.rooms.to_publish.take();
                    stream::iter(rooms.clone()).for_each_concurrent(AT_A_TIME, |room| self.publish(room)).await;
                    self.count_uniques(&rooms).await;
                }
            }
        }
    }

    async fn send_messages(&self) {
        stream::iter(self.outbox.messages.take())
            .for_each_concurrent(AT_A_TIME, |(on, message)| async move {
                if let Err(why) = self.send(&on, &message, &self.gateways.id()).await {
                    tracing::debug!(error = %why, "a message was not sent");
                }
            })
            .await;
    }

    /// Answers how many gateways were subscribed.
    async fn send(&self, on: &Channel, message: &PeerMessage, own: &GatewayId) -> StoreResult<u64> {
        let reached = self.store.publish(on, message.text(own)).await?;
        self.metrics.words_sent.inc();
        Ok(reached)
    }

    /// Sends a room's counts if they changed.
    async fn publish(&self, room: Arc<Room>) {
        room.announced.queued.clear();
        if room.end().is_some() {
            return;
        }
        let news = room.slices().iter().filter_map(|slice| Some((slice, slice.take_news()?)));
        let news: Vec<(&Slice, (u64, u64))> = news.collect();
        if let Err(why) = self.announce(&room, News::of(&news)).await {
            tracing::debug!(live_id = %room.record.live, error = %why, "counts were not sent, will try again");
            news.into_iter().for_each(|(slice, _)| slice.set_news());
            room.announced.forget();
            room.announced.require();
            self.checks.check_at(&room, self.clock.now() + room.check.wait());
        }
        self.tell_moves(&room).await;
    }

    /// Has the store count the users who came to these rooms.
    async fn count_uniques(&self, rooms: &[Arc<Room>]) {
        for some in rooms.chunks(ROOMS_A_CALL) {
            let waiting = some.iter().filter(|room| room.end().is_none());
            let waiting = waiting.filter_map(|room| Some((room, room.uniques.as_ref()?.take()?)));
            let (rooms, calls): (Vec<_>, Vec<_>) = waiting
                .map(|(room, [viewers, fans])| {
                    let (live, epoch) = (room.record.live.clone(), room.record.epoch);
                    (room, CountUniques { live, epoch, viewers, fans })
                })
                .unzip();
            if calls.is_empty() {
                continue;
            }
            let answers = self.store.count_uniques(&calls).await;
            for ((room, CountUniques { viewers, fans, .. }), answer) in rooms.into_iter().zip(&calls).zip(answers) {
                let Some(uniques) = &room.uniques else { continue };
                if let Err(why) = answer {
                    // The next check has it tried again. It may be refused for long: a full store counts nobody.
                    tracing::debug!(live_id = %room.record.live, error = %why, "who came is not counted yet");
                    uniques.put_back(viewers, fans);
                } else if !uniques.is_empty() {
                    self.rooms.publish(room);
                }
            }
        }
    }

    /// Tells who came and who left, if a gateway wants to hear it.
    async fn tell_moves(&self, room: &Arc<Room>) {
        let Some(batch) = room.moves.take() else { return };
        let message = PeerMessage::Moved { users: batch.users.iter().cloned().collect(), anybody: batch.anybody };
        match self.send(&Channel::Moves(room.record.live.clone()), &message, &self.gateways.id()).await {
            Ok(reached) => room.moves.told(&batch, reached),
            Err(why) => {
                tracing::debug!(live_id = %room.record.live, error = %why, "moves were not told, will try again");
                room.moves.failed(batch);
                self.rooms.publish(room);
            }
        }
    }

    async fn announce(&self, room: &Arc<Room>, slices: News) -> StoreResult<()> {
        let own = self.gateways.own.incarnation();
        let required = room.announced.take_required();
        let number = self.outbox.next_number();
        let count = room.own_viewers();
        let (_, arrived) = room.arrivals.here();
        let is_news = !slices.is_empty() || room.arrivals.owes() || count.away != room.announced.away_told();
        let on = || Channel::Live(room.record.live.clone());
        if room.record.exact_viewers {
            // The store has the viewers in slices. That this gateway has some tells the peers whose lease matters.
            if is_news {
                self.send(&on(), &counts(room, number, count, slices), &own.id).await?;
                note_told(room, count, arrived);
            }
            return Ok(());
        }
        let stored = room.announced.stored(own.number);
        if !required && !room.announced.is_due(own.number, count) {
            if is_news {
                // The store need not write anything.
                let (viewers, number) = stored.unwrap_or_default();
                let told = ViewerCount { viewers, moving: count.moving.min(viewers), away: count.away.min(viewers) };
                self.send(&on(), &counts(room, number, told, slices), &own.id).await?;
                note_told(room, count, arrived);
            }
            return Ok(());
        }
        if stored.is_none() {
            // Before this gateway learned of its burial, it may have announced viewers under a former id after the walk
            // dropped those.
            self.store.forget_viewers(&room.record.live, &self.gateways.own.former()).await?;
        }
        match self.store.announce_viewers(&say(room, &own.id, number, count, slices)).await? {
            AnnounceReply::Announced => {
                self.metrics.words_sent.inc();
                room.announced.note(Announcement { count, number, at: self.clock.now(), incarnation: own.number });
                note_told(room, count, arrived);
            }
            // The check reads the record and ends the room if the live is over.
            AnnounceReply::NotOpen => self.checks.check_soon(vec![room.clone()]),
        }
        Ok(())
    }

    /// Announces zero viewers for every live, and the sizes that the last flush left: the gateway stops.
    pub async fn say_goodbye(&self) {
        stream::iter(self.rooms.all()).for_each_concurrent(AT_A_TIME, |room| self.leave(room)).await;
    }

    async fn leave(&self, room: Arc<Room>) {
        let own = self.gateways.own.incarnation();
        let (number, nobody) = (self.outbox.next_number(), ViewerCount::default());
        let news = room.slices().iter().filter_map(|slice| Some((slice, slice.take_news()?)));
        let news = News::of(&news.collect::<Vec<_>>());
        let told = if room.announced.stored(own.number).is_some_and(|(viewers, _)| viewers > 0) {
            self.store.announce_viewers(&say(&room, &own.id, number, nobody, news)).await.map(drop)
        } else if room.record.exact_viewers || !news.is_empty() {
            let on = Channel::Live(room.record.live.clone());
            self.send(&on, &counts(&room, number, nobody, news), &own.id).await.map(drop)
        } else {
            Ok(())
        };
        if let Err(why) = told {
            tracing::debug!(live_id = %room.record.live, error = %why, "could not say goodbye");
        }
    }
}

/// New sizes of slices: of fans, and of all viewers.
#[derive(Default)]
struct News {
    fans: Vec<SliceCard>,
    viewers: Vec<SliceCard>,
}

impl News {
    fn of(slices: &[(&Slice, (u64, u64))]) -> Self {
        let mut news = Self::default();
        for (slice, (card, version)) in slices {
            let of_set = match slice.id.set {
                OnlineSet::Viewers(_) => &mut news.viewers,
                OnlineSet::Fans(_) | OnlineSet::Users => &mut news.fans,
            };
            of_set.push((slice.id.index, *card, *version));
        }
        news
    }

    fn is_empty(&self) -> bool {
        self.fans.is_empty() && self.viewers.is_empty()
    }
}

/// Notes what the peers were told at least; whoever came meanwhile is told next.
fn note_told(room: &Room, count: ViewerCount, arrived: Arrived) {
    room.announced.note_away_told(count.away);
    room.arrivals.note_told(arrived);
}

fn counts(room: &Room, number: u64, count: ViewerCount, news: News) -> PeerMessage {
    let ViewerCount { viewers, moving, away } = count;
    let (arrived, folded_at) = room.arrivals.to_tell();
    let News { fans: slices, viewers: viewer_slices } = news;
    PeerMessage::Counts(Counts {
        epoch: room.record.epoch,
        number,
        viewers,
        moving,
        away,
        arrived: Some(arrived),
        folded_at,
        slices,
        viewer_slices,
    })
}

fn say(room: &Room, own: &GatewayId, number: u64, count: ViewerCount, slices: News) -> AnnounceViewers {
    AnnounceViewers {
        live: room.record.live.clone(),
        epoch: room.record.epoch,
        gateway: own.clone(),
        viewers: count.viewers,
        away: count.away,
        moving: count.moving,
        number,
        message: counts(room, number, count, slices).text(own),
    }
}
