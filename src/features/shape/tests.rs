//! What is counted of a live, and what follows if a gateway tells of some networks only.

use std::sync::Arc;

use super::counting::{ShapeCounter, WholeShape};
use crate::base::address_prefix::AddressPrefix;
use crate::base::identity::Identity;
use crate::base::ids::GatewayId;
use crate::presence::conn::{Conn, SeatWay};
use crate::presence::shape::LiveShape;
use crate::testing;

#[tokio::test]
async fn each_viewer_counts_once_with_the_newest_connection() {
    let app = testing::app();
    let room = testing::open_live(&app.sessions, "42").await;
    let now = app.core.clock.now();
    for (user, address, way) in [
        ("u1", "198.51.100.1", SeatWay::Websocket),
        ("u2", "198.51.100.2", SeatWay::Http),
        ("u3", "203.0.113.1", SeatWay::Datagram),
        ("u3", "198.51.100.3", SeatWay::Websocket),
    ] {
        let identity = Identity {
            network: AddressPrefix::of(address.parse().unwrap()),
            ..testing::viewer(user)
        };
        let conn = Arc::new(Conn::new(identity, now));
        conn.note_way(way);
        let unix = app.core.clock.unix();
        room.join(&conn, app.sessions.limits.joins, now, unix)
            .unwrap();
    }
    let of = room.record.live_epoch();
    let whole = ShapeCounter::of(&app).everywhere(&of).await;
    assert_eq!((whole.sums.viewers, whole.sums.ways), (3, [2, 1, 0]));
    assert_eq!(whole.networks.values().collect::<Vec<_>>(), [&3]);
    assert_eq!((whole.all_networks(), whole.silent.len()), ((1, true), 0));
}

#[test]
fn a_gateway_that_tells_of_some_networks_only_makes_their_number_a_bound() {
    let mut whole = WholeShape::default();
    let shape = |networks: &[(u64, u64)], all_networks| LiveShape {
        networks: networks.to_vec(),
        all_networks,
        ..LiveShape::default()
    };
    whole.add(GatewayId::random(), &shape(&[(1, 5), (2, 1)], 2));
    whole.add(GatewayId::random(), &shape(&[(2, 3), (3, 1)], 2));
    assert_eq!((whole.networks[&2], whole.all_networks()), (4, (3, true)));
    whole.add(GatewayId::random(), &shape(&[(4, 9)], 8));
    assert_eq!(whole.all_networks(), (8, false));
}
