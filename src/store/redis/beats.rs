//! Notices that messages do not arrive, whatever the reason: Redis refuses to publish them,
//! something on the way swallows them, or this gateway's subscription has fallen silent.
//!
//! With each renewal of its lease a gateway publishes a *beat* at every master, and
//! [`super::hearing`] compares the beats with the leases. A gateway hears its own beats too, so one
//! that cannot publish knows it as its peers do. Where Redis refused another message of this
//! gateway, for example because its user may publish on some channels only, the gateway holds its
//! beats back until Redis takes one on that channel, so that its peers know.
//!
//! Each master of a cluster has a channel of beats of its own: sharded channels lie on nodes, so a
//! gateway may be heard on one and not on another.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep};

use super::args;
use super::hearing::{GRACE, Hearing, Unheard};
use super::reply::number;
use super::router::Router;
use super::slots::slot_of;
use super::topology::Topology;
use crate::base::ids::GatewayId;
use crate::base::metrics::Metrics;
use crate::store::{Channel, Doubt, LivingGateway, StoreError, StoreResult};

/// How often the log repeats that messages do not arrive.
const REMIND: Duration = Duration::from_secs(60);

/// Sends this gateway's beats, and listens for those of all gateways.
#[derive(Debug)]
pub(super) struct Beats {
    topology: Arc<Topology>,
    metrics: Arc<Metrics>,
    hearing: Mutex<Hearing>,
    sending: Mutex<Sending>,
    looked: Notify,
    unheard: watch::Sender<Option<Doubt>>,
    reminder: Mutex<Reminder>,
}

/// The beats of this gateway, by the numbers of their channels.
#[derive(Debug, Default)]
struct Sending {
    under_way: HashSet<u32>,
    /// The name of the channel on which Redis refused another message at that master.
    refused: HashMap<u32, String>,
    reminder: Reminder,
}

/// Decides when a line is due in the log.
#[derive(Debug, Default)]
struct Reminder(Option<Instant>);

impl Reminder {
    fn is_due(&mut self) -> bool {
        let is_due = self.0.is_none_or(|last| last.elapsed() >= REMIND);
        if is_due {
            self.0 = Some(Instant::now());
        }
        is_due
    }

    /// True if a line was due since the last call.
    fn end(&mut self) -> bool {
        self.0.take().is_some()
    }
}

impl Beats {
    pub(super) fn new(topology: Arc<Topology>, metrics: Arc<Metrics>) -> Self {
        Self {
            topology,
            metrics,
            hearing: Mutex::default(),
            sending: Mutex::default(),
            looked: Notify::new(),
            unheard: watch::Sender::new(None),
            reminder: Mutex::default(),
        }
    }

    /// The slots in which messages of some gateway do not arrive; `None` if there are none.
    pub(super) fn unheard(&self) -> watch::Receiver<Option<Doubt>> {
        self.unheard.subscribe()
    }

    /// Judges after each look at the leases, for ever.
    pub(super) async fn run(&self) {
        loop {
            self.looked.notified().await;
            sleep(GRACE).await;
            self.judge();
        }
    }

    /// Publishes the beat of this gateway's renewal at each master, in the background.
    pub(super) fn send(self: &Arc<Self>, router: &Router, gateway: &GatewayId, count: u64) {
        for channel in self.channels() {
            if !self.begin(channel) {
                continue;
            }
            let beats = Arc::clone(self);
            let router = router.clone();
            let beat = format!("{gateway} {count}");
            // Boxed: the library's futures are large.
            tokio::spawn(Box::pin(async move {
                let said = beats.send_on(&router, channel, beat).await;
                beats.sending.lock().under_way.remove(&channel);
                if let Err(why) = said {
                    beats.complain(&why);
                }
            }));
        }
    }

    /// False if the last beat on that channel is still under way.
    fn begin(&self, channel: u32) -> bool {
        self.sending.lock().under_way.insert(channel)
    }

    /// Publishes a beat. If that master refused another message, it must first take an empty
    /// message, which gateways ignore, on the channel of the refused one.
    async fn send_on(&self, router: &Router, channel: u32, beat: String) -> StoreResult<()> {
        let refused = self.sending.lock().refused.get(&channel).cloned();
        if let Some(name) = refused {
            publish(router, name, String::new()).await?;
            self.sending.lock().refused.remove(&channel);
        }
        publish(
            router,
            self.topology.keys().channel(&Channel::Beats(channel)),
            beat,
        )
        .await
    }

