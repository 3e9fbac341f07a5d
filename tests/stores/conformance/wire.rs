//! Messages between gateways reach those who listen, in order, and nobody else; a subscriber that
//! lost messages is told so.

use rollcall::features::WholeStore;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use rollcall::store::{BusEvent, BusEvents, Channel};

use super::{connect, live, on_each};
use crate::link::Link;
use crate::redis_server::RedisServer;

on_each!(
    words_are_heard_in_the_order_in_which_they_were_told,
    who_does_not_listen_does_not_hear,
    listening_twice_is_listening_once,
    listening_anew_is_ready_anew,
    who_does_not_keep_up_is_told_so,
);

fn there(name: &str) -> Channel {
    Channel::Live(live(name))
}

/// The next thing heard that the filter takes.
async fn next(hearing: &mut BusEvents, wanted: impl Fn(&BusEvent) -> bool) -> BusEvent {
    let search = async {
        loop {
            let heard = hearing.next().await.expect("the store is there");
            if wanted(&heard) {
                return heard;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(8), search)
        .await
        .expect("heard in time")
}

async fn ready(hearing: &mut BusEvents, channel: Channel) {
    next(hearing, |heard| *heard == BusEvent::Ready(channel.clone())).await;
}

async fn next_word(hearing: &mut BusEvents) -> (Channel, String) {
    match next(hearing, |heard| matches!(heard, BusEvent::Message { .. })).await {
        BusEvent::Message { channel: on, text } => (on, text.to_string()),
        other => panic!("{other:?}"),
    }
}

async fn tell(store: &Arc<dyn WholeStore>, name: &str, word: &str) {
    store.publish(&there(name), word.to_owned()).await.unwrap();
}

async fn words_are_heard_in_the_order_in_which_they_were_told(store: Arc<dyn WholeStore>) {
    let mut hearing = store.events();
    store.subscribe(&live("42"));
    ready(&mut hearing, there("42")).await;
    for n in 0..100 {
        tell(
            &store,
            "42",
            &format!("word {n} of ümläuts, \"quotes\" and\nlines"),
        )
        .await;
    }
    for n in 0..100 {
        let (on, text) = next_word(&mut hearing).await;
        assert_eq!(
            (on, text),
            (
                there("42"),
                format!("word {n} of ümläuts, \"quotes\" and\nlines")
            )
        );
    }
}

async fn who_does_not_listen_does_not_hear(store: Arc<dyn WholeStore>) {
    let mut hearing = store.events();
    for name in ["42", "43"] {
        store.subscribe(&live(name));
        ready(&mut hearing, there(name)).await;
    }
    tell(&store, "44", "nobody's").await;
    store.unsubscribe(&live("43"));
    store.unsubscribe(&live("never"));
    // Not listening any more takes a moment to get round.
    let deadline = tokio::time::Instant::now() + Duration::from_secs(5);
    loop {
        tell(&store, "43", "left").await;
        tell(&store, "42", "here").await;
        let (on, _) = next_word(&mut hearing).await;
        if on == there("42") {
            break;
        }
        assert_eq!(on, there("43"));
        assert!(tokio::time::Instant::now() < deadline);
        next_word(&mut hearing).await;
    }
}

async fn listening_twice_is_listening_once(store: Arc<dyn WholeStore>) {
    let mut hearing = store.events();
    store.subscribe(&live("42"));
    store.subscribe(&live("42"));
    ready(&mut hearing, there("42")).await;
    store.subscribe(&live("42"));
    tell(&store, "42", "once").await;
    tell(&store, "42", "twice").await;
    assert_eq!(
        next(&mut hearing, |h| *h != BusEvent::Ready(Channel::Gateways)).await,
        heard("once")
    );
    assert_eq!(
        next(&mut hearing, |h| *h != BusEvent::Ready(Channel::Gateways)).await,
        heard("twice")
    );
}

fn heard(text: &str) -> BusEvent {
    BusEvent::Message {
        channel: there("42"),
        text: text.into(),
    }
}

async fn listening_anew_is_ready_anew(store: Arc<dyn WholeStore>) {
    let mut hearing = store.events();
    for _ in 0..3 {
        store.subscribe(&live("42"));
        ready(&mut hearing, there("42")).await;
        store.ask_ready(&there("42"));
        ready(&mut hearing, there("42")).await;
        store.unsubscribe(&live("42"));
    }
}

async fn who_does_not_keep_up_is_told_so(store: Arc<dyn WholeStore>) {
    let mut hearing = store.events();
    store.subscribe(&live("42"));
    ready(&mut hearing, there("42")).await;
    let mut attentive = store.events();
    for n in 0..5_000 {
        tell(&store, "42", &n.to_string()).await;
        if n % 1_000 == 999 {
            while next_word(&mut attentive).await.1 != n.to_string() {}
        }
    }
    assert_eq!(next(&mut hearing, |_| true).await, BusEvent::Lost);
    let (_, first) = next_word(&mut hearing).await;
    assert!(
        first.parse::<u32>().unwrap() > 0,
        "the oldest were lost, not the newest"
    );
}

#[tokio::test]
async fn two_stores_on_one_redis_hear_each_other() {
    let server = RedisServer::start().await;
    let (here, away) = (connect(&server.url()).await, connect(&server.url()).await);
    let (here, away): (Arc<dyn WholeStore>, Arc<dyn WholeStore>) = (Arc::new(here), Arc::new(away));
    let (mut at_home, mut abroad) = (here.events(), away.events());
    for (store, hearing) in [(&here, &mut at_home), (&away, &mut abroad)] {
        store.subscribe(&live("42"));
        ready(hearing, there("42")).await;
    }
    tell(&here, "42", "hello").await;
    assert_eq!(
        next_word(&mut abroad).await,
        (there("42"), "hello".to_owned())
    );
    away.publish(&Channel::Gateways, "to all".to_owned())
        .await
        .unwrap();
    assert_eq!(
        next_word(&mut at_home).await,
        (there("42"), "hello".to_owned()),
        "one hears oneself too"
    );
    assert_eq!(
        next_word(&mut at_home).await,
        (Channel::Gateways, "to all".to_owned())
    );
}

/// Whatever takes the connection away, every channel is listened to again, and said to be ready.
#[tokio::test]
async fn a_lost_connection_is_made_anew_with_all_its_channels() {
    let server = RedisServer::start().await;
    let link = Link::to(server.addr()).await;
    let store: Arc<dyn WholeStore> = Arc::new(connect(&link.url()).await);
    let mut hearing = store.events();
    let lives: Vec<String> = (0..50).map(|n| n.to_string()).collect();
    for name in &lives {
        store.subscribe(&live(name));
    }
    all_ready(&mut hearing, &lives).await;
    for how in ["kill", "strand", "cut"] {
        match how {
            "kill" => drop(server.cli(&["CLIENT", "KILL", "TYPE", "pubsub"])),
            // Nothing comes and nothing ends: only the pulse notices.
            "strand" => link.strand(),
            _ => {
                link.cut();
                tokio::time::sleep(Duration::from_millis(100)).await;
                link.heal();
            }
        }
        all_ready(&mut hearing, &lives).await;
    }
    let deadline = tokio::time::Instant::now() + Duration::from_secs(8);
    loop {
        // The other connection may take a moment more.
        while store
            .publish(&there("7"), "still".to_owned())
            .await
            .is_err()
        {
            assert!(tokio::time::Instant::now() < deadline);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        // A word may fall into one more gap, but none is lost without the channel being said to be
        // ready again.
        let heard = |heard: &BusEvent| {
            matches!(heard, BusEvent::Message { .. }) || *heard == BusEvent::Ready(there("7"))
        };
        if let BusEvent::Message { text, .. } = next(&mut hearing, heard).await {
            assert_eq!(&*text, "still");
            return;
        }
    }
}

/// Every channel becomes ready, in any order.
async fn all_ready(hearing: &mut BusEvents, lives: &[String]) {
    let mut missing: BTreeSet<&str> = lives.iter().map(String::as_str).collect();
    while !missing.is_empty() {
        if let BusEvent::Ready(Channel::Live(live)) =
            next(hearing, |h| matches!(h, BusEvent::Ready(_))).await
        {
            missing.remove(live.as_str());
        }
    }
}
