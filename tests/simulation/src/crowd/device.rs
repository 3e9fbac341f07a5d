//! What a person tells a device, and what a device tells its person.

use std::sync::Arc;
use std::time::Duration;

use rand::rngs::StdRng;
use tokio::sync::mpsc::{Receiver, Sender};

use super::Habits;
use super::Surroundings;
use super::session::SessionDevice;
use super::socket::SocketDevice;
use crate::expectation::{Live, SocketAt, User};

/// What a person tells a device.
#[derive(Debug, Clone, Copy)]
pub enum DeviceOrder {
    /// Join this live, and leave the present one.
    Join(Live),
    /// Leave the present live.
    Leave,
    /// Go on as this user, who has an account. For a guest's device with a socket.
    SignIn(User),
    /// Close cleanly.
    Close,
    /// Stop without a word.
    Vanish(Silence),
    /// Send no beat for a while, and then go on. For a device without a socket.
    FallSilent(Duration),
}

/// How a device vanishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Silence {
    /// The connection ends.
    Hangup,
    /// The connection stays open and silent, as when the network is lost.
    Limbo,
}

/// What a device tells its person.
#[derive(Debug)]
pub enum DeviceEvent {
    /// It is in this live.
    Joined(Live),
    /// It is connected, and in no live.
    Out,
    /// It goes on where it is, as this user.
    SignedIn(User),
    /// Its live closed.
    Closed,
    /// It must ask to join again, and is still in this live.
    Again(Option<Live>),
    /// The gateway tells it to connect elsewhere after so long.
    MoveAfter(Duration),
    /// The gateway has answered no heartbeat for a timeout.
    Unanswered,
    /// It is no longer connected, or could not connect.
    Ended(DeviceEnd),
}

/// How a device ended.
#[derive(Debug)]
pub enum DeviceEnd {
    /// On the person's order.
    Asked,
    /// The gateway refused the connection, and perhaps said when to retry.
    Refused(Option<Duration>),
    /// It ended without an order.
    Lost,
}

/// A device that is about to connect.
pub struct Device<S> {
    /// Where it is.
    pub surroundings: Arc<S>,
    /// Whose it is.
    pub user: User,
    /// Which of the person's devices it is.
    pub number: usize,
    /// The place that it takes.
    pub place: SocketAt,
    /// What its person tells it.
    pub orders: Receiver<DeviceOrder>,
    /// Where it tells its person something.
    pub tell: Sender<(u64, DeviceEvent)>,
    /// The live that it asks for when it connects.
    pub first: Option<Live>,
    /// For what it does by chance.
    pub rng: StdRng,
}

impl<S: Surroundings> Device<S> {
    /// Connects, and obeys until it ends.
    pub async fn run(self, habits: Habits) {
        let tell = self.tell.clone();
        let socket = self.place.socket;
        let end = if habits.has_socket {
            Box::pin(SocketDevice::new(self).run()).await
        } else {
            Box::pin(SessionDevice::new(self, habits).run()).await
        };
        // A person that is gone means that all is over.
        let _ = tell.send((socket, DeviceEvent::Ended(end))).await;
    }

    pub(super) async fn say(&self, told: DeviceEvent) {
        let _ = self.tell.send((self.place.socket, told)).await;
    }
}
