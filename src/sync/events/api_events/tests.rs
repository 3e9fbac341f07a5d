//! What waits is bounded, keeps its order, and is written once the store is back.

use serde_json::Value;

use super::*;
use crate::base::ids::UserId;
use crate::config::Config;
use crate::store::{EntryId, Events, MAX_EVENTS};
use crate::testing::{FaultyStore, parts_on};

/// The events of a gateway on this store.
fn events_on(store: &Arc<FaultyStore>) -> Arc<ApiEvents> {
    let config = Config {
        follow_events: true,
        ..Config::default()
    };
    let parts = parts_on(&config, store.clone());
    parts.api_events
}

fn follow(events: &ApiEvents, number: usize) {
    let mut fields = Map::new();
    fields.insert("number".to_owned(), json!(number));
    let user = UserId::parse("u1").unwrap();
    events.add(EventKind::UserFollowed, About::User(user), fields);
}

/// All entries of the stream, in their order.
async fn written(store: &FaultyStore) -> Vec<Value> {
    let mut all = Vec::new();
    let mut after = EntryId::default();
    loop {
        let page = store.events_after(after, u64::MAX).await.unwrap();
        let Some(last) = page.last() else {
            return all;
        };
        after = last.entry;
        for found in page {
            all.push(serde_json::from_str(&found.event.unwrap().data).unwrap());
        }
    }
}

fn numbers(events: &[Value]) -> Vec<u64> {
    let numbers = events.iter().map(|event| event["number"].as_u64());
    numbers.map(Option::unwrap).collect()
}

#[tokio::test]
async fn what_waits_is_bounded_and_what_is_dropped_is_counted() {
    let store = Arc::new(FaultyStore::new());
    let events = events_on(&store);
    for number in 0..MOST_WAITING + 3 {
        follow(&events, number);
    }
    assert_eq!(events.core.metrics.api_events_dropped.get(), 3);
    events.write().await;
    let told = numbers(&written(&store).await);
    let right: Vec<u64> = (0..MOST_WAITING as u64).collect();
    assert_eq!(told, right);
    follow(&events, 7);
    assert_eq!(
        events.core.metrics.api_events_dropped.get(),
        3,
        "there is room"
    );
}

#[tokio::test]
async fn what_could_not_be_written_is_written_first_when_the_store_is_back() {
    let store = Arc::new(FaultyStore::new());
    let events = events_on(&store);
    let some = MAX_EVENTS + 1;
    for number in 0..some {
        follow(&events, number);
    }
    store.fails_once("append_events", 1);
    events.write().await;
    assert_eq!(written(&store).await.len(), MAX_EVENTS, "the first call");
    follow(&events, some);
    store.breaks();
    events.write().await;
    store.heals();
    events.write().await;
    let told = numbers(&written(&store).await);
    let right: Vec<u64> = (0..=some as u64).collect();
    assert_eq!(told, right, "each once");
}

#[tokio::test]
async fn ids_differ_between_events_and_gateways_and_name_no_user() {
    let store = Arc::new(FaultyStore::new());
    for _gateway in 0..2 {
        let events = events_on(&store);
        follow(&events, 0);
        follow(&events, 1);
        events.write().await;
    }
    let mut ids: Vec<String> = Vec::new();
    for event in written(&store).await {
        let id = event["id"].as_str().unwrap();
        assert!(id.starts_with("user.followed:gw-"), "{id}");
        assert!(!id.contains("u1"), "{id}");
        ids.push(id.to_owned());
    }
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 4);
}
