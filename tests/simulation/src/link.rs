//! The way from one gateway to the store: every call becomes a message that travels there, is
//! carried out when it arrives, and is answered.

use std::sync::Arc;

use async_trait::async_trait;
use rollcall::base::clock::UnixMillis;
use rollcall::base::ids::{LiveId, OnlineSet, SliceId, USERS_SLICES};
use rollcall::features::WholeStore;
use rollcall::store::calls::{self, CallCopy, Door, Location};
use rollcall::store::memory::MemoryStore;
use rollcall::store::{
    Bus, BusEvents, Channel, Doubt, Doubts, Health, LATEST_ENTRY, Parts, SlicesDoor, Slot, Status,
    Store, StoreError, StoreResult,
};
use tokio::sync::watch;

use crate::network::{Network, SentCall, at_once};

/// The store as one gateway reaches it.
pub(crate) struct Link {
    network: Arc<Network>,
    /// Which gateway, and which start of it.
    number: usize,
}

impl Link {
    pub(crate) fn new(network: Arc<Network>, number: usize) -> Self {
        Self { network, number }
    }

    fn live(&self, live: &LiveId) -> usize {
        self.network.node_of(live.to_string())
    }

    fn slice(&self, slice: &SliceId) -> usize {
        match &slice.set {
            OnlineSet::Live(live) => self.network.node_of((live.to_string(), slice.index)),
            OnlineSet::Users => self.user_slice(slice.index),
            OnlineSet::Streamers => self.network.node_of(("streamers", slice.index)),
        }
    }

    fn user_slice(&self, slice: u32) -> usize {
        self.network.node_of(slice)
    }

    /// On which node something lies.
    fn node(&self, at: Location<'_>) -> usize {
        match at {
            Location::Shared => 0,
            Location::Live(live) => self.live(live),
            Location::Slice(slice) => self.slice(slice),
            Location::User(user) => self.network.node_of(user.to_string()),
            Location::UserSlice(slice) => self.user_slice(slice),
            Location::UserSlices(users) => {
                let mut nodes = users
                    .iter()
                    .map(|user| self.user_slice(user.slice_index(USERS_SLICES)));
                let first = nodes.clone().next().unwrap_or_default();
                // If a node is away, the call fails there.
                nodes
                    .find(|node| self.network.part(self.number, *node).is_some())
                    .unwrap_or(first)
            }
        }
    }
}

impl Door for Link {
    type Behind = MemoryStore;

    fn behind(&self) -> &MemoryStore {
        &self.network.truth
    }

    /// The copy travels, and `answer` does not: the caller may give up while the call is on its
    /// way. The store refuses a call that makes an entry and arrives late, by its own clock.
    async fn through<T: Send + 'static>(
        &self,
        call: calls::Call<'_>,
        _answer: impl Future<Output = StoreResult<T>> + Send,
        copy: impl FnOnce() -> CallCopy<MemoryStore, T> + Send,
    ) -> StoreResult<T> {
        let travelling = SentCall {
            name: call.name,
            link: self.number,
            node: self.node(call.at),
            writes: call.writes,
        };
        let copy = copy();
        let late_after = self.network.store_time() + LATEST_ENTRY.as_millis() as UnixMillis;
        let run = move |store: &MemoryStore| {
            store.carry_out_until(late_after, |store| at_once(copy(store)))
        };
        self.network.call(travelling, run).await
    }

    fn away(&self, what: Location<'_>) -> Option<StoreError> {
        self.network.part(self.number, self.node(what))
    }
}

impl SlicesDoor for Link {}

#[async_trait]
impl Bus for Link {
    async fn publish(&self, channel: &Channel, message: String) -> StoreResult<u64> {
        let call = SentCall {
            name: "publish",
            link: self.number,
            node: self.network.channel_node(channel),
            writes: false,
        };
        let (network, from, channel) = (self.network.clone(), self.number, channel.clone());
        let run = move |_: &MemoryStore| Ok(network.spread(Some(from), &channel, &message));
        self.network.call(call, run).await
    }

    fn subscribe(&self, live: &LiveId) {
        self.network
            .subscribe(self.number, Channel::Live(live.clone()));
    }

    fn unsubscribe(&self, live: &LiveId) {
        self.network
            .unsubscribe(self.number, &Channel::Live(live.clone()));
    }

    fn hear_moves(&self, live: &LiveId) {
        self.network
            .subscribe(self.number, Channel::Moves(live.clone()));
    }

    fn ignore_moves(&self, live: &LiveId) {
        self.network
            .unsubscribe(self.number, &Channel::Moves(live.clone()));
    }

    fn ask_ready(&self, channel: &Channel) {
        self.network.ask_ready(self.number, channel);
    }

    fn events(&self) -> BusEvents {
        self.network.events(self.number)
    }

    fn unheard(&self) -> watch::Receiver<Option<Doubt>> {
        self.network.unheard(self.number)
    }
}

impl Status for Link {
    fn health(&self) -> watch::Receiver<Health> {
        self.network.health(self.number)
    }

    fn parts(&self) -> watch::Receiver<Arc<Parts>> {
        self.network.parts(self.number)
    }

    fn doubts(&self) -> Doubts {
        self.network.doubts(self.number)
    }

    fn slot_of_live(&self, live: &LiveId) -> Slot {
        Slot(self.live(live) as u16)
    }

    fn slot_of_slice(&self, slice: &SliceId) -> Slot {
        Slot(self.slice(slice) as u16)
    }

    fn kind(&self) -> &'static str {
        "simulated"
    }
}

impl Store for Link {}

impl WholeStore for Link {
    fn for_clients(self: Arc<Self>) -> Arc<dyn WholeStore> {
        self
    }
}
