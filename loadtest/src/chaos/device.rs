//! One device of a person: a socket that does as its person says, sends heartbeats, and writes into the books what it
//! asked, what it was told, and how it ended.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde::Deserialize;
use tokio::net::TcpStream;
use tokio::sync::mpsc::{Receiver, Sender};
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep, timeout};
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error as WsError, Message};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

use super::findings::{Broken, Promise};
use super::hall::Hall;
use super::truth::{How, Live, Place, User};
use crate::error_kind;

pub(crate) type Socket = WebSocketStream<TcpStream>;

/// How long connect and upgrade may take before one tries elsewhere.
const CONNECT: Duration = Duration::from_secs(3);

/// What a person tells a device.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Order {
    /// Join this live; leaves the one it is in.
    Join(Live),
    Leave,
    /// A clean close.
    Close,
    /// Ends with no close frame; or stays open and silent, as when the network is lost.
    Vanish(Silence),
}

/// How a device vanishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Silence {
    /// The connection ends.
    Hangup,
    /// Nothing at all reaches the gateway.
    Limbo,
}

/// What a device tells its person.
#[derive(Debug)]
pub(crate) enum Told {
    Joined(Live),
    /// Connected, or out of the live that it was in.
    Out,
    /// The live that it was in closed.
    Closed,
    /// The join was refused, or must be asked again.
    Again,
    /// The gateway asks it to connect elsewhere after so long.
    Elsewhere(Duration),
    /// Heartbeats have not been answered for a timeout.
    Unheard,
    /// The socket is gone, or never came about.
    Ended(End),
}

/// How a device ended.
#[derive(Debug)]
pub(crate) enum End {
    /// As its person said.
    Asked,
    /// The gateway did not let it in, and perhaps said when to come again.
    Refused(Option<Duration>),
    /// The gateway, or the way to it, went away.
    Lost,
}

/// Who a device is, and what it starts with.
pub(crate) struct Device {
    pub(crate) hall: Arc<Hall>,
    pub(crate) user: User,
    pub(crate) place: Place,
    pub(crate) orders: Receiver<Order>,
    pub(crate) tell: Sender<(u64, Told)>,
    /// The live that it joins by the query of the upgrade.
    pub(crate) by_url: Option<Live>,
}

/// A message of the gateway, as far as people look at it.
#[derive(Debug, Deserialize)]
pub(crate) struct Said<'a> {
    #[serde(rename = "type", borrow)]
    pub(crate) kind: Cow<'a, str>,
    #[serde(default)]
    id: Option<u64>,
    #[serde(default, borrow)]
    pub(crate) live_id: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    pub(crate) code: Option<Cow<'a, str>>,
    #[serde(default)]
    after_ms: Option<u64>,
    #[serde(default)]
    pub(crate) viewers: Option<i64>,
    #[serde(default)]
    pub(crate) fans: Option<i64>,
    #[serde(default)]
    pub(crate) epoch: Option<u32>,
    #[serde(default, borrow)]
    pub(crate) quality: Option<Cow<'a, str>>,
}

/// What a socket asked and was not answered yet.
#[derive(Debug, Clone, Copy)]
struct Asked {
    id: u64,
    live: Live,
    epoch: Option<u32>,
}

/// A socket with this query at this gateway; the error says when to come again, if the gateway did.
pub(crate) async fn connect(hall: &Hall, gateway: usize, query: &str) -> Result<Socket, Option<Duration>> {
    let address = hall.doors[gateway].address;
    let dial = async {
        let stream = TcpStream::connect(address).await.map_err(|_| None)?;
        let _ = stream.set_nodelay(true);
        let config = WebSocketConfig::default()
            .read_buffer_size(512)
            .write_buffer_size(0)
            .max_write_buffer_size(16 * 1024)
            .max_message_size(Some(64 * 1024));
        let url = format!("ws://{address}/ws?{query}");
        client_async_with_config(url, stream, Some(config)).await.map(|(socket, _)| socket).map_err(|error| match error
        {
            WsError::Http(response) => {
                let after = response.headers().get("retry-after").and_then(|value| value.to_str().ok()?.parse().ok());
                after.map(Duration::from_secs)
            }
            _ => None,
        })
    };
    timeout(CONNECT, dial).await.unwrap_or(Err(None))
}

impl Device {
    /// The device's whole life.
    pub(crate) async fn run(mut self) {
        let end = self.live().await;
        self.say(Told::Ended(end)).await;
    }

