//! One device with a WebSocket. `SocketClient` is what the protocol says, without any I/O: what
//! an order and a message mean, and what to send. `SocketDevice` moves its messages.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error, Message};

use super::device::{Device, DeviceEnd, DeviceEvent, DeviceOrder, Silence};
use super::{CrowdRefusal, Surroundings};
use crate::expectation::{How, Live, SocketAt, User};

/// The close code by which a gateway sends its viewers elsewhere.
const SERVICE_RESTART: u16 = 1012;

/// The close code of who was removed from a live.
const REMOVED: u16 = 4003;

/// A gateway that is frozen reads nothing for longer than this.
const SENT_WITHIN: Duration = Duration::from_secs(1);

/// A gateway that is frozen does not answer a close within this.
const CLOSED_WITHIN: Duration = Duration::from_secs(3);

/// A join without an answer.
#[derive(Debug, Clone, Copy)]
struct PendingJoin {
    id: u64,
    live: Live,
    epoch: Option<u64>,
}

/// A guest's wish to go on as a user, without an answer.
#[derive(Debug, Clone, Copy)]
struct PendingSignIn {
    id: u64,
    user: User,
}

/// What follows from a message.
#[derive(Debug, Default)]
struct SocketStep {
    /// What to send.
    say: Option<String>,
    /// What to tell the person.
    tell: Option<DeviceEvent>,
}

impl From<DeviceEvent> for SocketStep {
    fn from(told: DeviceEvent) -> Self {
        Self {
            say: None,
            tell: Some(told),
        }
    }
}

/// What a socket has asked, and where it is.
struct SocketClient<S> {
    surroundings: Arc<S>,
    user: User,
    place: SocketAt,
    asked: Option<PendingJoin>,
    signing_in: Option<PendingSignIn>,
    /// The id of a leave without an answer.
    leaving: Option<u64>,
    /// The live that it is in, or may still be in.
    live: Option<Live>,
    id: u64,
    /// Since when heartbeats are unanswered.
    unanswered_since: Option<Instant>,
}

impl<S: Surroundings> SocketClient<S> {
    fn note(&self, what: &str) {
        let what = format!("u{}#{} {what}", self.user, self.place.socket);
        self.surroundings.note(self.place.gateway, &what);
    }

    fn asks(&mut self, id: u64, live: Live) {
        let crowd = self.surroundings.crowd();
        crowd.joining(self.user, live, self.place);
        let epoch = crowd.epoch(live);
        self.asked = Some(PendingJoin { id, live, epoch });
    }

    /// Asks to join a live; what to send.
    fn join(&mut self, live: Live) -> String {
        if let Some(before) = self.live.filter(|before| *before != live) {
            let crowd = self.surroundings.crowd();
            crowd.leaving(self.user, before, self.place);
        }
        self.note(&format!("joins l{live}"));
        self.id += 1;
        self.asks(self.id, live);
        json!({
            "type": "join",
            "live_id": self.surroundings.name_of_live(live),
            "id": self.id,
            "friends": self.surroundings.asks_for_friends(self.user),
        })
        .to_string()
    }

    /// Asks to leave; what to send.
    fn leave(&mut self) -> String {
        if let Some(live) = self.live {
            let crowd = self.surroundings.crowd();
            crowd.leaving(self.user, live, self.place);
        }
        self.id += 1;
        self.leaving = Some(self.id);
        json!({"type": "leave", "id": self.id}).to_string()
    }

    /// Asks to go on as a user; what to send.
    fn sign_in(&mut self, user: User) -> String {
        self.note(&format!("signs in as u{user}"));
        let crowd = self.surroundings.crowd();
        crowd.seen_somewhere(user);
        if let Some(live) = self.live {
            crowd.signing_in(self.user, user, live, self.place);
        }
        self.id += 1;
        self.signing_in = Some(PendingSignIn { id: self.id, user });
        json!({
            "type": "refresh",
            "token": self.surroundings.token(user),
            "id": self.id,
        })
        .to_string()
    }

