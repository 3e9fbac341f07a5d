//! The features: what a platform may want beside presence. Each is a folder with its store calls,
//! its loops, its routes and its tests, and can be left out: delete the folder and its lines here.
//!
//! A feature hears of the core through [`crate::sync::features`], and takes from it what its
//! `mod.rs` says. **No file of the core imports a feature.** The commands and [`crate::gateway`]
//! stand above both.

pub mod attendance;
pub mod audit;
pub mod datagrams;
pub mod erasure;
pub(crate) mod explain;
pub mod fan_sources;
pub mod feeds;
pub mod friends;
pub mod history;
pub mod media;
pub mod profiles;
pub mod webhooks;
pub(crate) mod wired;

use crate::config::Config;
use crate::features::wired::SetupError;
use crate::sync::features::Features;
use crate::sync::seen::{self, SeenUsers};
use std::sync::Arc;

use self::media::servers::MediaServers;
use self::webhooks::endpoints::Endpoints;
use self::wired::Wired;
use crate::base::clock::Clock;
use crate::peers::core::Core;
use crate::store::Store;
use crate::store::memory::MemoryStore;
use crate::store::redis::RedisStore;
use crate::store::redis::erasing::{AllErasers, Eraser};
use crate::store::redis::family::{AllFamilies, Family};
use crate::store::redis::keys::{self, Keys};

/// A store with the calls of all features.
pub trait WholeStore:
    Store
    + attendance::store::AttendanceStore
    + erasure::store::ErasureStore
    + feeds::store::FeedStore
    + history::store::HistoryStore
    + media::store::MediaStore
    + profiles::store::ProfileStore
    + webhooks::store::WebhookStore
{
    /// The same store for the requests of clients. It shares the connections, but has its own bound
    /// on the calls under way, so that clients' requests, however many, never keep the gateway's
    /// own calls from the store.
    fn for_clients(self: Arc<Self>) -> Arc<dyn WholeStore>;
}

impl WholeStore for MemoryStore {
    fn for_clients(self: Arc<Self>) -> Arc<dyn WholeStore> {
        self
    }
}

impl WholeStore for RedisStore {
    fn for_clients(self: Arc<Self>) -> Arc<dyn WholeStore> {
        Arc::new(self.with_clients_share())
    }
}

impl AllFamilies for Keys {
    fn families(&self) -> Vec<&'static Family> {
        [
            keys::FAMILIES,
            attendance::keys::FAMILIES,
            erasure::keys::FAMILIES,
            feeds::keys::FAMILIES,
            history::keys::FAMILIES,
            media::keys::FAMILIES,
            webhooks::keys::FAMILIES,
        ]
        .concat()
    }
}

impl AllErasers for Keys {
    fn erasers(&self) -> Vec<Eraser> {
        [
            attendance::keys::ERASERS,
            erasure::core_keys::ERASERS,
            feeds::keys::ERASERS,
            media::keys::ERASERS,
            profiles::erasing::ERASERS,
        ]
        .concat()
    }
}

/// The features of a gateway. `clients` is the store for the requests of clients.
pub(crate) fn all(
    core: &Arc<Core>,
    store: &Arc<dyn WholeStore>,
    clients: &Arc<dyn WholeStore>,
    seen: &Arc<SeenUsers>,
    webhooks: Endpoints,
) -> Vec<Wired> {
    vec![
        attendance::feature(core, store.clone(), clients.clone()),
        erasure::feature(core, store.clone(), clients.clone(), seen),
        feeds::feature(core, store.clone(), clients.clone()),
        friends::feature(),
        history::feature(core, clients.clone()),
        media::feature(core, store.clone(), clients.clone()),
        profiles::feature(clients.clone()),
        webhooks::feature(store.clone(), clients.clone(), webhooks),
    ]
}

/// Looks whether the store was used by features with other settings before.
///
/// # Errors
/// It was.
pub(crate) async fn check(config: &Config, store: &dyn WholeStore) -> Result<(), SetupError> {
    attendance::fix_form(config, store).await
}

/// What the features do when a command closes a live.
pub(crate) fn of_command(config: &Config, store: &RedisStore) -> Features {
    let store: Arc<dyn WholeStore> = Arc::new(store.clone());
    let core = Core::new(config, store.clone(), store.clone(), &Arc::default());
    let core = Arc::new(core);
    let seen = SeenUsers::new(store.clone(), core.clock, seen::APART);
    let wired = all(&core, &store, &store, &Arc::new(seen), Endpoints::default());
    wired
        .into_iter()
        .filter_map(|wired| wired.feature)
        .collect()
}

/// The mistakes in the files that the settings of features name.
pub(crate) fn wrong_files(config: &Config) -> Vec<String> {
    let mut wrong = Endpoints::open(config).err().unwrap_or_default();
    let nobody: Arc<dyn Store> = Arc::new(MemoryStore::new(Clock::start()));
    if let Err(why) = fan_sources::open(config, &nobody, &Arc::default()) {
        wrong.push(why.to_string());
    }
    if let Err(why) = MediaServers::open(config) {
        wrong.push(why.to_string());
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::key_prefix::KeyPrefix;
    use crate::store::redis::family::Names;

    #[test]
    fn every_key_is_of_one_family_and_one_installation() {
        let installations = ["", "app:", "app:rollcall:"]
            .map(|prefix| Keys::new(KeyPrefix::parse(prefix).unwrap(), 0));
        let mut known = 0;
        for (at, keys) in installations.iter().enumerate() {
            for key in keys.one_of_each() {
                for (reads, other) in installations.iter().enumerate() {
                    let mut families = other.families();
                    families.retain(|family| other.read(family, &key).is_some());
                    assert_eq!(
                        families.len(),
                        usize::from(at == reads),
                        "{key}: {families:?}"
                    );
                    known += families.len();
                }
            }
        }
        assert!(known >= 3 * Keys::default().families().len());
    }

    #[test]
    fn who_names_users_in_a_way_of_its_own_has_an_eraser() {
        let keys = Keys::default();
        let mut families = keys.families();
        families.retain(|family| matches!(family.names, Names::Otherwise | Names::Large));
        let mut named: Vec<&str> = families.iter().map(|family| family.name).collect();
        let erasers = keys.erasers();
        let mut erased: Vec<&str> = erasers.iter().map(|(family, _)| family.name).collect();
        named.sort_unstable();
        erased.sort_unstable();
        assert_eq!(named, erased);
    }
}
