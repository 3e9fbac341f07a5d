//! The ends of sessions without a socket.

use rollcall::features::WholeStore;
use std::sync::Arc;

use rollcall::base::session_key::{KEY_BYTES, SessionKey};
use rollcall::store::{BusEvent, Channel, EndedSession, Over};

use super::on_each;

on_each!(
    of_two_ends_of_a_session_the_one_with_more_ids_stays,
    who_writes_an_end_also_tells_it,
);

fn end(of: u8, below: u32, why: Over) -> EndedSession {
    EndedSession {
        key: SessionKey::from_bytes([of; KEY_BYTES]),
        below,
        why,
    }
}

async fn of_two_ends_of_a_session_the_one_with_more_ids_stays(store: Arc<dyn WholeStore>) {
    let keys = [1, 2, 3].map(|of| end(of, 0, Over::Left).key);
    assert_eq!(store.ended_sessions(&keys).await.unwrap(), []);
    let first = [end(1, 7, Over::Switched), end(3, u32::MAX, Over::Removed)];
    store.end_sessions(&first, "").await.unwrap();
    assert_eq!(store.ended_sessions(&keys).await.unwrap(), first);
    let later = [end(1, 9, Over::CrowdedOut), end(3, 8, Over::Left)];
    store.end_sessions(&later, "").await.unwrap();
    let found = store.ended_sessions(&keys).await.unwrap();
    assert_eq!(found, [later[0], first[1]]);
    store.end_sessions(&[], "").await.unwrap();
    assert_eq!(store.ended_sessions(&[]).await.unwrap(), []);
}

async fn who_writes_an_end_also_tells_it(store: Arc<dyn WholeStore>) {
    let mut events = store.events();
    // A subscription may take a moment.
    let is_heard = async {
        loop {
            let left = [end(1, 1, Over::Left)];
            store.end_sessions(&left, "it is over").await.unwrap();
            let heard = async {
                loop {
                    if let Some(BusEvent::Message { channel, text }) = events.next().await
                        && channel == Channel::Gateways
                    {
                        return text;
                    }
                }
            };
            let soon = std::time::Duration::from_millis(200);
            if let Ok(text) = tokio::time::timeout(soon, heard).await {
                return text;
            }
        }
    };
    let text = tokio::time::timeout(super::LONG, is_heard).await.unwrap();
    assert_eq!(&*text, "it is over");
}
