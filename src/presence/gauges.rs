//! Sets the gauges that are computed from the rooms when Prometheus scrapes.

use super::gateways::Gateways;
use super::rooms::Rooms;
use crate::base::clock::Millis;
use crate::base::metrics::Metrics;

pub fn update_gauges(rooms: &Rooms, gateways: &Gateways, metrics: &Metrics, now: Millis) {
    let platforms: Vec<_> = rooms.platforms().cloned().collect();
    let online_users = match &rooms.users {
        Some(users) => users.here(),
        None => 0,
    };
    let rooms = rooms.all();
    let mut members = 0;
    let mut fans = 0;
    let mut unchecked = 0;
    let mut drift = 0;
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
    for platform in platforms {
        for slice in platform.slices() {
            drift += slice.lock().drift();
        }
    }
    metrics.online_users.set(online_users as i64);
    metrics.lives.set(rooms.len() as i64);
    metrics.members.set(members as i64);
    metrics.fans.set(fans as i64);
    metrics.fan_check_queue.set(unchecked as i64);
    metrics.drift.set(drift as i64);
    metrics
        .ghost_oldest_seconds
        .set(gateways.oldest_unswept(now).as_secs() as i64);
}
