//! The rooms of this gateway, the users who are online on the platform, and the queues of changed
//! rooms and slices. No map guard leaves this file, and nothing here awaits.

use std::sync::Arc;

use dashmap::{DashMap, DashSet};
use tokio::time::Instant;

use super::audience::Audience;
use super::bans::KnownBans;
use super::confirmed::SliceConfirmed;
use super::conn::{Conn, Signals};
use super::friends_here::{Asker, KeptFollows, RecentFollows};
use super::own_lease::OwnLease;
use super::platform::Platform;
use super::queue::Queue;
use super::room::{Room, RoomTerms};
use super::rules::KnownRules;
use super::slice_ref::SliceRef;
use crate::base::clock::{Clock, Moment};
use crate::base::ids::{LiveId, UserId};
use crate::config::Config;
use crate::presence::room_stream::Remembered;
use crate::store::StreamStatus;
use crate::store::{LiveRecord, SliceSize};

#[derive(Debug)]
pub struct Rooms {
    /// The users online on the platform; `None` if the gateway does not track them.
    pub users: Option<Arc<Platform>>,
    /// The streamers with a socket here.
    pub streamers: Arc<Platform>,
    by_live: DashMap<LiveId, Arc<Room>>,
    /// The lives that a user keeps open by being there: as their streamer, or as a host.
    by_keeper: DashMap<UserId, DashSet<LiveId>>,
    terms: RoomTerms,
    /// Slices for the flusher.
    pub to_flush: Queue<SliceRef>,
    /// Slices whose users wait for the loop that asks another system about fans.
    pub to_ask: Queue<SliceRef>,
    /// Audiences with slices that have forgotten what gateways hold, or whose public sets differ
    /// from that.
    pub to_look_at: Queue<Audience>,
    /// Rooms whose counts may be news for the dashboards.
    pub to_count: Queue<Arc<Room>>,
    /// Rooms whose counts may be news for the peers.
    pub to_publish: Queue<Arc<Room>>,
    /// Rooms whose figures may be news for the record.
    pub to_record: Queue<Arc<Room>>,
    /// Rooms that may have news of friends for their viewers.
    pub friends_to_update: Queue<Arc<Room>>,
    /// Rooms of which the store keeps confirmed viewers, who are to be counted again.
    pub confirmed: Queue<Arc<Room>>,
    /// By user, the sockets that asked for their friends in a room.
    askers: DashMap<UserId, Vec<AskerIn>>,
    pub follows: Arc<KeptFollows>,
    pub recent_follows: RecentFollows,
}

/// A socket that asked for its friends in a room.
#[derive(Debug, Clone)]
struct AskerIn {
    room: Arc<Room>,
    asker: Arc<Asker>,
}

/// The result of [`Rooms::install`].
#[derive(Debug)]
pub enum Installed {
    /// A new room, and the room of an older epoch that it replaced. The caller must end the old
    /// room.
    New(Arc<Room>, Option<Arc<Room>>),
    /// The live had a room of this epoch, or of a newer one.
    Known(Arc<Room>),
}

impl Rooms {
    pub fn new(config: &Config, own: Arc<OwnLease>, rules: Arc<KnownRules>, clock: Clock) -> Self {
        let now = clock.now();
        let users = if config.track_online {
            Some(Arc::new(Platform::of_users(now)))
        } else {
            None
        };
        Self {
            users,
            streamers: Arc::new(Platform::of_streamers(now)),
            by_live: DashMap::default(),
            by_keeper: DashMap::default(),
            terms: RoomTerms {
                fan_source: config.fan_source,
                uniques: config.uniques,
                own,
                rules,
                clock,
                stream_grace: config.stream_grace,
            },
            to_flush: Queue::default(),
            to_ask: Queue::default(),
            to_look_at: Queue::default(),
            to_count: Queue::default(),
            to_publish: Queue::default(),
            to_record: Queue::default(),
            friends_to_update: Queue::default(),
            confirmed: Queue::default(),
            askers: DashMap::default(),
            follows: Arc::default(),
            recent_follows: RecentFollows::default(),
        }
    }

    /// An empty room of an open live, for [`Self::install`].
    pub fn prepare(&self, record: LiveRecord, bans: KnownBans, now: Moment) -> Room {
        Room::new(record, bans, now, self.terms.clone())
    }

    /// The room of a live, if this gateway has one that has not ended.
    pub fn get(&self, live: &LiveId) -> Option<Arc<Room>> {
        let room = self.by_live.get(live)?.clone();
        if room.end().is_some() {
            return None;
        }
        Some(room)
    }

