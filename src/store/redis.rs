//! The Redis store: slices, lives and the follow graph in a Redis that several gateways share. The
//! Redis is one server, a cluster, or a master that sentinels look after.
//!
//! Every step that must be atomic is one script. All keys of one command share a hash slot. Each
//! master has a connection of its own ([`node`]), so that a master that is gone takes only its own
//! slots along. The [`topology`] knows which master serves which slots, the [`router`] sends each
//! command to its master, and the [`subscriber`] listens there. The [`doubts`] report that data may
//! be lost or that a message was not heard.
//!
//! A call ends within two seconds, whatever the server does, and the store never repeats it. A call
//! whose outcome is unknown may still be carried out later, so every script is safe to run late or
//! twice.

pub(crate) mod answers;
pub(crate) mod args;
pub(crate) mod bus;
pub(crate) mod changes;
pub(crate) mod client;
pub(crate) mod counts;
pub(crate) mod discovery;
pub(crate) mod doubts;
pub(crate) mod echo;
pub(crate) mod erasing;
pub(crate) mod errors;
pub(crate) mod events;
pub mod family;
pub(crate) mod follows;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
pub(crate) mod inspect;
pub mod keys;
pub(crate) mod last_seen;
pub(crate) mod leases;
pub(crate) mod live_stream;
pub(crate) mod lives;
pub(crate) mod logins;
pub(crate) mod monitor;
pub(crate) mod node;
pub(crate) mod online_users;
pub(crate) mod paging;
pub(crate) mod probe;
pub(crate) mod refusals;
pub(crate) mod removals;
pub(crate) mod reply;
pub(crate) mod requirements;
pub(crate) mod router;
pub(crate) mod scripts;
pub(crate) mod session_ends;
pub(crate) mod shared_secrets;
pub(crate) mod slice_name;
pub(crate) mod slices;
pub(crate) mod slots;
pub(crate) mod stays;
pub(crate) mod streamers;
pub(crate) mod subscriber;
pub(crate) mod tls;
pub(crate) mod topology;
pub(crate) mod users;
pub(crate) mod watchdog;

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use tokio::sync::watch;

pub(crate) use self::args::args;
use self::client::{AllowedProbes, Connector};
pub use self::errors::ConnectError;
use self::keys::Keys;
use self::node::Share;
pub use self::requirements::TriedOut;
use self::router::Router;
use self::subscriber::BusSubscriber;
use self::topology::Topology;
use super::calls::{Call, CallCopy, Door};
use super::{Doubts, Health, Parts, SlicesDoor, Slot, Status, Store, StoreResult};
use crate::base::ids::{LiveId, SliceId};
use crate::base::key_prefix::KeyPrefix;
use crate::base::metrics::Metrics;
use crate::base::redis_address::Address;
use crate::base::secret::Secret;
use crate::config::{AttendanceForm, SeenIds};

/// The address of Redis, the certificate authorities that vouch for it, and the prefix of this
/// installation's keys.
#[derive(Debug, Clone)]
pub struct Access {
    /// The URL, see [`Address::parse`].
    pub url: Secret,
    /// The beginning of every key and channel.
    pub prefix: KeyPrefix,
    /// The PEM file of certificate authorities for TLS; `None` means the authorities of the system.
    pub ca: Option<PathBuf>,
}

/// The Redis store. It sets the deadline of each call, counts its failure under its name, and lets
/// [`RedisCalls`] carry it out. Its connections and watchdogs end when the last of its clones is
/// dropped.
#[derive(Debug, Clone)]
pub struct RedisStore {
    pub(crate) router: Router,
    pub(crate) calls: RedisCalls,
}

/// What the calls do in Redis. Only a call in parts has deadlines here, one for each part.
#[derive(Debug, Clone)]
pub struct RedisCalls {
    pub(crate) router: Router,
    subscriber: Arc<BusSubscriber>,
    /// The form of ids in the keys of last-seen times; text until a gateway has fixed it.
    pub(crate) seen_ids: Arc<OnceLock<SeenIds>>,
    /// The form in which attendance is kept; sets until a gateway has fixed it.
    pub(crate) attendance_form: Arc<OnceLock<AttendanceForm>>,
}

impl RedisStore {
    /// Connects. From then on the store keeps the connections up by itself. The keys have no
    /// prefix.
    ///
    /// # Errors
    /// If the URL cannot be read, or no server answers now.
    pub async fn connect(url: &Secret, metrics: Arc<Metrics>) -> Result<Self, ConnectError> {
        Self::open(
            Access {
                url: url.clone(),
                prefix: KeyPrefix::default(),
                ca: None,
            },
            metrics,
        )
        .await
    }

