//! The subscriber takes in the peers' messages. It never waits for the store: other tasks do the
//! reads that a message calls for.
//!
//! A message is a hint from a program that may be of another version. The subscriber takes counts
//! as they are, unless their epoch or number is old. It believes only the store that a live was
//! closed or a user removed. A gateway that may have missed messages checks the lives concerned.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::message::{self, PeerCounts, PeerMessage, ReceivedMessage};
use crate::base::ids::{Epoch, GatewayId, LiveId, SliceId};
use crate::base::metrics::Metrics;
use crate::peers::core::Core;
use crate::presence::confirmed::SliceConfirmed;
use crate::presence::ended_sessions::EndedSessions;
use crate::presence::shape::ShapeQuestion;
use crate::presence::tally::ViewerCount;
use crate::presence::{Audience, Room};
use crate::store::{BusEvent, Channel, LiveRecord, SliceSize};

/// The most viewers or fans that a message may claim.
const MAX_FIGURE: u64 = 1 << 34;

/// The highest version that a script can add one to. Versions are Unix times in µs, which get there
/// in 2255.
const MAX_VERSION: u64 = 1 << 53;

pub struct Subscriber {
    pub core: Arc<Core>,
    pub ended_sessions: Arc<EndedSessions>,
}

impl Subscriber {
    pub async fn run(self, stop: CancellationToken) {
        let mut events = self.core.store.events();
        let mut may_miss_ready = false;
        loop {
            let event = tokio::select! {
                () = stop.cancelled() => return,
                event = events.next() => event,
            };
            match event {
                Some(BusEvent::Message { channel, text }) => self.receive(&channel, &text),
                // Earlier messages were missed. The next fan checks make up for missed follows.
                Some(BusEvent::Ready(Channel::Live(live))) => {
                    let room = self.core.rooms.get(&live);
                    if let Some(room) = &room {
                        room.schedule.check.hears();
                        self.note_friends_asked(room);
                        self.ask_peers(room);
                    }
                    self.core.checks.check_soon(room.into_iter().collect());
                }
                Some(BusEvent::Ready(Channel::Moves(live))) => {
                    if let Some(room) = self.core.rooms.get(&live)
                        && room.friends.hears()
                    {
                        self.core.rooms.update_friends(&room);
                    }
                }
                Some(BusEvent::Ready(Channel::Gateways)) => {
                    self.core.rules.want_look();
                    self.ended_sessions.note_missed();
                    self.core.rooms.recent_follows.clear();
                    self.core
                        .rooms
                        .update_friends_where(|room| room.friends.doubt_follows());
                }
                // The store reads echoes by itself.
                Some(BusEvent::Ready(Channel::Echo(_))) => {}
                Some(BusEvent::Deaf(there)) => {
                    let mut rooms = self.core.rooms.all();
                    rooms.retain(|room| {
                        there.covers(self.core.store.slot_of_live(&room.record.live))
                    });
                    for room in &rooms {
                        self.core.checks.set_deaf(room);
                    }
                }
                Some(BusEvent::Lost) => {
                    self.core.metrics.peer_messages_lost.inc();
                    self.core.rules.want_look();
                    may_miss_ready = true;
                    for room in self.core.rooms.all() {
                        self.note_friends_asked(&room);
                        self.ask_peers(&room);
                    }
                    self.ended_sessions.note_missed();
                    self.core.checks.check_all_soon();
                    self.core.rooms.recent_follows.clear();
                    self.core.rooms.update_friends_where(|room| {
                        let heard = !room.friends.is_deaf() && room.friends.hears();
                        heard | room.friends.doubt_follows()
                    });
                }
                None => return,
            }
            // This comes only after the last event: the `Ready` may still wait, and further events
            // could push out waiting ones.
            if may_miss_ready && events.is_empty() {
                may_miss_ready = false;
                for room in self.core.rooms.all() {
                    self.ask_ready_if_deaf(&room);
                }
            }
        }
    }

    fn receive(&self, on: &Channel, text: &str) {
        let ignored = match message::read(text) {
            // The gateway's own messages tell it nothing new, except who moved, and a changed
            // record: the store may apply a call long after the gateway gave it up.
            Ok(ReceivedMessage { gateway, message })
                if !message.is_news_to_sender() && self.core.gateways.own.is_own(&gateway) =>
            {
                return;
            }
            Ok(received) => {
                if !self.core.gateways.own.is_own(&received.gateway)
                    && self.core.gateways.heard(&received.gateway)
                {
                    self.core
                        .checks
                        .roster_changed(&self.core.gateways.roster());
                }
                self.act(on, received).err()
            }
            Err(why) => Some(why.label()),
        };
        match ignored {
            None => {
                self.core.metrics.peer_messages_received.inc();
            }
            Some(why) => Metrics::count(&self.core.metrics.peer_messages_ignored, why),
        }
    }

