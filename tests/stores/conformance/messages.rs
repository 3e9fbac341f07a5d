//! A message goes out with the write it tells of: a call that changes a record publishes on the
//! live's channel in the same step, and a call that changes nothing publishes nothing.

use rollcall::features::WholeStore;
use std::sync::Arc;
use std::time::Duration;

use rollcall::base::ids::Epoch;
use rollcall::store::{
    BusEvent, BusEvents, Channel, LiftBan, LiftReply, LiveRecord, RecordStanding, RemoveReply,
    RemoveUser,
};

use super::{LONG, OPEN, end, finish, later, live, on_each, opened, user, wish, wish_of};

on_each!(
    an_opening_is_told,
    a_close_is_told_when_it_begins,
    a_removal_and_the_lifting_of_a_ban_are_told,
    a_record_that_is_written_again_is_told,
);

/// Whoever listens to live 42.
struct Listener {
    store: Arc<dyn WholeStore>,
    hearing: BusEvents,
}

impl Listener {
    async fn of(store: &Arc<dyn WholeStore>) -> Self {
        let mut hearing = store.events();
        store.subscribe(&live("42"));
        let ready = BusEvent::Ready(Channel::Live(live("42")));
        let wait = async { while hearing.next().await.expect("the store is there") != ready {} };
        tokio::time::timeout(Duration::from_secs(8), wait)
            .await
            .expect("ready in time");
        Self {
            store: store.clone(),
            hearing,
        }
    }

    /// All that was told up to now.
    async fn heard(&mut self) -> Vec<String> {
        const END: &str = "nothing more";
        self.store
            .publish(&Channel::Live(live("42")), END.to_owned())
            .await
            .unwrap();
        let mut told = Vec::new();
        let wait = async {
            loop {
                match self.hearing.next().await.expect("the store is there") {
                    BusEvent::Message { text, .. } if *text == *END => break,
                    BusEvent::Message { channel: on, text } => {
                        assert_eq!(on, Channel::Live(live("42")));
                        told.push(text.to_string());
                    }
                    BusEvent::Ready(_) | BusEvent::Deaf(_) => {}
                    BusEvent::Lost => panic!("messages were lost"),
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(8), wait)
            .await
            .expect("heard in time");
        told
    }
}

async fn an_opening_is_told(store: Arc<dyn WholeStore>) {
    let mut listener = Listener::of(&store).await;
    opened(&store, "42").await;
    assert_eq!(listener.heard().await, ["42 opened"]);
    store.open_live(&wish("42")).await.unwrap();
    store.open_live(&wish_of("42", user(1))).await.unwrap();
    opened(&store, "43").await;
    assert!(listener.heard().await.is_empty());
}

async fn a_close_is_told_when_it_begins(store: Arc<dyn WholeStore>) {
    let record = opened(&store, "42").await;
    let mut listener = Listener::of(&store).await;
    let other = later(&record, 1);
    store.begin_close(&end(&other)).await.unwrap();
    assert!(listener.heard().await.is_empty());
    store.begin_close(&end(&record)).await.unwrap();
    assert_eq!(listener.heard().await, ["42 closes"]);
    // Whoever takes the close up tells it once more: the first message may have been lost.
    store.begin_close(&end(&record)).await.unwrap();
    assert_eq!(listener.heard().await, ["42 closes"]);
    finish(&store, &record).await;
    store.begin_close(&end(&record)).await.unwrap();
    assert!(listener.heard().await.is_empty());
}

async fn a_removal_and_the_lifting_of_a_ban_are_told(store: Arc<dyn WholeStore>) {
    let record = opened(&store, "42").await;
    let mut listener = Listener::of(&store).await;
    let remove = |epoch| RemoveUser {
        live: live("42"),
        epoch,
        user: user(1),
        ban: Some(LONG),
        by: None,
        is_told: true,
        message: "removed".to_owned(),
    };
    let lift = |epoch| LiftBan {
        live: live("42"),
        epoch,
        user: user(1),
        by: None,
        is_told: true,
        message: "lifted".to_owned(),
    };
    let other = Epoch(record.epoch.0 + 1);
    assert_eq!(
        store.lift_ban(&lift(record.epoch)).await.unwrap(),
        LiftReply::NotBanned
    );
    assert_eq!(
        store.remove_user(&remove(other)).await.unwrap(),
        RemoveReply::Over
    );
    assert_eq!(store.lift_ban(&lift(other)).await.unwrap(), LiftReply::Over);
    assert!(listener.heard().await.is_empty());
    store.remove_user(&remove(record.epoch)).await.unwrap();
    assert_eq!(listener.heard().await, ["removed"]);
    store.lift_ban(&lift(record.epoch)).await.unwrap();
    assert_eq!(listener.heard().await, ["lifted"]);
    store.lift_ban(&lift(record.epoch)).await.unwrap();
    assert!(listener.heard().await.is_empty());
}

async fn a_record_that_is_written_again_is_told(store: Arc<dyn WholeStore>) {
    let record = opened(&store, "42").await;
    let mut listener = Listener::of(&store).await;
    assert_eq!(store.keep_live(&record, "again").await.unwrap(), OPEN);
    let older = LiveRecord {
        epoch: Epoch(record.epoch.0 - 1),
        ..record.clone()
    };
    assert!(matches!(
        store.keep_live(&older, "again").await.unwrap(),
        RecordStanding::Over(_)
    ));
    assert!(listener.heard().await.is_empty());
    let later = later(&record, 1);
    assert_eq!(
        store.keep_live(&later, "again").await.unwrap(),
        RecordStanding::Rewritten
    );
    assert_eq!(listener.heard().await, ["again"]);
}
