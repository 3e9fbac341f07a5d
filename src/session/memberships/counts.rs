//! The counts and the information of back ends that a socket is sent about its lives. Each watching
//! dashboard gets a counts message of its own; the viewers of a live who asked for counts share one
//! text.

use std::sync::Arc;

use tokio_tungstenite::tungstenite::Utf8Bytes;

use super::{Memberships, NO_COUNTS};
use crate::base::identity::Role;
use crate::presence::Room;
use crate::presence::figures::Quality;
use crate::presence::room::Interest;
use crate::presence::throttle::Shown;
use crate::session::context::SessionContext;
use crate::session::messages::{CountsMessage, InfoTold, RequestId, ServerMessage};
use crate::store::{Info, Peaks};

impl Memberships {
    /// The information about a live, if this socket does not have its newest version. It is noted
    /// as told, so the caller must send it.
    pub(in crate::session) fn info_to_tell(&mut self, room: &Arc<Room>) -> Option<Info> {
        let newest = room.info.revision();
        if newest == 0 || self.info_told(room)? >= newest {
            return None;
        }
        let known = room.info.newest();
        self.note_info_told(room, known.revision);
        Some(known.info.clone())
    }

    /// The revision of a live's information that the client has; `None` if the socket takes no part
    /// in the live.
    fn info_told(&self, room: &Arc<Room>) -> Option<u32> {
        if let Some(seat) = &self.seat
            && Arc::ptr_eq(&seat.room, room)
        {
            return Some(seat.info);
        }
        self.listening
            .iter()
            .find(|there| Arc::ptr_eq(&there.room, room))
            .map(|there| there.info)
    }

    /// Notes the revision of a live's information that the client is told.
    pub(in crate::session) fn note_info_told(&mut self, room: &Arc<Room>, revision: u32) {
        if let Some(seat) = &mut self.seat
            && Arc::ptr_eq(&seat.room, room)
        {
            seat.info = revision;
        }
        if let Some(there) = self
            .listening
            .iter_mut()
            .find(|there| Arc::ptr_eq(&there.room, room))
        {
            there.info = revision;
        }
    }

    /// Starts to push the counts of the joined live.
    pub(in crate::session) fn begin_counts(&mut self) {
        if let Some(seat) = &mut self.seat
            && seat.sent == NO_COUNTS
        {
            seat.room
                .pushed
                .add(&self.conn, self.context.core.clock.now());
            seat.sent = 0;
        }
    }

    /// Stops pushing the counts of the joined live.
    pub(in crate::session) fn end_counts(&mut self) {
        if let Some(seat) = &mut self.seat
            && seat.sent != NO_COUNTS
        {
            seat.room.pushed.remove(&self.conn);
            seat.sent = NO_COUNTS;
        }
    }

    /// The counts of the joined live at this moment, for a viewer who has just asked for them.
    pub(in crate::session) fn first_counts(&mut self) -> Option<Utf8Bytes> {
        let text = self.own_counts()?;
        self.context.core.metrics.counts_sent.inc();
        Some(text)
    }

    /// The counts of the joined live at this moment, for this socket alone.
    fn own_counts(&mut self) -> Option<Utf8Bytes> {
        let seat = self.seat.as_ref().filter(|seat| seat.sent != NO_COUNTS)?;
        let room = seat.room.clone();
        let context = self.context.clone();
        if self.look_whether_new() {
            let place = room.place_of_user(&self.conn.identity.user);
            room.pushed.await_store(&self.conn, place);
        }
        // Looked at again, because the store may have answered before the socket waited for it.
        self.told_as_new = self.look_whether_new();
        let (shown, number) = if self.told_as_new {
            let user = &self.conn.identity.user;
            room.pushed.for_newcomer(|| Shown {
                figures: room.figures.for_newcomer(user),
                ..room.show(context.core.clock.now(), || {
                    context.trust.quality_for_newcomer(&room)
                })
            })?
        } else {
            room.pushed
                .first(|| (show(&context, &room), room.info.revision()))?
        };
        self.seat.as_mut()?.sent = number.place;
        let seq = self.own_seq().unwrap_or(number.seq);
        let info = self.info_to_tell(&room);
        Some(counts(&context, &room, shown, seq, info.as_ref()).text(None))
    }

    /// The counts of the joined live, if they are pushed, and of every watched live, at this moment.
    pub(in crate::session) fn counts_now(&mut self) -> Vec<Utf8Bytes> {
        let mut texts = Vec::new();
        texts.extend(self.first_counts());
        for room in self.watched() {
            texts.extend(self.counts_of(&room, None));
        }
        texts
    }