    /// Does what a message asks for; `Err` is why it is ignored.
    fn act(&self, on: &Channel, received: ReceivedMessage) -> Result<(), &'static str> {
        match (on, received.message) {
            (Channel::Gateways, PeerMessage::Follow { user, streamer }) => {
                self.core.rooms.check_fan_again(&user, &streamer);
                self.core.rooms.follows_changed(&user);
            }
            (Channel::Gateways, PeerMessage::Rules) => self.core.rules.want_look(),
            (
                Channel::Gateways,
                PeerMessage::ShapeAsked {
                    question,
                    live,
                    epoch,
                },
            ) => {
                let question = ShapeQuestion {
                    number: question,
                    live,
                    epoch,
                };
                if !self.core.shapes.asked(question) {
                    return Err("too_many_questions");
                }
            }
            (Channel::Gateways, PeerMessage::Shape { question, shape }) => {
                if !shape.is_possible() {
                    return Err("malformed");
                }
                self.core
                    .shapes
                    .answered(question, &received.gateway, shape);
            }
            (Channel::Gateways, PeerMessage::Gone { lives, silent }) => {
                self.core
                    .absent_streamers
                    .peer_says_left(&lives, self.core.clock.now() - silent);
            }
            (Channel::Gateways, PeerMessage::SessionsEnded { sessions }) => {
                for ended in sessions {
                    self.ended_sessions.hear(ended);
                }
            }
            (Channel::Live(live), PeerMessage::Counts(counts)) => {
                return self.take_counts(&self.room(live)?, &received.gateway, &counts);
            }
            (Channel::Live(live), PeerMessage::Confirmed { epoch, slices }) => {
                return self.take_confirmed(&self.room(live)?, epoch, &slices);
            }
            (Channel::Gateways, PeerMessage::Doubt) => {
                self.core.checks.platform.by(self.core.clock.now())
            }
            (Channel::Live(live), PeerMessage::Record) => {
                self.room(live)?;
                self.core.checks.changed_records.push(live.clone());
            }
            (Channel::Live(live), PeerMessage::FriendsAsked) => {
                self.note_friends_asked(&self.room(live)?)
            }
            (Channel::Moves(live), PeerMessage::Moved { users, anybody }) => {
                let room = self.room(live)?;
                if room.friends.moved(&users) | (anybody && room.friends.doubt()) {
                    self.core.rooms.update_friends(&room);
                }
            }
            (Channel::Live(live), PeerMessage::Doubt) => {
                self.core.checks.check_soon(vec![self.room(live)?])
            }
            _ => return Err("unknown"),
        }
        Ok(())
    }

    /// Asks for another `Ready` of each of a room's channels from which no messages are known to
    /// come: the earlier `Ready` may be among the lost messages.
    fn ask_ready_if_deaf(&self, room: &Room) {
        let live = &room.record.live;
        if room.schedule.check.is_deaf() {
            self.core.store.ask_ready(&Channel::Live(live.clone()));
        }
        if room.friends.is_deaf() {
            self.core.store.ask_ready(&Channel::Moves(live.clone()));
        }
    }

    /// Asks the peers for their viewers again, because messages may have been missed.
    fn ask_peers(&self, room: &Arc<Room>) {
        if room.figures.ask_peers(&self.core.gateways.roster()) {
            self.core.rooms.count(room);
        }
        self.core.rooms.publish(room);
    }

    /// Viewers on a peer want to hear of their friends in a live, or may have said so in a lost
    /// message.
    fn note_friends_asked(&self, room: &Arc<Room>) {
        if room.moves.note_asked() {
            self.core.rooms.publish(room);
        }
    }

    fn room(&self, live: &LiveId) -> Result<Arc<Room>, &'static str> {
        self.core.rooms.get(live).ok_or("no_room")
    }

    fn take_confirmed(
        &self,
        room: &Arc<Room>,
        epoch: Epoch,
        slices: &[SliceConfirmed],
    ) -> Result<(), &'static str> {
        if epoch != room.record.epoch {
            return Err("old_epoch");
        }
        for said in slices {
            let is_there = (1..=room.record.slices).contains(&said.slice);
            if !is_there || said.viewers.max(said.kept) > MAX_FIGURE {
                return Err("malformed");
            }
        }
        let now = self.core.clock.now();
        self.core.rooms.note_confirmed(room, slices, now);
        Ok(())
    }

    fn take_counts(
        &self,
        room: &Arc<Room>,
        peer: &GatewayId,
        counts: &PeerCounts,
    ) -> Result<(), &'static str> {
        // Higher figures come from a bug, and would stay in the record as an absurd peak.
        let mut highest = counts.viewers.max(counts.away).max(counts.watching);
        let mut newest = 0;
        for slice in &counts.slices {
            let (_, card, fans, leaves, version, incarnation) = slice;
            highest = highest.max(*card).max(*fans).max(*leaves);
            newest = newest.max(*version).max(*incarnation);
        }
        for (_, guests) in &counts.guests {
            highest = highest.max(*guests);
        }
        if highest > MAX_FIGURE || newest > MAX_VERSION {
            return Err("malformed");
        }
        if counts.epoch < room.record.epoch {
            return Err("old_epoch");
        }
        if counts.epoch > room.record.epoch {
            // The peer knows of a newer opening: this room's epoch must be over.
            self.core.checks.check_soon(vec![room.clone()]);
            return Err("newer_epoch");
        }
        let count = ViewerCount {
            viewers: counts.viewers,
            away: counts.away,
            watching: counts.watching,
        };
        if room.figures.note_peers(|peers| {
            peers.heard(peer, count, counts.number, &self.core.gateways.roster())
        }) {
            self.core.rooms.count(room);
        }
        if counts.asks && room.figures.has_published_viewers() {
            room.figures.published.require();
            self.core.rooms.publish(room);
        }
        let LiveRecord {
            live, slices: of, ..
        } = &room.record;
        let audience = Audience::from(room);
        for (index, card, fans, leaves, version, incarnation) in &counts.slices {
            let slice = audience.slice(&SliceId::of_live(live.clone(), *index, *of));
            let size = SliceSize {
                card: *card,
                fans: *fans,
                guests: guests_of(counts, *index),
                leaves: *leaves,
                version: *version,
                incarnation: *incarnation,
                rebuild: counts.rebuilds.contains(index),
                // Whoever found that puts it right.
                differs: false,
            };
            self.core
                .rooms
                .hear_size(&slice.ok_or("malformed")?, size, self.core.clock.now());
        }
        Ok(())
    }
}