    /// A heartbeat is due.
    fn beat(&mut self) -> SocketStep {
        let since = *self.unanswered_since.get_or_insert_with(Instant::now);
        let is_late = since.elapsed() > self.surroundings.crowd().customs.timing.timeout;
        if is_late {
            self.unanswered_since = None;
        }
        SocketStep {
            say: Some(r#"{"type":"heartbeat"}"#.to_owned()),
            tell: is_late.then_some(DeviceEvent::Unanswered),
        }
    }

    /// It is in no live any more.
    fn out(&mut self, how: How) {
        self.note(&format!("{how:?}"));
        let crowd = self.surroundings.crowd();
        let of_asked = if how == How::Vanished {
            How::Unanswered
        } else {
            how
        };
        if let Some(PendingSignIn { user, .. }) = self.signing_in.take() {
            crowd.seen_late(user);
            if let Some(live) = self.live {
                crowd.left(user, live, self.place, of_asked);
            }
        }
        let asked = self.asked.take().map(|asked| asked.live);
        if let Some(live) = self.live.take().filter(|live| asked != Some(*live)) {
            crowd.left(self.user, live, self.place, how);
        }
        if let Some(live) = asked {
            crowd.left(self.user, live, self.place, of_asked);
        }
    }

    fn hears(&mut self, text: &str) -> SocketStep {
        let message = serde_json::from_str::<Value>(text).unwrap_or_default();
        let step = self.means(&message);
        let (user, place) = (self.user, self.place);
        self.surroundings
            .hears(user, place, self.live, text, &message);
        step
    }

    fn means(&mut self, message: &Value) -> SocketStep {
        let id = message["id"].as_u64();
        match message["type"].as_str().unwrap_or_default() {
            "heartbeat_ack" => self.unanswered_since = None,
            "joined" => return self.is_in(message),
            "left" => return self.is_out(),
            "refreshed" => return self.is_signed_in(),
            "closed" => return self.is_over(message),
            "reconnect" => {
                let after = message["after_ms"].as_u64().unwrap_or_default();
                return DeviceEvent::MoveAfter(Duration::from_millis(after)).into();
            }
            "error" if self.signing_in.is_some_and(|asked| id == Some(asked.id)) => {
                return self.is_not_signed_in();
            }
            // The live closed before the leave arrived.
            "error" if id.is_some() && id == self.leaving => return self.is_out(),
            // The answer to a heartbeat in no live.
            "error" if message["code"] == "not_joined" => self.unanswered_since = None,
            "error" => return self.refused(id),
            _ => {}
        }
        SocketStep::default()
    }

    fn is_out(&mut self) -> SocketStep {
        self.leaving = None;
        self.out(How::Left);
        DeviceEvent::Out.into()
    }

    fn is_in(&mut self, message: &Value) -> SocketStep {
        let Some(PendingJoin { live, epoch, .. }) = self.asked.take() else {
            return SocketStep::default();
        };
        let crowd = self.surroundings.crowd();
        let before = self.live.replace(live);
        if let Some(before) = before.filter(|before| *before != live) {
            crowd.left(self.user, before, self.place, How::Left);
        }
        self.surroundings
            .let_in(self.user, live, self.place, epoch, message);
        if crowd.joined(self.user, live, self.place, epoch) {
            DeviceEvent::Joined(live).into()
        } else {
            DeviceEvent::Again(None).into()
        }
    }

    fn is_signed_in(&mut self) -> SocketStep {
        let Some(PendingSignIn { user, .. }) = self.signing_in.take() else {
            return SocketStep::default();
        };
        let guest = std::mem::replace(&mut self.user, user);
        let crowd = self.surroundings.crowd();
        crowd.signed_in(guest, user, self.live, self.place);
        self.surroundings.signed_in(user, self.live, self.place);
        DeviceEvent::SignedIn(user).into()
    }

    fn is_not_signed_in(&mut self) -> SocketStep {
        if let Some(PendingSignIn { user, .. }) = self.signing_in.take()
            && let Some(live) = self.live
        {
            let crowd = self.surroundings.crowd();
            crowd.not_signed_in(self.user, user, live, self.place);
        }
        DeviceEvent::Again(self.live).into()
    }

    fn is_over(&mut self, message: &Value) -> SocketStep {
        let of = message["live_id"].as_str().unwrap_or_default();
        let surroundings = &self.surroundings;
        let Some(live) = self
            .live
            .take_if(|live| surroundings.name_of_live(*live) == of)
        else {
            return SocketStep::default();
        };
        surroundings.told_of_close(self.user, live, self.place);
        let crowd = surroundings.crowd();
        if let Some(PendingSignIn { user, .. }) = self.signing_in {
            crowd.left(user, live, self.place, How::Closed);
        }
        crowd.left(self.user, live, self.place, How::Closed);
        DeviceEvent::Closed.into()
    }

    /// After a failed join nobody knows whether the old seat is still taken: the device leaves
    /// that, too.
    fn refused(&mut self, id: Option<u64>) -> SocketStep {
        let Some(asked) = self
            .asked
            .take_if(|asked| id.is_none_or(|id| id == asked.id))
        else {
            return SocketStep::default();
        };
        if self.live != Some(asked.live) {
            let crowd = self.surroundings.crowd();
            crowd.left(self.user, asked.live, self.place, How::Left);
        }
        match self.live {
            Some(_) => SocketStep {
                say: Some(self.leave()),
                tell: None,
            },
            None => DeviceEvent::Again(None).into(),
        }
    }

    fn lost(&mut self, code: Option<u16>, why: &str) {
        self.surroundings
            .socket_ended(self.user, self.place, code, why);
        self.out(match code {
            Some(SERVICE_RESTART) => How::Moved,
            Some(REMOVED) => How::Left,
            _ => How::Vanished,
        });
    }
}

/// A device with a WebSocket.
pub(super) struct SocketDevice<S: Surroundings> {
    device: Device<S>,
    client: SocketClient<S>,
}

impl<S: Surroundings> SocketDevice<S> {
    pub(super) fn new(device: Device<S>) -> Self {
        let client = SocketClient {
            surroundings: device.surroundings.clone(),
            user: device.user,
            place: device.place,
            asked: None,
            signing_in: None,
            leaving: None,
            live: None,
            id: 0,
            unanswered_since: None,
        };
        Self { device, client }
    }

