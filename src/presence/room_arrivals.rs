//! How many users came to a room and left it, over all gateways, for dashboards and the history. Never awaits.

use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use super::own_lease::OwnLease;
use super::tally::{SeatChange, SeatState};
use crate::base::clock::UnixMillis;
use crate::base::ids::GatewayId;
use crate::store::{Arrivals, Arrived};

#[derive(Debug)]
pub struct RoomArrivals {
    own: Arc<OwnLease>,
    known: Mutex<Known>,
}

#[derive(Debug)]
struct Known {
    /// The id under which `here` counts.
    name: GatewayId,
    here: Arrived,
    elsewhere: Arrivals,
    /// What the peers were told of this gateway last.
    told: Arrived,
}

impl RoomArrivals {
    /// With what the record says. A gateway that had a room of this epoch before goes on with its own totals.
    pub(super) fn new(own: Arc<OwnLease>, record: &Arrivals) -> Self {
        let name = own.id();
        let here = record.of(&name);
        Self { own, known: Mutex::new(Known { name, here, elsewhere: record.clone(), told: here }) }
    }

    /// A gateway that was buried counts from zero under its new id: what it counted before is one day folded.
    fn known(&self) -> MutexGuard<'_, Known> {
        let (mut known, name) = (self.known.lock(), self.own.id());
        if known.name != name {
            let former = std::mem::replace(&mut known.name, name);
            let here = std::mem::take(&mut known.here);
            known.elsewhere.note(&former, here);
            known.told = Arrived::default();
        }
        known
    }

    pub(super) fn count(&self, change: SeatChange) {
        let mut known = self.known();
        match (change.before, change.after) {
            (SeatState::Uncounted, SeatState::Uncounted) => {}
            (SeatState::Uncounted, _) => known.here.joins += 1,
            (_, SeatState::Uncounted) => known.here.leaves += 1,
            _ => {}
        }
    }

    /// Takes in what a peer counted that knows of the fold at `folded_at`. True if that is news.
    pub fn heard(&self, origin: &GatewayId, arrived: Arrived, folded_at: UnixMillis) -> bool {
        !self.own.is_own(origin) && self.known().elsewhere.hear(origin, arrived, folded_at)
    }

    /// Takes in what a record says. True if that is news.
    pub fn read(&self, record: &Arrivals) -> bool {
        let mut known = self.known();
        // The record may have lagged behind this gateway when the room was made.
        known.here = known.here.max(record.of(&known.name));
        known.elsewhere.merge(record)
    }

    /// What this gateway counted, under its id.
    pub fn here(&self) -> (GatewayId, Arrived) {
        let known = self.known();
        (known.name.clone(), known.here)
    }

    /// The same, and when totals were folded last, as far as this gateway knows.
    pub fn to_tell(&self) -> ((GatewayId, Arrived), UnixMillis) {
        let known = self.known();
        ((known.name.clone(), known.here), known.elsewhere.folded_at())
    }

    /// Whether the peers were told something else of this gateway.
    pub fn owes(&self) -> bool {
        let known = self.known();
        known.told != known.here
    }

    pub fn note_told(&self, here: Arrived) {
        self.known().told = here;
    }

    /// What each gateway counted.
    pub fn all(&self) -> Arrivals {
        let known = self.known();
        let mut all = known.elsewhere.clone();
        all.note(&known.name, known.here);
        all
    }

    /// Whether anybody came to this gateway or left it, under whatever id.
    pub fn had_any(&self) -> bool {
        let known = self.known();
        let former = || self.own.former().iter().any(|id| known.elsewhere.of(id) != Arrived::default());
        known.here != Arrived::default() || former()
    }

    /// What all counted together.
    pub fn sum(&self) -> Arrived {
        self.all().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrived(joins: u64, leaves: u64) -> Arrived {
        Arrived { joins, leaves }
    }

    #[test]
    fn those_who_come_and_leave_are_counted_on_top_of_what_the_record_says() {
        let lease = Arc::new(OwnLease::default());
        let own = lease.id();
        let room = RoomArrivals::new(lease.clone(), &Arrivals::parse(&format!("{own}:5:4 dead:7:2")));
        let change = |before, after| room.count(SeatChange { before, after });
        change(SeatState::Uncounted, SeatState::Here);
        change(SeatState::Here, SeatState::Away);
        assert_eq!((room.sum(), room.owes()), (arrived(13, 6), true));
        change(SeatState::Away, SeatState::Uncounted);
        change(SeatState::Uncounted, SeatState::Uncounted);
        assert_eq!(room.here(), (own.clone(), arrived(6, 5)));
        room.note_told(arrived(6, 5));
        assert!(!room.owes() && !room.heard(&own, arrived(99, 99), 0));
        assert!(room.heard(&GatewayId::parse("peer").unwrap(), arrived(1, 0), 0));
        assert!(!room.read(&Arrivals::parse("dead:7:1")) && room.read(&Arrivals::parse("dead:8:2")));
        assert_eq!(room.sum(), arrived(15, 7));
        assert!(room.read(&Arrivals::parse(&format!("{own}:9:5"))), "the record lagged behind when the room was made");
        change(SeatState::Uncounted, SeatState::Here);
        assert_eq!((room.here(), room.sum()), ((own.clone(), arrived(10, 5)), arrived(19, 7)));
        // It was buried, and finds its totals folded when it reads the record.
        let next = lease.begin_anew().id.clone();
        assert_eq!((room.here(), room.sum(), room.owes()), ((next.clone(), arrived(0, 0)), arrived(19, 7), false));
        change(SeatState::Uncounted, SeatState::Here);
        let mut record = room.all();
        assert!(
            record.fold(std::slice::from_ref(&own), 1_000)
                && room.read(&record)
                && !room.heard(&own, arrived(99, 99), 0)
        );
        assert_eq!((room.here(), room.sum()), ((next, arrived(1, 0)), arrived(20, 7)));
    }
}