/// How many guests a message says that the slice of this index has.
fn guests_of(counts: &PeerCounts, index: u32) -> u64 {
    let told = counts.guests.iter().find(|(of, _)| *of == index);
    told.map_or(0, |(_, guests)| *guests)
}

#[cfg(test)]
mod tests {
    use crate::base::clock::Clock;
    use std::time::Duration;

    use futures_util::FutureExt;

    use super::*;
    use crate::config::Config;
    use crate::store::Bus;
    use crate::store::memory::MemoryStore;
    use crate::testing::{open_live, parts_on};

    /// The subscriber does not run meanwhile, so the first of these messages are lost to it.
    fn lose_messages(store: &MemoryStore) {
        for _ in 0..5_000 {
            store
                .publish(&Channel::Gateways, String::new())
                .now_or_never()
                .unwrap()
                .unwrap();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_room_whose_channels_are_silent_stays_deaf_when_messages_are_lost() {
        let store = Arc::new(MemoryStore::new(Clock::start()));
        let parts = parts_on(&Config::default(), store.clone());
        let (silent, hears) = (
            open_live(&parts.app.sessions, "42").await,
            open_live(&parts.app.sessions, "43").await,
        );
        let subscriber = tokio::spawn(parts.subscriber.run(CancellationToken::new()));
        tokio::task::yield_now().await;
        // As in the middle of subscribing to everything again.
        store.unsubscribe(&silent.record.live);
        for room in [&silent, &hears] {
            room.schedule.check.set_deaf();
        }
        lose_messages(&store);
        let hears = async {
            while hears.schedule.check.is_deaf() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(5), hears)
            .await
            .expect("the loss is dealt with");
        assert!(silent.schedule.check.is_deaf() && silent.friends.is_deaf());
        store.subscribe(&silent.record.live);
        store.hear_moves(&silent.record.live);
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert!(
            !silent.schedule.check.is_deaf() && !silent.friends.is_deaf(),
            "each is ready"
        );
        subscriber.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn a_room_whose_ready_was_lost_is_not_deaf_for_ever() {
        let store = Arc::new(MemoryStore::new(Clock::start()));
        let parts = parts_on(&Config::default(), store.clone());
        let room = open_live(&parts.app.sessions, "42").await;
        let subscriber = tokio::spawn(parts.subscriber.run(CancellationToken::new()));
        tokio::task::yield_now().await;
        room.schedule.check.set_deaf();
        lose_messages(&store);
        let hears = async {
            while room.schedule.check.is_deaf() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(5), hears)
            .await
            .expect("the room hears again");
        assert!(
            room.schedule.check.at() <= parts.app.core.clock.now(),
            "what the lost messages said is read"
        );
        subscriber.abort();
    }
}
