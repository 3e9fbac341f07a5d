//! Sets the gauges that are computed from the rooms when Prometheus scrapes.

use super::gateways::Gateways;
use super::rooms::Rooms;
use crate::base::clock::Millis;
use crate::base::metrics::Metrics;

pub fn update_gauges(rooms: &Rooms, gateways: &Gateways, metrics: &Metrics, now: Millis) {
    let (platform, rooms) = (&rooms.platform, rooms.all());
    let (mut members, mut fans, mut unchecked, mut drift) = (0, 0, 0, 0);
    for room in &rooms {
        members += room.own_viewers().viewers;
        for (place, slice) in room.slices().iter().enumerate() {
            let state = slice.lock();
            fans += state.desired().wanted_fans();
            drift += state.drift();
            drop(state);
            unchecked += room.unchecked(place);
        }
    }
    let platform = platform.as_ref();
    drift += platform.map_or(0, |platform| platform.slices().iter().map(|slice| slice.lock().drift()).sum());
    metrics.online_users.set(platform.map_or(0, |platform| platform.here()) as i64);
    metrics.lives.set(rooms.len() as i64);
    metrics.members.set(members as i64);
    metrics.fans.set(fans as i64);
    metrics.fan_check_queue.set(unchecked as i64);
    metrics.drift.set(drift as i64);
    metrics.ghost_oldest_seconds.set(gateways.oldest_unswept(now).as_secs() as i64);
}
