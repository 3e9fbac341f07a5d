//! On which gateways a streamer is connected.

use std::sync::Arc;

use rollcall::base::ids::GatewayId;
use rollcall::store::{Presence, Store};

use super::{gateway, on_each, user};

on_each!(a_streamer_is_where_it_was_noted_and_not_noted_gone, streamers_are_apart);

async fn gateways(store: &Arc<dyn Store>, n: usize) -> Vec<GatewayId> {
    let mut names = store.streamer_gateways(&user(n)).await.unwrap();
    names.sort();
    names
}

async fn a_streamer_is_where_it_was_noted_and_not_noted_gone(store: Arc<dyn Store>) {
    assert_eq!(gateways(&store, 1).await, vec![]);
    for name in ["b", "a", "b"] {
        store.note_streamer(&user(1), &gateway(name), Presence::Here).await.unwrap();
    }
    assert_eq!(gateways(&store, 1).await, [gateway("a"), gateway("b")]);
    for name in ["b", "b", "never"] {
        store.note_streamer(&user(1), &gateway(name), Presence::Gone).await.unwrap();
        assert_eq!(gateways(&store, 1).await, [gateway("a")]);
    }
    store.note_streamer(&user(1), &gateway("a"), Presence::Gone).await.unwrap();
    assert_eq!(gateways(&store, 1).await, vec![]);
}

async fn streamers_are_apart(store: Arc<dyn Store>) {
    store.note_streamer(&user(1), &gateway("a"), Presence::Here).await.unwrap();
    store.note_streamer(&user(2), &gateway("b"), Presence::Here).await.unwrap();
    assert_eq!((gateways(&store, 1).await, gateways(&store, 2).await), (vec![gateway("a")], vec![gateway("b")]));
}