    /// Adds the room of an open live, unless the live has one.
    pub fn install(&self, room: Room) -> Installed {
        let epoch = room.record.epoch;
        let entry = self.by_live.entry(room.record.live.clone());
        let old = match &entry {
            dashmap::Entry::Occupied(there) => Some(there.get().clone()),
            dashmap::Entry::Vacant(_) => None,
        };
        if let Some(old) = &old
            && old.record.epoch >= epoch
            && old.end().is_none()
        {
            return Installed::Known(old.clone());
        }
        let room = Arc::new(room);
        // The drop unlocks the shard of the map.
        drop(entry.insert(room.clone()));
        for keeper in room.record_now().streamer_and_hosts() {
            self.index(&room, keeper);
        }
        Installed::New(room, old)
    }

    /// The room of this epoch of a live.
    pub fn of_epoch(&self, record: &LiveRecord) -> Option<Arc<Room>> {
        self.get(&record.live)
            .filter(|room| room.record.epoch == record.epoch)
    }

    /// Removes a room that has ended; a newer room of the same live stays.
    pub fn remove(&self, room: &Arc<Room>) {
        self.by_live
            .remove_if(&room.record.live, |_, there| Arc::ptr_eq(there, room));
        self.forget_keepers(room);
    }

    /// Forgets who kept the live of a room open, as far as the live has no other room by now.
    fn forget_keepers(&self, room: &Room) {
        for keeper in room.record_now().streamer_and_hosts() {
            self.index(room, keeper);
        }
    }

    /// Notes whether the user keeps the live of a room open, as its room says by now.
    fn index(&self, room: &Room, user: &UserId) {
        let live = &room.record.live;
        let lives = self.by_keeper.entry(user.clone()).or_default();
        // Under the lock of the user's lives: the last one who looks finds the last change.
        let keeps = self
            .by_live
            .get(live)
            .is_some_and(|there| there.is_kept_by(user));
        if keeps {
            lives.insert(live.clone());
        } else {
            lives.remove(live);
        }
        drop(lives);
        self.by_keeper.remove_if(user, |_, lives| lives.is_empty());
    }

    /// Evicts a room if nobody needs it. A join at the same moment either keeps the room or finds
    /// it ended.
    pub fn evict_if_idle(&self, room: &Arc<Room>) -> bool {
        let gone = self.by_live.remove_if(&room.record.live, |_, there| {
            Arc::ptr_eq(there, room) && room.end_if_idle()
        });
        if gone.is_some() {
            self.forget_keepers(room);
        }
        gone.is_some()
    }

    /// The rooms of a streamer's lives.
    pub fn of_streamer(&self, streamer: &UserId) -> Vec<Arc<Room>> {
        let mut rooms = self.kept_by(streamer);
        rooms.retain(|room| room.record.streamer == *streamer);
        rooms
    }

    /// The rooms of the lives that a user keeps open by being there, as streamer or host.
    pub fn kept_by(&self, user: &UserId) -> Vec<Arc<Room>> {
        let lives: Vec<LiveId> = match self.by_keeper.get(user) {
            Some(lives) => lives.iter().map(|live| live.clone()).collect(),
            None => Vec::new(),
        };
        let mut rooms = Vec::new();
        for live in &lives {
            rooms.extend(self.get(live));
        }
        rooms
    }

    /// Whether the streamer of a live, or a host, has a socket here.
    pub fn is_kept_here(&self, room: &Room) -> bool {
        let hosts = &room.info.newest().terms.hosts;
        self.streamers.is_here(&room.record.streamer)
            || hosts.iter().any(|host| self.streamers.is_here(host))
    }

    pub fn all(&self) -> Vec<Arc<Room>> {
        self.by_live
            .iter()
            .map(|room| room.value().clone())
            .collect()
    }

    // -------------------------------------------------------------------------------- what changed

    /// Queues a slice for the flusher.
    pub fn flush(&self, slice: &SliceRef) {
        let is_dirty = slice.is_dirty();
        let mut state = slice.lock();
        if is_dirty {
            state.note_unconfirmed(Instant::now());
        }
        let is_new = state.ask_job();
        drop(state);
        if is_new {
            self.to_flush.push(slice.clone());
        }
    }

    /// Queues a room whose figures may have changed for the record, and for its dashboards, if it
    /// has any.
    pub fn count(&self, room: &Arc<Room>) {
        self.record(room);
        self.show(room);
    }

    /// Queues a room whose figures may have changed for the record.
    pub fn record(&self, room: &Arc<Room>) {
        self.to_record
            .push_once(&room.schedule.counting.queued, || room.clone());
    }

