//! Sets the gauges that are computed from the rooms when Prometheus scrapes.

use super::audience::Audience;
use super::gateways::Gateways;
use super::rooms::Rooms;
use crate::base::clock::Moment;
use crate::base::metrics::Metrics;

pub fn update_gauges(rooms: &Rooms, gateways: &Gateways, metrics: &Metrics, now: Moment) {
    let online_users = match &rooms.users {
        Some(users) => users.here(),
        None => 0,
    };
    let mut out_of_order = 0;
    for audience in rooms.audiences() {
        let slices = audience.slices();
        out_of_order += slices.filter(|slice| !slice.size().is_in_order()).count();
    }
    let rooms = rooms.all();
    let mut members = 0;
    let mut fans = 0;
    let mut unchecked = 0;
    for room in &rooms {
        members += room.figures.own_viewers().viewers;
        for slice in Audience::from(room).slices() {
            fans += slice.lock().desired().wanted_fans();
            unchecked += slice.unchecked();
        }
    }
    metrics.slices_out_of_order.set(out_of_order as i64);
    metrics.online_users.set(online_users as i64);
    metrics.lives.set(rooms.len() as i64);
    metrics.members.set(members as i64);
    metrics.fans.set(fans as i64);
    metrics.fan_check_queue.set(unchecked as i64);
    metrics
        .ghost_oldest_seconds
        .set(gateways.oldest_unswept(now).as_secs() as i64);
}
