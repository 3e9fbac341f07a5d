//! One device of a person: a socket that obeys the person's orders and sends heartbeats. It records
//! in the run state what it asked, what the gateway answered, and how the socket ended.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::{Receiver, Sender};
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep, timeout};

use super::findings::{Broken, Promise};
use super::run_state::RunState;
use crate::client::{self, Failure, ServerMessage, Socket};
use simulation::expectation::{How, Live, Place, User};

/// How long connect and upgrade may take before a device tries elsewhere.
pub(crate) const CONNECT_WITHIN: Duration = Duration::from_secs(3);
/// The close code by which a gateway sends its viewers elsewhere.
const SERVICE_RESTART: u16 = 1012;

/// What a person tells a device.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Order {
    /// Join this live, and leave the present one.
    Join(Live),
    Leave,
    /// Close with a close frame.
    Close,
    /// Stop without a close frame.
    Vanish(Silence),
}

/// How a device vanishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Silence {
    /// The TCP connection ends.
    Hangup,
    /// The connection stays open and silent, as when the network is lost.
    Limbo,
}

/// What a device tells its person.
#[derive(Debug)]
pub(crate) enum DeviceEvent {
    Joined(Live),
    /// The device is connected, and in no live.
    Out,
    /// The device's live closed.
    Closed,
    /// The device must ask to join again.
    Again,
    /// The gateway tells the device to connect elsewhere after so long.
    MoveAfter(Duration),
    /// The gateway has answered no heartbeat for a timeout.
    Unanswered,
    /// The socket ended, or could not be opened.
    Ended(End),
}

#[derive(Debug)]
pub(crate) enum End {
    /// On the person's order.
    Asked,
    /// The gateway refused the connection, and perhaps said when to retry.
    Refused(Option<Duration>),
    /// The socket ended without an order.
    Lost,
}

pub(crate) struct Device {
    pub(crate) state: Arc<RunState>,
    pub(crate) user: User,
    pub(crate) place: Place,
    pub(crate) orders: Receiver<Order>,
    pub(crate) tell: Sender<(u64, DeviceEvent)>,
    /// The live that the device names in the upgrade.
    pub(crate) by_url: Option<Live>,
}

/// A join without an answer.
#[derive(Debug, Clone, Copy)]
struct Asked {
    id: u64,
    live: Live,
    epoch: Option<u32>,
}

impl Device {
    pub(crate) async fn run(mut self) {
        let end = self.live().await;
        self.say(DeviceEvent::Ended(end)).await;
    }

    pub(crate) async fn say(&self, told: DeviceEvent) {
        // A person that is gone means that the run is over.
        let _ = self.tell.send((self.place.socket, told)).await;
    }

    async fn live(&mut self) -> End {
        let mut query = format!("user_id={}&role=viewer", self.state.user_id(self.user));
        let mut asked = None;
        if let Some(live) = self.by_url {
            query.push_str(&format!("&live_id={}", self.state.live_id(live)));
            asked = Some(Asked {
                id: 0,
                live,
                epoch: self.state.epoch(live),
            });
            self.state.joining(self.user, live, self.place);
        }
        let target = &self.state.endpoints[self.place.gateway].target;
        match client::connect(target, None, &query, CONNECT_WITHIN).await {
            Ok(socket) => {
                let state = self.state.clone();
                let place = self.place;
                state.connected(self.user, place);
                let end = Box::pin(
                    Connection {
                        device: self,
                        socket,
                        asked,
                        leaving: None,
                        live: None,
                        id: 0,
                        unanswered_since: None,
                    }
                    .run(),
                )
                .await;
                state.disconnected(place);
                end
            }
            Err(Failure { retry_after, .. }) => {
                // The request may have arrived, and a frozen gateway may read it later.
                if let Some(asked) = asked {
                    self.state
                        .left(self.user, asked.live, self.place, How::Unanswered);
                }
                End::Refused(retry_after)
            }
        }
    }
}

/// A device that is connected.
struct Connection<'a> {
    device: &'a mut Device,
    socket: Socket,
    asked: Option<Asked>,
    /// The id of a leave without an answer.
    leaving: Option<u64>,
    /// The live that the device is in, or may still be in.
    live: Option<Live>,
    id: u64,
    /// Since when heartbeats are unanswered.
    unanswered_since: Option<Instant>,
}

