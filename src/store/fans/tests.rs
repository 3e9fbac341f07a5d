//! What all sources have in common, and the ends of a follow in the store.

use crate::base::metrics::Metrics;
use std::collections::BTreeSet;
use std::io::Write;

use super::lookup::{answers, secret};
use super::*;
use crate::base::clock::Clock;
use crate::config::FanKey;
use crate::store::memory::MemoryStore;

fn users(ids: &[&str]) -> Vec<UserId> {
    ids.iter().map(|id| UserId::parse(id).unwrap()).collect()
}

#[test]
fn who_is_not_named_is_no_fan_and_who_was_not_asked_about_is_ignored() {
    let metrics = Metrics::default();
    let said = answers(
        &users(&["a", "b", "c"]),
        ["c", "x", "a", "a", "x"],
        &metrics,
    );
    assert_eq!(said, [Some(true), Some(false), Some(true)]);
    assert_eq!(metrics.fan_strangers.get(), 1);
}

#[test]
fn a_secret_is_the_text_of_its_file_without_white_space_around_it() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    assert!(secret(None).unwrap().is_none());
    assert!(
        secret(Some(file.path()))
            .unwrap_err()
            .to_string()
            .contains("is empty")
    );
    file.write_all(b" hunter2\n").unwrap();
    assert_eq!(
        secret(Some(file.path())).unwrap().unwrap().reveal(),
        "hunter2"
    );
    let missing = secret(Some(std::path::Path::new("/nowhere/secret")))
        .unwrap_err()
        .to_string();
    assert!(
        missing.starts_with("fan-secret-file: /nowhere/secret: "),
        "{missing}"
    );
}

#[tokio::test]
async fn both_ends_of_a_follow_in_the_store_say_the_same() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new(Clock::start()));
    let all = users(&["a", "b", "s", "t"]);
    store.follow(&all[0], &all[2]).await.unwrap();
    store.follow(&all[1], &all[3]).await.unwrap();
    for fan_key in [FanKey::Followers, FanKey::Following] {
        let source = open(
            &Config {
                fan_key,
                ..Config::default()
            },
            &store,
        )
        .unwrap();
        assert_eq!(
            source.ask(&all[2], &all[..2]).await,
            Ok(vec![Some(true), Some(false)])
        );
        let asked = [
            (all[2].clone(), all[..2].to_vec()),
            (all[3].clone(), all[1..2].to_vec()),
        ];
        let answers = source.ask_each(&asked).await;
        assert_eq!(
            answers,
            [Ok(vec![Some(true), Some(false)]), Ok(vec![Some(true)])]
        );
        assert_eq!(source.ask(&all[2], &[]).await, Ok(Vec::new()));
    }
}

#[tokio::test]
async fn with_tokens_nobody_else_knows() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new(Clock::start()));
    let config = Config {
        fan_source: FanSource::Token,
        ..Config::default()
    };
    let source = open(&config, &store).unwrap();
    assert_eq!(
        source.ask(&users(&["s"])[0], &users(&["a", "b"])).await,
        Ok(vec![None, None])
    );
}

#[test]
fn each_error_has_a_label_of_its_own() {
    let all = [
        FanError::Store(crate::store::StoreError::Timeout),
        FanError::Partly,
        FanError::Timeout,
        FanError::Unreachable(String::new()),
        FanError::Status(500),
        FanError::Refused(String::new()),
        FanError::TooLong,
        FanError::Nonsense(String::new()),
    ];
    assert_eq!(
        all.iter()
            .map(FanError::label)
            .collect::<BTreeSet<_>>()
            .len(),
        all.len()
    );
}