    /// As [`Self::connect`], with the prefix and the certificate authorities that `access` names.
    ///
    /// # Errors
    /// As [`Self::connect`], and if there is no authority to trust.
    pub async fn open(access: Access, metrics: Arc<Metrics>) -> Result<Self, ConnectError> {
        Self::open_with(access, AllowedProbes::Canary, metrics).await
    }

    /// As [`Self::open`], for a read-only caller such as the audit. The connection writes no
    /// canary, so a replica will do.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub async fn open_without_canary(
        access: Access,
        metrics: Arc<Metrics>,
    ) -> Result<Self, ConnectError> {
        Self::open_with(access, AllowedProbes::Ping, metrics).await
    }

    /// Tries out on every master whether a gateway can work with it.
    ///
    /// # Errors
    /// If a master lacks something; the error has the master's own words.
    pub async fn try_out(&self) -> Result<TriedOut, ConnectError> {
        requirements::try_out(self.router.topology()).await
    }

    /// Checks that the URL can be read and that there is an authority to trust. It asks no server.
    ///
    /// # Errors
    /// If something is wrong with the URL or the file of authorities.
    pub fn check(access: &Access) -> Result<(), ConnectError> {
        let address = Address::parse(access.url.reveal()).map_err(ConnectError::Url)?;
        Connector::of(address, access.ca.as_deref(), AllowedProbes::Ping)?;
        Ok(())
    }

    async fn open_with(
        access: Access,
        probes: AllowedProbes,
        metrics: Arc<Metrics>,
    ) -> Result<Self, ConnectError> {
        let address = Address::parse(access.url.reveal()).map_err(ConnectError::Url)?;
        let connector = Connector::of(address, access.ca.as_deref(), probes)?;
        let database = connector.address().database.unwrap_or_default();
        let keys = Keys::new(access.prefix, database);
        let connected = Topology::connect(connector.clone(), keys, metrics.clone()).await;
        let (topology, tasks) = match connected {
            Ok(connected) => connected,
            Err(why) => return Err(requirements::explain(&connector, why).await),
        };
        let subscriber = Arc::new(BusSubscriber::open(Arc::clone(&topology), metrics.clone()));
        let router = Router::new(topology, tasks, metrics);
        let calls = RedisCalls {
            router: router.clone(),
            subscriber,
            seen_ids: Arc::default(),
            attendance_form: Arc::default(),
        };
        Ok(Self { router, calls })
    }

    /// The names of this installation's keys.
    pub(crate) fn keys(&self) -> &Keys {
        self.router.topology().keys()
    }

    /// The same store with its own bound on the calls under way, for the requests of clients.
    pub(crate) fn with_clients_share(&self) -> Self {
        let router = self.router.with_share(Share::Clients);
        let calls = RedisCalls {
            router: router.clone(),
            ..self.calls.clone()
        };
        Self { router, calls }
    }

    fn slot(&self, key: &str) -> Slot {
        if self.router.is_cluster() {
            Slot(slots::slot_of(key.as_bytes()))
        } else {
            Slot::default()
        }
    }
}

impl RedisCalls {
    /// The names of this installation's keys.
    pub(crate) fn keys(&self) -> &Keys {
        self.router.topology().keys()
    }
}

impl Door for RedisStore {
    type Behind = RedisCalls;

    fn behind(&self) -> &RedisCalls {
        &self.calls
    }

    async fn through<T: Send + 'static>(
        &self,
        call: Call<'_>,
        answer: impl Future<Output = StoreResult<T>> + Send,
        _copy: impl FnOnce() -> CallCopy<RedisCalls, T> + Send,
    ) -> StoreResult<T> {
        if call.is_in_parts {
            return answer.await;
        }
        self.router.call(call.name, answer).await
    }
}

impl SlicesDoor for RedisStore {}

impl Store for RedisStore {}

impl Status for RedisStore {
    fn health(&self) -> watch::Receiver<Health> {
        self.router.topology().monitor().any()
    }

    fn parts(&self) -> watch::Receiver<Arc<Parts>> {
        self.router.topology().monitor().parts()
    }

    fn doubts(&self) -> Doubts {
        self.router.topology().monitor().doubts().subscribe()
    }

    fn slot_of_list(&self) -> Slot {
        self.slot(&self.keys().lives())
    }

    fn slot_of_live(&self, live: &LiveId) -> Slot {
        self.slot(&self.keys().live(live))
    }

    fn slot_of_slice(&self, slice: &SliceId) -> Slot {
        self.slot(&self.keys().slice(slice))
    }

    fn kind(&self) -> &'static str {
        "redis"
    }
}
