//! Owns waiting for a condition, with a deadline. No story sleeps before it asserts.

use std::collections::BTreeSet;
use std::fmt::{Debug, Display};
use std::future::Future;
use std::time::Duration;

use tokio::time::Instant;

/// How long a story waits for what should come at once, on a machine that is busy with other
/// stories.
pub const PATIENCE: Duration = Duration::from_secs(8);

/// What a promise's upper bound gets on top, for the noise of a busy machine.
pub const SLACK: Duration = Duration::from_millis(1_500);

/// The longest pause of the breaker before a source of fans, and the longest wait for a retry, one
/// after the other.
pub const BACK: Duration = Duration::from_secs(8);

/// How often a condition is looked at.
const LOOK: Duration = Duration::from_millis(15);

/// Looks until the probe answers `Ok`; panics, with what was seen last, when that takes longer than
/// `within`.
pub async fn until<T, E: Display, F: Future<Output = Result<T, E>>>(
    what: &str,
    within: Duration,
    mut probe: impl FnMut() -> F,
) -> T {
    let deadline = Instant::now() + within;
    loop {
        match probe().await {
            Ok(value) => return value,
            Err(seen) if Instant::now() >= deadline => {
                panic!("{what}: not within {within:?}; last seen: {seen}")
            }
            Err(_) => tokio::time::sleep(LOOK).await,
        }
    }
}

/// Waits until the probe sees what is wanted, which should be at once.
pub async fn becomes<T: PartialEq + Debug, F: Future<Output = T>>(
    what: &str,
    wanted: T,
    mut probe: impl FnMut() -> F,
) {
    until(what, PATIENCE, || {
        let seen = probe();
        let wanted = &wanted;
        async move {
            let seen = seen.await;
            if seen == *wanted {
                Ok(())
            } else {
                Err(format!("{seen:?} instead of {wanted:?}"))
            }
        }
    })
    .await;
}

/// Looks for as long as `span`; panics as soon as the probe answers `Err`.
pub async fn throughout<T, E: Display, F: Future<Output = Result<T, E>>>(
    what: &str,
    span: Duration,
    mut probe: impl FnMut() -> F,
) {
    let start = Instant::now();
    while start.elapsed() < span {
        if let Err(seen) = probe().await {
            panic!(
                "{what}: no longer true after {:?}; seen: {seen}",
                start.elapsed()
            );
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// `Ok` when what is seen is as wished, the words for a failed wait otherwise.
pub fn fits<T: Debug>(seen: T, wish: impl FnOnce(&T) -> bool) -> Result<T, String> {
    if wish(&seen) {
        Ok(seen)
    } else {
        Err(format!("{seen:?}"))
    }
}

/// `Ok` when both are equal, the words for a failed wait otherwise.
#[expect(
    clippy::needless_pass_by_value,
    reason = "callers hand both over alike"
)]
pub fn same<T: PartialEq + Debug>(seen: T, wanted: T) -> Result<T, String> {
    if seen == wanted {
        Ok(seen)
    } else {
        Err(format!("{seen:?} instead of {wanted:?}"))
    }
}

/// These names, as stores and listings answer them.
pub fn names(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}
