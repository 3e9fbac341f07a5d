//! Answers to requests that may be repeated.

use rollcall::features::WholeStore;
use std::sync::Arc;
use std::time::Duration;

use rollcall::store::AnswerName;
use tokio::time::Instant;

use super::{LONG, on_each};

on_each!(
    a_name_is_claimed_once_and_its_answer_takes_the_place_of_the_claim,
    an_answer_is_forgotten_after_its_time,
);

async fn a_name_is_claimed_once_and_its_answer_takes_the_place_of_the_claim(
    store: Arc<dyn WholeStore>,
) {
    let one = AnswerName::of_digest(&[1; 16]);
    let other = AnswerName::of_digest(&[2; 16]);
    let claim = async |name: &AnswerName, text: &str| {
        let there = store.claim_answer(name, text, LONG).await.unwrap();
        there.unwrap_or_default()
    };
    assert_eq!(claim(&one, "first \u{fc}").await, "");
    assert_eq!(claim(&one, "second").await, "first \u{fc}");
    assert_eq!(claim(&other, "other").await, "");
    let keep = async |answer: &str| {
        let kept = store.keep_answer(&one, "first \u{fc}", answer, LONG);
        kept.await.unwrap()
    };
    assert_eq!(keep("answer \u{fc}").await, "answer \u{fc}");
    // The same request, under way on another gateway, is a moment later.
    assert_eq!(keep("another").await, "answer \u{fc}");
    assert_eq!(claim(&one, "third").await, "answer \u{fc}");
    assert_eq!(claim(&other, "fourth").await, "other");
}

async fn an_answer_is_forgotten_after_its_time(store: Arc<dyn WholeStore>) {
    let name = AnswerName::of_digest(&[3; 16]);
    let soon = Duration::from_millis(50);
    store.claim_answer(&name, "claim", LONG).await.unwrap();
    store
        .keep_answer(&name, "claim", "answer", soon)
        .await
        .unwrap();
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let there = store.claim_answer(&name, "again", soon).await.unwrap();
        if there.is_none() {
            return;
        }
        assert!(Instant::now() < deadline, "it is still there");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
