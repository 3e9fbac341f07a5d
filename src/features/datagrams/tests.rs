//! What clients without a WebSocket are told of datagrams when they join.

use std::sync::Arc;

use crate::auth::claims::TokenClaims;
use crate::base::clock::Clock;
use crate::base::ids::{LiveId, UserId};
use crate::config::Config;
use crate::edge::http::presence::joining::UdpOffer;
use crate::gateway::wiring::FromOutside;
use crate::session::messages::JoinRequest;
use crate::session::socketless::sessions::Newcomer;
use crate::store::memory::MemoryStore;
use crate::testing;

#[tokio::test]
async fn datagrams_are_offered_where_a_hello_has_room_for_the_ticket() {
    let config = Config {
        udp: Some("127.0.0.1:1".parse().unwrap()),
        ..Config::default()
    };
    let store = Arc::new(MemoryStore::new(Clock::start()));
    let app = testing::app_with(&config, FromOutside::default(), store);
    testing::open_live(&app.sessions, "42").await;
    let wish = JoinRequest::plain(LiveId::parse("42").unwrap());
    for (follows, is_offered) in [(0, true), (60, true), (90, false)] {
        let identity = testing::viewer("u1");
        let streamer = |number| UserId::parse(&format!("s{number:07}")).unwrap();
        let claims = TokenClaims {
            user: identity.user.clone(),
            role: identity.role,
            counted: true,
            expires_at: app.core.clock.unix() + 60_000,
            issued_at: None,
            user_since: None,
            lives: None,
            fan_of: Some((0..follows).map(streamer).collect()),
        };
        let newcomer = Newcomer {
            identity,
            claims: Some(Arc::new(claims)),
            permit: None,
        };
        let joined = app.presences.begin(newcomer, &wish).await.unwrap();
        let offer = UdpOffer::of(&app, &joined.claims);
        assert_eq!(offer.is_some(), is_offered, "{follows} streamers");
    }
}