    async fn say(&self, told: Told) {
        // A person who is gone listens to nothing: the run is over.
        let _ = self.tell.send((self.place.socket, told)).await;
    }

    async fn live(&mut self) -> End {
        let mut query = format!("user_id={}&role=viewer", self.hall.user_id(self.user));
        let mut asked = None;
        if let Some(live) = self.by_url {
            query.push_str(&format!("&live_id={}", self.hall.live_id(live)));
            asked = Some(Asked { id: 0, live, epoch: self.hall.epoch(live) });
            self.hall.joining(self.user, live, self.place);
        }
        match connect(&self.hall, self.place.gateway, &query).await {
            Ok(socket) => {
                Box::pin(Talk { device: self, socket, asked, leaving: None, sits: None, id: 0, unheard: None }.run())
                    .await
            }
            Err(after) => {
                // The request may have arrived, and be read when the gateway wakes.
                if let Some(asked) = asked {
                    self.hall.left(self.user, asked.live, self.place, How::Unanswered);
                }
                End::Refused(after)
            }
        }
    }
}

/// A device that is connected.
struct Talk<'a> {
    device: &'a mut Device,
    socket: Socket,
    asked: Option<Asked>,
    /// The id of a leave that was not answered yet.
    leaving: Option<u64>,
    /// The live that it is, or may still be, in.
    sits: Option<Live>,
    id: u64,
    /// Since when heartbeats are unanswered.
    unheard: Option<Instant>,
}