    pub(super) async fn run(mut self) -> DeviceEnd {
        let Device {
            user, place, first, ..
        } = self.device;
        let surroundings = self.device.surroundings.clone();
        let crowd = surroundings.crowd();
        if let Some(live) = first {
            self.client.note(&format!("joins l{live} as it connects"));
            self.client.asks(0, live);
        }
        match surroundings.connect(place.gateway, user, first).await {
            Ok(socket) => {
                crowd.connected(user, place);
                if first.is_none() {
                    self.device.say(DeviceEvent::Out).await;
                }
                let end = self.stay(socket).await;
                crowd.disconnected(place);
                end
            }
            Err(refusal) => {
                let (how, after) = match refusal {
                    CrowdRefusal::Nobody => (How::Left, None),
                    // A frozen gateway may read the request later.
                    CrowdRefusal::Perhaps(after) => (How::Unanswered, after),
                };
                if let Some(live) = first {
                    crowd.left(user, live, place, how);
                }
                DeviceEnd::Refused(after)
            }
        }
    }

    async fn stay(&mut self, mut socket: WebSocketStream<S::Stream>) -> DeviceEnd {
        let beat = self.device.surroundings.crowd().customs.timing.heartbeat;
        // The devices' heartbeats are spread over the interval.
        let first = beat.mul_f64((self.device.place.socket % 97) as f64 / 97.0);
        let mut beats = interval_at(Instant::now() + first, beat);
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let step = tokio::select! {
                biased;
                read = socket.next() => match read {
                    Some(Ok(Message::Text(text))) => self.client.hears(&text),
                    Some(Ok(Message::Close(frame))) => {
                        let code = frame.map(|frame| frame.code.into());
                        self.client.lost(code, "a close frame");
                        return DeviceEnd::Lost;
                    }
                    Some(Ok(_)) => continue,
                    other => return self.ended(other.and_then(Result::err)),
                },
                order = self.device.orders.recv() => match order {
                    Some(DeviceOrder::Join(live)) => SocketStep { say: Some(self.client.join(live)), tell: None },
                    Some(DeviceOrder::Leave) => SocketStep { say: Some(self.client.leave()), tell: None },
                    Some(DeviceOrder::SignIn(user)) => SocketStep { say: Some(self.client.sign_in(user)), tell: None },
                    Some(DeviceOrder::FallSilent(_)) => continue,
                    Some(DeviceOrder::Vanish(silence)) => return self.vanish(silence, socket),
                    Some(DeviceOrder::Close) | None => return self.close(socket).await,
                },
                _ = beats.tick() => self.client.beat(),
            };
            if let Some(text) = step.say {
                // A broken socket is reported by the next read.
                let _ = timeout(SENT_WITHIN, socket.send(Message::text(text))).await;
            }
            if let Some(told) = step.tell {
                self.device.say(told).await;
            }
        }
    }

    fn ended(&mut self, error: Option<Error>) -> DeviceEnd {
        let why = error.map_or_else(|| "no close frame".to_owned(), |error| error.to_string());
        self.client.lost(None, &why);
        DeviceEnd::Lost
    }

    fn vanish(&mut self, silence: Silence, socket: WebSocketStream<S::Stream>) -> DeviceEnd {
        self.client.out(How::Vanished);
        if silence == Silence::Limbo {
            let kept = self.device.surroundings.crowd().customs.timing.timeout * 2;
            tokio::spawn(async move {
                sleep(kept).await;
                drop(socket);
            });
        }
        DeviceEnd::Asked
    }

    async fn close(&mut self, mut socket: WebSocketStream<S::Stream>) -> DeviceEnd {
        let may_lose = self.device.surroundings.crowd().may_lose(self.device.place);
        let normal = CloseFrame {
            code: CloseCode::Normal,
            reason: "".into(),
        };
        let _ = timeout(CLOSED_WITHIN, socket.close(Some(normal))).await;
        self.client
            .out(if may_lose { How::Moved } else { How::Left });
        let rest = async { while socket.next().await.is_some_and(|read| read.is_ok()) {} };
        let _ = timeout(CLOSED_WITHIN, rest).await;
        DeviceEnd::Asked
    }
}

#[cfg(test)]
mod tests;
