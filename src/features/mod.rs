//! The features: what a platform may want beside presence. Each is a folder with its store calls,
//! its loops, its routes and its tests, and can be left out.
//!
//! A feature hears of the core through [`crate::sync::features`], and takes from it what its
//! `mod.rs` says. **No file of the core imports a feature.** The commands and [`crate::gateway`]
//! stand above both.
//!
//! This file alone wires the features, and names each in lines of its own, so that they can be
//! deleted with its folder: `tests/remove-features` does.

pub mod attendance;
pub mod audit;
pub mod confirmed;
pub mod datagrams;
pub mod erasure;
pub(crate) mod explain;
pub mod fan_sources;
pub mod feeds;
pub mod friends;
pub mod history;
pub mod media;
pub mod moderation;
pub mod profiles;
pub(crate) mod shape;
pub mod webhooks;
pub(crate) mod wired;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use anyhow::bail;

use self::wired::{SetupError, Wired};
use crate::base::clock::Clock;
use crate::base::metrics::Metrics;
use crate::config::{Config, Task};
use crate::peers::core::Core;
use crate::store::Store;
use crate::store::fans::{self, FanLookup, FanSetupError, TokenFans};
use crate::store::memory::MemoryStore;
use crate::store::redis::RedisStore;
use crate::store::redis::erasing::{AllErasers, FamilyEraser};
use crate::store::redis::family::{AllFamilies, Family};
use crate::store::redis::keys::{self, Keys};
use crate::sync::features::Features;
use crate::sync::seen::{self, SeenUsers};

/// A store with the calls of all features.
pub trait WholeStore:
    Store
    + attendance::store::AttendanceStore
    + confirmed::store::ConfirmationStore
    + erasure::store::ErasureStore
    + feeds::store::FeedStore
    + history::store::HistoryStore
    + media::store::MediaStore
    + moderation::store::ModerationStore
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
            moderation::keys::FAMILIES,
            profiles::keys::FAMILIES,
            webhooks::keys::FAMILIES,
        ]
        .concat()
    }
}

impl AllErasers for Keys {
    fn erasers(&self) -> Vec<FamilyEraser> {
        [
            attendance::keys::ERASERS,
            erasure::core_keys::ERASERS,
            feeds::keys::ERASERS,
            media::keys::ERASERS,
            moderation::keys::ERASERS,
            profiles::erasing::ERASERS,
        ]
        .concat()
    }
}

/// What features open before the parts of a gateway are made: their files and their ports. The
/// default is nothing.
#[derive(Default)]
pub(crate) struct Opened {
    pub(crate) datagrams: datagrams::Sockets,
    pub(crate) webhooks: webhooks::endpoints::Endpoints,
}

impl Opened {
    /// Opens what the settings name. Then these have the real ports instead of port 0.
    ///
    /// # Errors
    /// A file cannot be used, or an address cannot be bound.
    pub(crate) fn open(config: &mut Config) -> Result<Self, SetupError> {
        Ok(Self {
            webhooks: webhooks::open(config)?,
            datagrams: datagrams::Sockets::bind(config)?,
        })
    }
}

/// The features of a gateway. `clients` is the store for the requests of clients.
pub(crate) fn all(
    core: &Arc<Core>,
    store: &Arc<dyn WholeStore>,
    clients: &Arc<dyn WholeStore>,
    seen: &Arc<SeenUsers>,
    fan_source: &Arc<dyn FanLookup>,
    opened: Opened,
) -> Vec<Wired> {
    vec![
        attendance::feature(core, store.clone(), clients.clone()),
        confirmed::feature(clients.clone()),
        datagrams::feature(opened.datagrams),
        erasure::feature(core, store.clone(), clients.clone(), seen),
        fan_sources::feature(fan_source),
        feeds::feature(core, store.clone(), clients.clone()),
        friends::feature(),
        history::feature(core, clients.clone()),
        media::feature(core, store.clone(), clients.clone()),
        moderation::feature(store.clone(), clients.clone()),
        profiles::feature(clients.clone()),
        shape::feature(),
        webhooks::feature(store.clone(), clients.clone(), opened.webhooks),
    ]
}

/// The source of fans that the settings name.
///
/// # Errors
/// A file or the URL cannot be used. A source that does not answer now is no error.
pub(crate) fn fan_source(
    config: &Config,
    store: &Arc<dyn Store>,
    metrics: &Arc<Metrics>,
) -> Result<Arc<dyn FanLookup>, FanSetupError> {
    let source = fans::open(config, store);
    let source = source.or(fan_sources::open(config, metrics)?);
    source.ok_or(FanSetupError::Unknown)
}

/// Looks whether the store was used by features with other settings before.
///
/// # Errors
/// It was.
pub(crate) async fn check(config: &Config, store: &dyn WholeStore) -> Result<(), SetupError> {
    attendance::fix_form(config, store).await?;
    Ok(())
}

/// The mistakes in the files that the settings of features name.
pub(crate) fn wrong_files(config: &Config) -> Vec<String> {
    let nobody: Arc<dyn Store> = Arc::new(MemoryStore::new(Clock::start()));
    let mut wrong = Vec::new();
    wrong.extend(webhooks::wrong_files(config));
    if let Err(why) = fan_source(config, &nobody, &Arc::default()) {
        wrong.push(why.to_string());
    }
    wrong.extend(media::wrong_files(config));
    wrong
}

/// Runs a command of a feature; returns the exit code.
///
/// # Errors
/// The command cannot begin or continue.
pub(crate) async fn run(task: &Task, config: &Config) -> anyhow::Result<u8> {
    match task {
        Task::Audit(args) => audit::run(config, args, offered).await,
        Task::Events(args) => webhooks::command::run(config, args).await,
        Task::Explain(args) => explain::run(config, args, fan_source).await,
        _ => bail!("this program was built without that command"),
    }
}

/// What the features offer to an audit. `every_user` is whether it looks at all users.
fn offered<'a>(config: &Config, store: &'a RedisStore, every_user: bool) -> audit::Offered<'a> {
    audit::Offered {
        features: of_command(config, store),
        inspections: vec![
            Box::new(attendance::audit::AttendanceInspector::new(
                store, every_user,
            )),
            Box::new(feeds::audit::TimelineInspector::new(store, every_user)),
            Box::new(profiles::audit::LoginInspector::new(store, every_user)),
        ],
    }
}

/// What the features do when a command closes a live.
fn of_command(config: &Config, store: &RedisStore) -> Features {
    let store: Arc<dyn WholeStore> = Arc::new(store.clone());
    let core = Core::new(config, store.clone(), store.clone(), &Arc::default());
    let core = Arc::new(core);
    let seen = Arc::new(SeenUsers::new(store.clone(), core.clock, seen::APART));
    let nobody: Arc<dyn FanLookup> = Arc::new(TokenFans);
    let wired = all(&core, &store, &store, &seen, &nobody, Opened::default());
    wired
        .into_iter()
        .filter_map(|wired| wired.feature)
        .collect()
}