impl Talk<'_> {
    async fn run(mut self) -> End {
        let hall = self.device.hall.clone();
        let beat = hall.timing.heartbeat;
        // Spread over the interval by who it is.
        let first = beat.mul_f64((self.device.place.socket % 97) as f64 / 97.0);
        if self.asked.is_none() {
            self.device.say(Told::Out).await;
        }
        let mut beats = interval_at(Instant::now() + first, beat);
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                frame = self.socket.next() => match frame {
                    Some(Ok(Message::Text(text))) => self.heard(&text).await,
                    Some(Ok(Message::Close(frame))) => {
                        let code = frame.as_ref().map_or(0, |frame| u16::from(frame.code));
                        return self.lost(&error_kind::of_close(frame.as_ref()), code == 1012);
                    }
                    Some(Ok(_)) => {}
                    Some(Err(error)) => return self.lost(&error_kind::of_socket(&error), false),
                    None => return self.lost("end of stream", false),
                },
                order = self.device.orders.recv() => match order {
                    Some(Order::Join(live)) => self.join(live).await,
                    Some(Order::Leave) => self.leave().await,
                    Some(Order::Close) | None => return self.close().await,
                    Some(Order::Vanish(silence)) => return self.vanish(silence),
                },
                _ = beats.tick() => self.beat(&hall).await,
            }
        }
    }

    async fn send(&mut self, text: String) {
        // A socket that is broken says so to the next read.
        let _ = self.socket.send(Message::text(text)).await;
    }

    async fn beat(&mut self, hall: &Hall) {
        let since = *self.unheard.get_or_insert_with(Instant::now);
        if since.elapsed() > hall.timing.timeout {
            self.unheard = None;
            self.device.say(Told::Unheard).await;
        }
        self.send(r#"{"type":"heartbeat"}"#.to_owned()).await;
    }

    async fn join(&mut self, live: Live) {
        let Device { hall, user, place, .. } = &*self.device;
        if let Some(before) = self.sits.filter(|before| *before != live) {
            hall.leaving(*user, before, *place);
        }
        hall.joining(*user, live, *place);
        self.id += 1;
        self.asked = Some(Asked { id: self.id, live, epoch: hall.epoch(live) });
        let text = format!(r#"{{"type":"join","live_id":"{}","id":{}}}"#, hall.live_id(live), self.id);
        self.send(text).await;
    }

    async fn leave(&mut self) {
        let Device { hall, user, place, .. } = &*self.device;
        if let Some(live) = self.sits {
            hall.leaving(*user, live, *place);
        }
        self.id += 1;
        self.leaving = Some(self.id);
        self.send(format!(r#"{{"type":"leave","id":{}}}"#, self.id)).await;
    }

    /// It is in no live any more.
    fn out(&mut self, how: How) {
        let Device { hall, user, place, .. } = &*self.device;
        let asked = self.asked.take().map(|asked| asked.live);
        if let Some(live) = self.sits.take().filter(|live| asked != Some(*live)) {
            hall.left(*user, live, *place, how);
        }
        if let Some(live) = asked {
            let how = if how == How::Vanished { How::Unanswered } else { how };
            hall.left(*user, live, *place, how);
        }
    }

    async fn heard(&mut self, text: &str) {
        let Ok(said) = serde_json::from_str::<Said<'_>>(text) else { return };
        match &*said.kind {
            "heartbeat_ack" => self.unheard = None,
            "joined" => self.is_in().await,
            "left" => self.is_out().await,
            "closed" => self.is_over(&said).await,
            "reconnect" => {
                let after = Duration::from_millis(said.after_ms.unwrap_or_default());
                self.device.say(Told::Elsewhere(after)).await;
            }
            // The live closed before the leave arrived.
            "error" if said.id.is_some() && said.id == self.leaving => self.is_out().await,
            // A heartbeat in no live.
            "error" if said.code.as_deref() == Some("not_joined") => self.unheard = None,
            "error" => self.refused(said.id).await,
            _ => {}
        }
    }

    async fn is_out(&mut self) {
        self.leaving = None;
        self.out(How::Left);
        self.device.say(Told::Out).await;
    }

    async fn is_in(&mut self) {
        let Some(asked) = self.asked.take() else { return };
        let Device { hall, user, place, .. } = &*self.device;
        if let Some(before) = self.sits.replace(asked.live).filter(|before| *before != asked.live) {
            hall.left(*user, before, *place, How::Left);
        }
        let current = hall.joined(*user, asked.live, *place, asked.epoch);
        self.device.say(if current { Told::Joined(asked.live) } else { Told::Again }).await;
    }

    async fn is_over(&mut self, said: &Said<'_>) {
        let Device { hall, user, place, .. } = &*self.device;
        let Some(live) = self.sits.filter(|live| said.live_id.as_deref() == Some(&*hall.live_id(*live))) else {
            return;
        };
        self.sits = None;
        let believed = hall.books().believes.get(place).map(|(_, _, epoch)| *epoch);
        if believed.is_some() && believed == hall.epoch(live) && hall.is_sound(place.gateway) {
            let broken = Broken::new(Promise::CloseUntold, "told that an open live closed");
            hall.broke(broken.user(hall.user_id(*user)).live(hall.live_id(live)).gateway(place.gateway));
        }
        hall.left(*user, live, *place, How::Closed);
        self.device.say(Told::Closed).await;
    }

    /// A join that failed leaves it unsaid whether the old seat is still taken: it leaves that too.
    async fn refused(&mut self, id: Option<u64>) {
        let Some(asked) = self.asked.take_if(|asked| id.is_none_or(|id| id == asked.id)) else { return };
        let Device { hall, user, place, .. } = &*self.device;
        if self.sits != Some(asked.live) {
            hall.left(*user, asked.live, *place, How::Left);
        }
        match self.sits {
            Some(_) => self.leave().await,
            None => self.device.say(Told::Again).await,
        }
    }

    fn lost(&mut self, why: &str, moved: bool) -> End {
        let Device { hall, user, place, .. } = &*self.device;
        let (user, place) = (*user, *place);
        if hall.may_lose(place) {
            hall.books().findings.sockets_cut += 1;
        } else {
            let broken = Broken::new(Promise::SocketLost, why);
            hall.broke(broken.user(hall.user_id(user)).gateway(place.gateway));
        }
        self.out(if moved { How::Moved } else { How::Vanished });
        End::Lost
    }

    fn vanish(mut self, silence: Silence) -> End {
        self.out(How::Vanished);
        if silence == Silence::Limbo {
            let kept = self.device.hall.timing.timeout * 2;
            let socket = self.socket;
            tokio::spawn(async move {
                sleep(kept).await;
                drop(socket);
            });
        }
        End::Asked
    }

    async fn close(mut self) -> End {
        let how = if self.device.hall.may_lose(self.device.place) { How::Moved } else { How::Left };
        let frame = CloseFrame { code: CloseCode::Normal, reason: "".into() };
        // Bounded: a gateway that stands still answers nothing.
        let _ = timeout(CONNECT, self.socket.send(Message::Close(Some(frame)))).await;
        self.out(how);
        let _ = timeout(CONNECT, async { while let Some(Ok(_)) = self.socket.next().await {} }).await;
        End::Asked
    }
}
