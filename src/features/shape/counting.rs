//! Counts the shape of a live on this gateway, and asks the other gateways for theirs.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::auth::presence_secret::PresenceSecret;
use crate::base::address_prefix::AddressPrefix;
use crate::base::ids::GatewayId;
use crate::edge::http::state::AppState;
use crate::peers::core::Core;
use crate::presence::Room;
use crate::presence::shape::{LiveShape, MOST_NETWORKS};
use crate::store::LiveEpoch;

/// How long the answers of other gateways may take.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// The shape of a live over all gateways that answered.
#[derive(Debug, Default)]
pub(crate) struct WholeShape {
    /// Without networks.
    pub(crate) sums: LiveShape,
    /// The viewers in each network, by its name.
    pub(crate) networks: HashMap<u64, u64>,
    /// The most networks that one gateway has.
    most_networks: u64,
    /// Whether each gateway told of all its networks.
    is_cut: bool,
    pub(crate) answered: Vec<GatewayId>,
    pub(crate) silent: BTreeSet<GatewayId>,
}

impl WholeShape {
    pub(super) fn add(&mut self, gateway: GatewayId, shape: &LiveShape) {
        self.sums.add(shape);
        for (name, viewers) in &shape.networks {
            let sum = self.networks.entry(*name).or_default();
            *sum = sum.saturating_add(*viewers);
        }
        self.most_networks = self.most_networks.max(shape.all_networks);
        self.is_cut |= shape.all_networks > shape.networks.len() as u64;
        self.answered.push(gateway);
    }

    /// How many networks there are at least, and whether there are no more.
    pub(crate) fn all_networks(&self) -> (u64, bool) {
        let told = self.networks.len() as u64;
        (told.max(self.most_networks), !self.is_cut)
    }
}

pub(crate) struct ShapeCounter {
    pub(crate) core: Arc<Core>,
    pub(crate) secret: Arc<PresenceSecret>,
}

impl ShapeCounter {
    pub(crate) fn of(app: &AppState) -> Self {
        Self {
            core: app.core.clone(),
            secret: app.presences.shared_secret(),
        }
    }

    /// Answers the questions of other gateways until told to stop.
    pub(crate) async fn answer(self, stop: CancellationToken) {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.core.shapes.questions.wait() => {}
            }
            for question in self.core.shapes.questions.take() {
                let of = LiveEpoch {
                    live: question.live,
                    epoch: question.epoch,
                };
                let shape = self.here(&of).await;
                self.core.to_peers.shape(question.number, shape);
            }
        }
    }

    /// The shape over all gateways. Waits for those that have a lease.
    pub(crate) async fn everywhere(&self, of: &LiveEpoch) -> WholeShape {
        let own = self.core.gateways.id();
        let mut whole = WholeShape {
            silent: self.core.gateways.roster().living.clone(),
            ..WholeShape::default()
        };
        whole.silent.remove(&own);
        let number = rand::random();
        let mut answers = self.core.shapes.wait_for(number);
        let until = Instant::now() + LONGEST_WAIT;
        if !whole.silent.is_empty() {
            self.core.to_peers.shape_asked(number, of);
        }
        let here = self.here(of).await;
        whole.add(own, &here);
        while !whole.silent.is_empty() {
            let Ok(Some((gateway, shape))) = timeout_at(until, answers.recv()).await else {
                break;
            };
            if whole.silent.remove(&gateway) {
                whole.add(gateway, &shape);
            }
        }
        self.core.shapes.forget(number);
        whole
    }

    /// The shape on this gateway.
    async fn here(&self, of: &LiveEpoch) -> LiveShape {
        let room = self.core.rooms.get(&of.live);
        match room.filter(|room| room.record.epoch == of.epoch) {
            Some(room) => self.count(&room, of).await,
            None => LiveShape::default(),
        }
    }

    async fn count(&self, room: &Room, of: &LiveEpoch) -> LiveShape {
        let now = self.core.clock.unix();
        let mut shape = LiveShape::default();
        let mut viewers_in: HashMap<AddressPrefix, u64> = HashMap::new();
        for place in 0..room.record.slices as usize {
            for origin in room.seats.origins(place) {
                shape.count(&origin, now);
                if origin.network.is_known() {
                    *viewers_in.entry(origin.network).or_default() += 1;
                }
            }
            tokio::task::yield_now().await;
        }
        shape.all_networks = viewers_in.len() as u64;
        let mut largest: Vec<(AddressPrefix, u64)> = viewers_in.into_iter().collect();
        if largest.len() > MOST_NETWORKS {
            largest.select_nth_unstable_by_key(MOST_NETWORKS, |(_, viewers)| u64::MAX - viewers);
            largest.truncate(MOST_NETWORKS);
        }
        if let Some(names) = self.secret.network_names(&of.live, of.epoch) {
            let named = largest.into_iter();
            shape.networks = named
                .map(|(network, viewers)| (names.name(network), viewers))
                .collect();
        }
        shape
    }
}