    /// Queues a room for its dashboards, if it has any.
    pub fn show(&self, room: &Arc<Room>) {
        if room.is_watched() {
            self.to_count
                .push_once(&room.schedule.counts_queued, || room.clone());
        }
    }

    /// Queues every room for its dashboards: the quality of the figures may have changed.
    pub fn count_all(&self) {
        for room in self.all() {
            room.figures.note_peaks();
            self.show(&room);
        }
    }

    /// Notes what a back end changed of a live, as the store has it. Sockets that watch the live are
    /// told of new information, and those of hosts that they are some, or no longer.
    pub fn note_changes(&self, room: &Arc<Room>, record: &LiveRecord) {
        let noted = room.info.note(record);
        let now = self.terms.clock.now();
        if noted.has_news && room.is_watched() {
            room.schedule.throttle.lock().force();
            self.show(room);
        }
        for user in &noted.hosts {
            self.index(room, user);
            // A moderator's ban held for no host.
            if room.kept_out(user, now).is_some() && room.remove_user(user, now) > 0 {
                self.user_changed(room, user);
            }
            room.signal_user(user, Signals::YOU);
        }
    }

    /// Notes what the store has of the stream of a live, see [`RoomStream::note`].
    pub fn note_stream(
        &self,
        room: &Arc<Room>,
        version: u64,
        status: Option<StreamStatus>,
        remembered: Remembered,
    ) {
        if room.stream.note(version, status, remembered) {
            self.show(room);
        }
    }

    /// Notes how many viewers are confirmed in some slices of a live, which the store told this
    /// gateway or a peer.
    pub fn note_confirmed(&self, room: &Arc<Room>, said: &[SliceConfirmed], now: Moment) {
        if room.confirmed.note(said, now) {
            self.show(room);
        }
        if room.confirmed.ask_at().is_some() {
            self.confirmed
                .push_once(&room.schedule.confirmed_queued, || room.clone());
        }
    }

    /// Queues a room whose counts may be news for the peers.
    pub fn publish(&self, room: &Arc<Room>) {
        self.to_publish
            .push_once(&room.schedule.publish_queued, || room.clone());
    }

    // --------------------------------------------------------------------------- friends in a room

    /// Queues a room that may have news of friends for its viewers.
    pub fn update_friends(&self, room: &Arc<Room>) {
        self.friends_to_update
            .push_once(&room.schedule.friends_queued, || room.clone());
    }

    /// Begins to tell a socket of the friends in a room.
    pub fn ask_friends(&self, room: &Arc<Room>, conn: &Arc<Conn>, now: Moment) {
        let asker = room.friends.add(conn, &self.follows, now);
        self.askers
            .entry(conn.identity.user.clone())
            .or_default()
            .push(AskerIn {
                room: room.clone(),
                asker,
            });
        self.update_friends(room);
    }

    /// The asker that [`Self::ask_friends`] made for a socket.
    pub fn asker(&self, conn: &Arc<Conn>) -> Option<Arc<Asker>> {
        let there = self.askers.get(&conn.identity.user)?;
        let own = there.iter().find(|there| there.asker.is_of(conn))?;
        Some(own.asker.clone())
    }

    /// Stops telling a socket of the friends in a room.
    pub fn forget_asker(&self, room: &Arc<Room>, conn: &Arc<Conn>) {
        let Some(asker) = self.asker(conn) else {
            return;
        };
        room.friends.remove(&asker);
        if let Some(mut there) = self.askers.get_mut(asker.user()) {
            there.retain(|other| !Arc::ptr_eq(&other.asker, &asker));
        }
        self.askers
            .remove_if(asker.user(), |_, there| there.is_empty());
        self.update_friends(room);
    }

    /// Notes that the follows of a user changed.
    pub fn follows_changed(&self, user: &UserId) {
        self.recent_follows.forget(user);
        let there = match self.askers.get(user) {
            Some(there) => there.clone(),
            None => Vec::new(),
        };
        for AskerIn { room, asker } in there {
            room.friends.load_at(&asker, Moment::START);
            self.update_friends(&room);
        }
    }

    /// Queues the rooms for which `note` returns true: they have work.
    pub fn update_friends_where(&self, note: impl Fn(&Room) -> bool) {
        for room in self.all() {
            if note(&room) {
                self.update_friends(&room);
            }
        }
    }

    /// Notes which users came to lives and left them, as the store knows by now. Returns the moves
    /// whose lives have no room.
    pub fn moved(&self, users: Vec<(LiveId, UserId)>) -> Vec<(LiveId, UserId)> {
        let mut elsewhere = Vec::new();
        for (live, user) in users {
            match self.get(&live) {
                Some(room) if room.moves.note(user.clone()) => self.publish(&room),
                Some(_) => {}
                None => elsewhere.push((live, user)),
            }
        }
        elsewhere
    }

