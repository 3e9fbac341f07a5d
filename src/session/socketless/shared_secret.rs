//! Shares the secret behind sessions without a socket with the other gateways, unless a file has it.
//! All gateways sign with the one that the store has first. A gateway that finds a store without one
//! writes its own there; so one that was alone while the store was away adds its secret, and its
//! ids are good everywhere.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::auth::presence_secret::PresenceSecret;
use crate::store::{Store, StoreResult};

/// How often a gateway looks whether the store still has the secrets.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Runs until told to stop.
pub(crate) async fn run(
    secret: Arc<PresenceSecret>,
    store: Arc<dyn Store>,
    stop: CancellationToken,
) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
        if let Err(why) = share(&secret, store.as_ref()).await {
            tracing::debug!(error = %why, "the presence secret was not shared, will try again");
        }
    }
}

/// Shares it once.
pub(crate) async fn share(secret: &PresenceSecret, store: &dyn Store) -> StoreResult<()> {
    let own = secret.made_up();
    if !own.is_empty() {
        secret.adopt(store.share_secrets(&own).await?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock::Clock;
    use crate::store::memory::MemoryStore;

    /// Whether what one gateway makes is known to another.
    fn knows(other: &PresenceSecret, one: &PresenceSecret) -> bool {
        other.datagram_key(&one.new_key()).is_some()
    }

    #[tokio::test]
    async fn gateways_sign_with_one_secret_and_know_each_others_also_after_a_loss() {
        let store = MemoryStore::new(Clock::start());
        let [first, second, third] = [(); 3].map(|()| PresenceSecret::default());
        let old = first.new_key();
        for secret in [&first, &second, &first] {
            share(secret, &store).await.unwrap();
        }
        assert!(knows(&first, &second) && knows(&second, &first));
        assert!(second.datagram_key(&old).is_some());
        // A gateway that starts just after the data was lost is the first to write its secret.
        store.lose_everything();
        for secret in [&third, &first, &second, &third, &first] {
            share(secret, &store).await.unwrap();
        }
        for secret in [&first, &second, &third] {
            assert!(secret.datagram_key(&old).is_some());
            for other in [&first, &second, &third] {
                assert!(knows(other, secret));
            }
        }
    }
}
