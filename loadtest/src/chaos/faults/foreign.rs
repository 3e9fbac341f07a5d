//! The fault of another program that writes into keys of the gateways.

use std::time::Duration;

use anyhow::ensure;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use tokio::time::Instant;

use super::fault::Mark;
use super::planned::Planned;
use crate::chaos::keys::{online_keys, slice_keys};
use crate::chaos::store::ChaosStore;
use crate::chaos::support::foreign::{Meddling, back_up, tidy};
use crate::chaos::testbed::Testbed;

/// How many keys are written to.
const WRITES: usize = 8;
/// People come and go for so long between the backups and their return.
const OLDER: Duration = Duration::from_secs(3);

/// Some writes, each to another key. The same number leads to the same choices, as far as the same
/// keys are there.
pub(super) async fn write(testbed: &mut Testbed, fault: &Planned) -> anyhow::Result<Mark> {
    let mut rng = StdRng::seed_from_u64(fault.chance.to_bits());
    let mut planned: Vec<(String, Meddling)> = Vec::new();
    while planned.len() < WRITES {
        let Some((key, meddlings)) = some_key(&mut rng, testbed) else {
            continue;
        };
        let Some(meddling) = meddlings.choose(&mut rng) else {
            continue;
        };
        if !planned.iter().any(|(known, _)| *known == key) {
            planned.push((key, *meddling));
        }
    }
    for (key, meddling) in &planned {
        if *meddling == Meddling::RestoreOlder {
            send(&testbed.store, &back_up(key))?;
        }
    }
    testbed.pass(OLDER).await?;
    testbed.state.crowd.loss_for_all();
    let at = Instant::now();
    for (key, meddling) in &planned {
        let done = send(&testbed.store, &meddling.command(key))?;
        eprintln!("  {} of {key}: {done}", meddling.name());
    }
    testbed.pass(fault.hold).await?;
    for (key, _) in &planned {
        send(&testbed.store, &tidy(key))?;
    }
    testbed.state.crowd.all_well();
    let bound = testbed.state.timing.repaired();
    Ok(Mark { at, bound })
}

/// A key of a random slice, of a live or of the users online; one of its sets in half of all cases.
fn some_key(rng: &mut StdRng, testbed: &Testbed) -> Option<(String, &'static [Meddling])> {
    let slice = some_slice(rng, testbed)?;
    match rng.random_range(0..6) {
        0 => Some((format!("{{{slice}}}:who"), Meddling::ALL)),
        1 => Some((format!("{{{slice}}}:gateways"), Meddling::OF_ENTRIES)),
        2 => Some((format!("{{{slice}}}:fence"), Meddling::OF_A_FENCE)),
        3 if slice.starts_with("online-fans:") => {
            Some((format!("{{{slice}}}:viewers"), Meddling::ALL))
        }
        _ => Some((slice, Meddling::ALL)),
    }
}

fn some_slice(rng: &mut StdRng, testbed: &Testbed) -> Option<String> {
    let state = &testbed.state;
    if rng.random_range(0..6) == 0 {
        return online_keys().choose(rng).cloned();
    }
    let live = rng.random_range(0..state.lives());
    state.crowd.epoch(live)?;
    let slices = state.truth().lives[live].slices;
    slice_keys(&state.live_id(live), slices)
        .choose(rng)
        .cloned()
}

/// Sends a command to the server that has its keys; what it answers.
fn send(store: &ChaosStore, command: &[String]) -> anyhow::Result<String> {
    let words: Vec<&str> = command.iter().map(String::as_str).collect();
    let said = store.on_masters(&words);
    let answer = said
        .into_iter()
        .find(|said| !said.contains("MOVED"))
        .unwrap_or_default();
    let is_refusal = ["ERR", "WRONGTYPE", "NOPERM", "CLUSTERDOWN"]
        .iter()
        .any(|word| answer.starts_with(word));
    ensure!(
        !answer.is_empty() && !is_refusal,
        "Redis said {answer:?} to {command:?}"
    );
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chaos::support::redis_server::RedisServer;

    const SLICE: &str = "online-fans:1";

    async fn store_with_a_slice() -> ChaosStore {
        let store = ChaosStore::Single(Box::new(RedisServer::start().await));
        store.on_masters(&["SADD", SLICE, "u1", "u2"]);
        store.on_masters(&["HSET", "{online-fans:1}:gateways", "gw-a", "7"]);
        store.on_masters(&["SET", "{online-fans:1}:fence", "open:1:2"]);
        store
    }

    fn ask(store: &ChaosStore, words: &str) -> String {
        store
            .on_masters(&words.split(' ').collect::<Vec<_>>())
            .concat()
    }

    fn meddle(store: &ChaosStore, meddling: Meddling, key: &str) -> String {
        send(store, &meddling.command(key)).unwrap()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn every_meddling_changes_the_set() {
        for (meddling, type_after, size_after) in [
            (Meddling::RemoveOne, "set", "1"),
            (Meddling::AddStranger, "set", "3"),
            (Meddling::Swap, "set", "2"),
            (Meddling::Delete, "none", "0"),
            (Meddling::Rename, "none", "0"),
            (Meddling::RestoreOlder, "set", "2"),
        ] {
            let store = store_with_a_slice().await;
            send(&store, &back_up(SLICE)).unwrap();
            if meddling == Meddling::RestoreOlder {
                ask(&store, &format!("SADD {SLICE} u3"));
            }
            meddle(&store, meddling, SLICE);
            let after = [
                ask(&store, &format!("TYPE {SLICE}")),
                ask(&store, &format!("SCARD {SLICE}")),
            ];
            assert_eq!(after, [type_after, size_after], "{meddling:?}");
            send(&store, &tidy(SLICE)).unwrap();
            assert_eq!(ask(&store, "KEYS other:*"), "", "{meddling:?}");
        }
        let store = store_with_a_slice().await;
        meddle(&store, Meddling::Overwrite, SLICE);
        assert_eq!(ask(&store, &format!("TYPE {SLICE}")), "string");
        let store = store_with_a_slice().await;
        meddle(&store, Meddling::Expire, SLICE);
        assert_ne!(ask(&store, &format!("PTTL {SLICE}")), "-1");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn entries_lose_a_gateway_and_a_fence_its_type() {
        let store = store_with_a_slice().await;
        meddle(&store, Meddling::RemoveOne, "{online-fans:1}:gateways");
        assert_eq!(ask(&store, "EXISTS {online-fans:1}:gateways"), "0");
        meddle(&store, Meddling::Overwrite, "{online-fans:1}:fence");
        assert_eq!(ask(&store, "TYPE {online-fans:1}:fence"), "list");
        assert!(send(&store, &["NONSENSE".to_owned()]).is_err());
    }
}
