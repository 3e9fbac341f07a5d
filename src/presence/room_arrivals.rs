//! How many users came to a room and left it, over all gateways, for dashboards and the history. Never awaits.

use parking_lot::Mutex;

use super::tally::{SeatChange, SeatState};
use crate::base::ids::GatewayId;
use crate::store::{Arrivals, Arrived};

#[derive(Debug)]
pub struct RoomArrivals {
    /// Names this process.
    origin: GatewayId,
    known: Mutex<Known>,
}

#[derive(Debug)]
struct Known {
    here: Arrived,
    elsewhere: Arrivals,
    /// What the peers were told of this process last.
    told: Arrived,
}

impl RoomArrivals {
    /// With what the record says. A process that had a room of this epoch before goes on with its own totals.
    pub(super) fn new(origin: GatewayId, record: &Arrivals) -> Self {
        let here = record.of(&origin);
        Self { origin, known: Mutex::new(Known { here, elsewhere: record.clone(), told: here }) }
    }

    pub(super) fn count(&self, change: SeatChange) {
        let mut known = self.known.lock();
        match (change.before, change.after) {
            (SeatState::Uncounted, SeatState::Uncounted) => {}
            (SeatState::Uncounted, _) => known.here.joins += 1,
            (_, SeatState::Uncounted) => known.here.leaves += 1,
            _ => {}
        }
    }

    /// Takes in what a peer counted. True if that is news.
    pub fn heard(&self, origin: &GatewayId, arrived: Arrived) -> bool {
        *origin != self.origin && self.known.lock().elsewhere.note(origin, arrived)
    }

    /// Takes in what a record says. True if that is news.
    pub fn read(&self, record: &Arrivals) -> bool {
        let mut known = self.known.lock();
        // The record may have lagged behind this process when the room was made.
        known.here = known.here.max(record.of(&self.origin));
        known.elsewhere.merge(record)
    }

    /// What this process counted, under its name.
    pub fn here(&self) -> (GatewayId, Arrived) {
        (self.origin.clone(), self.known.lock().here)
    }

    /// Whether the peers were told something else of this process.
    pub fn owes(&self) -> bool {
        let known = self.known.lock();
        known.told != known.here
    }

    pub fn note_told(&self, here: Arrived) {
        self.known.lock().told = here;
    }

    /// What each process counted.
    pub fn all(&self) -> Arrivals {
        let known = self.known.lock();
        let mut all = known.elsewhere.clone();
        all.note(&self.origin, known.here);
        all
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
        let own = GatewayId::parse("own").unwrap();
        let room = RoomArrivals::new(own.clone(), &Arrivals::parse("own:5:4 dead:7:2"));
        let change = |before, after| room.count(SeatChange { before, after });
        change(SeatState::Uncounted, SeatState::Here);
        change(SeatState::Here, SeatState::Away);
        change(SeatState::Away, SeatState::Moving);
        assert_eq!((room.sum(), room.owes()), (arrived(13, 6), true));
        change(SeatState::Moving, SeatState::Uncounted);
        change(SeatState::Uncounted, SeatState::Uncounted);
        assert_eq!(room.here(), (own.clone(), arrived(6, 5)));
        room.note_told(arrived(6, 5));
        assert!(!room.owes() && !room.heard(&own, arrived(99, 99)));
        assert!(room.heard(&GatewayId::parse("peer").unwrap(), arrived(1, 0)));
        assert!(!room.read(&Arrivals::parse("dead:7:1")) && room.read(&Arrivals::parse("dead:8:2")));
        assert_eq!(room.sum(), arrived(15, 7));
        assert!(room.read(&Arrivals::parse("own:9:5")), "the record lagged behind when the room was made");
        change(SeatState::Uncounted, SeatState::Here);
        assert_eq!((room.here(), room.sum()), ((own, arrived(10, 5)), arrived(19, 7)));
    }
}