    /// As [`Self::moved`], if any user may have moved.
    pub fn anybody_moved(&self) {
        for room in self.all() {
            if room.moves.note_anybody() {
                self.publish(&room);
            }
        }
    }

    /// Queues a room because a user came, went or changed: that may be news for the store, the
    /// dashboards and the peers.
    pub fn user_changed(&self, room: &Arc<Room>, user: &UserId) {
        let slice = Audience::from(room).slice_of(user);
        self.flush_if_dirty(&slice);
        self.ask_elsewhere(&slice);
        self.count(room);
        self.publish(room);
    }

    /// Queues a room because a guest became a user. Both slices have a turn, even if one of them has
    /// nothing to say: the sizes of both are held back until then.
    pub fn replaced(&self, room: &Arc<Room>, guest: &UserId, user: &UserId) {
        let audience = Audience::from(room);
        for slice in [audience.slice_of(user), audience.slice_of(guest)] {
            self.flush(&slice);
            self.ask_elsewhere(&slice);
        }
        self.count(room);
        self.publish(room);
    }

    /// The sets of users of the platform.
    pub fn platforms(&self) -> impl Iterator<Item = &Arc<Platform>> {
        self.users.iter().chain([&self.streamers])
    }

    /// Notes a socket of a user who is in a set of the platform.
    pub fn enter(&self, platform: &Arc<Platform>, user: &UserId) {
        platform.enter(user);
        self.flush_if_dirty(&Audience::from(platform).slice_of(user));
    }

    /// Forgets such a socket, which was last heard at `heard`.
    pub fn leave(&self, platform: &Arc<Platform>, user: &UserId, heard: Moment) {
        platform.leave(user, heard);
        self.flush_if_dirty(&Audience::from(platform).slice_of(user));
    }

    /// Notes that a socket of a user online took a seat in a live. A guest is in no set of the
    /// platform.
    pub fn join_live(&self, user: &UserId, live: &LiveId) {
        if let Some(users) = &self.users
            && !user.is_guest()
            && users.join_live(user, live)
        {
            self.flush(&Audience::from(users).slice_of(user));
        }
    }

    /// Notes that a socket of a user online gave up its seat in a live.
    pub fn leave_live(&self, user: &UserId, live: &LiveId) {
        if let Some(users) = &self.users
            && !user.is_guest()
            && users.leave_live(user, live)
        {
            self.flush(&Audience::from(users).slice_of(user));
        }
    }

    fn flush_if_dirty(&self, slice: &SliceRef) {
        if slice.is_dirty() {
            self.flush(slice);
        }
    }

    /// Makes a user's fan check due at once in every room of the streamer.
    pub fn check_fan_again(&self, user: &UserId, streamer: &UserId) {
        for room in self.of_streamer(streamer) {
            if room.seats.lock_of(user).check_again(user) {
                self.check_fans(&Audience::Room(room).slice_of(user));
            }
        }
    }

    /// Queues the due fan checks of a slice for the flusher, or for the loop that asks another
    /// system.
    pub fn check_fans(&self, slice: &SliceRef) {
        if slice.due_in_turn() > 0 {
            self.flush(slice);
        }
        self.ask_elsewhere(slice);
    }

    fn ask_elsewhere(&self, slice: &SliceRef) {
        if slice.queue_ask() {
            self.to_ask.push(slice.clone());
        }
    }

    /// Notes a slice's size, which the store told this gateway, and tells the dashboards and the
    /// peers. The peers hear of a size that did not change, too: they may have heard another size
    /// of a version between.
    pub fn note_size(&self, slice: &SliceRef, size: SliceSize, now: Moment) {
        self.hear_size(slice, size, now);
        if let Some(room) = slice.room()
            && size.version >= slice.size().version
        {
            slice.set_unpublished();
            self.publish(room);
        }
        slice.store_answered();
    }

    /// Notes a slice's size, which the store told this gateway or a peer. Has everybody said again
    /// if the slice forgot since this gateway's last call, and the slice looked at soon if it is not
    /// in order.
    pub fn hear_size(&self, slice: &SliceRef, size: SliceSize, now: Moment) {
        let before = slice.size();
        if slice.note_size(size, now)
            && let Some(room) = slice.room()
        {
            self.count(room);
        }
        let size = slice.size();
        if size.incarnation != before.incarnation {
            slice.lock().note_incarnation(size.incarnation);
            self.flush_if_dirty(slice);
        }
        let was_open = before.rebuild || before.differs;
        if (size.rebuild || size.differs) && !was_open {
            self.to_look_at.push(slice.owner().clone());
        }
    }

