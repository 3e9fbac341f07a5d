//! The figures of a room: the viewers and fans on all gateways, the viewers on this one, the
//! highest figures so far, and whether the room has reason to doubt the figures. Never awaits.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::base::clock::{Clock, Moment};
use crate::base::ids::{GatewayId, UserId};
use crate::presence::figures::{Figures, Flaws, Quality};
use crate::presence::gateways::Roster;
use crate::presence::own_lease::OwnLease;
use crate::presence::published_viewers::PublishedViewers;
use crate::presence::remote_viewers::RemoteViewers;
use crate::presence::room_peaks::RoomPeaks;
use crate::presence::slice::SetSize;
use crate::presence::tally::{ViewerCount, ViewerTally};
use crate::store::Peaks;

/// Heartbeats read `size` and `tally`, which take no lock for them.
#[derive(Debug)]
pub struct RoomFigures {
    /// The sum of the sizes of the slices over all gateways, as the store last said.
    pub(in crate::presence) size: SetSize,
    pub(in crate::presence) tally: ViewerTally,
    pub(super) remote: Mutex<RemoteViewers>,
    pub published: PublishedViewers,
    peaks: Mutex<RoomPeaks>,
    /// Since when everything that the store said of the live is in doubt.
    doubted_since: Mutex<Option<Moment>>,
    own: Arc<OwnLease>,
    clock: Clock,
}

impl RoomFigures {
    /// The figures of an empty room. `peaks` are those in the record.
    pub(super) fn new(peaks: Peaks, own: Arc<OwnLease>, clock: Clock) -> Self {
        Self {
            size: SetSize::default(),
            tally: ViewerTally::default(),
            remote: Mutex::default(),
            published: PublishedViewers::default(),
            peaks: Mutex::new(RoomPeaks::new(peaks)),
            doubted_since: Mutex::default(),
            own,
            clock,
        }
    }

    /// The viewers and fans on all gateways, as the store last said; at least the viewers who are
    /// here, since the store may not know all of them yet.
    pub fn now(&self) -> Figures {
        Figures {
            viewers: self.size.members().max(self.tally.viewers_here()),
            fans: self.size.fans(),
            guests: self.size.guests(),
        }
    }

    /// The figures for a newcomer: one more viewer than the store knows of, and one more guest if
    /// the newcomer is one. The store may know the newcomer from another gateway.
    pub fn for_newcomer(&self, newcomer: &UserId) -> Figures {
        let now = self.now();
        Figures {
            viewers: now.viewers.max(self.size.members() + 1),
            guests: now.guests + u64::from(newcomer.is_guest()),
            ..now
        }
    }

    pub fn own_viewers(&self) -> ViewerCount {
        self.tally.here()
    }

    /// Of this many viewers on all gateways, how many are away, and how many watch, as each gateway
    /// counts them.
    pub fn looks_of(&self, viewers: u64) -> ViewerCount {
        self.tally.looks_of(viewers)
    }

    /// Forgets the viewers: the room has ended.
    pub(super) fn clear(&self) {
        self.tally.clear();
        *self.remote.lock() = RemoteViewers::default();
    }

    // ----------------------------------------------------------------------------------- the peers

    /// Notes news of the peers, with a method of [`RemoteViewers`]. True if how many are
    /// away or watch, or the quality of the figures, changed.
    pub fn note_peers(&self, note: impl FnOnce(&mut RemoteViewers) -> bool) -> bool {
        let changed = note(&mut self.remote.lock());
        if changed {
            self.tally.set_elsewhere(|| self.remote.lock().sum());
            self.note_peaks();
        }
        changed
    }

    /// Makes the publisher ask the peers for their viewers, because this gateway may have missed
    /// messages. True as for [`Self::note_peers`].
    pub fn ask_peers(&self, roster: &Roster) -> bool {
        self.published.ask();
        self.note_peers(|peers| peers.miss_messages(roster))
    }

    /// Dead gateways that may still have members in the slices, so that the figures are too high.
    pub fn unswept(&self) -> BTreeSet<GatewayId> {
        self.remote.lock().unswept()
    }

    /// Whether the peers have, or may have, a wrong number of this gateway's viewers.
    pub fn has_unpublished_viewers(&self) -> bool {
        self.published.differs_from(self.own_viewers())
    }

    /// Whether a peer that asks may lack something that this gateway told, or has yet to tell.
    pub fn has_published_viewers(&self) -> bool {
        !self.published.is_nothing() || self.has_unpublished_viewers()
    }

    // --------------------------------------------------------------------------------- the quality

    /// The flaws that the room knows of. With one of them, figures may be too high, and are no
    /// peaks. [`crate::presence::trust`] finds the others, which do not matter for peaks: the
    /// figures are old then, and the store has said each part of them before.
    pub fn flaws(&self) -> Flaws {
        Flaws {
            store_is_down: self.own.is_store_down(),
            peers_unknown: !self.own.knows_peers(self.clock.now()),
            peer_is_late: self.remote.lock().is_peer_late(),
            has_rebuild: self.size.has_rebuild(),
            is_unproven: self.doubted_since.lock().is_some(),
            ..Flaws::default()
        }
    }

    /// Notes that everything that the store said of this live is in doubt from `now` on.
    pub(super) fn doubt(&self, now: Moment) {
        let mut since = self.doubted_since.lock();
        *since = (*since).max(Some(now));
        drop(since);
        self.peaks.lock().forget_unsure();
    }

    /// Ends the doubt about everything if the store was proven right since it began. True if the
    /// doubt ended.
    pub(super) fn end_doubt(&self, is_proven_since: impl FnOnce(Moment) -> bool) -> bool {
        let mut doubted = self.doubted_since.lock();
        doubted.take_if(|since| is_proven_since(*since)).is_some()
    }

    // ----------------------------------------------------------------------------------- the peaks

    /// Notes the figures as peaks, if they are exact as far as this room can tell. Returns the
    /// peaks.
    pub fn note_peaks(&self) -> Peaks {
        // The flaws come last, so that no doubtful figure passes for a certain one.
        let Figures { viewers, fans, .. } = self.now();
        if Quality::of(self.flaws()) == Quality::Exact {
            self.peaks
                .lock()
                .note(Peaks { viewers, fans }, self.own.renewals());
        }
        self.peaks()
    }

    /// The highest figures, including the latest ones.
    pub fn peaks(&self) -> Peaks {
        self.peaks.lock().highest()
    }

    /// The highest figures that are certain: this gateway has renewed its lease since it noted
    /// them. So it would know by now if the store had lost its data, or come back with older data,
    /// before.
    pub fn sure_peaks(&self) -> Peaks {
        self.peaks.lock().sure(self.own.renewals())
    }

    /// Notes that the record has these peaks.
    pub fn note_peaks_written(&self, peaks: Peaks) {
        self.peaks.lock().note_written(peaks);
    }

    /// Whether there are sure peaks that the record may lack.
    pub fn has_new_peaks(&self) -> bool {
        self.peaks.lock().has_unwritten(self.own.renewals())
    }
}