impl Connection<'_> {
    async fn run(mut self) -> End {
        let state = self.device.state.clone();
        let beat = state.timing.heartbeat;
        // The devices' heartbeats are spread over the interval.
        let first = beat.mul_f64((self.device.place.socket % 97) as f64 / 97.0);
        if self.asked.is_none() {
            self.device.say(DeviceEvent::Out).await;
        }
        let mut beats = interval_at(Instant::now() + first, beat);
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                text = client::receive(&mut self.socket) => match text {
                    Ok(text) => self.received(&text).await,
                    Err(failure) => return self.lost(&failure),
                },
                order = self.device.orders.recv() => match order {
                    Some(Order::Join(live)) => self.join(live).await,
                    Some(Order::Leave) => self.leave().await,
                    Some(Order::Close) | None => return self.close().await,
                    Some(Order::Vanish(silence)) => return self.vanish(silence),
                },
                _ = beats.tick() => self.beat(&state).await,
            }
        }
    }

    async fn send(&mut self, text: String) {
        // A broken socket is reported by the next read.
        let _ = client::send(&mut self.socket, text).await;
    }

    async fn beat(&mut self, state: &RunState) {
        let since = *self.unanswered_since.get_or_insert_with(Instant::now);
        if since.elapsed() > state.timing.timeout {
            self.unanswered_since = None;
            self.device.say(DeviceEvent::Unanswered).await;
        }
        self.send(r#"{"type":"heartbeat"}"#.to_owned()).await;
    }

    async fn join(&mut self, live: Live) {
        let Device {
            state, user, place, ..
        } = &*self.device;
        if let Some(before) = self.live.filter(|before| *before != live) {
            state.leaving(*user, before, *place);
        }
        state.joining(*user, live, *place);
        self.id += 1;
        self.asked = Some(Asked {
            id: self.id,
            live,
            epoch: state.epoch(live),
        });
        let text = format!(
            r#"{{"type":"join","live_id":"{}","id":{}}}"#,
            state.live_id(live),
            self.id
        );
        self.send(text).await;
    }

    async fn leave(&mut self) {
        let Device {
            state, user, place, ..
        } = &*self.device;
        if let Some(live) = self.live {
            state.leaving(*user, live, *place);
        }
        self.id += 1;
        self.leaving = Some(self.id);
        self.send(format!(r#"{{"type":"leave","id":{}}}"#, self.id))
            .await;
    }

    /// The device is in no live any more.
    fn out(&mut self, how: How) {
        let Device {
            state, user, place, ..
        } = &*self.device;
        let asked = self.asked.take().map(|asked| asked.live);
        if let Some(live) = self.live.take().filter(|live| asked != Some(*live)) {
            state.left(*user, live, *place, how);
        }
        if let Some(live) = asked {
            let how = if how == How::Vanished {
                How::Unanswered
            } else {
                how
            };
            state.left(*user, live, *place, how);
        }
    }

    async fn received(&mut self, text: &str) {
        let Ok(message) = client::parse(text) else {
            return;
        };
        match &*message.kind {
            "heartbeat_ack" => self.unanswered_since = None,
            "joined" => self.is_in().await,
            "left" => self.is_out().await,
            "closed" => self.is_over(&message).await,
            "reconnect" => {
                let after = Duration::from_millis(message.after_ms.unwrap_or_default());
                self.device.say(DeviceEvent::MoveAfter(after)).await;
            }
            // The live closed before the leave arrived.
            "error" if message.id.is_some() && message.id == self.leaving => self.is_out().await,
            // The answer to a heartbeat in no live.
            "error" if message.code.as_deref() == Some("not_joined") => {
                self.unanswered_since = None
            }
            "error" => self.refused(message.id).await,
            _ => {}
        }
    }

    async fn is_out(&mut self) {
        self.leaving = None;
        self.out(How::Left);
        self.device.say(DeviceEvent::Out).await;
    }

    async fn is_in(&mut self) {
        let Some(asked) = self.asked.take() else {
            return;
        };
        let Device {
            state, user, place, ..
        } = &*self.device;
        if let Some(before) = self
            .live
            .replace(asked.live)
            .filter(|before| *before != asked.live)
        {
            state.left(*user, before, *place, How::Left);
        }
        let current = state.joined(*user, asked.live, *place, asked.epoch);
        self.device
            .say(if current {
                DeviceEvent::Joined(asked.live)
            } else {
                DeviceEvent::Again
            })
            .await;
    }

    async fn is_over(&mut self, message: &ServerMessage<'_>) {
        let Device {
            state, user, place, ..
        } = &*self.device;
        let Some(live) = self
            .live
            .filter(|live| message.live_id.as_deref() == Some(&*state.live_id(*live)))
        else {
            return;
        };
        self.live = None;
        let believed = state
            .truth()
            .believes
            .get(place)
            .map(|(_, _, epoch)| *epoch);
        if believed.is_some() && believed == state.epoch(live) && state.is_sound(place.gateway) {
            let broken = Broken::new(Promise::CloseUntold, "told that an open live closed");
            state.broke(
                broken
                    .user(state.user_id(*user))
                    .live(state.live_id(live))
                    .gateway(place.gateway),
            );
        }
        state.left(*user, live, *place, How::Closed);
        self.device.say(DeviceEvent::Closed).await;
    }

    /// After a failed join nobody knows whether the old seat is still taken: the device leaves
    /// that, too.
    async fn refused(&mut self, id: Option<u64>) {
        let Some(asked) = self
            .asked
            .take_if(|asked| id.is_none_or(|id| id == asked.id))
        else {
            return;
        };
        let Device {
            state, user, place, ..
        } = &*self.device;
        if self.live != Some(asked.live) {
            state.left(*user, asked.live, *place, How::Left);
        }
        match self.live {
            Some(_) => self.leave().await,
            None => self.device.say(DeviceEvent::Again).await,
        }
    }

    fn lost(&mut self, failure: &Failure) -> End {
        let Device {
            state, user, place, ..
        } = &*self.device;
        let user = *user;
        let place = *place;
        if state.may_lose(place) {
            state.truth().findings.sockets_cut += 1;
        } else {
            let broken = Broken::new(Promise::SocketLost, &*failure.kind);
            state.broke(broken.user(state.user_id(user)).gateway(place.gateway));
        }
        self.out(if failure.code == Some(SERVICE_RESTART) {
            How::Moved
        } else {
            How::Vanished
        });
        End::Lost
    }

    fn vanish(mut self, silence: Silence) -> End {
        self.out(How::Vanished);
        if silence == Silence::Limbo {
            let kept = self.device.state.timing.timeout * 2;
            let socket = self.socket;
            tokio::spawn(async move {
                sleep(kept).await;
                drop(socket);
            });
        }
        End::Asked
    }

    async fn close(mut self) -> End {
        let how = if self.device.state.may_lose(self.device.place) {
            How::Moved
        } else {
            How::Left
        };
        // Bounded: a frozen gateway answers nothing.
        let _ = timeout(CONNECT_WITHIN, client::send_close(&mut self.socket)).await;
        self.out(how);
        let _ = timeout(CONNECT_WITHIN, client::drain(&mut self.socket)).await;
        End::Asked
    }
}