    /// The counts that were released since this socket was last sent any: of every watched live,
    /// and of the joined live if the client asked for counts.
    pub(in crate::session) fn new_counts(&mut self) -> Vec<Utf8Bytes> {
        let context = self.context.clone();
        let mut released: Vec<(Arc<Room>, Shown)> = Vec::new();
        for there in &mut self.listening {
            if there.interest != Interest::Counts {
                continue;
            }
            let shown = there.room.schedule.throttle.lock().shown();
            if let Some(shown) = shown
                && there.sent != Some(shown.at)
            {
                there.sent = Some(shown.at);
                released.push((there.room.clone(), shown));
            }
        }
        let mut texts = Vec::with_capacity(released.len() + 1);
        for (room, shown) in released {
            self.seq += 1;
            let info = self.info_to_tell(&room);
            texts.push(counts(&context, &room, shown, self.seq, info.as_ref()).text(None));
        }
        texts.extend(self.shared_counts());
        context.core.metrics.counts_sent.inc_by(texts.len() as u64);
        texts
    }

    /// The newest counts that all viewers of the joined live share, if this socket asked for them
    /// and was not told yet. A newcomer gets counts of its own until the store holds the viewer,
    /// because the shared ones may be older than the join.
    fn shared_counts(&mut self) -> Option<Utf8Bytes> {
        if self.told_as_new {
            return self.own_counts();
        }
        let seat = self.seat.as_mut()?;
        let room = seat.room.clone();
        let info_told = seat.info;
        let frame = room.pushed.frame()?;
        if frame.number.place <= seat.sent {
            return None;
        }
        seat.sent = frame.number.place;
        if let Some(seq) = self.own_seq() {
            let info = self.info_to_tell(&room);
            return Some(counts(&self.context, &room, frame.shown, seq, info.as_ref()).text(None));
        }
        let seq = frame.number.seq;
        if info_told != room.info.revision() {
            let (revision, with_info) = frame.with_info.get_or_init(|| {
                let known = room.info.newest();
                let message = counts(&self.context, &room, frame.shown, seq, Some(&known.info));
                (known.revision, message.text(None))
            });
            if *revision > info_told {
                self.note_info_told(&room, *revision);
                return Some(with_info.clone());
            }
        }
        let plain = frame
            .plain
            .get_or_init(|| counts(&self.context, &room, frame.shown, seq, None).text(None));
        Some(plain.clone())
    }

    /// The next number of this socket's own counts, if the socket may also watch lives: the numbers
    /// of a live must grow whichever way its counts come. A viewer's socket never watches, and gets
    /// the numbers of the room.
    fn own_seq(&mut self) -> Option<u64> {
        if self.conn.identity.role == Role::Viewer {
            return None;
        }
        self.seq += 1;
        Some(self.seq)
    }

    /// The counts of a watched live at this moment.
    pub(in crate::session) fn counts_of(
        &mut self,
        room: &Arc<Room>,
        id: Option<&RequestId>,
    ) -> Option<Utf8Bytes> {
        let there = self
            .listening
            .iter_mut()
            .find(|there| Arc::ptr_eq(&there.room, room))?;
        let shown = show(&self.context, room);
        let forced = {
            let mut throttle = room.schedule.throttle.lock();
            let forced = throttle.note_first(shown);
            there.sent = throttle.shown().map(|shown| shown.at);
            forced
        };
        if forced {
            self.context.core.rooms.show(room);
        }
        self.seq += 1;
        let info = self.info_to_tell(room);
        self.context.core.metrics.counts_sent.inc();
        Some(counts(&self.context, room, shown, self.seq, info.as_ref()).text(id))
    }
}

/// The figures of a room at this moment.
fn show(context: &SessionContext, room: &Room) -> Shown {
    room.show(context.core.clock.now(), || context.trust.quality(room))
}

fn counts<'a>(
    context: &SessionContext,
    room: &'a Room,
    shown: Shown,
    seq: u64,
    info: Option<&'a Info>,
) -> ServerMessage<'a> {
    // A new exact figure may be a peak that the room has not noted yet. No message may show a peak
    // below its own figure.
    let peaks = match shown.quality {
        Quality::Exact => room.figures.peaks().max(Peaks {
            viewers: shown.figures.viewers,
            fans: shown.figures.fans,
        }),
        Quality::Partial | Quality::Stale => room.figures.peaks(),
    };
    // Exact figures are correct now; the others were correct when the store last answered.
    let age = match shown.quality {
        Quality::Exact => 0,
        Quality::Partial | Quality::Stale => {
            context.core.clock.now().since(context.trust.sure_at(room))
        }
    };
    ServerMessage::Counts(CountsMessage {
        live_id: &room.record.live,
        epoch: room.record.epoch,
        seq,
        viewers: shown.figures.viewers,
        fans: shown.figures.fans,
        guests: shown.figures.guests,
        peak_viewers: peaks.viewers,
        peak_fans: peaks.fans,
        opened_at: room.record.opened_at,
        as_of: context.core.clock.unix().saturating_sub(age),
        quality: shown.quality,
        away: shown.away,
        watching: shown.watching,
        confirmed: shown.confirmed,
        joins: shown.arrived.joins,
        leaves: shown.arrived.leaves,
        stream: shown.stream,
        told: info.map(InfoTold::of),
    })
}