    /// Notes that a call or a check, sent at `asked`, showed that the content of a slice is right.
    pub fn note_proven(&self, slice: &SliceRef, asked: Moment) {
        slice.note_proven(asked);
        if let Some(room) = slice.room() {
            self.end_doubt(room);
        }
    }

    /// Notes that the store answered a check of a room, sent at `asked`.
    pub fn note_checked(&self, room: &Arc<Room>, asked: Moment) {
        room.schedule.check.note_checked(asked);
        self.end_doubt(room);
    }

    fn end_doubt(&self, room: &Arc<Room>) {
        if room.end_doubt() {
            room.figures.note_peaks();
            self.count(room);
        }
    }

    /// Queues everything: this gateway has a new id, and has told nothing under that id yet.
    pub fn tell_all_again(&self) {
        for room in self.all() {
            self.publish(&room);
        }
        for audience in self.audiences() {
            for slice in audience.slices() {
                self.flush(&slice);
            }
        }
    }

    /// Takes all users of this gateway out of the store.
    pub fn want_nobody(&self, now: Moment) {
        for room in self.all() {
            room.want_nobody();
        }
        for platform in self.platforms() {
            platform.want_nobody(now);
        }
        for audience in self.audiences() {
            for slice in audience.slices() {
                self.flush_if_dirty(&slice);
            }
        }
    }

    /// Every room, and every set of the platform.
    pub fn audiences(&self) -> Vec<Audience> {
        let platforms = self.platforms().cloned().map(Audience::Platform);
        self.all()
            .into_iter()
            .map(Audience::Room)
            .chain(platforms)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock::moment;
    use crate::base::gcra::Rate;
    use crate::base::identity::Identity;
    use crate::store::Terms;
    use crate::testing::{self, open_record};

    fn rooms() -> Rooms {
        Rooms::new(
            &Config::default(),
            Arc::default(),
            Arc::default(),
            Clock::start(),
        )
    }

    fn install(rooms: &Rooms, record: LiveRecord) -> Arc<Room> {
        match rooms.install(rooms.prepare(record, KnownBans::default(), moment(0))) {
            Installed::New(room, _) => room,
            _ => panic!("it is new"),
        }
    }

    #[test]
    fn a_socket_that_does_not_count_says_nothing_of_when_its_user_is_here() {
        let terms = Terms {
            attendance: true,
            ..Terms::default()
        };
        let room = install(
            &rooms(),
            LiveRecord {
                terms,
                ..open_record()
            },
        );
        let plain = testing::conn("u1");
        let hidden = Arc::new(Conn::new(
            Identity {
                counted: false,
                ..plain.identity.clone()
            },
            moment(900),
        ));
        let user = std::slice::from_ref(&plain.identity.user);
        let rate = Rate::per_second(10);
        room.join(&hidden, rate, moment(0), 1_000).unwrap();
        room.join(&plain, rate, moment(0), 2_000).unwrap();
        assert_eq!(room.seats.since(0, user.iter(), 9_000), [2_000]);
        room.leave(&hidden, moment(900));
        assert_eq!(room.seats.left(0, user), Some(vec![None]));
        room.join(&hidden, rate, moment(900), 3_000).unwrap();
        plain.heard(moment(950));
        room.leave(&plain, moment(950));
        assert_eq!(room.seats.left(0, user), Some(vec![Some(moment(950))]));
        room.remove_user(&user[0], moment(990));
        assert_eq!(room.seats.left(0, user), Some(vec![Some(moment(950))]));
    }

    #[test]
    fn a_change_that_leaves_the_size_as_it_was_known_is_published() {
        let rooms = rooms();
        let room = install(&rooms, open_record());
        let slice = Audience::from(&room).slices().next().unwrap();
        let before = slice.size().version;
        let size = |card, version| SliceSize {
            card,
            version,
            ..SliceSize::default()
        };
        rooms.hear_size(&slice, size(66, before + 1), moment(1));
        assert_eq!(
            slice.take_unpublished(),
            None,
            "the peer that said so told the others"
        );
        // A fan joined on another gateway, whose message is on its way; then a fan left on this
        // one.
        rooms.note_size(&slice, size(66, before + 3), moment(2));
        assert_eq!(
            slice.take_unpublished(),
            Some(size(66, before + 3)),
            "peers may know the size of the version between"
        );
        // An answer that a newer one has overtaken is no news.
        rooms.note_size(&slice, size(67, before + 2), moment(3));
        assert_eq!(slice.take_unpublished(), None);
    }
}