    /// Notes why a message of this gateway on a channel with this name was not published.
    pub(super) fn note_refusal(&self, name: &str, why: &StoreError) {
        if !is_refusal(why) {
            return;
        }
        self.complain(why);
        let map = self.topology.map();
        let Some(node) = map.owner(slot_of(name.as_bytes())) else {
            return;
        };
        if let Some(channel) = map.beats_at(node.host(), self.topology.keys()) {
            self.sending.lock().refused.insert(channel, name.to_owned());
        }
    }

    fn complain(&self, why: &StoreError) {
        if is_refusal(why) && self.sending.lock().reminder.is_due() {
            tracing::warn!(
                error = %why,
                "redis does not publish this gateway's messages, so other gateways show its changes up to 5 s late"
            );
        }
    }

    /// Takes in the leases that were just read: each living gateway with its count.
    pub(super) fn looked(&self, living: &[LivingGateway]) {
        let living: Vec<(GatewayId, u64)> = living
            .iter()
            .map(|there| (there.gateway.clone(), there.count))
            .collect();
        self.hearing
            .lock()
            .looked(&living, &self.channels(), Instant::now());
        self.looked.notify_one();
    }

    /// Takes in a beat. False if the text is not a beat.
    pub(super) fn heard(&self, channel: u32, text: &str) -> bool {
        let Some((gateway, count)) = text.split_once(' ') else {
            return false;
        };
        let Ok(gateway) = GatewayId::parse(gateway) else {
            return false;
        };
        let Ok(count) = count.parse() else {
            return false;
        };
        let was_unheard = self
            .hearing
            .lock()
            .heard(channel, gateway, count, Instant::now());
        if was_unheard {
            self.judge();
        }
        true
    }

    fn channels(&self) -> Vec<u32> {
        let map = self.topology.map();
        let mut channels = Vec::new();
        for node in map.nodes() {
            if let Some(channel) = map.beats_at(node.host(), self.topology.keys()) {
                channels.push(channel);
            }
        }
        channels
    }

    fn judge(&self) {
        // The lock is held to the end, so that the later of two calls publishes last.
        let mut hearing = self.hearing.lock();
        let unheard = hearing.judge(Instant::now());
        let gateways: BTreeSet<&GatewayId> = unheard.iter().map(|(_, gateway)| gateway).collect();
        self.metrics.unheard_gateways.set(gateways.len() as i64);
        self.log(&gateways);
        let slots = self.slots_of(&unheard);
        self.unheard.send_if_modified(|known| {
            let changed = *known != slots;
            *known = slots;
            changed
        });
    }

    fn log(&self, gateways: &BTreeSet<&GatewayId>) {
        let mut reminder = self.reminder.lock();
        if gateways.is_empty() {
            if reminder.end() {
                tracing::info!("messages of all gateways arrive again");
            }
        } else if reminder.is_due() {
            let names: Vec<&str> = gateways.iter().map(|gateway| gateway.as_str()).collect();
            tracing::warn!(
                gateways = names.join(" "),
                "messages of gateways do not arrive, although their leases are renewed; lives are checked every 5 s"
            );
        }
    }

    /// The slots of the masters at which some gateway is not heard.
    fn slots_of(&self, unheard: &BTreeSet<&Unheard>) -> Option<Doubt> {
        let map = self.topology.map();
        let channels: BTreeSet<u32> = unheard.iter().map(|(channel, _)| *channel).collect();
        let mut slots = Vec::new();
        for channel in channels {
            let name = self.topology.keys().channel(&Channel::Beats(channel));
            if let Some(node) = map.owner(slot_of(name.as_bytes())) {
                slots.extend(map.slots_at(node.host()));
            }
        }
        Doubt::of_slots(slots)
    }
}

async fn publish(router: &Router, name: String, message: String) -> StoreResult<()> {
    let publish = async { number(&router.command("SPUBLISH", args![name, message]).await?) };
    router.call("tell", publish).await?;
    Ok(())
}

/// Whether Redis itself refused. Any other error is the connection's, and then the node is already
/// known to be away.
fn is_refusal(why: &StoreError) -> bool {
    matches!(why, StoreError::Refused(_) | StoreError::Nonsense(_))
}
